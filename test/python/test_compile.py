# test_compile.py - compiled functions of Python: what they are told apart by, captured trees, who keeps what alive.

import gc
import threading
import unittest
import weakref
from collections import namedtuple
from functools import partial

import zellige.core as zl


def counting(fun, **options):
    """The compiled function, and a list that grows when it runs."""
    runs = []

    def body(*args, **kwargs):
        runs.append(1)
        return fun(*args, **kwargs)

    return zl.compile(body, **options), runs


class Kinds(unittest.TestCase):
    def test_arguments_that_are_no_arrays(self):
        f, runs = counting(lambda x, y: x + 1)
        x = zl.array(1.0)
        kinds = [1, 2, True, 1.0, -0.0, 0.0, 2**70, "a", "ab", None]
        kinds += [(1, 2), [1, 2], (1, (2,)), {"a": 1}, {"b": 1}, (), []]
        for _ in range(2):
            for kind in kinds:
                f(x, kind)
        self.assertEqual(len(runs), len(kinds))

    def test_trees_and_keywords(self):
        Pair = namedtuple("Pair", "a b")
        f, runs = counting(lambda p, *, z: Pair(p.a + z["z"], [p.b, None, "text"]))
        for i in range(3):
            y = f(Pair(zl.array(i), zl.array([1.0])), z={"z": zl.array(2)})
            self.assertIsInstance(y, Pair)
            self.assertEqual((y.a.item(), y.b[0].tolist(), y.b[1:]), (i + 2, [1], [None, "text"]))
        self.assertEqual(len(runs), 1)

    def test_what_cannot_be_told_apart(self):
        f = zl.compile(lambda x, y: x)
        for bad in (object(), zl.float32, {1, 2}, 1j, b"bytes", zl.random.state):
            with self.assertRaises(ValueError):
                f(zl.array(1), bad)

    def test_attributes(self):
        def named(x):
            "What it does."

        f = zl.compile(named)
        self.assertEqual((f.__name__, f.__doc__, f.__wrapped__ if hasattr(f, "__wrapped__") else None),
                         ("named", "What it does.", None))
        with self.assertRaises(TypeError):
            zl.compile(3)

    def test_switched_off(self):
        f, runs = counting(lambda x: x + 1)
        try:
            zl.disable_compile()
            f(zl.array(1)), f(zl.array(1))
            self.assertEqual(len(runs), 2)
        finally:
            zl.enable_compile()
        f(zl.array(1)), f(zl.array(1))
        self.assertEqual(len(runs), 3)

    def test_threads(self):
        f, runs = counting(lambda x: x * 2)
        wrong = []

        def work():
            for i in range(100):
                if f(zl.array(i)).item() != 2 * i:
                    wrong.append(i)

        threads = [threading.Thread(target=work) for _ in range(4)]
        [t.start() for t in threads], [t.join() for t in threads]
        self.assertEqual(wrong, [])
        self.assertLessEqual(len(runs), 4)


class Captured(unittest.TestCase):
    def test_state(self):
        state = {"count": zl.array(0), "list": [zl.array([1.0, 2.0])]}

        @partial(counting, inputs=state, outputs=state)
        def pair(x):
            state["count"] += 1
            state["list"][0] = state["list"][0] * x
            return state["list"][0].sum()

        step, runs = pair
        self.assertEqual([step(zl.array(2.0)).item() for _ in range(3)], [6, 12, 24])
        self.assertEqual((state["count"].item(), state["list"][0].tolist()), (3, [8, 16]))
        self.assertEqual(len(runs), 1)
        state["list"][0] = zl.array([1.0, 1.0])
        self.assertEqual(step(zl.array(3.0)).item(), 6)
        state["list"].append(zl.array(1))
        step(zl.array(2.0))
        self.assertEqual(len(runs), 2)

    def test_inputs_are_put_back(self):
        x = zl.array(2)
        state = [x, (x, {"x": x})]
        self.assertEqual(zl.compile(lambda y: y + state[0] + state[1][1]["x"], inputs=state)(zl.array(1)).item(), 5)
        self.assertIs(state[0], x)

    def test_failure_leaves_nothing_behind(self):
        key = zl.random.state[0].tolist()
        state = {"x": zl.array(2), "s": zl.random.state}

        @partial(zl.compile, inputs=state, outputs=state)
        def f(fails):
            state["x"] = state["x"] + 1
            zl.random.uniform()
            if fails:
                raise KeyError("told to")
            return state["x"]

        for _ in range(2):
            with self.assertRaises(KeyError):
                f(True)
            self.assertEqual(state["x"].item(), 2)
            self.assertEqual(zl.random.state[0].tolist(), key)
        self.assertEqual(f(False).item(), 3)
        self.assertEqual(state["x"].item(), 3)
        self.assertNotEqual(zl.random.state[0].tolist(), key)

    def test_random_state_is_the_same_as_without(self):
        draw = lambda: zl.random.normal((3,)) + zl.random.uniform(shape=(3,))
        compiled = zl.compile(draw, inputs=zl.random.state, outputs=zl.random.state)
        zl.random.seed(3)
        plain = [draw().tolist() for _ in range(3)]
        zl.random.seed(3)
        self.assertEqual([compiled().tolist() for _ in range(3)], plain)

    def test_evaluation_inside(self):
        for read in (zl.eval, lambda y: y.item(), lambda y: y.tolist(), bool, float, zl.async_eval):
            def f(x):
                y = x + 1
                read(y)
                return y

            with self.assertRaises(ValueError):
                zl.compile(f)(zl.array(1.0))


