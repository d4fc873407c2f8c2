"""test_tile_kernel.py - zellige.core._tile: kernels as text, run on memory that others own."""

import os
import re
import unittest

import numpy as np
from zellige.core import _tile


def memory(x):
    return x.ctypes.data, str(x.dtype), x.shape, tuple(step // x.itemsize for step in x.strides)


class TileKernels(unittest.TestCase):
    text = "kernel scale(a: f32[n, m], s: f32) -> (y: f32[n, m]) { map i in n, j in m { y[i, j] = a[i, j] * s } }"

    def test_runs_on_numpy(self):
        kernel = _tile.compile(self.text, "scale.tile")
        a, y = np.random.rand(5, 7).astype(np.float32), np.zeros((5, 7), np.float32)
        kernel.run([memory(a), 2.5, memory(y)])
        np.testing.assert_array_equal(y, a * np.float32(2.5))
        self.assertEqual(kernel.parameters[1], ("s", "float32", 0, True, False))
        self.assertIn("scale_blocks", kernel.source)
        self.assertTrue(kernel.show("tile").startswith("kernel scale"))
        self.assertIn("c", _tile.targets())

    def test_refuses_what_does_not_fit(self):
        kernel = _tile.compile(self.text)
        a = np.zeros((4, 6), np.float32)
        for wrong, reason in ((np.zeros((4, 5), np.float32), "'y' has 5 along axis 1, not 6"), (np.zeros((4, 6)), "'y' is float64"),
                              (np.zeros((6, 4), np.float32).T, "'y' has the stride 4"), (np.zeros(4, np.float32), "'y' has 1 axes")):
            with self.assertRaisesRegex(ValueError, reason):
                kernel.run([memory(a), 1, memory(wrong)])
        with self.assertRaisesRegex(ValueError, "3 parameters and got 1"):
            kernel.run([memory(a)])
        for bad in (["x"], [(1, "float32", 3, None)], [(1, "float99", (4, 6), None)], 7):
            with self.assertRaises((TypeError, ValueError)):
                kernel.run(bad)

    def test_errors_of_texts(self):
        with self.assertRaisesRegex(Exception, "broken.tile:1:"):
            _tile.compile("kernel f(a: f32[n]) -> (y: f32[n]) { map i in n { y[i] = b[i] } }", "broken.tile")
        with self.assertRaisesRegex(ValueError, "no target 'abacus'"):
            _tile.compile(self.text, target="abacus")


class Words(unittest.TestCase):
    def test_words_of_the_language_are_no_names(self):
        """builder.py has all words of src/tile/syntax.c, so that no variable of a program is called like one."""
        from zellige.tile.builder import is_word
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "tile", "syntax.c")
        with open(path) as file:
            text = file.read()
        for table in ("words", "tile_loop_word", "tile_memory_word", "tile_scope_word"):
            rows = re.search(rf"\b{table}\[\w*\] = {{(.*?)}};", text, re.S).group(1)
            for word in re.findall(r'"(\w+)"', rows):
                self.assertTrue(is_word(word), word)


if __name__ == "__main__":
    unittest.main()
