# test_interchange.py - memory lent and borrowed: buffers, DLPack, NumPy, pickles, the array API's namespace.

import array
import copy
import ctypes
import gc
import pickle
import sys
import threading
import unittest
import warnings
import weakref

import numpy as np
import zellige.core as zl

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

NUMPY = "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 complex64".split()


def sample(name, shape=(3, 4)):
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 50).astype(name)


def dtype_of(name):
    return getattr(zl, "bool_" if name == "bool" else name)


class FromMemory(unittest.TestCase):
    def test_dtypes(self):
        for name in NUMPY + ["complex128"]:
            given = sample(name)
            expected = {"float64": "float32", "complex128": "complex64"}.get(name, name)
            for make in (zl.array, zl.asarray, zl.from_dlpack):
                made = make(given)
                self.assertEqual(made.dtype, dtype_of(expected))
                np.testing.assert_array_equal(np.array(made), given.astype(expected))

    def test_conversions(self):
        for source in NUMPY + ["complex128"]:
            for target in NUMPY:
                given = sample(source)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
                    expected = given.astype(target)
                made = zl.array(given, dtype_of(target))
                self.assertEqual(made.dtype, dtype_of(target))
                np.testing.assert_array_equal(np.array(made), expected, f"{source} to {target}")

    def test_layouts(self):
        base = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
        for given in (base.T, base[::2], base[:, ::2], base[..., 1], base[1:, 1:, 1:], base.transpose(1, 0, 2), base[::-1],
                      base[:, ::-1, ::2], np.broadcast_to(base[0, 0], (3, 6)), base[:0], base[0, 0, 0], base[:, :1],
                      base[3:4, 4:, 5:], np.asfortranarray(base), base[:, :, ::5]):
            self.assertEqual(zl.array(given).tolist(), given.tolist())
            self.assertEqual(zl.array(given, zl.int32).tolist(), given.astype(np.int32).tolist())

    def test_strides_are_kept(self):
        base = np.arange(12, dtype=np.float32).reshape(3, 4)
        for given in (base.T, np.arange(20, dtype=np.int32)[2:10:2], np.broadcast_to(np.int32([7]), (3,))):
            made = zl.from_dlpack(given)
            self.assertEqual(made.tolist(), given.tolist())
            self.assertEqual(memoryview(made).strides, given.strides)
        with self.assertRaises(ValueError):
            zl.from_dlpack(base[::-1])

    def test_unaligned_and_fields(self):
        raw = np.zeros(4 * 5 + 1, np.uint8)
        unaligned = raw[1:].view(np.float32)
        unaligned[:] = range(5)
        self.assertEqual(zl.array(unaligned).tolist(), [0, 1, 2, 3, 4])
        records = np.zeros(3, [("a", "i1"), ("b", "<f4")])
        records["b"] = [1, 2, 3]
        self.assertEqual(zl.array(records["b"]).tolist(), [1, 2, 3])

    def test_copies(self):
        given = np.arange(5000, dtype=np.float32)
        made = [zl.array(given), zl.asarray(given), zl.from_dlpack(given), zl.asarray(given, copy=True)]
        given[0] = 99
        for a in made:
            self.assertEqual(a[0].item(), 0)

    def test_never_copy(self):
        given = np.arange(5000, dtype=np.float32)
        for attempt in (lambda: zl.asarray(given, copy=False), lambda: zl.from_dlpack(given, copy=False),
                        lambda: zl.asarray([1], copy=False), lambda: zl.asarray(1, copy=False),
                        lambda: zl.asarray(zl.array([1]), copy=False)):
            with self.assertRaises(ValueError):
                attempt()

    def test_read_only_memory_is_shared(self):
        given = np.arange(5000, dtype=np.float32)
        given.flags.writeable = False
        made = zl.asarray(given, copy=False)
        self.assertEqual(np.asarray(made).__array_interface__["data"][0], given.__array_interface__["data"][0])
        gone = weakref.ref(given)
        del given
        gc.collect()
        self.assertIsNotNone(gone())
        self.assertEqual(zl.sum(made).item(), 12497500)
        del made
        gc.collect()
        self.assertIsNone(gone())

    def test_shared_memory_let_go_elsewhere(self):
        given = np.arange(5000, dtype=np.float32)
        given.flags.writeable = False
        gone = weakref.ref(given)
        made = [zl.asarray(given)]
        del given
        thread = threading.Thread(target=made.clear)
        thread.start()
        thread.join()
        gc.collect()
        self.assertIsNone(gone())

    def test_other_buffers(self):
        self.assertEqual(zl.array(b"ab").tolist(), [97, 98])
        self.assertEqual(zl.array(bytearray(b"ab")).dtype, zl.uint8)
        self.assertEqual(zl.array(b"").shape, (0,))
        self.assertEqual(zl.array(memoryview(b"abcd").cast("H")).dtype, zl.uint16)
        self.assertEqual(zl.array(array.array("d", [1, 2])).dtype, zl.float32)
        self.assertEqual(zl.array(array.array("l", [1, 2])).dtype, zl.int64)
        self.assertEqual(zl.array((ctypes.c_int16 * 3)(1, 2, 3)).tolist(), [1, 2, 3])
        self.assertEqual(zl.array(((ctypes.c_float * 2) * 2)((1, 2), (3, 4))).tolist(), [[1, 2], [3, 4]])

    def test_invalid_elements(self):
        for given in (np.array([1], ">i4"), np.array(["a"]), np.array([object()]), np.array([1], "M8[s]"),
                      np.zeros(2, np.longdouble), np.zeros(2, [("a", "f4")])):
            with self.assertRaises(ValueError):
                zl.array(given)

    @unittest.skipUnless(ml_dtypes, "ml_dtypes is not installed")
    def test_bfloat16(self):
        given = np.array([[1.5, 2.5], [3.5, -4]], ml_dtypes.bfloat16)
        for value in (given, given.T, given[0], given[0, 0], np.array(1.5, ml_dtypes.bfloat16)):
            made = zl.array(value)
            self.assertEqual(made.dtype, zl.bfloat16)
            self.assertEqual(made.tolist(), value.tolist())
        self.assertEqual(zl.array(given, zl.float32).dtype, zl.float32)

    def test_array_method(self):
        class Exporter:
            def __array__(self, dtype=None, copy=None):
                return np.array([1.5])

        self.assertEqual(zl.array(Exporter()).tolist(), [1.5])


