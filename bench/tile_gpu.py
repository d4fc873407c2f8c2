#!/usr/bin/env python3
"""Tile kernels on an NVIDIA GPU: right, and how fast beside PyTorch (cuBLAS, its attention), in one run.

    python3 bench/tile_gpu.py            # builds into build-gpu, checks, then times
    python3 bench/tile_gpu.py --check    # only checks

Needs torch with a GPU, cmake and a C compiler. A number is the ratio of PyTorch's time to ours: 1 is as fast.
"""
import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DTYPES = ["bool", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64"]


def build(folder):
    start = time.time()
    configure = ["cmake", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", "-DZL_LEVELS=scalar", "-DZL_DEV=OFF"]
    for command in (configure, ["cmake", "--build", folder, "-j", str(os.cpu_count()), "--target", "libzellige"]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(command)}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    print(f"built in {time.time() - start:.0f} s", flush=True)
    return ctypes.CDLL(os.path.join(folder, "libzellige.so"))


class Buffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int), ("ndim", ctypes.c_int),
                ("dim", ctypes.POINTER(ctypes.c_int64)), ("stride", ctypes.POINTER(ctypes.c_int64))]


class Library:
    def __init__(self, library):
        self.c = library
        for name in ("zl_kernel_compile", "zl_kernel_parse"):
            getattr(library, name).restype = ctypes.c_void_p
        library.zl_error.restype = library.zl_kernel_print.restype = ctypes.c_char_p
        for name in ("zl_kernel_run", "zl_kernel_time"):
            getattr(library, name).restype = ctypes.c_bool

    def fail(self):
        message = self.c.zl_error()
        self.c.zl_clear_error()
        raise RuntimeError(message.decode() if message else "no reason given")

    def compile(self, text, target="cuda"):
        kernel = self.c.zl_kernel_compile(text.encode(), b"bench", target.encode())
        return ctypes.c_void_p(kernel) if kernel else self.fail()

    def source(self, text):
        kernel = ctypes.c_void_p(self.c.zl_kernel_parse(text.encode(), b"bench"))
        return self.c.zl_kernel_print(kernel, b"cuda_tiles") or self.fail()

    def buffers(self, arrays, keep):
        import torch
        names = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.int32: "i32"}
        out = (Buffer * len(arrays))()
        for b, a in zip(out, arrays):
            dim = (ctypes.c_int64 * a.dim())(*a.shape)
            keep.append(dim)
            b.data, b.dtype, b.ndim, b.dim, b.stride = a.data_ptr(), DTYPES.index(names[a.dtype]), a.dim(), dim, None
        return out

    def run(self, kernel, *arrays):
        keep = []
        if not self.c.zl_kernel_run(kernel, len(arrays), self.buffers(arrays, keep)):
            self.fail()

    def time(self, kernel, arrays, repeats):
        keep, seconds = [], ctypes.c_double()
        if not self.c.zl_kernel_time(kernel, len(arrays), self.buffers(arrays, keep), repeats, ctypes.byref(seconds)):
            self.fail()
        return seconds.value


# Kernels -------------------------------------------------------------------------------------------------------------

def gemm_text(m, n, k, dtype="f16", bm=128, bn=128, bk=32, stages=4, threads=128, ta=False, tb=False):
    a = f"A: {dtype}[{k}, {m}]" if ta else f"A: {dtype}[{m}, {k}]"
    b = f"B: {dtype}[{n}, {k}]" if tb else f"B: {dtype}[{k}, {n}]"
    sa, sb = (f"{bk}, {bm}" if ta else f"{bm}, {bk}"), (f"{bn}, {bk}" if tb else f"{bk}, {bn}")
    at_a = f"k * {bk}, by * {bm}" if ta else f"by * {bm}, k * {bk}"
    at_b = f"bx * {bn}, k * {bk}" if tb else f"k * {bk}, bx * {bn}"
    return f"""kernel matmul index 32 ({a}, {b}) -> (C: {dtype}[{m}, {n}]) {{
  grid bx in ceildiv({n}, {bn}), by in ceildiv({m}, {bm}), threads {threads} {{
    shared a: {dtype}[{sa}]
    shared b: {dtype}[{sb}]
    fragment acc: f32[{bm}, {bn}] = 0
    pipeline k in ceildiv({k}, {bk}) stages {stages} {{
      copy A[{at_a}] -> a
      copy B[{at_b}] -> b
      gemm {"transpose " if ta else ""}a, {"transpose " if tb else ""}b -> acc
    }}
    copy acc -> C[by * {bm}, bx * {bn}]
  }}
}}"""


