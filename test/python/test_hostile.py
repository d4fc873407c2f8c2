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


if __name__ == "__main__":
    unittest.main()
