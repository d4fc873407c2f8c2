# test_hostile.py - arguments that are wrong, huge, or change while they are read: ordinary exceptions, and no memory for
# what is refused or not shown. fuzz_calls.py and fuzz_pickles.py look for more of the kind.

import gc
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


if __name__ == "__main__":
    unittest.main()
