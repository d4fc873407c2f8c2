"""fast.cpu_kernel: kernels in C, with the calls of MLX's kernels, gradients, compiled functions and errors."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import zellige.core as mx


def each(source, *inputs, template=None, **more):
    """Runs a kernel of inputs a, b, ... for each element of the first."""
    kernel = mx.fast.cpu_kernel(name="each", input_names=list("abcd")[: len(inputs)], output_names=["out"], source=source)
    x = inputs[0]
    how = dict(grid=(x.size, 1, 1), threadgroup=(256, 1, 1), output_shapes=[x.shape], output_dtypes=[x.dtype])
    return kernel(inputs=list(inputs), template=template, **{**how, **more})[0]


def has_compiler():
    try:
        mx.eval(each("out[0] = 1;", mx.zeros(1)))
        return True
    except RuntimeError as e:
        if "no C compiler" not in str(e):
            raise
        return False


def square(x):
    return each("int64_t i = thread_position_in_grid.x; out[i] = a[i] * a[i];", x)


@unittest.skipUnless(has_compiler(), "no C compiler")
class CpuKernel(unittest.TestCase):
    def same(self, a, b, near=1e-6):
        np.testing.assert_allclose(np.array(a), np.array(b), near, near)

    def test_as_mlx_writes_kernels(self):
        a = mx.random.normal((4, 16))
        source = "uint32_t elem = thread_position_in_grid.x; T tmp = a[elem]; out[elem] = expf(tmp);"
        self.same(each(source, a, template=[("T", mx.float32)]), mx.exp(a))
        kernel = mx.fast.cpu_kernel(name="arguments", input_names=["a", "b", "c", "d"], output_names=["first", "second"],
                                    source="""
            int64_t elem = thread_position_in_grid.x;
            if (e) first[elem] = a[1] + b[2] + to_float(c[3]) + d + f;
            else first[elem] = 1;
            second[elem] = a[1] + b[2] + to_float(c[1]) - d;
        """)
        a, b = mx.random.normal((3, 6)), mx.array([3, 4, 5])
        c = mx.random.normal((2, 2)).astype(mx.bfloat16)
        first, second = kernel(inputs=[a, b, c, 7.3], template=[("e", True), ("f", 3), ("T", mx.float16)], grid=(6, 1, 1),
                               threadgroup=(2, 1, 1), output_shapes=[(3, 2), (3, 2)], output_dtypes=[mx.float32, mx.int32])
        flat = c.astype(mx.float32).reshape(-1)
        self.same(first, mx.full((3, 2), a[0, 1] + 5 + flat[3] + 7.3 + 3), 1e-5)
        self.assertEqual(second.tolist(), [[int((a[0, 1] + 5 + flat[1] - 7.3).item())] * 2] * 3)

    def test_strides(self):
        a = mx.tile(mx.random.normal((3, 6))[::2], [4, 1])
        walk = """
            int64_t i = thread_position_in_grid.x, at = 0, left = i;
            for (int k = inp_ndim - 1; k >= 0; left /= inp_shape[k], k--)
                at += left % inp_shape[k] * inp_strides[k];
            out[i] = inp[at] * 2;
        """
        for x in (a, a.T, mx.broadcast_to(a[0], (3, 6))):
            kernel = mx.fast.cpu_kernel(name="walk", input_names=["inp"], output_names=["out"], source=walk,
                                        ensure_row_contiguous=False)
            y, = kernel(inputs=[x], grid=(x.size, 1, 1), output_shapes=[x.shape], output_dtypes=[x.dtype])
            self.same(y, x * 2)

    def test_header_init_and_groups(self):
        kernel = mx.fast.cpu_kernel(name="helped", input_names=[], output_names=["out"],
                                    header="static int twice(int x) { return 2 * x; }",
                                    source="if (thread_position_in_grid.x) out[thread_position_in_grid.x] = "
                                           "twice(threads_per_threadgroup.x);")
        y, = kernel(inputs=[], grid=(3, 1, 1), threadgroup=(2, 1, 1), output_shapes=[(4,)], output_dtypes=[mx.uint8], init_value=9)
        self.assertEqual(y.tolist(), [9, 4, 4, 9])

    def test_verbose(self):
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            each("out[0] = 1; // marked", mx.zeros(1), verbose=True)
        self.assertIn("// marked", text.getvalue())
        self.assertIn("zellige_kernel", text.getvalue())

    def test_same_name_in_one_evaluation(self):
        a = mx.arange(32, dtype=mx.float32)
        one, two = square(a), each("int64_t i = thread_position_in_grid.x; out[i] = a[i] + 100;", a)
        mx.eval(one, two)
        self.same(one, a * a)
        self.same(two, a + 100)

    def test_gradient_with_a_rule(self):
        @mx.custom_function
        def f(x):
            return square(x)

        @f.vjp
        def f_vjp(x, cotangent, output):
            return each("int64_t i = thread_position_in_grid.x; out[i] = 2 * a[i] * b[i];", x, cotangent)

        x = mx.random.normal((5, 7))
        self.same(mx.grad(lambda x: (f(x) * x).sum())(x), 3 * x * x, 1e-5)
        self.same(mx.compile(mx.grad(lambda x: f(x).sum()))(x), 2 * x)
        with self.assertRaisesRegex(ValueError, "custom_function"):
            mx.grad(lambda x: square(x).sum())(x)

    def test_transforms(self):
        x = mx.random.normal((3, 4))
        compiled = mx.compile(lambda x: square(x) + 1)
        for v in (x, x * 2):
            self.same(compiled(v), v * v + 1)
        self.same(mx.vmap(square, in_axes=1, out_axes=1)(x), x * x)
        with self.assertRaisesRegex(ValueError, "shapeless"):
            mx.compile(square, shapeless=True)(x)
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(ValueError, "cannot be exported"):
            mx.export_function(os.path.join(folder, "f"), square, x)

    def test_mistakes(self):
        a = mx.zeros(3)
        with self.assertRaisesRegex(RuntimeError, r"zl_cpu_kernel: each: (.|\n)*each:2:\d+: error"):
            mx.eval(each("\nout[0] = nothing;", a))
        for error, more in [(ValueError, {"output_shapes": []}), (TypeError, {"grid": (1, 2)}), (ValueError, {"grid": (-1, 1, 1)}),
                            (ValueError, {"template": [("T", 1.5)]}), (ValueError, {"template": [("a", 1)]}),
                            (TypeError, {"output_dtypes": ["text"]}), (TypeError, {"init_value": "text"})]:
            self.assertRaises(error, each, "", a, **more)
        kernel = mx.fast.cpu_kernel("k", ["a"], ["b"], "")
        self.assertRaises(TypeError, kernel, inputs=[a])
        self.assertRaises(ValueError, kernel, inputs=[], grid=(1, 1, 1), output_shapes=[(1,)], output_dtypes=[mx.float32])
        self.assertRaises(ValueError, mx.fast.cpu_kernel, "k", ["a"], [], "")
        self.assertRaises(TypeError, mx.fast.cpu_kernel, "k", "a", ["b"], "")

    def test_other_processes_find_it(self):
        program = "import zellige.core as mx; k = mx.fast.cpu_kernel('k', [], ['o'], 'o[0] = 4;');" \
                  "print(k(inputs=[], grid=(1, 1, 1), output_shapes=[()], output_dtypes=[mx.int32])[0].item())"
        with tempfile.TemporaryDirectory() as folder:
            seen = []
            for _ in range(2):
                env = {**os.environ, "ZL_CACHE_DIR": folder, "ZL_LOG": "debug"}
                ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
                self.assertEqual(ran.stdout.split()[-1], "4")
                seen.append("compiled" in ran.stderr)
            self.assertEqual(seen, [True, False])


class CudaKernel(unittest.TestCase):
    def kernel(self, source, **more):
        return mx.fast.cuda_kernel(name="each", input_names=["a"], output_names=["out"], source=source, **more)

    def test_refuses_the_cpu(self):
        kernel = self.kernel("out[0] = a[0];")
        call = dict(inputs=[mx.zeros(1)], grid=(1, 1, 1), threadgroup=(1, 1, 1), output_shapes=[(1,)], output_dtypes=[mx.float32])
        with self.assertRaisesRegex(ValueError, "Only supports the GPU.*fast.cpu_kernel.*doc/custom-kernels.md"):
            kernel(stream=mx.cpu, **call)
        with self.assertRaisesRegex(ValueError, "at least one output"):
            mx.fast.cuda_kernel(name="each", input_names=["a"], output_names=[], source="")

    @unittest.skipUnless(mx.cuda.is_available(), "no NVIDIA GPU")
    def test_runs(self):
        kernel = self.kernel("""
            extern __shared__ float room[];
            auto i = cooperative_groups::this_grid().thread_rank();
            room[threadIdx.x] = float(a[i]) * N;
            __syncthreads();
            out[i] = T(room[blockDim.x - 1 - threadIdx.x]);
        """, shared_memory=32)
        for dtype in (mx.float32, mx.bfloat16, mx.float16):
            a = mx.arange(16).astype(dtype)
            y, = kernel(inputs=[a], template=[("T", dtype), ("N", 2)], grid=(16, 1, 1), threadgroup=(8, 1, 1), output_shapes=[(16,)],
                        output_dtypes=[dtype], stream=mx.gpu)
            self.assertEqual(y.tolist(), [2.0 * (i // 8 * 8 + 7 - i % 8) for i in range(16)])
        y, = self.kernel("if (threadIdx.x == 1) out[1] = 5;")(
            inputs=[mx.zeros(1)], grid=(2, 1, 1), threadgroup=(2, 1, 1), output_shapes=[(3,)], output_dtypes=[mx.int32],
            init_value=7, stream=mx.gpu)
        self.assertEqual(y.tolist(), [7, 5, 7])

    @unittest.skipUnless(mx.cuda.is_available(), "no NVIDIA GPU")
    def test_is_exported(self):
        kernel = self.kernel("auto i = cooperative_groups::this_grid().thread_rank(); out[i] = T(N) * a[i];")

        def call(a):
            return kernel(inputs=[a], template=[("T", a.dtype), ("N", 3)], grid=(6, 1, 1), threadgroup=(2, 1, 1),
                          output_shapes=[a.shape], output_dtypes=[a.dtype], stream=mx.gpu)[0] + 1

        with tempfile.TemporaryDirectory() as folder, mx.stream(mx.gpu):
            path = os.path.join(folder, "kernel.zlfn")
            a = mx.arange(6, dtype=mx.float32).reshape(2, 3)
            mx.export_function(path, call, a)
            imported = mx.import_function(path)
            self.assertEqual(imported(a)[0].tolist(), call(a).tolist())
            turned = mx.arange(6, dtype=mx.float32).reshape(3, 2).T
            self.assertEqual(imported(turned)[0].tolist(), (3 * turned + 1).tolist())


if __name__ == "__main__":
    unittest.main()