class FromDlpack(unittest.TestCase):
    class Exporter:
        def __init__(self, value, device=(1, 0), versions=True):
            self.value, self.device, self.versions = value, device, versions

        def __dlpack_device__(self):
            return self.device

        def __dlpack__(self, **options):
            if options and not self.versions:
                raise TypeError("no options")
            return self.value.__dlpack__(**options)

    def test_versions(self):
        for name in NUMPY + ["complex128"]:
            for versions in (True, False):
                given = sample(name)
                made = zl.from_dlpack(self.Exporter(given, versions=versions))
                np.testing.assert_array_equal(np.array(made), given.astype(np.array(made).dtype))
                self.assertEqual(zl.array(self.Exporter(given.T)).tolist(), given.T.tolist())

    def test_round_trip(self):
        for dtype in (zl.bfloat16, zl.float32, zl.bool_):
            a = zl.arange(6).reshape(2, 3).astype(dtype)
            for value in (a, a.T, a[0], a[:, 1], a[0, 0]):
                made = zl.from_dlpack(self.Exporter(value))
                self.assertEqual((made.dtype, made.tolist()), (value.dtype, value.tolist()))
        self.assertEqual(zl.from_dlpack(zl.array([1, 2])).tolist(), [1, 2])

    def test_devices(self):
        for device in ((2, 0), (8, 0), (13, 0), (99, 0)):
            with self.assertRaises(ValueError):
                zl.from_dlpack(self.Exporter(np.ones(2), device))

    def test_capsules_are_used_once(self):
        capsule = np.ones(2).__dlpack__()
        self.assertEqual(zl.from_dlpack(capsule).tolist(), [1, 1])
        with self.assertRaises(ValueError):
            zl.from_dlpack(capsule)

    def test_errors(self):
        class Wrong:
            def __dlpack_device__(self):
                return (1, 0)

            def __dlpack__(self, **options):
                return 5

        for value in (Wrong(), [1], 1, "a", None):
            with self.assertRaises(TypeError):
                zl.from_dlpack(value)


