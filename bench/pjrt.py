"""pjrt.py - the device pjrt beside JAX on one GPU: products, a tiny compiled function, an epoch of training, copies.

    cc -O2 -Iinclude bench/pjrt.c -o build/bench_pjrt -Lbuild -lzellige -lm -Wl,-rpath,$PWD/build
    python3 bench/pjrt.py build/bench_pjrt --seed 28

Both are processes of their own, which take turns with each case; the least time of the rounds counts. Each has its own numbers, so results are not
compared here: the tests of ops do that. A case's time is by the host's clock, around calls of which the last is waited for.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import time

FIXED = [(1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (512, 4096, 4096)]


def shapes(seed):
    draw = random.Random(seed)
    return FIXED + [tuple(128 * draw.randint(2, 48) for _ in range(3)) for _ in range(5)]


class Jax:
    def __init__(self):
        import jax
        import jax.numpy as jnp
        import numpy

        self.jax, self.jnp, self.numpy = jax, jnp, numpy
        self.kept = {}

    def normal(self, shape, dtype="float32", scale=1.0):
        self.seed = getattr(self, "seed", 0) + 1
        x = self.jax.random.normal(self.jax.random.key(self.seed), shape, "float32") * scale
        return x.astype(dtype).block_until_ready()

    def products(self, f, a, b, calls):
        begin = time.perf_counter()
        for _ in range(calls):
            y = f(a, b)
        y.block_until_ready()
        return (time.perf_counter() - begin) / calls

    def gemm(self, dtype, m, k, n):
        m, k, n = int(m), int(k), int(n)
        f = self.jax.jit(lambda a, b: self.jnp.matmul(a, b, precision="highest"))
        a, b = self.normal((m, k), dtype), self.normal((k, n), dtype)
        self.products(f, a, b, 3)
        one = self.products(f, a, b, 5)
        return self.products(f, a, b, int(min(2000, max(5, 0.1 / one))))

    def tiny(self):
        f = self.jax.jit(lambda x: x * 0.5 + 1)
        x = self.normal((16,))
        for i in range(-300, 3000):
            if i == 0:
                x.block_until_ready()
                begin = time.perf_counter()
            x = f(x)
        x.block_until_ready()
        return (time.perf_counter() - begin) / 3000

    def mlp(self):
        jax, jnp, steps, batch = self.jax, self.jnp, 468, 128
        widths = [784, 256, 256, 10]
        p = []
        for i in range(3):
            p += [self.normal((widths[i], widths[i + 1]), scale=0.05), self.normal((widths[i + 1],), scale=0.01)]
        x, y = self.normal((steps * batch, 784)), self.normal((steps * batch, 10))

        def loss(p, x, y):
            for i in range(3):
                x = jnp.matmul(x, p[2 * i], precision="highest") + p[2 * i + 1]
                x = jnp.tanh(x) if i < 2 else x
            return jnp.mean(jnp.square(x - y))

        def step(p, x, y, at):
            x = jax.lax.dynamic_slice_in_dim(x, at, batch)
            y = jax.lax.dynamic_slice_in_dim(y, at, batch)
            value, g = jax.value_and_grad(loss)(p, x, y)
            return [a - 0.01 * b for a, b in zip(p, g)], value

        step = jax.jit(step, donate_argnums=0)
        for _ in range(2):
            begin = time.perf_counter()
            for i in range(steps):
                p, value = step(p, x, y, i * batch)
            float(value)
        return time.perf_counter() - begin

    def up(self):
        data, took = self.numpy.arange(16 << 20, dtype="float32"), 0
        for i in range(-2, 8):
            begin = time.perf_counter()
            x = self.jax.device_put(data)
            (x[5:6] + 1).block_until_ready()
            took += 0 if i < 0 else time.perf_counter() - begin
        return took / 8

    def down(self):
        took = 0
        for i in range(-2, 8):
            x = (self.jnp.zeros(16 << 20, "float32") + i).block_until_ready()
            begin = time.perf_counter()
            y = self.numpy.asarray(x)
            assert y[-1] == i
            took += 0 if i < 0 else time.perf_counter() - begin
        return took / 8


def serve_jax():
    jax = Jax()
    print("jax", jax.jax.__version__, jax.jax.devices()[0].device_kind, file=sys.stderr)
    for line in sys.stdin:
        name, *words = line.split()
        print(getattr(jax, name)(*words), flush=True)


def begin(process, case):
    process.stdin.write(case + "\n")
    process.stdin.flush()


def answer(process, case):
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"{case}: a process ended")
    return float(line)


def ask(process, case):
    begin(process, case)
    return answer(process, case)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program", help="bench/pjrt.c, compiled; 'jax' is JAX's own process")
    p.add_argument("--seed", type=int, default=28)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--only", help="cases that begin with this")
    p.add_argument("--shapes", help="of products, such as 64x128x256,...: instead of the fixed and the drawn ones")
    p.add_argument("--dtypes", default="bfloat16,float32", help="of products")
    o = p.parse_args()
    if o.program == "jax":
        return serve_jax()
    grow = dict(os.environ, XLA_PYTHON_CLIENT_PREALLOCATE="false")
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    ours = subprocess.Popen([o.program], **pipes)
    jax = subprocess.Popen([sys.executable, __file__, "jax"], env=grow, **pipes)
    cases = ["tiny", "mlp", "up", "down"]
    given = [shape.split("x") for shape in o.shapes.split(",")] if o.shapes else shapes(o.seed)
    for dtype in o.dtypes.split(","):
        cases += [f"gemm {dtype} {m} {k} {n}" for m, k, n in given]
    ratios = {}
    for case in cases:
        if o.only and not case.startswith(o.only):
            continue
        for process in (ours, jax):  # both compile, and tune, side by side
            begin(process, case)
        for process in (ours, jax):
            answer(process, case)
        times = [(ask(ours, case), ask(jax, case)) for _ in range(o.rounds)]
        a, b = (min(column) for column in zip(*times))
        if case.startswith("gemm"):
            ratios.setdefault(case.split()[1], []).append(b / a)
        print(f"{case:34} {a * 1e6:12.1f} us  jax {b * 1e6:12.1f} us  {b / a:5.2f} of jax's speed", flush=True)
    for dtype, list in ratios.items():
        print(f"gemm {dtype}: median of {len(list)} shapes {statistics.median(list):.3f} of jax's speed")
    for process in (ours, jax):
        process.stdin.close()
        process.wait()


if __name__ == "__main__":
    main()
