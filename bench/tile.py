#!/usr/bin/env python3
"""tile.py [OPTION...] - tile kernels on the CPU beside our library's ops, PyTorch and the bandwidth of memory, on two threads each.

How they are timed is in peers.py, what is timed in tile_kernels.py. Bars: products 0.7 of the library's, attention as fast as PyTorch's,
rows as fast as the library's or 0.8 of a copy. --jit times the way from source to a kernel that runs instead.
"""

import os
import subprocess
import sys
import tempfile
import time

import peers
import usage

COMPARED = ("zellige", "library", "torch", "copy")
PRODUCTS = {f"gemm {dtype} {n}": 0.7 for n in (1024, 1000) for dtype in ("float32", "bfloat16", "float16", "int8")}
ATTENTION = {f"attention {dtype} {shape}": 1.0 for shape in ("1x8x1024x64 full", "1x8x1024x64 causal", "1x8x512x128 full")
             for dtype in ("float32", "bfloat16")}
ROWS = {f"{kind} {shape}": 1.0 for kind in ("softmax", "rms_norm") for shape in ("4096x4096", "8192x1024")}
OF_BANDWIDTH = 0.8  # what rows may reach instead


def words_of(name):
    kind, *rest = name.split()
    if kind == "gemm":
        return kind, rest[0], (int(rest[1]),) * 3
    if kind == "attention":
        return kind, rest[0], (*map(int, rest[1].split("x")), rest[2] == "causal")
    return kind, "float32", tuple(map(int, rest[0].split("x")))


def numbers(kind, dtype, sizes):
    """Inputs of a case, as tensors of PyTorch."""
    import torch
    torch.manual_seed(1)
    if kind == "gemm":
        m, n, k = sizes
        shapes = (m, k), (k, n)
    else:
        shapes = [sizes[:4]] * 3 if kind == "attention" else [sizes]
    if dtype == "int8":
        return [torch.randint(-100, 100, shape, dtype=torch.int8) for shape in shapes]
    return [torch.randn(shape).to(getattr(torch, dtype)) for shape in shapes]


def summed(tensor):
    return float(tensor.double().abs().mean())


class Kernels:
    """Tile kernels, compiled from their source."""

    def __init__(self):
        import tile_kernels
        import zellige.core as mx
        self.kernels, self.version = tile_kernels, getattr(mx, "__version__", "")

    def case(self, name):
        import torch
        kind, dtype, sizes = words_of(name)
        inputs = numbers(kind, dtype, sizes)
        if kind == "gemm":
            sums = "int32" if dtype == "int8" else "float32"
            kernel = self.kernels.gemm(*sizes, dtype, sums)
            out = torch.zeros(sizes[:2], dtype=getattr(torch, sums))
        elif kind == "attention":
            kernel, out = self.kernels.attention(*sizes[:4], dtype, sizes[4]), torch.zeros_like(inputs[0])
        else:
            kernel, out = getattr(self.kernels, kind)(*sizes), torch.zeros_like(inputs[0])
        return lambda: kernel(*inputs, out), lambda _: summed(out)


class Ops:
    """The library's own ops."""

    def __init__(self):
        import zellige.core as mx
        self.mx, self.version = mx, getattr(mx, "__version__", "")

    def array(self, tensor):
        import torch
        wide = tensor if tensor.dtype == torch.int8 else tensor.float()
        made = self.mx.array(wide.numpy()).astype(getattr(self.mx, str(tensor.dtype).split(".")[1]))
        self.mx.eval(made)
        return made

    def case(self, name):
        mx = self.mx
        kind, dtype, sizes = words_of(name)
        inputs = [self.array(t) for t in numbers(kind, dtype, sizes)]
        compute = {"gemm": mx.matmul_int8 if dtype == "int8" else mx.matmul, "softmax": lambda x: mx.softmax(x, axis=-1), "rms_norm": lambda x: mx.fast.rms_norm(x, None, 1e-5),
                   "attention": lambda q, k, v: mx.fast.scaled_dot_product_attention(q, k, v, scale=sizes[3]**-0.5, mask="causal" if sizes[4] else None)}[kind]

        def run():
            made = compute(*inputs)
            mx.eval(made)
            return made
        return run, lambda made: float(mx.mean(mx.abs(made.astype(mx.float32))))


class Torch:
    def __init__(self):
        import torch
        torch.set_num_threads(2)
        self.torch, self.version = torch, torch.__version__

    def case(self, name):
        torch = self.torch
        kind, dtype, sizes = words_of(name)
        inputs = numbers(kind, dtype, sizes)
        compute = {"gemm": lambda a, b: a @ b, "softmax": lambda x: torch.softmax(x, -1), "rms_norm": lambda x: torch.nn.functional.rms_norm(x, x.shape[-1:], None, 1e-5),
                   "attention": lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=sizes[4])}[kind]

        def run():
            with torch.no_grad():
                return compute(*inputs)
        return run, summed


