# test_hostile.py - arguments that are wrong, huge, or change while they are read: ordinary exceptions, and no memory for
# what is refused or not shown. fuzz_calls.py and fuzz_pickles.py look for more of the kind.

import gc
import io
import resource
import tracemalloc
import unittest

import numpy as np
import zellige.core as mx

HUGE = 2**31 - 1


def message(function, *arguments, **named):
    """The type and the text of what a call raises."""
    try:
        function(*arguments, **named)
    except Exception as error:
        return type(error), str(error)
    raise AssertionError("it raised nothing")


def peak_of(function):
    """Bytes that Python's allocators had for it at most."""
    gc.collect()
    tracemalloc.start()
    try:
        function()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


class Gradients(unittest.TestCase):
    def test_names_must_be_texts(self):
        x = mx.ones(3)
        for transform, tag in ((mx.grad, "[grad]"), (mx.value_and_grad, "[value_and_grad]")):
            for names, kind in (([1], "int"), (x, "zellige.core.array"), ([x], "zellige.core.array"), (5, "int"), (None, "NoneType"),
                                ([b"z"], "bytes"), ([["z"]], "list"), (["z", 1.5], "float")):
                self.assertEqual(message(transform, mx.sum, argnames=names),
                                 (TypeError, f"{tag} argnames must be a str or a list of strs: an object of type {kind} is neither."))

    def test_numbers_must_be_ints(self):
        for numbers, kind in (([1.5], "float"), ("a", "str"), (1.5, "float"), ([None], "NoneType"), ([0, "a"], "str")):
            self.assertEqual(message(mx.grad, mx.sum, argnums=numbers),
                             (TypeError, f"[grad] argnums must be an int or a list of ints: an object of type {kind} is neither."))
        for number, text in ((2**70, "no function has as many"), (-2**70, "negative argument index"), ([-1], "negative"),
                             ([0, False], "Duplicate")):
            kind, words = message(mx.grad, mx.sum, argnums=number)
            self.assertEqual(kind, ValueError)
            self.assertIn(text, words)

    def test_numbers_are_asked_for_once(self):
        class Growing:
            asked = 0

            def __index__(self):
                Growing.asked += 1
                return 0 if Growing.asked == 1 else 10**9

        self.assertEqual(mx.grad(mx.sum, argnums=[Growing()])(mx.ones(2)).tolist(), [1, 1])

    def test_names_that_compare_as_they_like(self):
        class Any(str):
            def __hash__(self):
                return hash("z")

            def __eq__(self, other):
                return True if other == "z" else self is other

        x = mx.ones(2)
        f = mx.grad(lambda **named: sum(value.sum() for value in named.values()), argnames="z")
        named = {Any(chr(97 + i)): x for i in range(20)}
        try:
            f(**named, z=x)
        except (ValueError, TypeError, RuntimeError):
            pass


