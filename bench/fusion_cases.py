"""fusion_cases.py - what bench/fusion.py times, written in each library as its users write it.

A library is a class: case(name) gives a function that computes the case once and waits for it, and a number that all
libraries must agree on. Inputs are the same for all.
"""

import math
import os
import threading

import numpy as np

ADAMW_SIZE = 16 << 20
RATE, BETA1, BETA2, EPSILON, DECAY = 1e-3, 0.9, 0.999, 1e-8, 0.01
LAYERS, BATCH = (784, 512, 512, 10), 256

SHAPES = {
    "gelu tanh": ((4096, 1024), (256, 10)),
    "gelu erf": ((4096, 1024), (256, 10)),
    "swiglu": ((4096, 1024), (256, 10)),
    "cross-entropy": ((4096, 1024), (256, 10), (512, 50257)),
}
PASSES = ("forward", "backward")


def split(name):
    """"gelu tanh 4096x1024 forward" as its function, shape and pass."""
    *function, shape, which = name.split()
    return " ".join(function), tuple(int(n) for n in shape.split("x")), which


def names():
    return [f"{function} {'x'.join(map(str, shape))} {which}" for function, shapes in SHAPES.items()
            for shape in shapes for which in PASSES]


def inputs_of(name):
    """NumPy arrays: what is differentiated by first."""
    random = np.random.default_rng(1)
    if name == "adamw":
        p, g, m, v = (random.standard_normal(ADAMW_SIZE, np.float32) for _ in range(4))
        return [p, g, m * 0.1, v * v]
    if name == "mlp step":
        sizes = list(zip(LAYERS, LAYERS[1:]))
        weights = [random.standard_normal(size, np.float32) / math.sqrt(size[0]) for size in sizes]
        biases = [np.zeros(size[1], np.float32) for size in sizes]
        return weights + biases + [random.standard_normal((BATCH, LAYERS[0]), np.float32),
                                   random.integers(0, LAYERS[-1], BATCH).astype(np.int32)]
    function, shape, _ = split(name)
    x = random.standard_normal(shape, np.float32)
    if function == "cross-entropy":
        return [x, random.integers(0, shape[1], shape[0]).astype(np.int32)]
    return [x, random.standard_normal(shape, np.float32)] if function == "swiglu" else [x]


