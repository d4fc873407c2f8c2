"""cuda_cases.py - what bench/cuda.py measures: its cases, and how zellige, PyTorch, JAX and MLX compute each.

A library's case gives a function that computes it a number of times, one call after the other, and waits for the last.
"""

import dataclasses
import os
import random
import time

import numpy as np

SIDE = 16384                       # elementwise and the like: SIDE * SIDE elements
ROWS = (1024, 4096, 16384, 65536)  # lengths of lines of softmax
TINY = 100                         # dependent launches
FEW = 3.36                         # TB/s of attention of few queries over many keys: 0.7 of the H200's 4.8
# Batch, height, width, channels, outputs, size of the kernel, stride, groups, and whether it is the transpose of one.
CONVOLUTIONS = ((32, 56, 56, 64, 64, 3, 1, 1, False), (32, 56, 56, 128, 256, 3, 2, 1, False), (32, 28, 28, 512, 128, 1, 1, 1, False),
                (32, 224, 224, 3, 64, 7, 2, 1, False), (32, 56, 56, 128, 128, 3, 1, 128, False),
                (16, 28, 28, 64, 64, 3, 2, 1, True), (16, 32, 32, 256, 128, 4, 2, 1, True))

# Ops with kernels of their own, as Arrays.one_op computes them, and how many elements each makes or reads.
OPS = {"take rows": 1 << 26, "take elements": 1 << 24, "take_along_axis": 1 << 24, "scatter add": 1 << 22, "put_along_axis": 1 << 24,
       "slice update": 1 << 26, "permute four axes": 1 << 26, "swap two axes of three": 1 << 26, "sum of short lines": 1 << 26,
       "sum of middle axis": 1 << 26, "max of all": 1 << 26, "argmax of rows": 1 << 26, "cumsum of short lines": 1 << 24,
       "cumsum of lines of 100": 10_000_000, "cumsum of 16 lines": 1 << 24, "sort rows": 1 << 24, "sort all": 1 << 22,
       "argsort rows": 1 << 24, "topk of rows": 1 << 24, "searchsorted": 1 << 22, "arange": 1 << 26, "random bits": 1 << 26,
       "normal": 1 << 26, "where a row": 1 << 26, "quantize": 1 << 26, "dequantize": 1 << 26, "cross entropy": 1 << 26,
       "rms_norm": 1 << 26, "rope": 1 << 26, "gather products": 1 << 22}


@dataclasses.dataclass
class Case:
    name: str
    kind: str
    arguments: tuple
    work: float       # operations, bytes or calls of one
    unit: str         # what a rate is measured in
    scale: float      # of that unit
    bar: float = 0.0  # least rate, or, if by_best, least share of the best of the others; 0: none of its own
    by_best: bool = False
    floor: float = 0.0  # of the rate, besides the bar
    less: bool = False  # the figure is a time: less is better
    group: str = ""     # cases whose shares have a median that must reach the bar
    ours: str = "zellige"
    peers: tuple = ("torch", "jax", "mlx")


def gemm_shapes(seed):
    draw = random.Random(seed)
    sizes = [draw.choice((1024, 1536, 2048, 3072, 4096, 5120, 6144, 8192)) for _ in range(21)]
    return [(4096,) * 3, (8192,) * 3, (2048, 8192, 4096)] + [tuple(sizes[i:i + 3]) for i in range(0, 21, 3)]


def few_queries(seed):
    """Batch, heads of keys, heads of queries for each, queries, keys, elements of a head; half of them have 8,192 keys or more."""
    draw = random.Random(seed)
    return [(draw.choice((1, 2, 4)), draw.choice((4, 8)), draw.choice((1, 2, 4)), (1, 4, 16)[i % 3],
             int(2**draw.uniform(*((9, 13) if i % 2 else (13, 16)))), draw.choice((64, 128))) for i in range(8)]