def attention_text(heads, length, size, causal, bm=128, bn=64, stages=2, threads=128):
    blocks = f"ceildiv({length}, {bn})"
    masks, edges = [], []
    if length % bn:
        masks.append(f"t * {bn} + j < {length}")
        edges.append(f"t * {bn} + {bn} > {length}")
    if causal:
        blocks = f"min({blocks}, ceildiv((bx + 1) * {bm}, {bn}))"
        masks.append(f"t * {bn} + j <= bx * {bm} + i")
        edges.append(f"t * {bn} + {bn} > bx * {bm}")
    hide = "" if not masks else (f"if {' | '.join(edges)} {{ map i in {bm}, j in {bn} {{ s[i, j] = where({' & '.join(masks)}, "
                                 "s[i, j], -inf) } }")
    scale = 1.4426950408889634 / size ** 0.5  # of exponents of 2
    return f"""kernel attention index 32 (Q: f16[{heads}, {length}, {size}], K: f16[{heads}, {length}, {size}],
    V: f16[{heads}, {length}, {size}]) -> (O: f16[{heads}, {length}, {size}]) {{
  grid bx in ceildiv({length}, {bm}), by in {heads}, threads {threads} {{
    shared q: f16[{bm}, {size}]
    shared k: f16[{bn}, {size}]
    shared v: f16[{bn}, {size}]
    fragment s: f32[{bm}, {bn}]
    fragment p: f16[{bm}, {bn}]
    fragment o: f32[{bm}, {size}] = 0
    fragment most: f32[{bm}] = -1e30
    fragment low: f32[{bm}] = 0
    fragment scale: f32[{bm}]
    fragment sum: f32[{bm}]
    fragment total: f32[{bm}] = 0
    copy Q[by, bx * {bm}, 0] of [1, {bm}, {size}] -> q
    pipeline t in {blocks} stages {stages} {{
      copy K[by, t * {bn}, 0] of [1, {bn}, {size}] -> k
      copy V[by, t * {bn}, 0] of [1, {bn}, {size}] -> v
      gemm q, transpose k -> s clear
      {hide}
      copy most -> scale
      reduce maximum s -> most axis 1 accumulate
      map i in {bm} {{
        low[i] = -most[i] * {scale}
        scale[i] = exp2(fma(scale[i], {scale}, low[i]))
      }}
      map i in {bm}, j in {bn} {{ s[i, j] = exp2(fma(s[i, j], {scale}, low[i])) }}
      reduce add s -> sum axis 1
      map i in {bm} {{ total[i] = fma(total[i], scale[i], sum[i]) }}
      map i in {bm}, j in {size} {{ o[i, j] = o[i, j] * scale[i] }}
      copy s -> p
      gemm p, v -> o
    }}
    map i in {bm} {{ total[i] = 1 / total[i] }}
    map i in {bm}, j in {size} {{ o[i, j] = o[i, j] * total[i] }}
    copy o -> O[by, bx * {bm}, 0] of [1, {bm}, {size}]
  }}
}}"""


def reduce_text(op, rows, columns, block=4):
    return f"""kernel rows(x: f32[{rows}, {columns}]) -> (y: f32[{rows}]) {{
  grid b in {rows // block}, threads 128 {{
    fragment tile: f32[{block}, {columns}]
    fragment most: f32[{block}]
    copy x[b * {block}, 0] of [{block}, {columns}] -> tile
    reduce {op} tile -> most axis 1
    copy most -> y[b * {block}]
  }}
}}"""


# Checks --------------------------------------------------------------------------------------------------------------

