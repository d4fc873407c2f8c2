# test_export.py - functions in files and graphs as text: what MLX's own tests leave out.

import io
import os
import tempfile
import unittest

import zellige.core as zl


class Export(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "f.zlfn")

    def test_names_in_any_order(self):
        zl.export_function(self.path, lambda x, *, a, b: (x - a, b), zl.array(5.0), b=zl.array(1), a=zl.array(2.0))
        f = zl.import_function(self.path)
        self.assertEqual([y.item() for y in f(zl.array(9.0), a=zl.array(3.0), b=zl.array(4))], [6, 4])
        self.assertEqual([y.item() for y in f([zl.array(9.0)], {"b": zl.array(4), "a": zl.array(3.0)})], [6, 4])
        with self.assertRaisesRegex(ValueError, "c: float32"):
            f(zl.array(9.0), a=zl.array(3.0), c=zl.array(4.0))

    def test_reading_while_tracing(self):
        with self.assertRaisesRegex(ValueError, "cannot be read"):
            zl.export_function(self.path, lambda x: x if x.item() else -x, zl.array(1.0))

    def test_an_exception_of_the_function_comes_out(self):
        with self.assertRaises(ZeroDivisionError):
            zl.export_function(self.path, lambda x: 1 / 0, zl.array(1.0))

    def test_traces_are_there_before_close(self):
        exporter = zl.exporter(self.path, lambda x: x * 2)
        exporter(zl.array([1, 2]))
        self.assertEqual(zl.import_function(self.path)(zl.array([3, 4]))[0].tolist(), [6, 8])
        with self.assertRaises(RuntimeError):
            exporter(zl.array([5, 6]))  # the same inputs again
        exporter.close()
        with self.assertRaises(RuntimeError):
            exporter(zl.array(1))

    def test_files_that_are_none(self):
        with self.assertRaises(RuntimeError):
            zl.import_function(self.path)
        with self.assertRaises(RuntimeError):
            zl.exporter(os.path.join(self.path, "deeper"), abs)
        with open(self.path, "w") as file:
            file.write("something else")
        with self.assertRaises(RuntimeError):
            zl.import_function(self.path)

    def test_damage(self):
        zl.export_function(self.path, lambda x: x @ x + zl.array([[1.0, 2.0]]), zl.ones((2, 2)))
        with open(self.path, "rb") as file:
            good = bytearray(file.read())
        for at in (100, len(good) // 2, len(good) - 60):
            bad = bytearray(good)
            bad[at] ^= 1
            with open(self.path, "wb") as file:
                file.write(bad)
            with self.assertRaisesRegex((RuntimeError, ValueError), "zl_import"):
                zl.import_function(self.path)

    def test_gradients_and_maps_of_imported_functions(self):
        zl.export_function(self.path, lambda x: (x * x).sum(), zl.array([1.0, 2.0]))
        f = zl.import_function(self.path)
        self.assertEqual(zl.grad(lambda x: f(x)[0])(zl.array([3.0, 4.0])).tolist(), [6, 8])
        self.assertEqual(zl.vmap(lambda x: f(x)[0])(zl.array([[1.0, 2.0], [3.0, 4.0]])).tolist(), [5, 25])

    def test_custom_functions_are_inlined(self):
        f = zl.custom_function(lambda x: zl.exp(x))
        f.vjp(lambda primals, cotangents, outputs: cotangents * 7)
        zl.export_function(self.path, f, zl.array(0.0))
        self.assertEqual(zl.import_function(self.path)(zl.array(0.0))[0].item(), 1)


class Callback(unittest.TestCase):
    def tell(self, f, *args, **kwargs):
        told = []
        zl.export_function(told.append, f, *args, **kwargs)
        return told

    def test_what_is_told(self):
        c = zl.array([1.0, 2.0, 3.0])
        told = self.tell(lambda x, y: ((x - y) * c, zl.sort(x, axis=-1)[:, ::2]), zl.ones((3, 3)), y=zl.array(2.0))
        self.assertEqual([t["type"] for t in told[:4]], ["inputs", "keyword_inputs", "outputs", "constants"])
        self.assertEqual(told[0]["inputs"], [("A", (3, 3), zl.float32), ("B", (), zl.float32)])
        self.assertEqual(told[1]["keywords"], [("y", "B")])
        self.assertEqual([name for name, _, _ in told[2]["outputs"]], ["C", "D"])
        self.assertEqual([a.tolist() for _, a in told[3]["constants"]], [[1, 2, 3]])
        self.assertEqual(told[4], {"type": "primitive", "name": "Subtract", "arguments": [],
                                   "inputs": [("A", (3, 3), zl.float32), ("B", (), zl.float32)],
                                   "outputs": [("F", (3, 3), zl.float32)]})
        self.assertEqual([(t["name"], t["arguments"]) for t in told[-2:]],
                         [("Sort", [1]), ("Slice", [(0, 0), (3, 3), (1, 2)])])
        made = {name for t in told[4:] for name, _, _ in t["outputs"]}
        known = {name for name, _, _ in told[0]["inputs"]} | {name for name, _ in told[3]["constants"]}
        for t in told[4:]:
            self.assertTrue({name for name, _, _ in t["inputs"]} <= made | known)

    def test_exceptions(self):
        with self.assertRaises(ZeroDivisionError):
            zl.export_function(lambda told: 1 / 0, lambda x: x, zl.array(1.0))
        with self.assertRaises(ValueError):
            zl.export_function(print, lambda x: x, zl.array(1.0), metadata="text")
        with self.assertRaises(TypeError):
            zl.export_function(3, lambda x: x, zl.array(1.0))


class MetalKernel(unittest.TestCase):
    def setUp(self):
        self.kernel = zl.fast.metal_kernel("twice", ["a"], ["out"], "out[0] = 2 * a[0];")

    def run_kernel(self, a, **more):
        how = dict(inputs=[a], grid=(4, 1, 1), threadgroup=(2, 1, 1), output_shapes=[a.shape], output_dtypes=[a.dtype])
        return self.kernel(**{**how, **more})[0]

    def test_only_while_exporting(self):
        a = zl.ones((2, 2))
        with self.assertRaisesRegex(RuntimeError, "No Metal back-end.*'\\w+'.*fast.cpu_kernel.*fast.cuda_kernel.*doc/custom-kernels.md"):
            self.run_kernel(a)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "f.zlfn")
            zl.export_function(path, lambda a: self.run_kernel(a, template=[("T", zl.float16), ("N", 3)]), a)
            with open(path, "rb") as file:
                self.assertIn(b'"template": [["T", "mlx.core.float16"], ["N", 3]]', file.read())
            y, = zl.import_function(path)(a)
            self.assertEqual(y.shape, (2, 2))
            self.assertRaises(RuntimeError, zl.eval, y)
            with self.assertRaisesRegex(ValueError, "Only supports the GPU"):
                zl.export_function(path, lambda a: self.run_kernel(a, stream=zl.cpu), a)

    def test_mistakes(self):
        a = zl.ones(3)
        for error, more in [(ValueError, {"inputs": []}), (ValueError, {"output_shapes": []}), (TypeError, {"grid": (1, 2)}),
                            (ValueError, {"template": [("T", 1.5)]}), (TypeError, {"output_dtypes": ["text"]})]:
            self.assertRaises(error, self.run_kernel, a, **more)
        self.assertRaises(TypeError, self.kernel, inputs=[a])
        for error, more in [(ValueError, {"output_names": []}), (TypeError, {"input_names": "a"}),
                            (ValueError, {"compile_options": {"math_mode": "loose"}}), (ValueError, {"compile_options": 3})]:
            how = dict(name="k", input_names=["a"], output_names=["b"], source="")
            with self.assertRaises(error):
                zl.fast.metal_kernel(**{**how, **more})


class Dot(unittest.TestCase):
    def test_names_and_files(self):
        x, y = zl.array([1.0]), zl.array([2.0])
        text = io.StringIO()
        zl.export_to_dot(text, x + y, first=x)
        self.assertIn('"first" -> ', text.getvalue())
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "graph.dot")
            zl.export_to_dot(path, [x + y, {"z": x}])
            with open(path) as file:
                self.assertEqual(file.read().count("[label"), 1)
        with self.assertRaises(ValueError):
            zl.export_to_dot(3, x)


if __name__ == "__main__":
    unittest.main()