class Nested(unittest.TestCase):
    def test_transforms(self):
        x = zl.array([1.0, 2.0, 3.0])
        f = lambda x: (zl.exp(x) * x).sum()
        inner = zl.compile(f)
        want = zl.grad(f)(x).tolist()
        once = zl.compile(zl.grad(inner))
        for g in (zl.grad(inner), zl.compile(zl.grad(f)), once, zl.compile(once)):
            for _ in range(2):
                self.assertEqual(g(x).tolist(), want)
        rows = zl.array([[1.0, 2.0], [3.0, 4.0]])
        self.assertEqual(zl.vmap(inner)(rows).tolist(), zl.compile(zl.vmap(f))(rows).tolist())

    def test_custom_function(self):
        @zl.custom_function
        def f(x):
            return x * 2

        @f.vjp
        def f_vjp(x, cotangent, output):
            return cotangent * 10

        self.assertEqual(zl.compile(f)(zl.array(3.0)).item(), 6)
        self.assertEqual(zl.grad(zl.compile(f))(zl.array(3.0)).item(), 10)
        self.assertEqual(zl.compile(zl.grad(f))(zl.array(3.0)).item(), 10)

    def test_shapeless(self):
        ops = {
            "mean": lambda x: zl.mean(x, axis=0),
            "var": lambda x: zl.var(x, axis=1, ddof=1),
            "softmax": lambda x: zl.softmax(x, -1),
            "like": lambda x: zl.zeros_like(x) + zl.full((1,), 2.0),
            "part": lambda x: x[:1, ::2],
            "transpose": lambda x: x.T @ x,
            "layer_norm": lambda x: zl.fast.layer_norm(x, None, None, 1e-5),
            "flatten": lambda x: x.flatten(),
            "grad": zl.grad(lambda x: (zl.mean(x, axis=0, keepdims=True) * x).sum()),
            "concatenate": lambda x: zl.concatenate([x, x]),
            "vmap": zl.vmap(lambda r: zl.mean(r) + zl.zeros_like(r), in_axes=1, out_axes=1),
            "sort": lambda x: zl.sort(x, axis=0),
            "broadcast": lambda x: zl.broadcast_arrays(x, x[:1])[1],
        }
        for name, f in ops.items():
            compiled, runs = counting(f, shapeless=True)
            for shape in ((2, 3), (5, 4), (3, 1), (1, 6)):
                x = zl.random.normal(shape)
                y, want = compiled(x), f(x)
                self.assertEqual(y.shape, want.shape, name)
                self.assertTrue(zl.allclose(y, want, 1e-5, 1e-6, equal_nan=True).item(), name)
            self.assertEqual(len(runs), 1, name)

    def test_shapeless_of_ops_that_read_sizes(self):
        def square(n):
            return zl.random.normal((n, n), key=zl.random.key(n)) + 4 * zl.eye(n)

        def one(n):
            return [zl.random.normal((n, n + 1), key=zl.random.key(n))]

        def heads(n):
            return [zl.random.normal((2, 2, n, 8), key=zl.random.key(i)) for i in range(3)]

        key = zl.random.key(3)
        cases = {
            "tril": (lambda x: zl.tril(x, -1) + zl.triu(x, 1), one), "tile": (lambda x: zl.tile(x, (2, 3)), one),
            "repeat": (lambda x: zl.repeat(x, 3, axis=1), one), "roll": (lambda x: zl.roll(x, 2, axis=0), one),
            "diagonal": (lambda x: zl.diagonal(x) + zl.trace(x), one), "last": (lambda x: x[-1] + x[-2], one),
            "median": (lambda x: zl.median(x, axis=1), one), "split": (lambda x: zl.split(x, [1], axis=1)[1], one),
            "meshgrid": (lambda x, y: zl.meshgrid(x, y)[0], lambda n: [zl.arange(n) * 1.0, zl.arange(n + 1) * 1.0]),
            "rope": (lambda q, k, v: zl.fast.rope(q, 8, traditional=False, base=1e4, scale=1.0, offset=2), heads),
            "attention": (lambda q, k, v: zl.fast.scaled_dot_product_attention(q, k, v, scale=0.3, mask="causal"), heads),
            "einsum": (lambda x: zl.einsum("ij,kj,kl->il", x, x, x), one),
            "tensordot": (lambda x: zl.tensordot(x, x, [[0, 1], [0, 1]]), one),
            "fft": (lambda x: zl.fft.irfft(zl.fft.rfft(x, n=8)), one), "shift": (zl.fft.fftshift, one),
            "hadamard": (zl.hadamard_transform, lambda n: [zl.random.normal((2, 4 * n), key=key)]),
            "solve": (lambda a: zl.linalg.solve(a, a[:, :2], stream=zl.cpu), lambda n: [square(n)]),
            "pinv": (lambda x: zl.linalg.pinv(x, stream=zl.cpu), one),
            "categorical": (lambda x: zl.random.categorical(x, key=key), one),
            "permutation": (lambda x: zl.random.permutation(x, key=key), one),
            "quantized": (lambda x, w: zl.quantized_matmul(x, *zl.quantize(w)),
                          lambda n: [zl.random.normal((2, n, 64 * n), key=key), zl.random.normal((32, 64 * n), key=key)]),
            "convolutions": (lambda x, w: zl.conv_transpose1d(x, w, stride=2),
                             lambda n: [zl.random.normal((1, n, 2), key=key), zl.random.normal((3, n, 2), key=key)]),
        }
        for name, (f, make) in cases.items():
            for kind in ("plain", "grad", "grad of grad", "vmap"):
                total = lambda *a, f=f: (f(*a).astype(zl.float32) ** 2).sum()  # noqa: E731
                g = {"plain": f, "grad": zl.grad(total), "grad of grad": zl.grad(lambda *a, t=total: (zl.grad(t)(*a) ** 2).sum()),
                     "vmap": lambda *a, f=f: zl.vmap(f)(*[zl.stack([x, x]) for x in a])}[kind]
                with self.subTest(f"{kind} of {name}"):
                    try:
                        want = g(*make(5))
                    except ValueError: # it has no derivative, or none of that
                        continue
                    compiled, runs = counting(g, shapeless=True)
                    compiled(*make(4))
                    got = compiled(*make(5))
                    self.assertEqual(got.shape, want.shape)
                    self.assertTrue(zl.allclose(got, want, 1e-3, 1e-3, equal_nan=True).item())
                    self.assertEqual(len(runs), 1)

    def test_shapeless_says_what_cannot_follow(self):
        compiled = zl.compile(lambda x: zl.unstack(x)[0], shapeless=True)
        compiled(zl.ones((3, 2)))
        with self.assertRaisesRegex(ValueError, "gave 3 parts"):
            compiled(zl.ones((4, 2)))


class Lives(unittest.TestCase):
    def test_cycles_are_collected(self):
        class Owner:
            pass

        owner = Owner()
        owner.x = zl.array([1.0])
        owner.f = zl.compile(lambda y: (y + owner.x, owner))
        self.assertIs(owner.f(zl.array([2.0]))[1], owner)
        alive = weakref.ref(owner)
        del owner
        gc.collect()
        self.assertIsNone(alive())

    def test_inputs_are_not_kept(self):
        f = zl.compile(lambda x: zl.sin(x) + 1)
        zl.eval(f(zl.zeros((1000,))))
        gc.collect()
        before = zl.get_active_memory()
        for _ in range(3):
            zl.eval(f(zl.zeros((1000,))))
        self.assertEqual(zl.get_active_memory(), before)

    def test_captured_arrays_go_with_the_function(self):
        before = zl.get_active_memory()
        x = zl.ones((5000,))
        zl.eval(x)
        f = zl.compile(lambda y: y + x.sum())
        f(zl.array(1.0)).item()
        del f, x
        gc.collect()
        self.assertLessEqual(zl.get_active_memory(), before)


if __name__ == "__main__":
    unittest.main()