class Arrays:
    """zellige.core and mlx.core: the same calls."""

    def __init__(self, m, version):
        self.m, self.version = m, version

    def function(self, name):
        m = self.m
        return {
            "gelu tanh": lambda x: 0.5 * x * (1 + m.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
            "gelu erf": lambda x: x * (1 + m.erf(x / math.sqrt(2))) / 2,
            "swiglu": lambda x, y: x * m.sigmoid(x) * y,
            "cross-entropy": lambda x, y: m.logsumexp(x, -1) - m.take_along_axis(x, y[:, None], -1).squeeze(-1),
        }[name]

    def case(self, name):
        arrays = [self.m.array(a) for a in inputs_of(name)]
        self.m.eval(arrays)
        if name == "adamw":
            return self.adamw(arrays)
        if name == "mlp step":
            return self.mlp(arrays)
        function, _, which = split(name)
        f = self.function(function)
        count = 2 if function == "swiglu" else 1
        if which == "backward":
            f = self.m.value_and_grad(lambda *a: self.function(function)(*a).sum(), argnums=list(range(count)))
        f = self.m.compile(f)

        def run():
            out = f(*arrays)
            self.m.eval(out)
            return out

        return run, lambda out: out[0].item() if which == "backward" else out.sum().item()

    def adamw(self, arrays):
        m = self.m

        def update(p, g, mean, square):
            mean = BETA1 * mean + (1 - BETA1) * g
            square = BETA2 * square + (1 - BETA2) * m.square(g)
            return p * (1 - RATE * DECAY) - RATE * mean / (m.sqrt(square) + EPSILON), mean, square

        update = m.compile(update)
        p, g, mean, square = arrays
        arrays.clear()
        state = [p, mean, square]
        del p, mean, square

        def run():
            state[:] = update(state[0], g, state[1], state[2])
            m.eval(state)
            return state[0]

        return run, lambda p: p[:1000].sum().item()

    def mlp(self, arrays):
        m, count = self.m, len(LAYERS) - 1
        params, (x, labels) = arrays[:-2], arrays[-2:]

        def loss(params):
            h = x
            for i in range(count):
                h = h @ params[i] + params[count + i]
                h = m.maximum(h, 0) if i + 1 < count else h
            return self.function("cross-entropy")(h, labels).mean()

        def step():
            value, grads = m.value_and_grad(loss)(params)
            params[:] = [p - 0.01 * g for p, g in zip(params, grads)]
            return value

        compiled = m.compile(step, inputs=params, outputs=params)

        def run():
            value = compiled()
            m.eval(value, params)
            return value

        return run, lambda value: value.item()


class Torch:
    def __init__(self, compiled):
        import torch
        self.torch, self.compiled, self.version = torch, compiled, torch.__version__
        torch.set_num_threads(int(os.environ["ZL_THREADS"]))

    def maybe(self, f):
        return self.torch.compile(f) if self.compiled else f

    def function(self, name):
        F = self.torch.nn.functional
        return {
            "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
            "gelu erf": lambda x: F.gelu(x),
            "swiglu": lambda x, y: F.silu(x) * y,
            "cross-entropy": lambda x, y: F.cross_entropy(x, y, reduction="none"),
        }[name]

    def case(self, name):
        arrays = [self.torch.from_numpy(a) for a in inputs_of(name)]
        arrays = [a.long() if a.dtype == self.torch.int32 else a for a in arrays]
        if name == "adamw":
            return self.adamw(arrays)
        if name == "mlp step":
            return self.mlp(arrays)
        function, _, which = split(name)
        f = self.function(function)
        if which == "forward":
            f = self.maybe(f)
            return lambda: f(*arrays), lambda out: out.sum().item()
        wanted = arrays if function == "swiglu" else arrays[:1]
        for a in wanted:
            a.requires_grad_()
        total = self.maybe(lambda *a: f(*a).sum())

        def run():
            value = total(*arrays)
            self.torch.autograd.grad(value, wanted)
            return value

        return run, lambda value: value.item()

    def adamw(self, arrays):
        p, g, mean, square = arrays
        if not self.compiled:  # the optimizer's fused kernel, which changes its arrays in place
            parameter = self.torch.nn.Parameter(p)
            parameter.grad = g
            optimizer = self.torch.optim.AdamW([parameter], RATE, (BETA1, BETA2), EPSILON, DECAY, fused=True)

            def run():
                optimizer.step()
                return parameter

            return run, None

        def update(p, g, mean, square):
            mean.mul_(BETA1).add_(g, alpha=1 - BETA1)
            square.mul_(BETA2).addcmul_(g, g, value=1 - BETA2)
            p.mul_(1 - RATE * DECAY).sub_(RATE * mean / (square.sqrt() + EPSILON))

        update = self.torch.compile(update)

        def run():
            update(p, g, mean, square)
            return p

        return run, lambda p: p[:1000].sum().item()

    def mlp(self, arrays):
        torch, F, count = self.torch, self.torch.nn.functional, len(LAYERS) - 1
        params, (x, labels) = [a.requires_grad_() for a in arrays[:-2]], arrays[-2:]
        optimizer = torch.optim.SGD(params, 0.01)

        def loss(x, labels):
            h = x
            for i in range(count):
                h = torch.addmm(params[count + i], h, params[i])
                h = F.relu(h) if i + 1 < count else h
            return F.cross_entropy(h, labels)

        loss, update = self.maybe(loss), self.maybe(optimizer.step)

        def run():
            value = loss(x, labels)
            optimizer.zero_grad()
            value.backward()
            update()
            return value

        return run, lambda value: value.item()


class Jax:
    def __init__(self):
        import jax
        self.jax, self.version = jax, jax.__version__

    def function(self, name):
        jax, jnp = self.jax, self.jax.numpy
        return {
            "gelu tanh": lambda x: jax.nn.gelu(x, approximate=True),
            "gelu erf": lambda x: jax.nn.gelu(x, approximate=False),
            "swiglu": lambda x, y: jax.nn.silu(x) * y,
            "cross-entropy": lambda x, y: jax.nn.logsumexp(x, -1) - jnp.take_along_axis(x, y[:, None], axis=-1)[:, 0],
        }[name]

    def case(self, name):
        arrays = [self.jax.numpy.asarray(a) for a in inputs_of(name)]
        if name == "adamw":
            return self.adamw(arrays)
        if name == "mlp step":
            return self.mlp(arrays)
        function, _, which = split(name)
        f = self.function(function)
        if which == "backward":
            count = 2 if function == "swiglu" else 1
            f = self.jax.value_and_grad(lambda *a: self.function(function)(*a).sum(), argnums=tuple(range(count)))
        f = self.jax.jit(f)
        value = (lambda out: float(out[0])) if which == "backward" else lambda out: float(out.sum())
        return lambda: self.jax.block_until_ready(f(*arrays)), value

    def adamw(self, arrays):
        def update(p, g, mean, square):
            mean = BETA1 * mean + (1 - BETA1) * g
            square = BETA2 * square + (1 - BETA2) * g * g
            return p * (1 - RATE * DECAY) - RATE * mean / (self.jax.numpy.sqrt(square) + EPSILON), mean, square

        update = self.jax.jit(update, donate_argnums=(0, 2, 3))
        g, state = arrays[1], [arrays[0], arrays[2], arrays[3]]

        def run():
            state[:] = self.jax.block_until_ready(update(state[0], g, state[1], state[2]))
            return state[0]

        return run, lambda p: float(p[:1000].sum())

    def mlp(self, arrays):
        jax, jnp, count = self.jax, self.jax.numpy, len(LAYERS) - 1
        x, labels = arrays[-2:]

        def loss(params, x, labels):
            h = x
            for i in range(count):
                h = h @ params[i] + params[count + i]
                h = jnp.maximum(h, 0) if i + 1 < count else h
            return self.function("cross-entropy")(h, labels).mean()

        def step(params, x, labels):
            value, grads = jax.value_and_grad(loss)(params, x, labels)
            return [p - 0.01 * g for p, g in zip(params, grads)], value

        step = jax.jit(step, donate_argnums=0)
        state = [arrays[:-2]]

        def run():
            state[0], value = jax.block_until_ready(step(state[0], x, labels))
            return value

        return run, lambda value: float(value)


class Copy:
    """The machine's limit: an array of AdamW's size copied by two threads, so often that it takes as long as an update."""

    version, TIMES = np.__version__, 4

    def case(self, name):
        a, b = np.ones(ADAMW_SIZE, np.float32), np.zeros(ADAMW_SIZE, np.float32)
        start, end = threading.Barrier(2), threading.Barrier(2)

        def copy(part):
            for _ in range(self.TIMES):
                np.copyto(np.split(b, 2)[part], np.split(a, 2)[part])

        def work():
            while True:
                start.wait()
                copy(1)
                end.wait()

        threading.Thread(target=work, daemon=True).start()

        def run():
            start.wait()
            copy(0)
            end.wait()

        return run, None


def zellige():
    import zellige.core
    return Arrays(zellige.core, zellige.core.__version__)


def mlx():
    import mlx.core
    return Arrays(mlx.core, mlx.core.__version__)


LIBRARIES = {"zellige": zellige, "torch": lambda: Torch(False), "torch.compile": lambda: Torch(True), "jax": Jax,
             "mlx": mlx, "copy": Copy}