class ChangedMeanwhile(unittest.TestCase):
    """Arrays that get another value while the arguments behind them are read."""

    def setUp(self):
        self.x = mx.array([1.0, 2.0, 3.0])
        test = self

        class Changing:
            def change(self):
                test.x[:] = 5
                mx.eval(test.x)
                self.kept = [mx.ones(7) + i for i in range(50)]
                mx.eval(self.kept)

            def __index__(self):
                self.change()
                return 0

            def __mlx_array__(self):
                self.change()
                return mx.array([10.0, 10.0, 10.0])

        self.other = Changing()

    def test_calls(self):
        x = self.x
        for result in (lambda: mx.sum(x, axis=self.other), lambda: x.sum(axis=self.other), lambda: x.sum(axis=[self.other])):
            self.assertEqual(result().item(), 15)
        self.assertEqual(mx.slice(x, mx.array([0]), [self.other], [2]).shape, (2,))
        self.assertEqual(mx.split(x, 3, axis=self.other)[0].shape, (1,))
        self.assertEqual(mx.tensordot(x, x, axes=[[self.other], [0]]).shape, ())
        self.assertEqual(mx.concatenate([x, x], axis=self.other).shape, (6,))

    def test_operators(self):
        x = self.x
        self.assertEqual((x + self.other).tolist(), [15, 15, 15])
        self.assertEqual((self.other.__mlx_array__() * x).tolist(), [50, 50, 50])
        self.assertEqual(mx.add(x, self.other).tolist(), [15, 15, 15])

    def test_lists_that_shrink(self):
        class Shrinking:
            def __init__(self, items):
                self.items = items

            def __index__(self):
                self.items.clear()
                return 0

        axes = [[0], [0]]
        axes[0].append(Shrinking(axes))
        message(mx.tensordot, mx.ones((2, 2)), mx.ones((2, 2)), axes=axes)
        kernel = mx.fast.cpu_kernel("k", ["x"], ["y"], "")
        grid = [1, 1, 1]
        grid[0] = Shrinking(grid)
        kernel(inputs=[self.x], output_shapes=[(3,)], output_dtypes=[mx.float32], grid=grid, threadgroup=(1, 1, 1))

    def test_what_is_written_can_be_kept(self):
        class Keeping:
            def __init__(self, at_once):
                self.parts, self.at_once = [], at_once

            def write(self, data):
                self.parts.append(data[:self.at_once])
                return self.at_once and min(self.at_once, len(data))

        whole = io.BytesIO()
        mx.save(whole, mx.ones(1000))
        for at_once in (None, 100):
            file = Keeping(at_once)
            mx.save(file, mx.ones(1000))
            self.assertEqual(b"".join(file.parts), whole.getvalue())


class Counts(unittest.TestCase):
    """Numbers that are refused before there is memory for so many results."""

    def test_split(self):
        x = mx.ones((4, 3))
        for call in (lambda: x.split(HUGE), lambda: mx.split(x, HUGE, axis=1), lambda: mx.split(x, HUGE, axis=9),
                     lambda: mx.split(x, 10**8), lambda: mx.split(x, 5)):
            self.assertLess(peak_of(lambda: self.assertRaises(ValueError, call)), 1 << 20)
        self.assertEqual(message(x.split, 5), (ValueError, "split(): axis 0 of 4 elements has no 5 equal sections"))
        self.assertEqual([part.shape for part in mx.split(mx.ones((0, 3)), 2)], [(0, 3), (0, 3)])

    def test_digits(self):
        for call in (lambda: mx.set_printoptions(precision=HUGE), lambda: mx.printoptions(precision=1075),
                     lambda: mx.PrintOptions(precision=2**70), lambda: setattr(mx.get_printoptions(), "precision", HUGE)):
            with self.assertRaises((ValueError, OverflowError)):
                call()
        with mx.printoptions(precision=1074):
            self.assertEqual(len(repr(mx.array(1.5))), 1076 + len("array(, dtype=float32)"))


class Shown(unittest.TestCase):
    """Only the elements that are printed are copied."""

    def check(self, array, small):
        mx.eval(array)
        mx.reset_peak_memory()
        before = mx.get_active_memory()
        text = repr(array)
        self.assertLess(mx.get_peak_memory() - before, 1 << 20)
        self.assertEqual(text, repr(small))
        self.assertEqual((str(array), f"{array}"), (text, text))

    def test_broadcast_arrays(self):
        row = mx.arange(8.0)
        self.check(mx.broadcast_to(mx.array(1.5), (20000, 20000)), mx.broadcast_to(mx.array(1.5), (7, 7)))
        self.check(mx.broadcast_to(row, (1 << 20, 8)), mx.broadcast_to(row, (9, 8)))
        self.check(mx.broadcast_to(row[:, None], (8, 1 << 20)), mx.broadcast_to(row[:, None], (8, 7)))
        self.check(mx.broadcast_to(row[:2, None, None], (2, 3, 1 << 22)), mx.broadcast_to(row[:2, None, None], (2, 3, 7)))

    def test_other_views(self):
        self.check(mx.zeros((3000, 1000)).T, mx.zeros((10, 10)))
        self.check(mx.ones(1 << 21)[::-2], mx.ones(7))
        self.check(mx.zeros((1 << 30, 0)), mx.zeros((7, 0)))

    def test_elements_are_the_right_ones(self):
        for shape in ((7,), (100,), (3, 50), (50, 3), (9, 9, 9), (2, 7, 1, 8)):
            a = np.arange(int(np.prod(shape))).reshape(shape)
            with np.printoptions(threshold=1, edgeitems=3, linewidth=10000):
                expected = np.array2string(a, separator=",")
            shown = repr(mx.array(a)).removeprefix("array(").removesuffix(", dtype=int64)")
            self.assertEqual("".join(shown.split()), "".join(expected.split()), shape)


