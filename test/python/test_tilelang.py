"""python -m zellige.tilelang: programs for TileLang and torch run unchanged, on the CPU where there is no CUDA."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import fake_gpus

try:
    import torch
except ImportError:
    raise unittest.SkipTest("torch is not installed") from None

PROGRAM = '''
import sys
import torch
import tilelang
import tilelang.language as T
from tilelang.autotuner import autotune
from tilelang.profiler import do_bench


@autotune(configs=[dict(block=16), dict(block=32)], warmup=1, rep=1)
@tilelang.jit(out_idx=[-1], target="cuda", pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def add(M, N, block=16):
    @T.prim_func
    def main(A: T.Tensor((M, N), T.float32), B: T.Tensor((M, N), "float32"), C: T.Tensor((M, N), torch.float32)):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            part = T.alloc_shared((block, block), "float32")
            T.use_swizzle(panel_size=10)
            T.annotate_layout({part: tilelang.layout.make_swizzled_layout(part)})
            T.copy(A[by * block, bx * block], part)
            for i, j in T.Parallel(block, block):
                part[i, j] += B[by * block + i, bx * block + j]
            T.copy(part, C[by * block, bx * block])
    return main


a = torch.randn(40, 50, device="cuda")
b = torch.randn(40, 50).cuda()
c = add(40, 50)(a, b.to("cuda:0"))
torch.cuda.synchronize()
torch.testing.assert_close(c, a + b)
assert do_bench(lambda: add(40, 50, block=16)(a, b), warmup=1, rep=1) > 0
print("argument", sys.argv[1])
'''

PORT = '''
import torch
import torch_tpu
import tilelang
import tilelang.language as T
from tilelang.engine import lower
from tilelang.utils.target import determine_target


@tilelang.jit(out_idx=[-1], target=determine_target("tpu"))
def double(N):
    @T.prim_func
    def main_kernel_inner(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 32), is_cpu=True) as (bx,):
            a = T.alloc_shared((32,), "float32")
            T.ppl_copy(A[bx * 32], a)
            T.ppl_add(a, a, a)
            T.ppl_copy(a, B[bx * 32])
    return main_kernel_inner


torch.manual_seed(3)
device = torch.device("tpu:0")
torch.tpu.set_device(0)
a, b = torch.randn(100, device="tpu:0"), torch.zeros(100).to(device)
begin, end = (torch.tpu.Event(enable_timing=True) for _ in range(2))
begin.record()
c = double(100)[(1,)](a.tpu(), b)
end.record()
torch.tpu.synchronize()
assert c is b and begin.elapsed_time(end) >= 0 and torch.tpu.is_available() and torch.tpu.device_count() == 1
torch.testing.assert_close(b.cpu(), 2 * a.cpu())
linear = torch.nn.Linear(100, 3).to("tpu").tpu()
with device:
    ones = torch.ones(3)
assert (linear(b) + ones).shape == (3,) and torch.Generator(device=device).device.type == "cpu"
assert torch_tpu.tpu is torch.tpu and isinstance(lower(double.get_tir(100), target="tpu"), str)
print("argument", __import__("sys").argv[1])
'''

WITHOUT_TORCH = '''
import sys
import tilelang
import tilelang.language as T


@T.prim_func
def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
    with T.Kernel(1) as _:
        T.copy(A, B)


assert "torch" not in sys.modules
print(tilelang.lower(main, target="llvm"))
'''

EMITTER = '''
import tilelang
import tilelang.language as T
from tilelang.cuda.intrinsics import TensorCoreIntrinEmitter

emitter = TensorCoreIntrinEmitter()


@T.prim_func
def main(A: T.Tensor((8,), "float32")):
    with T.Kernel(1) as _:
        emitter.ldmatrix(A)
'''


def run(source, *arguments, options=(), env=None):
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder, "program.py")
        script.write_text(source)
        command = [sys.executable, "-m", "zellige.tilelang", *options, str(script), *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=env)


class Programs(unittest.TestCase):
    def test_unchanged(self):
        done = run(PROGRAM, "7")
        self.assertEqual(done.stdout, "argument 7\n", done.stderr)

    def test_target(self):
        """All kernels are compiled for it, and tensors stay on the CPU where torch has no such GPU."""
        shown = PROGRAM + "print(add(40, 50, block=16).get_kernel_source())\n"
        for target in ("c", "cuda"):
            done = run(shown, "7", options=("--target", target), env=fake_gpus.settings(self))
            self.assertIn("argument 7\n", done.stdout, done.stderr)
            self.assertEqual(target == "cuda", "__global__" in done.stdout)
            done = run(WITHOUT_TORCH, options=("--target", target), env=fake_gpus.settings(self))
            self.assertEqual((target == "cuda", ""), ("__global__" in done.stdout, done.stderr))
        done = run(shown, "7", options=("--target", "abacus"))
        self.assertRegex(done.stderr, "there is no target 'abacus'; there are: auto, c")

    def test_port(self):
        """torch_tpu and its tensors where there is no such package; kernels for its chip, compiled for another target."""
        done = run(PORT, "7", options=("--target", "c"))
        self.assertEqual((done.stdout, done.stderr), ("argument 7\n", ""))
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "torch_tpu.py").write_text("name = 'the package itself'")
            done = run("import torch_tpu\nprint(torch_tpu.name)", env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, folder])})
            self.assertEqual((done.stdout, done.stderr), ("the package itself\n", ""))

    def test_code_of_one_gpu(self):
        done = run(EMITTER)
        self.assertRegex(done.stderr, r"program.py:12:9: ldmatrix writes instructions of one GPU")

    def test_no_file(self):
        done = subprocess.run([sys.executable, "-m", "zellige.tilelang", "no such file"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (2, "zellige.tilelang: there is no file no such file\n"))
        for arguments, code in ([], 2), (["--help"], 0):
            done = subprocess.run([sys.executable, "-m", "zellige.tilelang", *arguments], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout.split("\n")[0]), (code, "usage: python -m zellige.tilelang [--target NAME] SCRIPT [ARGUMENT...]"))


if __name__ == "__main__":
    unittest.main()