class Copy:
    """As many bytes as the kernel reads and writes, moved."""

    def __init__(self):
        import torch
        torch.set_num_threads(2)
        self.version = ""

    def case(self, name):
        import torch
        source = numbers(*words_of(name))[0]
        out = torch.zeros_like(source)
        return lambda: out.copy_(source), None


LIBRARIES = {"zellige": Kernels, "library": Ops, "torch": Torch, "copy": Copy}


class Against(peers.Case):
    """Its bar is about one library."""

    def __init__(self, name, bar, libraries, rival):
        super().__init__(name, bar, libraries)
        self.chosen = rival

    def rival(self):
        return self.chosen if self.chosen in self.best else super().rival()


class Rows(Against):
    """As fast as the library, or near to what memory can do."""

    limit = "copy"

    def of_bandwidth(self):
        return self.best["copy"] / self.best["zellige"] if "copy" in self.best and "zellige" in self.best else 0

    def is_low(self):
        return super().is_low() and self.of_bandwidth() < OF_BANDWIDTH

    def note(self):
        return f"{self.of_bandwidth():.2f} of a copy's bandwidth"


def cases():
    for name, bar in PRODUCTS.items():
        torch = () if "int8" in name else ("torch",)  # seconds per call on machines without its library for them
        yield Against(name, bar, ("zellige", "library", *torch), "library")
    for name, bar in ATTENTION.items():
        yield Against(name, bar, ("zellige", "library", "torch"), "torch")
    for name, bar in ROWS.items():
        yield Rows(name, bar, ("zellige", "library", "torch", "copy"), "library")


# From source to a kernel that runs ------------------------------------------------------------------------------------------

IMPORT = "import time; t = time.perf_counter(); import zellige.core, zellige.tile, zellige.tile.language; print(time.perf_counter() - t)"
COMPILE = """
import time, sys
sys.path.insert(0, {folder!r})
import numpy, tile_kernels, zellige.core
a = numpy.ones((128, 128), "float32")
c = numpy.zeros_like(a)
start = time.perf_counter()
kernel = tile_kernels.gemm(128, 128, 128, "float32")
kernel(a, a, c)
print(time.perf_counter() - start)
"""
SOURCE = """
import time, sys
sys.path.insert(0, {folder!r})
import tile_kernels, zellige.core
start = time.perf_counter()
text = tile_kernels.gemm(4096, 4096, 4096, "float16").code.show("cuda_tiles")
print(time.perf_counter() - start)
assert "mma.sync" in text
"""
CALL = """
import time, sys
sys.path.insert(0, {folder!r})
import numpy, tile_kernels
a = numpy.ones((1, 16), "float32")
y = numpy.zeros_like(a)
kernel = tile_kernels.rms_norm(1, 16)
best = 1
for _ in range(50):
    start = time.perf_counter()
    for _ in range(200):
        kernel(a, y)
    best = min(best, (time.perf_counter() - start) / 200)
print(best)
"""


def timed(program, cache):
    environment = {**os.environ, "ZL_CACHE_DIR": cache, "ZL_THREADS": "2"}
    text = program.format(folder=os.path.dirname(os.path.abspath(__file__)))
    return float(subprocess.run([sys.executable, "-c", text], env=environment, check=True, capture_output=True, text=True).stdout)


def times_of_jit(rounds):
    """[(what, seconds, most)], the best of rounds."""
    found = {"import of zellige.tile": (0.2, []), "gemm from source, cold": (0.3, []), "gemm from disk": (0.005, []),
             "gemm to CUDA source, C from disk": (0.05, []), "call of a compiled kernel": (50e-6, [])}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            timed(SOURCE, cache)  # compiles it for the CPU
            for (_, times), program in zip(found.values(), (IMPORT, COMPILE, COMPILE, SOURCE, CALL)):
                times.append(timed(program, cache))
    return [(what, min(times), most) for what, (most, times) in found.items()]


def report_jit(options):
    rows = times_of_jit(3 if options.quick else 7)
    for what, seconds, most in rows:
        print(f"{what:34}{seconds * 1e3:10.3f} ms  {'ok ' if seconds <= most else 'LOW'} {most * 1e3:g}")
    return options.check and any(seconds > most for _, seconds, most in rows)


def main():
    parser = peers.parser_of(__doc__)
    parser.add_argument("--jit", action="store_true", help="times of compiling and calling instead")
    options = parser.parse_args()
    if options.jit and not options.serve:
        return report_jit(options)
    return peers.main(options, list(cases()), LIBRARIES, COMPARED, ())


if __name__ == "__main__":
    usage.run(main)