def close(name, got, want, bound):
    error = ((got.float() - want.float()).abs() / want.float().abs().clamp(min=1)).max().item()
    print(f"{'right' if error <= bound else 'WRONG'}  {name}  largest error {error:.2g}", flush=True)
    return error <= bound


def check(z, torch):
    good = True
    for dtype in ("f16", "bf16"):
        kind = {"f16": torch.float16, "bf16": torch.bfloat16}[dtype]
        for m, n, k, ta, tb, bm, bn, bk, stages, threads in [
                (512, 512, 512, False, False, 128, 128, 32, 3, 128), (512, 512, 512, False, True, 128, 128, 32, 3, 128),
                (512, 512, 512, True, False, 128, 128, 32, 4, 256), (512, 512, 512, True, True, 64, 64, 64, 2, 128),
                (520, 312, 136, False, False, 128, 256, 32, 4, 256), (129, 257, 77, False, True, 64, 128, 32, 3, 128),
                (300, 300, 300, False, False, 128, 128, 64, 3, 256)]:
            a = torch.randn(*((k, m) if ta else (m, k)), device="cuda", dtype=kind)
            b = torch.randn(*((n, k) if tb else (k, n)), device="cuda", dtype=kind)
            c = torch.zeros(m, n, device="cuda", dtype=kind)
            z.run(z.compile(gemm_text(m, n, k, dtype, bm, bn, bk, stages, threads, ta, tb)), a, b, c)
            want = (a.T if ta else a).float() @ (b.T if tb else b).float()
            good &= close(f"gemm {dtype} {m}x{n}x{k} {'T' if ta else 'N'}{'T' if tb else 'N'}", c, want, 0.02)
    for causal in (False, True):
        for size, length in ((64, 512), (128, 512), (64, 500)):
            q, k, v = (torch.randn(4, length, size, device="cuda", dtype=torch.float16) for _ in range(3))
            o = torch.zeros_like(q)
            z.run(z.compile(attention_text(4, length, size, causal)), q, k, v, o)
            want = torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=causal)
            good &= close(f"attention {size} x {length}{' causal' if causal else ''}", o, want, 0.01)
    for op, rows, columns in (("maximum", 8192, 1020), ("add", 8192, 8192)):
        x = torch.randn(rows, columns, device="cuda")
        y = torch.zeros(rows, device="cuda")
        z.run(z.compile(reduce_text(op, rows, columns, 1 if columns > 4096 else 4)), x, y)
        good &= close(f"reduce {op} {rows}x{columns}", y, x.amax(1) if op == "maximum" else x.sum(1), 1e-3)
    return good


# Times ---------------------------------------------------------------------------------------------------------------

def torch_time(torch, f, repeats):
    f()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    best = float("inf")
    for _ in range(3):
        begin.record()
        for _ in range(repeats):
            f()
        end.record()
        torch.cuda.synchronize()
        best = min(best, begin.elapsed_time(end) / 1e3 / repeats)
    return best


CONFIGURATIONS = [dict(bm=128, bn=128, bk=32, stages=4, threads=128), dict(bm=128, bn=128, bk=32, stages=3, threads=128),
                  dict(bm=128, bn=128, bk=64, stages=3, threads=128), dict(bm=128, bn=256, bk=32, stages=4, threads=256),
                  dict(bm=128, bn=64, bk=64, stages=4, threads=128), dict(bm=128, bn=128, bk=32, stages=5, threads=128),
                  dict(bm=256, bn=128, bk=32, stages=3, threads=256), dict(bm=128, bn=128, bk=64, stages=3, threads=256),
                  dict(bm=128, bn=128, bk=64, stages=2, threads=256), dict(bm=128, bn=256, bk=64, stages=2, threads=256)]