def cases(seed):
    number = SIDE * SIDE
    for dtype in ("bfloat16", "float16", "int8"):
        for m, n, k in gemm_shapes(seed):
            yield Case(f"gemm {dtype} {m}x{n}x{k}", "gemm", (dtype, m, n, k), 2 * m * n * k, "TFLOP/s", 1e12, 0.97, True,
                       group=f"gemm {dtype}")
    for m, n, k in gemm_shapes(seed):
        yield Case(f"gemm fp8 {m}x{n}x{k}", "gemm", ("fp8", m, n, k), 2 * m * n * k, "TFLOP/s", 1e12, 0, True, group="gemm fp8")
    for m, n, k in ((4096,) * 3, (8192,) * 3, (256, 8192, 8192)):
        yield Case(f"int8 times rows {m}x{n}x{k}", "int8_by_rows", (m, n, k), 2 * m * n * k, "TFLOP/s", 1e12)
    for side in (256, 512, 1024):
        yield Case(f"small gemm bfloat16 {side}", "gemm", ("bfloat16",) + (side,) * 3, 2 * side**3, "TFLOP/s", 1e12, 1.5, True)
    for m in (1, 16, 128, 1024, 8192):
        yield Case(f"linear bfloat16 {m}x4096x4096", "linear", ("bfloat16", m, 4096, 4096), 2 * m * 4096**2, "TFLOP/s", 1e12, 0, True,
                   group="linear")
    for kind, dtype, reads, bar in (("add", "float32", 3, 4.1), ("exp", "float32", 2, 4.1), ("gelu", "float32", 2, 4.0),
                                    ("gelu", "bfloat16", 2, 3.8), ("layer_norm", "float32", 2, 3.8),
                                    ("layer_norm", "bfloat16", 2, 3.4), ("cumsum", "float32", 2, 3.0),
                                    ("transpose", "float32", 2, 3.9), ("transpose", "bfloat16", 2, 3.7)):
        size = 4 if dtype == "float32" else 2
        yield Case(f"{kind} {dtype}", kind, (dtype,), number * size * reads, "TB/s", 1e12, bar)
    for dtype, bar in (("float32", 3.9), ("bfloat16", 3.5)):
        for length in ROWS:
            yield Case(f"softmax {dtype} {length}", "softmax", (dtype, length), number * (8 if dtype == "float32" else 4),
                       "TB/s", 1e12, bar)
    for causal in (False, True):
        yield Case(f"attention bfloat16 1x32x8192x128{' causal' * causal}", "attention", (1, 32, 8192, 8192, 128, causal),
                   4 * 32 * 8192 * 8192 * 128 / (1 + causal), "TFLOP/s", 1e12, 0.97, True)
    for size in (64, 128):
        for length in (512, 1024, 1000, 2048, 4096, 3001):
            for causal in (False, True):
                heads = max(1, 16 * 4096 // length)
                yield Case(f"own attention {heads}x{length}x{size}{' causal' * causal}", "attention",
                           (1, heads, length, length, size, causal), 4 * heads * length**2 * size / (1 + causal), "TFLOP/s", 1e12,
                           0.5, True, group="own attention", ours="zellige_own", peers=("torch",))
    for batch, heads, each, queries, keys, size in few_queries(seed):
        read = 2 * 2 * batch * heads * keys * size
        copies = 1 + (128 << 20) // read  # more than the caches hold
        yield Case(f"attention of {queries} queries {batch}x{heads}x{each}x{keys}x{size}", "few_queries",
                   (batch, heads, each, queries, keys, size, copies), copies * read, "TB/s", 1e12, 1.0, True,
                   floor=FEW if keys >= 8192 else 0, peers=("torch",))
    for columns in (4096, 14336):
        copies = 1 + (128 << 20) // (4096 * columns // 2)  # more than the caches hold
        yield Case(f"4 bits, one line times 4096x{columns}", "quantized", (columns, 4096, copies),
                   copies * 4096 * columns * (1 / 2 + 4 / 64), "TB/s", 1e12, 3.4)
    for size in (64, 128):
        for causal in (False, True):
            yield Case(f"attention with gradient 16x4096x{size}{' causal' * causal}", "attention_gradient", (1, 16, 4096, size, causal),
                       14 * 16 * 4096**2 * size / (1 + causal), "TFLOP/s", 1e12)
    for shape in CONVOLUTIONS:
        c = Convolution(*shape)
        for dtype in ("float32", "bfloat16"):
            for what in ("output", "input", "kernel"):
                yield Case(f"conv {dtype} {c.name} {what}", "conv", (dtype, shape, what), c.operations, "TFLOP/s", 1e12, 0, True)
    for name, elements in OPS.items():
        yield Case(f"op {name}", "one_op", (name,), elements, "G elements/s", 1e9)
    yield Case("tiny launches", "tiny", (), TINY, "us each", 1e-6, 2.5, less=True, ours="zellige_unfused")
    yield Case("MLP epoch", "mlp", (), 1, "ms", 1e-3, 33, less=True)
    yield Case("upload 4 MB", "upload", (), 4 << 20, "GB/s", 1e9, 10)
    yield Case("download 4 MB", "download", (), 4 << 20, "GB/s", 1e9, 10)
    yield Case("CSR SpMV 1 M cycle", "spmv", (), 4 * (1 << 20), "GFLOP/s", 1e9, 300)


class Convolution:
    """Sizes of one, channels last: of its input, kernel and result."""

    def __init__(self, batch, height, width, channels, outputs, kernel, stride, groups, transposed):
        self.stride, self.groups, self.transposed, self.padding = stride, groups, transposed, (kernel - 1) // 2
        self.x, self.w = (batch, height, width, channels), (outputs, kernel, kernel, channels // groups)
        sizes = [(n - 1) * stride + kernel - 2 * self.padding if transposed else (n + 2 * self.padding - kernel) // stride + 1
                 for n in (height, width)]
        self.y = (batch, *sizes, outputs)
        many = self.x if transposed else self.y  # each of them meets all taps
        self.operations = 2 * batch * many[1] * many[2] * outputs * channels // groups * kernel**2
        self.name = f"{batch}x{height}x{width}x{channels} by {outputs}x{kernel}x{kernel}"
        self.name += f", stride {stride}" * (stride > 1) + f", {groups} groups" * (groups > 1) + ", transposed" * transposed


def cycle(rows):
    columns = (np.arange(rows)[:, None] + [-1, 1]).ravel() % rows
    return np.ones(2 * rows, np.float32), columns.astype(np.int32), (np.arange(rows + 1) * 2).astype(np.int32)


def digits():
    rng = np.random.default_rng(0)
    return rng.standard_normal((60000, 784), np.float32), rng.integers(0, 10, 60000).astype(np.int32)


class Arrays:
    """zellige.core and mlx.core, whose names are the same."""

    def __init__(self, module):
        self.m = module

    def repeat(self, f):
        def run(count):
            for _ in range(count):
                y = f()
                self.m.async_eval(y)
            self.m.eval(y)
        return run

    def normal(self, shape, dtype):
        x = self.m.random.normal(shape).astype(getattr(self.m, dtype))
        self.m.eval(x)
        return x

    def gemm(self, dtype, m, n, k):
        mx = self.m
        if dtype == "int8":
            a, b = (mx.random.randint(-128, 128, s).astype(mx.int8) for s in ((m, k), (n, k)))
            mx.eval(a, b)
            return self.repeat(lambda: mx.matmul_int8(a, b.T))
        if dtype == "fp8":
            a, b = (mx.to_fp8(self.normal(s, "float32")) for s in ((m, k), (n, k)))
            mx.eval(a, b)
            return self.repeat(lambda: mx.matmul_fp8(a, b.T))
        a, b = self.normal((m, k), dtype), self.normal((k, n), dtype)
        return self.repeat(lambda: a @ b)

    def linear(self, dtype, m, n, k):
        x, w, b = (self.normal(s, dtype) for s in ((m, k), (n, k), (n,)))
        return self.repeat(lambda: self.m.addmm(b, x, w.T))

    def int8_by_rows(self, m, n, k):
        mx = self.m
        a, b = (mx.random.randint(-128, 128, s).astype(mx.int8) for s in ((m, k), (k, n)))
        mx.eval(a, b)
        return self.repeat(lambda: mx.matmul_int8(a, b))

    def quantized(self, n, k, copies):
        mx = self.m
        x, many = self.normal((1, k), "bfloat16"), [mx.quantize(self.normal((n, k), "bfloat16")) for _ in range(copies)]
        mx.eval(many)
        return self.repeat(lambda: [mx.quantized_matmul(x, *w) for w in many])

    def add(self, dtype):
        x, y = self.normal((SIDE, SIDE), dtype), self.normal((SIDE, SIDE), dtype)
        return self.repeat(lambda: x + y)

    def exp(self, dtype):
        x = self.normal((SIDE, SIDE), dtype)
        return self.repeat(lambda: self.m.exp(x))

    def gelu(self, dtype):
        mx, x = self.m, self.normal((SIDE, SIDE), dtype)
        gelu = mx.compile(lambda x: x * (1 + mx.erf(x / 2**0.5)) / 2)
        return self.repeat(lambda: gelu(x))

    def softmax(self, dtype, length):
        x = self.normal((SIDE * SIDE // length, length), dtype)
        return self.repeat(lambda: self.m.softmax(x, axis=-1))

    def layer_norm(self, dtype, length=SIDE):
        x, w, b = self.normal((SIDE * SIDE // length, length), dtype), self.normal((length,), dtype), self.normal((length,), dtype)
        return self.repeat(lambda: self.m.fast.layer_norm(x, w, b, 1e-5))

    def cumsum(self, dtype, length=SIDE):
        x = self.normal((SIDE * SIDE // length, length), dtype)
        return self.repeat(lambda: self.m.cumsum(x, axis=-1))

    def sum(self, dtype, length):
        x = self.normal((SIDE * SIDE // length, length), dtype)
        return self.repeat(lambda: self.m.sum(x, axis=-1))

    def transpose(self, dtype, length=SIDE):
        x = self.normal((SIDE * SIDE // length, length), dtype)
        return self.repeat(lambda: self.m.contiguous(x.T))

    def attention(self, batch, heads, queries, keys, size, causal):
        q = self.normal((batch, heads, queries, size), "bfloat16")
        k, v = (self.normal((batch, heads, keys, size), "bfloat16") for _ in range(2))
        mask = "causal" if causal else None
        return self.repeat(lambda: self.m.fast.scaled_dot_product_attention(q, k, v, scale=size**-0.5, mask=mask))

    def few_queries(self, batch, heads, each, queries, keys, size, copies):
        q = self.normal((batch, heads * each, queries, size), "bfloat16")
        many = [[self.normal((batch, heads, keys, size), "bfloat16") for _ in range(2)] for _ in range(copies)]
        attend = self.m.fast.scaled_dot_product_attention
        return self.repeat(lambda: [attend(q, k, v, scale=size**-0.5) for k, v in many])

    def attention_gradient(self, batch, heads, length, size, causal):
        q, k, v, g = (self.normal((batch, heads, length, size), "bfloat16") for _ in range(4))
        attend = lambda q, k, v: self.m.fast.scaled_dot_product_attention(q, k, v, scale=size**-0.5, mask="causal" if causal else None)
        return self.repeat(lambda: self.m.vjp(attend, [q, k, v], [g])[1])

    def conv(self, dtype, shape, what):
        c = Convolution(*shape)
        x, w, g = (self.normal(s, dtype) for s in (c.x, c.w, c.y))
        f = self.m.conv_transpose2d if c.transposed else self.m.conv2d
        convolve = lambda x, w: f(x, w, stride=c.stride, padding=c.padding, groups=c.groups)
        if what == "input":
            return self.repeat(lambda: self.m.vjp(lambda x: convolve(x, w), [x], [g])[1])
        if what == "kernel":
            return self.repeat(lambda: self.m.vjp(lambda w: convolve(x, w), [w], [g])[1])
        return self.repeat(lambda: convolve(x, w))

    def one_op(self, name):
        mx = self.m
        x, lines, short = self.normal((8192, 8192), "float32"), self.normal((16384, 1024), "float32"), self.normal((1 << 22, 16), "float32")
        flat, rows = lines.reshape(-1), mx.random.randint(0, 8192, (8192,))
        places, columns = mx.random.randint(0, 1 << 24, (1 << 24,)), mx.random.randint(0, 1024, (16384, 1024))
        four, three = x.reshape(64, 128, 64, 128), x.reshape(64, 1024, 1024)
        heads, weight, mask = x.reshape(4, 32, 4096, 128), self.normal((8192,), "float32"), mx.random.bernoulli(0.5, (8192,))
        hundred, sixteen = self.normal((100_000, 100), "float32"), flat.reshape(16, -1)
        sorted_line, packed = mx.sort(flat[:1 << 20]), mx.quantize(x)
        experts, which = self.normal((16, 1024, 1024), "float32"), mx.random.randint(0, 16, (64,))
        corner = mx.array([5, 7])
        mx.eval(rows, places, columns, mask, sorted_line, packed, which, corner)

        def put():
            y = mx.zeros((1 << 20,))
            return y.at[places[:1 << 22] % (1 << 20)].add(flat[:1 << 22])
        return self.repeat({
            "take rows": lambda: mx.take(x, rows, axis=0), "take elements": lambda: mx.take(flat, places),
            "take_along_axis": lambda: mx.take_along_axis(lines, columns, axis=1), "scatter add": put,
            "put_along_axis": lambda: mx.put_along_axis(lines, columns, lines, axis=1),
            "slice update": lambda: mx.slice_update(x, x[:4096, :4096], corner, (0, 1)),
            "permute four axes": lambda: mx.contiguous(four.transpose(2, 0, 3, 1)),
            "swap two axes of three": lambda: mx.contiguous(three.transpose(1, 0, 2)),
            "sum of short lines": lambda: short.sum(-1), "sum of middle axis": lambda: three.sum(1), "max of all": lambda: x.max(),
            "argmax of rows": lambda: mx.argmax(x, axis=-1), "cumsum of short lines": lambda: mx.cumsum(short[:1 << 20], axis=-1),
            "cumsum of lines of 100": lambda: mx.cumsum(hundred, axis=-1), "cumsum of 16 lines": lambda: mx.cumsum(sixteen, axis=-1),
            "sort rows": lambda: mx.sort(lines, axis=-1), "sort all": lambda: mx.sort(flat[:1 << 22]),
            "argsort rows": lambda: mx.argsort(lines, axis=-1), "topk of rows": lambda: mx.topk(lines, 8, axis=-1),
            "searchsorted": lambda: mx.searchsorted(sorted_line, flat[:1 << 22]), "arange": lambda: mx.arange(1 << 26),
            "random bits": lambda: mx.random.bits((1 << 26,)), "normal": lambda: mx.random.normal((1 << 26,)),
            "where a row": lambda: mx.where(mask, x, 0), "quantize": lambda: mx.quantize(x), "dequantize": lambda: mx.dequantize(*packed),
            "cross entropy": lambda: self.cross_entropy(x, rows), "rms_norm": lambda: mx.fast.rms_norm(x, weight, 1e-5),
            "rope": lambda: mx.fast.rope(heads, 128, traditional=False, base=10000.0, scale=1.0, offset=0),
            "gather products": lambda: mx.gather_mm(experts[:, :64], experts, rhs_indices=which[:16]),
        }[name])

    def cross_entropy(self, x, labels):
        return self.m.logsumexp(x, axis=-1) - self.m.take_along_axis(x, labels[:, None], axis=-1).squeeze(-1)

    def tiny(self):
        mx, x = self.m, self.m.zeros((16,))
        steps = [mx.abs, mx.exp, mx.square, mx.sin, mx.cos, mx.negative, mx.tanh, mx.sigmoid, mx.floor, mx.sqrt]

        def chain():
            y = x
            for i in range(TINY):
                y = steps[i % len(steps)](y)
            return y
        return self.repeat(chain)

    def mlp(self):
        mx = self.m
        x, t = (mx.array(a) for a in digits())
        w = [self.normal(s, "float32") * 0.05 for s in ((784, 128), (128,), (128, 10), (10,))]
        mx.eval(x, t, w)

        def loss(w, x, t):
            y = mx.maximum(x @ w[0] + w[1], 0) @ w[2] + w[3]
            return mx.mean(mx.logsumexp(y, axis=-1) - mx.take_along_axis(y, t[:, None], axis=-1).squeeze(-1))

        @mx.compile
        def step(w, x, t):
            return [a - 0.1 * g for a, g in zip(w, mx.grad(loss)(w, x, t))]

        def run(count):
            nonlocal w
            for _ in range(count):
                for i in range(0, 60000, 256):
                    w = step(w, x[i:i + 256], t[i:i + 256])
                    mx.async_eval(w)
                mx.eval(w)
        return run

    def upload(self):
        data = np.random.default_rng(0).standard_normal(1 << 20, np.float32)

        def run(count):
            for _ in range(count):
                self.m.eval(self.m.array(data) + 1)
        return run

    def download(self):
        x = [self.normal((1 << 20,), "float32") for _ in range(64)]

        def run(count):
            for i in range(count):
                y = x[i % 64] + 1
                self.m.eval(y)
                np.asarray(y)  # memory of the host, as .cpu() gives: np.array would copy that once more
        return run


class Zellige(Arrays):
    def __init__(self):
        import zellige.core as core
        super().__init__(core)
        self.version = getattr(core, "__version__", "")

    def ready(self):
        """Milliseconds of a process's first evaluation: what it takes to open the device, and one small kernel."""
        begin = time.perf_counter()
        self.m.eval(self.m.zeros((16,)) + 1)
        return (time.perf_counter() - begin) * 1e3

    def peak(self, run):
        """Bytes before a call, and at most during it."""
        self.m.reset_peak_memory()
        before = self.m.get_active_memory()
        run(1)
        return {"before": before, "peak": self.m.get_peak_memory()}

    def spmv(self):
        mx = self.m
        values, columns, rows = (mx.array(a) for a in cycle(1 << 20))
        x = self.normal((1 << 20,), "float32")
        mx.eval(values, columns, rows)
        return self.repeat(lambda: mx.csr_matvec(values, columns, rows, x))


class Mlx(Arrays):
    def __init__(self):
        import mlx.core as core
        if not core.is_available(core.gpu):
            raise ImportError("this build of MLX has no GPU")
        core.set_default_device(core.gpu)
        super().__init__(core)
        self.version = core.__version__


class Torch:
    def __init__(self):
        import torch
        if not torch.cuda.is_available():
            raise ImportError("torch sees no GPU")
        self.t, self.version = torch, torch.__version__
        torch.manual_seed(0)
        torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = True, False

    def repeat(self, f):
        def run(count):
            with self.t.no_grad():
                for _ in range(count):
                    f()
            self.t.cuda.synchronize()
        return run

    def normal(self, shape, dtype):
        return self.t.randn(shape, device="cuda").to(getattr(self.t, dtype))

    def gemm(self, dtype, m, n, k):
        t = self.t
        if dtype == "int8":
            a, b = (t.randint(-128, 128, s, dtype=t.int8, device="cuda") for s in ((m, k), (n, k)))
            return self.repeat(lambda: t._int_mm(a, b.T))
        if dtype == "fp8":
            a, b = (self.normal(s, "float8_e4m3fn") for s in ((m, k), (n, k)))
            one = t.ones((), device="cuda")
            return self.repeat(lambda: t._scaled_mm(a, b.T, scale_a=one, scale_b=one, out_dtype=t.bfloat16))
        a, b = self.normal((m, k), dtype), self.normal((k, n), dtype)
        return self.repeat(lambda: a @ b)

    def linear(self, dtype, m, n, k):
        x, w, b = (self.normal(s, dtype) for s in ((m, k), (n, k), (n,)))
        return self.repeat(lambda: self.t.nn.functional.linear(x, w, b))

    def int8_by_rows(self, m, n, k):
        a, b = (self.t.randint(-128, 128, s, dtype=self.t.int8, device="cuda") for s in ((m, k), (k, n)))
        return self.repeat(lambda: self.t._int_mm(a, b))

    def quantized(self, n, k, copies):
        t = self.t
        x, many = self.normal((1, k), "bfloat16"), []
        for _ in range(copies):
            packed = t.ops.aten._convert_weight_to_int4pack(t.randint(0, 256, (n, k // 2), dtype=t.uint8, device="cuda"), 8)
            many.append((packed, 64, self.normal((k // 64, n, 2), "bfloat16")))
        return self.repeat(lambda: [t.ops.aten._weight_int4pack_mm(x, *w) for w in many])

    def add(self, dtype):
        x, y = self.normal((SIDE, SIDE), dtype), self.normal((SIDE, SIDE), dtype)
        return self.repeat(lambda: x + y)

    def exp(self, dtype):
        x = self.normal((SIDE, SIDE), dtype)
        return self.repeat(lambda: self.t.exp(x))

    def gelu(self, dtype):
        x = self.normal((SIDE, SIDE), dtype)
        return self.repeat(lambda: self.t.nn.functional.gelu(x))

    def softmax(self, dtype, length):
        x = self.normal((SIDE * SIDE // length, length), dtype)
        return self.repeat(lambda: self.t.softmax(x, -1))

    def layer_norm(self, dtype):
        x, w, b = self.normal((SIDE, SIDE), dtype), self.normal((SIDE,), dtype), self.normal((SIDE,), dtype)
        return self.repeat(lambda: self.t.nn.functional.layer_norm(x, (SIDE,), w, b))

    def cumsum(self, dtype):
        x = self.normal((SIDE, SIDE), dtype)
        return self.repeat(lambda: self.t.cumsum(x, -1))

    def transpose(self, dtype):
        x = self.normal((SIDE, SIDE), dtype)
        return self.repeat(lambda: x.T.contiguous())

    def attention(self, batch, heads, queries, keys, size, causal):
        q = self.normal((batch, heads, queries, size), "bfloat16")
        k, v = (self.normal((batch, heads, keys, size), "bfloat16") for _ in range(2))
        from torch.nn.attention import SDPBackend, sdpa_kernel
        attend = self.t.nn.functional.scaled_dot_product_attention

        def run(count):
            with self.t.no_grad(), sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]):
                for _ in range(count):
                    attend(q, k, v, is_causal=causal)
            self.t.cuda.synchronize()
        return run

    def few_queries(self, batch, heads, each, queries, keys, size, copies):
        q = self.normal((batch, heads * each, queries, size), "bfloat16")
        many = [[self.normal((batch, heads, keys, size), "bfloat16") for _ in range(2)] for _ in range(copies)]
        attend = self.t.nn.functional.scaled_dot_product_attention
        return self.repeat(lambda: [attend(q, k, v, enable_gqa=each > 1) for k, v in many])

    def attention_gradient(self, batch, heads, length, size, causal):
        q, k, v, g = (self.normal((batch, heads, length, size), "bfloat16") for _ in range(4))
        from torch.nn.attention import SDPBackend, sdpa_kernel
        for x in (q, k, v):
            x.requires_grad_()

        def run(count):
            with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]):
                for _ in range(count):
                    y = self.t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
                    self.t.autograd.grad(y, (q, k, v), g)
            self.t.cuda.synchronize()
        return run

    def conv(self, dtype, shape, what):
        t, c = self.t, Convolution(*shape)
        x, w, g = (self.normal(s, dtype).permute(0, 3, 1, 2) for s in (c.x, c.w, c.y))
        if c.transposed:
            w = w.transpose(0, 1).contiguous(memory_format=t.channels_last)
        numbers = None, [c.stride] * 2, [c.padding] * 2, [1, 1], c.transposed, [0, 0], c.groups
        if what == "output":
            return self.repeat(lambda: t.ops.aten.convolution(x, w, *numbers))
        return self.repeat(lambda: t.ops.aten.convolution_backward(g, x, w, *numbers, [what == "input", what == "kernel", False]))

    def tiny(self):
        t, x = self.t, self.t.zeros(16, device="cuda")
        steps = [t.abs, t.exp, t.square, t.sin, t.cos, t.negative, t.tanh, t.sigmoid, t.floor, t.sqrt]

        def chain():
            y = x
            for i in range(TINY):
                y = steps[i % len(steps)](y)
        return self.repeat(chain)

    def mlp(self):
        t = self.t
        x, y = (t.from_numpy(a).cuda() for a in digits())
        y = y.long()
        net = t.nn.Sequential(t.nn.Linear(784, 128), t.nn.ReLU(), t.nn.Linear(128, 10)).cuda()
        optimizer = t.optim.SGD(net.parameters(), 0.1)

        def run(count):
            for _ in range(count):
                for i in range(0, 60000, 256):
                    optimizer.zero_grad()
                    t.nn.functional.cross_entropy(net(x[i:i + 256]), y[i:i + 256]).backward()
                    optimizer.step()
            t.cuda.synchronize()
        return run

    def upload(self):
        data = self.t.from_numpy(np.random.default_rng(0).standard_normal(1 << 20, np.float32))

        def run(count):
            for _ in range(count):
                data.cuda() + 1
                self.t.cuda.synchronize()
        return run

    def download(self):
        x = [self.normal((1 << 20,), "float32") for _ in range(64)]

        def run(count):
            for i in range(count):
                (x[i % 64] + 1).cpu()
        return run

    def spmv(self):
        t = self.t
        values, columns, rows = cycle(1 << 20)
        a = t.sparse_csr_tensor(t.from_numpy(rows), t.from_numpy(columns), t.from_numpy(values), (1 << 20, 1 << 20)).cuda()
        x = self.normal((1 << 20,), "float32")
        return self.repeat(lambda: a @ x)


class Jax:
    def __init__(self):
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        import jax
        import jax.numpy as jnp
        if jax.default_backend() != "gpu":
            raise ImportError("jax sees no GPU")
        self.j, self.n, self.version = jax, jnp, jax.__version__
        self.key = jax.random.key(0)

    def repeat(self, f, *arguments):
        g = self.j.jit(f)

        def run(count):
            for _ in range(count):
                y = g(*arguments)
            y.block_until_ready()
        return run

    def normal(self, shape, dtype):
        return self.j.random.normal(self.key, shape).astype(dtype).block_until_ready()

    def gemm(self, dtype, m, n, k):
        if dtype == "int8":
            a, b = (self.j.random.randint(self.key, s, -128, 128).astype("int8") for s in ((m, k), (n, k)))
            return self.repeat(lambda a, b: self.j.lax.dot(a, b.T, preferred_element_type="int32"), a, b)
        if dtype == "fp8":
            a, b = (self.normal(s, "float8_e4m3fn") for s in ((m, k), (n, k)))
            return self.repeat(lambda a, b: self.j.lax.dot(a, b.T, preferred_element_type="bfloat16"), a, b)
        return self.repeat(lambda a, b: a @ b, self.normal((m, k), dtype), self.normal((k, n), dtype))

    def linear(self, dtype, m, n, k):
        return self.repeat(lambda x, w, b: x @ w.T + b, *(self.normal(s, dtype) for s in ((m, k), (n, k), (n,))))

    def add(self, dtype):
        return self.repeat(lambda x, y: x + y, self.normal((SIDE, SIDE), dtype), self.normal((SIDE, SIDE), dtype))

    def exp(self, dtype):
        return self.repeat(self.n.exp, self.normal((SIDE, SIDE), dtype))

    def gelu(self, dtype):
        return self.repeat(lambda x: self.j.nn.gelu(x, approximate=False), self.normal((SIDE, SIDE), dtype))

    def softmax(self, dtype, length):
        return self.repeat(self.j.nn.softmax, self.normal((SIDE * SIDE // length, length), dtype))

    def layer_norm(self, dtype):
        def norm(x, w, b):
            wide = x.astype("float32")
            mean, var = wide.mean(-1, keepdims=True), wide.var(-1, keepdims=True)
            return ((wide - mean) * self.j.lax.rsqrt(var + 1e-5)).astype(x.dtype) * w + b
        return self.repeat(norm, self.normal((SIDE, SIDE), dtype), self.normal((SIDE,), dtype), self.normal((SIDE,), dtype))

    def cumsum(self, dtype):
        return self.repeat(lambda x: self.n.cumsum(x, -1), self.normal((SIDE, SIDE), dtype))

    def transpose(self, dtype):
        return self.repeat(lambda x: x.T, self.normal((SIDE, SIDE), dtype))

    def attention(self, batch, heads, queries, keys, size, causal):
        q = self.normal((batch, queries, heads, size), "bfloat16")
        k, v = (self.normal((batch, keys, heads, size), "bfloat16") for _ in range(2))
        attend = self.j.nn.dot_product_attention
        return self.repeat(lambda q, k, v: attend(q, k, v, is_causal=causal, implementation="cudnn"), q, k, v)

    def conv(self, dtype, shape, what):
        lax, c = self.j.lax, Convolution(*shape)
        x, w, g = (self.normal(s, dtype) for s in (c.x, c.w[1:] + c.w[:1], c.y))
        low = c.w[1] - 1 - c.padding if c.transposed else c.padding
        stride, gaps = ((1, 1), (c.stride,) * 2) if c.transposed else ((c.stride,) * 2, (1, 1))
        convolve = lambda x, w: lax.conv_general_dilated(x, w, stride, [(low, low)] * 2, lhs_dilation=gaps, precision="highest",
                                                         feature_group_count=c.groups, dimension_numbers=("NHWC", "HWIO", "NHWC"))
        if what == "input":
            return self.repeat(lambda x, w, g: self.j.vjp(lambda x: convolve(x, w), x)[1](g)[0], x, w, g)
        if what == "kernel":
            return self.repeat(lambda x, w, g: self.j.vjp(lambda w: convolve(x, w), w)[1](g)[0], x, w, g)
        return self.repeat(convolve, x, w)

    def tiny(self):
        n, x = self.n, self.n.zeros(16)
        steps = [n.abs, n.exp, n.square, n.sin, n.cos, n.negative, n.tanh, self.j.nn.sigmoid, n.floor, n.sqrt]

        def run(count):
            for _ in range(count):
                y = x
                for i in range(TINY):
                    y = steps[i % len(steps)](y)
                y.block_until_ready()
        return run

    def mlp(self):
        j, n = self.j, self.n
        x, t = (n.asarray(a) for a in digits())
        w = [self.normal(s, "float32") * 0.05 for s in ((784, 128), (128,), (128, 10), (10,))]

        def loss(w, x, t):
            y = n.maximum(x @ w[0] + w[1], 0) @ w[2] + w[3]
            return n.mean(j.nn.logsumexp(y, -1) - n.take_along_axis(y, t[:, None], -1)[:, 0])

        @j.jit
        def step(w, x, t, i):
            rows = j.lax.dynamic_slice_in_dim(x, i, 256), j.lax.dynamic_slice_in_dim(t, i, 256)
            return [a - 0.1 * g for a, g in zip(w, j.grad(loss)(w, *rows))]

        def run(count):
            nonlocal w
            for _ in range(count):
                for i in range(0, 60000, 256):
                    w = step(w, x, t, i)
                w[0].block_until_ready()
        return run

    def upload(self):
        data, g = np.random.default_rng(0).standard_normal(1 << 20, np.float32), self.j.jit(lambda x: x + 1)

        def run(count):
            for _ in range(count):
                g(data).block_until_ready()
        return run

    def download(self):
        x, g = [self.normal((1 << 20,), "float32") for _ in range(64)], self.j.jit(lambda x: x + 1)

        def run(count):
            for i in range(count):
                np.asarray(g(x[i % 64]))
        return run


SETTINGS = {"zellige": {"ZL_DEVICE": "cuda"}, "zellige_own": {"ZL_DEVICE": "cuda", "ZL_CUDA_LIBRARIES": "0"},
            "zellige_unfused": {"ZL_DEVICE": "cuda", "ZL_FUSE": "0"}, "vulkan": {"ZL_DEVICE": "vulkan"},
            "vulkan_unfused": {"ZL_DEVICE": "vulkan", "ZL_FUSE": "0"}}
LIBRARIES = {"torch": Torch, "jax": Jax, "mlx": Mlx} | {name: Zellige for name in SETTINGS}
