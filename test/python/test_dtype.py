# test_dtype.py - Dtype, categories, limits and promotion.

import copy
import pickle
import unittest

import numpy as np
import zellige.core as zl

NAMES = ("bool_ uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 bfloat16 complex64").split()


class Objects(unittest.TestCase):
    def test_names_and_sizes(self):
        for name in NAMES:
            dtype = getattr(zl, name)
            self.assertEqual(repr(dtype), "mlx.core." + name.rstrip("_"))
            self.assertEqual(dtype.size, 2 if name == "bfloat16" else np.dtype(name.rstrip("_")).itemsize)
            self.assertIsInstance(dtype, zl.Dtype)

    def test_identity(self):
        for name in NAMES:
            dtype = getattr(zl, name)
            for same in (copy.copy(dtype), copy.deepcopy(dtype), pickle.loads(pickle.dumps(dtype)),
                         zl.zeros((1,), dtype).dtype):
                self.assertIs(same, dtype)
        self.assertEqual(len({getattr(zl, name) for name in NAMES}), len(NAMES))
        self.assertNotEqual(zl.float32, zl.float16)
        self.assertNotEqual(zl.float32, "float32")
        with self.assertRaises(TypeError):
            zl.Dtype()

    def test_reading(self):
        for given, dtype in [(bool, zl.bool_), (int, zl.int32), (float, zl.float32), (complex, zl.complex64),
                             (np.float16, zl.float16), (np.dtype("int8"), zl.int8), (np.dtype("bool"), zl.bool_)]:
            self.assertEqual(zl.zeros((1,), dtype=given).dtype, dtype)
        for given in ("float32", 3, object, np.dtype("M8[s]")):
            with self.assertRaises(TypeError):
                zl.zeros((1,), dtype=given)


class Categories(unittest.TestCase):
    def test_tree(self):
        for name in NAMES:
            kind = np.dtype("float16" if name == "bfloat16" else name.rstrip("_")).type
            for category in ("generic", "number", "integer", "signedinteger", "unsignedinteger", "inexact", "floating",
                             "complexfloating"):
                self.assertEqual(zl.issubdtype(getattr(zl, name), getattr(zl, category)),
                                 issubclass(kind, getattr(np, category)), (name, category))

    def test_pairs(self):
        self.assertTrue(zl.issubdtype(zl.floating, zl.inexact))
        self.assertTrue(zl.issubdtype(zl.float32, zl.float32))
        self.assertFalse(zl.issubdtype(zl.float32, zl.float64))
        self.assertFalse(zl.issubdtype(zl.floating, zl.float32))
        for pair in ((1, zl.floating), (zl.floating, 1), (float, zl.floating)):
            with self.assertRaises(ValueError):
                zl.issubdtype(*pair)

    def test_enumeration(self):
        self.assertEqual(repr(zl.floating), "DtypeCategory.floating")
        self.assertIs(zl.DtypeCategory.floating, zl.floating)
        self.assertEqual(len(zl.DtypeCategory), 8)
        self.assertIs(pickle.loads(pickle.dumps(zl.integer)), zl.integer)

    def test_kinds(self):
        for name in NAMES:
            if name == "bfloat16":
                continue
            for kind in ("bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating",
                         "numeric"):
                self.assertEqual(zl.isdtype(getattr(zl, name), kind), np.isdtype(np.dtype(name.rstrip("_")), kind))
        self.assertTrue(zl.isdtype(zl.int8, (zl.float32, "integral")))
        self.assertFalse(zl.isdtype(zl.int8, ()))
        for kind in ("nonsense", 3, [zl.int8]):
            with self.assertRaises(ValueError):
                zl.isdtype(zl.int8, kind)
        with self.assertRaises(TypeError):
            zl.isdtype(3, "bool")


class Promotion(unittest.TestCase):
    def test_result_type(self):
        self.assertEqual(zl.result_type(zl.int8, zl.uint8), zl.int16)
        self.assertEqual(zl.result_type(zl.float16, zl.bfloat16), zl.float32)
        self.assertEqual(zl.result_type(zl.array([1]), zl.float16, zl.bool_), zl.float16)
        for arguments in ((), (1,), (zl.int8, float)):
            with self.assertRaises(ValueError):
                zl.result_type(*arguments)

    def test_can_cast(self):
        self.assertTrue(zl.can_cast(zl.int8, zl.float16))
        self.assertTrue(zl.can_cast(from_=zl.array([1]), to=zl.int64))
        self.assertFalse(zl.can_cast(zl.float32, zl.int32))
        with self.assertRaises(ValueError):
            zl.can_cast(1, zl.int32)
        with self.assertRaises(TypeError):
            zl.can_cast(zl.int32, 1)


class Limits(unittest.TestCase):
    def test_floats(self):
        for name in ("float16", "float32", "float64"):
            ours, numpys = zl.finfo(getattr(zl, name)), np.finfo(name)
            for field in ("bits", "min", "max", "eps", "smallest_normal"):
                self.assertEqual(getattr(ours, field), float(getattr(numpys, field)), (name, field))
            self.assertIs(ours.dtype, getattr(zl, name))
        self.assertIs(zl.finfo(zl.complex64).dtype, zl.float32)
        self.assertEqual(zl.finfo(zl.bfloat16).max, float.fromhex("0x1.fep127"))
        self.assertEqual(zl.finfo(zl.bfloat16).eps, 2.0**-7)
        self.assertEqual(repr(zl.finfo(zl.float16)), "finfo(min=-65504, max=65504, dtype=float16)")
        self.assertEqual(repr(zl.finfo(zl.float32)), "finfo(min=-3.40282e+38, max=3.40282e+38, dtype=float32)")

    def test_integers(self):
        for name in ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"):
            ours, numpys = zl.iinfo(getattr(zl, name)), np.iinfo(name)
            self.assertEqual((ours.min, ours.max), (numpys.min, numpys.max))
            self.assertIs(ours.dtype, getattr(zl, name))
        self.assertEqual(repr(zl.iinfo(zl.int8)), "iinfo(min=-128, max=127, dtype=int8)")

    def test_errors(self):
        for make, dtype in ((zl.finfo, zl.int32), (zl.finfo, zl.bool_), (zl.iinfo, zl.float32), (zl.iinfo, zl.bool_)):
            with self.assertRaises(ValueError):
                make(dtype)
            with self.assertRaises(TypeError):
                make(3)
        with self.assertRaises(AttributeError):
            zl.iinfo(zl.int8).max = 3


if __name__ == "__main__":
    unittest.main()