class ToMemory(unittest.TestCase):
    def test_buffers(self):
        formats = dict(zip(NUMPY, "? B H I Q b h i q e f d Zf".split()))
        for name in NUMPY:
            reference = sample(name)
            made = zl.array(reference, dtype_of(name))
            for view, expected in ((made, reference), (made.T, reference.T)):
                memory = memoryview(view)
                self.assertEqual(memory.format, formats[name])
                self.assertEqual((memory.shape, memory.strides, memory.readonly), (expected.shape, expected.strides, False))
                np.testing.assert_array_equal(np.asarray(memory), expected)
        self.assertEqual(memoryview(zl.zeros((2,), zl.bfloat16)).format, "bfloat16")
        with self.assertRaises(ValueError):
            np.array(zl.zeros((2,), zl.bfloat16))

    def test_views(self):
        a, reference = zl.arange(60).reshape(3, 4, 5), np.arange(60, dtype=np.int32).reshape(3, 4, 5)
        for view in (lambda x: x, lambda x: x.T, lambda x: x[::2, 1:], lambda x: x[..., ::2], lambda x: x[:, ::-1],
                     lambda x: x[0, 0, 0], lambda x: x[:0], lambda x: x.swapaxes(0, 1), lambda x: x[:, :, 0],
                     lambda x: x[1:2, 1:2, 1:2]):
            self.assertEqual(np.asarray(view(a)).tolist(), view(reference).tolist())
            self.assertEqual(bytes(view(a)), view(reference).tobytes())
            self.assertEqual(memoryview(view(a)).tobytes(), view(reference).tobytes())
            self.assertEqual(np.from_dlpack(view(a)).tolist(), view(reference).tolist())
        wide = zl.broadcast_to(zl.array([1, 2]), (3, 2))
        self.assertEqual(np.asarray(wide).tolist(), [[1, 2]] * 3)

    def test_simple_buffers_are_rows(self):
        a = zl.arange(6).reshape(2, 3).T
        joined = b"".join([a])  # a buffer without shape
        self.assertEqual(joined, np.arange(6, dtype=np.int32).reshape(2, 3).T.tobytes())

    def test_shares(self):
        a = zl.arange(1000) * 2
        first, second, turned = np.asarray(a), np.asarray(a), np.asarray(a.reshape(10, 100).T)
        address = first.__array_interface__["data"][0]
        self.assertEqual(second.__array_interface__["data"][0], address)
        self.assertEqual(turned.__array_interface__["data"][0], address)
        self.assertTrue(np.array(a).flags.owndata)

    def test_the_exporter_lives(self):
        a = zl.arange(3)
        gone = weakref.ref(a)
        memory = memoryview(a)
        a = None
        self.assertIsNotNone(gone())
        memory = None
        self.assertIsNone(gone())

    def test_the_exported_value_stays(self):
        a = zl.arange(100)
        before = np.asarray(a)
        a += 1
        gc.collect()
        self.assertEqual((before[5], np.asarray(a)[5]), (5, 6))

    def test_numpy(self):
        a = zl.array([1.5, 2.5])
        self.assertEqual(a.__array__().dtype, np.float32)
        self.assertEqual(a.__array__(np.int32).tolist(), [1, 2])
        self.assertTrue(a.__array__(copy=True).flags.owndata)
        with self.assertRaises(TypeError):
            a.astype(zl.bfloat16).__array__()

    def test_dlpack(self):
        a = zl.array([[1.0, 2.0], [3.0, 4.0]])
        self.assertEqual(a.__dlpack_device__(), (1, 0))
        self.assertIn("dltensor", repr(a.__dlpack__()))
        for options in ({"copy": True}, {"max_version": (1, 0)}, {"dl_device": (1, 0)}, {"stream": None}):
            a.__dlpack__(**options)
        for device in ((2, 0), (8, 0), (5, 0)):
            with self.assertRaises(BufferError):
                a.__dlpack__(dl_device=device)
        for device in (1, (1,), ("a", 0)):
            with self.assertRaises(TypeError):
                a.__dlpack__(dl_device=device)
        lent = np.from_dlpack(a)
        del a
        self.assertEqual(lent.tolist(), [[1, 2], [3, 4]])