SHAPES = [(1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (4096, 1024, 4096),
          (2048, 8192, 1024), (8192, 2048, 4096), (1000, 4000, 2000)]


def time_gemm(z, torch, results):
    for m, n, k in SHAPES:
        a, b = torch.randn(m, k, device="cuda", dtype=torch.float16), torch.randn(k, n, device="cuda", dtype=torch.float16)
        c = torch.zeros(m, n, device="cuda", dtype=torch.float16)
        work = 2 * m * n * k
        repeats = max(5, min(200, int(2e12 / work)))
        theirs = torch_time(torch, lambda: torch.matmul(a, b, out=c), repeats)
        ours = {}
        for how in CONFIGURATIONS:
            kernel = z.compile(gemm_text(m, n, k, **how))
            ours[f"{how['bm']}x{how['bn']}x{how['bk']}s{how['stages']}t{how['threads']}"] = min(z.time(kernel, [a, b, c], repeats) for _ in range(3))
        best = min(ours, key=ours.get)
        print(f"gemm f16 {m}x{n}x{k}: cuBLAS {work / theirs / 1e12:.0f} TFLOP/s, best {best} {work / ours[best] / 1e12:.0f} = "
              f"{theirs / ours[best]:.2f}; " + ", ".join(f"{name} {theirs / t:.2f}" for name, t in ours.items()), flush=True)
        results["gemm"].append({"shape": [m, n, k], "cublas": theirs, "ours": ours})


def time_attention(z, torch, results):
    for size in (64, 128):
        for causal in (False, True):
            for length in (1024, 2048, 4096, 8192):
                heads = 16 * 8192 // length
                q, k, v = (torch.randn(1, heads, length, size, device="cuda", dtype=torch.float16) for _ in range(3))
                o = torch.zeros_like(q)
                work = 4 * heads * length * length * size / (2 if causal else 1)
                repeats = max(3, min(50, int(1e12 / work)))
                attend = torch.nn.functional.scaled_dot_product_attention
                theirs = torch_time(torch, lambda: attend(q, k, v, is_causal=causal), repeats)
                ours, arrays = {}, [t.view(heads, length, size) for t in (q, k, v, o)]
                for how in (dict(bm=128, bn=64, threads=128), dict(bm=128, bn=64, threads=256), dict(bm=64, bn=64, threads=128),
                            dict(bm=128, bn=128, threads=256)):
                    kernel = z.compile(attention_text(heads, length, size, causal, **how))
                    ours[f"{how['bm']}x{how['bn']}t{how['threads']}"] = min(z.time(kernel, arrays, repeats) for _ in range(2))
                best = min(ours, key=ours.get)
                print(f"attention {size} x {length}{' causal' if causal else ''}: PyTorch {work / theirs / 1e12:.0f} TFLOP/s, "
                      f"best {best} {work / ours[best] / 1e12:.0f} = {theirs / ours[best]:.2f}; " +
                      ", ".join(f"{name} {theirs / t:.2f}" for name, t in ours.items()), flush=True)
                results["attention"].append({"size": size, "length": length, "causal": causal, "torch": theirs, "ours": ours})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build-gpu"))
    parser.add_argument("--library", help="libzellige.so that is built already")
    parser.add_argument("--only", choices=("gemm", "attention"), help="time these alone")
    parser.add_argument("--check", action="store_true", help="only check")
    parser.add_argument("--json", help="write the times there")
    options = parser.parse_args()
    import torch
    z = Library(ctypes.CDLL(options.library) if options.library else build(options.build))
    print(torch.cuda.get_device_name(0), torch.__version__, flush=True)
    start = time.time()
    z.source(gemm_text(4096, 4096, 4096))
    print(f"gemm to CUDA source in {(time.time() - start) * 1e3:.1f} ms", flush=True)
    good = check(z, torch)
    if options.check or not good:
        sys.exit(0 if good else "some results are wrong: no times")
    results = {"gemm": [], "attention": []}
    for name, measure in (("gemm", time_gemm), ("attention", time_attention)):
        if options.only in (None, name):
            measure(z, torch, results)
    for name, theirs in (("gemm", "cublas"), ("attention", "torch")):
        ratios = [r[theirs] / min(r["ours"].values()) for r in results[name]]
        if ratios:
            print(f"{name}: median {statistics.median(ratios):.2f}, least {min(ratios):.2f} of PyTorch's speed")
    if options.json:
        with open(options.json, "w") as out:
            json.dump(results, out)


if __name__ == "__main__":
    main()