class Texts(unittest.TestCase):
    def test_messages_hold_whole_characters(self):
        x = mx.ones((2, 3))
        for text in ("é", "日本", "ij->\U0001f600"):
            for function in (mx.einsum, mx.einsum_path):
                kind, words = message(function, text, x)
                self.assertEqual(kind, ValueError)
                self.assertIn(f"'{text[-1] if '>' in text else text[0]}' is not a letter", words)
        for call in (lambda: mx.quantize(mx.ones((64, 64)), mode="x" + "é" * 60), lambda: mx.load("x" + "é" * 9000 + ".npy"),
                     lambda: mx.load("\udc80.npy"), lambda: mx.import_function("\udc80"),
                     lambda: mx.export_function("\udc80/x", mx.abs, x)):
            kind, words = message(call)
            self.assertFalse(issubclass(kind, UnicodeError), kind)

    def test_texts_that_no_c_program_can_have(self):
        x = mx.ones((2, 3))
        for bad, why in (("\udc80", "lone surrogate"), ("a\0b", "NUL")):
            for call in (lambda: mx.einsum(bad, x), lambda: mx.meshgrid(x, indexing=bad), lambda: mx.linalg.norm(x, bad),
                         lambda: mx.quantize(x, mode=bad), lambda: mx.conv1d(x, x, padding_mode=bad),
                         lambda: mx.linalg.eigh(x, UPLO=bad), lambda: mx.save_safetensors("x", {bad: x}),
                         lambda: mx.savez("x", **{bad: x})):
                kind, words = message(call)
                self.assertFalse(issubclass(kind, UnicodeError), kind)
                self.assertTrue(why in words or "argument" in words, words)

    def test_compiled_functions_take_any_text(self):
        self.assertEqual(mx.compile(lambda x, text: x + len(text))(mx.array(1), "\udc80").item(), 2)

    def test_formats_are_texts(self):
        for array in (mx.array(1), mx.ones(2)):
            self.assertRaises(TypeError, array.__format__, 1)


class Uninitialised(unittest.TestCase):
    def test_calls(self):
        x = mx.array.__new__(mx.array)
        for call in (lambda: mx.sum(x), lambda: x.sum(), lambda: x + 1, lambda: repr(x), lambda: x.tolist(), lambda: x.item(),
                     lambda: mx.stack([x, x]), lambda: x[0], lambda: mx.eval(x), lambda: mx.where(True, x, 1), lambda: len(x)):
            with self.assertRaises((ValueError, TypeError)):
                call()


class Pickles(unittest.TestCase):
    def test_states_take_no_memory_that_they_do_not_bring(self):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for elements, code in ((np.broadcast_to(np.float32(1), (1 << 40,)), 10), (np.zeros((0, 1 << 40), "f4"), 10), (b"", 99),
                               ("text", 10), (None, 10), (np.zeros(3, "U2"), 10), (np.zeros(3), 2**70)):
            with self.assertRaises((ValueError, TypeError, OverflowError)):
                mx.array.__new__(mx.array).__setstate__((elements, code))
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 100_000)


if __name__ == "__main__":
    unittest.main()