class States(unittest.TestCase):
    def test_pickles(self):
        for name in NUMPY + ["bfloat16"]:
            dtype = dtype_of(name)
            a = zl.arange(12).reshape(3, 4).astype(dtype)
            for value in (a, a.T, a[0, 0], a[:0]):
                for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
                    back = pickle.loads(pickle.dumps(value, protocol))
                    self.assertEqual((back.dtype, back.shape, back.tolist()), (value.dtype, value.shape, value.tolist()))

    def test_numbers_of_dtypes(self):
        self.assertEqual(zl.array([1.5]).__getstate__()[1], 10)
        self.assertEqual(zl.array([1.5], zl.bfloat16).__getstate__()[1], 12)

    def test_invalid_states(self):
        for state in ((), (1,), (1, 2), (np.ones(2), 99), (np.ones(2), -1), [np.ones(2), 10], None, (np.ones(2), "a")):
            with self.assertRaises((ValueError, TypeError)):
                zl.array(1).__setstate__(state)

    def test_copies(self):
        a = zl.array([1, 2])
        for b in (copy.copy(a), copy.deepcopy(a), copy.deepcopy([a])[0]):
            self.assertIsNot(a, b)
            b += 1
            self.assertEqual((a.tolist(), b.tolist()), ([1, 2], [2, 3]))


class Namespace(unittest.TestCase):
    def test_module(self):
        a = zl.array(1)
        self.assertIs(a.__array_namespace__(), sys.modules[zl.__name__])
        self.assertIs(a.__array_namespace__(api_version=None), a.__array_namespace__())
        with self.assertRaises(ValueError):
            a.__array_namespace__("2023.12")

    def test_info(self):
        info = zl.__array_namespace_info__()
        self.assertEqual(info.default_dtypes()["integral"], zl.int32)
        self.assertEqual(set(info.dtypes(kind="signed integer")), {"int8", "int16", "int32", "int64"})
        self.assertEqual(set(info.dtypes(kind=("bool", "complex floating"))), {"bool", "complex64"})
        self.assertEqual(len(info.dtypes()), 12)
        self.assertIn(info.default_device(), info.devices())
        self.assertIn("max dimensions", info.capabilities())
        with self.assertRaises(ValueError):
            info.dtypes(kind="nonsense")
        with self.assertRaises(TypeError):
            info.dtypes(device=3)


class Memory(unittest.TestCase):
    def test_counts(self):
        for name in ("get_active_memory", "get_peak_memory", "get_cache_memory", "get_memory_limit"):
            self.assertGreaterEqual(getattr(zl, name)(), 0)
        before = zl.get_active_memory()
        a = zl.array(np.zeros(1 << 20, np.float32))
        self.assertGreaterEqual(zl.get_active_memory() - before, 4 << 20)
        self.assertEqual(zl.get_array_buffer_size(a, [a]), 4 << 20)
        with self.assertRaises(ValueError):
            zl.get_array_buffer_size(a + 1)

    def test_a_limit_is_no_error(self):
        old = zl.set_memory_limit(1000)
        a = zl.ones((512, 512)) + 1
        zl.async_eval(a)
        self.assertEqual(zl.get_memory_limit(), 1000)
        self.assertEqual(a.sum().item(), 2 * 512 * 512)
        del a
        self.assertEqual(zl.get_cache_memory(), 0)
        self.assertEqual(zl.set_memory_limit(old), 1000)

    def test_peak(self):
        a = zl.array(np.zeros(1 << 20, np.float32))
        zl.reset_peak_memory()
        self.assertEqual(zl.get_peak_memory(), 0)
        np.asarray(a + 1)
        self.assertGreaterEqual(zl.get_peak_memory(), 8 << 20)

    def test_limits(self):
        self.assertEqual((zl.set_cache_limit(zl.set_cache_limit(0)), zl.get_cache_memory()), (0, 0))
        for name in ("set_memory_limit", "set_cache_limit", "set_wired_limit"):
            old = getattr(zl, name)(1 << 40)
            self.assertEqual(getattr(zl, name)(limit=old), 1 << 40)
            for wrong in (-1, "a", 1.5, 2**70):
                with self.assertRaises(TypeError):
                    getattr(zl, name)(wrong)


if __name__ == "__main__":
    unittest.main()
