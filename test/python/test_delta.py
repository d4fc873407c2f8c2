"""fast.delta_rule: every rule against its recurrence, token by token in float64, with states, gradients, masks, packed sequences, batches;
and against FLA's reference recurrences (delta_vectors.npz, which delta_vectors.py made)."""

import os
import pathlib
import unittest

import numpy as np

import zellige.core as mx

LONG = bool(os.environ.get("ZL_LONG"))
TOKEN, CHUNK = 2e-6, 2e-5  # relative rms errors in float32: of the token kernel, and of derivatives, which are taken by chunks


def unit(x):
    return x * mx.rsqrt((x * x).sum(-1, keepdims=True) + 1e-6)


# Formulas of one token. s: the states (B, N, K, V); each other (B, N, K), (B, N, V), (B, N) or (B, N, 1), with the heads of v.
def read(s, q):
    return (s * q[..., None]).sum(-2)


def outer(k, v):
    return k[..., None] * v[..., None, :]


def decayed(s, g):
    return s * mx.exp(g if g.ndim == 4 else g[..., None])


def linear(s, t):
    return s + outer(t.k, t.v)


def with_decay(s, t):
    return decayed(s, t.g) + outer(t.k, t.v)


def corrected(s, k, v, beta):
    return s + outer(k, (v - read(s, k)) * beta)


def delta(s, t):
    return corrected(s, t.k, t.v, t.beta)


def gated_delta(s, t):
    return corrected(decayed(s, t.g), t.k, t.v, t.beta)


def gdn2(s, t):
    s = decayed(s, t.g)
    return s + outer(t.k, t.b * t.v - read(s, t.a * t.k))


def precond(s, t):
    t.gathered = mx.exp(t.a) * t.gathered + t.b * t.k * t.k
    r = mx.log(t.gathered + 1e-6) + 0.2
    s = decayed(s, t.g)
    return s + outer(t.k * mx.exp(-r / (1 + mx.abs(r)) * float(np.log(1.5))), (t.v - read(s, t.k)) * t.beta)


def comba(s, t):
    return decayed(s, t.g) + outer(t.k, (t.v - read(s, t.a)) * t.beta)


def dplr(s, t):
    return decayed(s, t.g) + outer(t.b, read(s, t.a)) + outer(t.k, t.v)


def iplr(s, t):
    return s + outer(t.b, read(s, t.a)) + outer(t.k, t.v)


def product(s, t):
    s = decayed(s, t.g)
    for k, v, beta in zip(t.each_k, t.each_v, t.each_beta):
        s = corrected(s, k, v, beta)
    return s


def oja(s, t):
    s = s * mx.exp(t.g)[..., None, :]
    return s + outer(t.k - (s * t.v[..., None, :]).sum(-1), t.beta * t.v)


def momentum(s, t):  # S above M
    keys = s.shape[-2] // 2
    top, low = s[..., :keys, :], s[..., keys:, :]
    low = decayed(low, t.b[..., :1]) - outer(t.k * t.b[..., 1:], t.v - read(top, t.a))
    return mx.concatenate([decayed(top, t.g) - t.beta[..., None] * low, low], -2)


# rule: its formula, and what it takes beside q, k and v: shapes of H and N heads.
RULES = {
    "linear": (linear, ""), "linear_normalized": (linear, ""), "retention": (with_decay, ""), "simple_gla": (with_decay, "gN"),
    "gla": (with_decay, "gNK"), "delta": (delta, "betaN"), "gated_delta": (gated_delta, "gN betaN"), "kda": (gated_delta, "gNK betaN"),
    "gdn2": (gdn2, "gNK aNK bNV"), "precond_gated_delta": (precond, "gN betaN aH bH"), "precond_kda": (precond, "gNK betaN aHK bH"),
    "comba": (comba, "gN betaN aHK"), "dplr": (dplr, "gNK aHK bHK"), "iplr": (iplr, "aHK bHK"),
    "gated_delta_product": (product, "gN betaN"), "gated_oja": (oja, "gNV betaN"),
    "momentum_delta": (momentum, "gN betaN aHK bN2"),
}


class Token:
    pass


def reference(rule, x, updates=1, scale=None):
    """The outputs and the last state in the dtype of x, which is a dict of arrays."""
    heads = x["v"].shape[2]
    full = lambda a: mx.repeat(a, heads // a.shape[2], 2)  # noqa: E731
    every = {name: full(a) if name not in ("initial_state", "mask") else a for name, a in x.items()}
    s, t, out = x["initial_state"], Token(), []
    t.gathered = 0
    normal = mx.zeros_like(s[..., :x["q"].shape[-1], 0])
    for i in range(x["q"].shape[1]):
        for name, a in every.items():
            if name not in ("initial_state", "mask"):
                value = a[:, min(i, a.shape[1] - 1)]
                setattr(t, name, value[..., None] if value.ndim == 2 else value)
        if rule == "retention":
            t.g = mx.log(1 - 2.0 ** (-5 - mx.arange(heads).astype(s.dtype)))[None, :, None]
        elif "g" in x:
            t.g = t.g if rule == "gated_oja" or t.g.shape[-1] == 1 else t.g[..., None]
        if updates > 1:
            for name in ("k", "v", "beta"):
                some = [every[name][:, i * updates + j] for j in range(updates)]
                setattr(t, "each_" + name, [a[..., None] if a.ndim == 2 else a for a in some])
        else:
            t.each_k, t.each_v, t.each_beta = [t.k], [t.v], [getattr(t, "beta", None)]
        before = s, t.gathered, normal
        s = RULES[rule][0](s, t)
        normal = normal + t.k
        y = read(s[..., :t.q.shape[-1], :], t.q) * scale
        if rule == "linear_normalized":
            y = y / ((t.q * normal).sum(-1, keepdims=True) * scale + 1e-10)
        if "mask" in x:
            seen = x["mask"][:, i]
            keep = lambda a, b: mx.where(seen.reshape(-1, *[1] * (a.ndim - 1)), a, b)  # noqa: E731, B023
            s, normal, y = keep(s, before[0]), keep(normal, before[2]), keep(y, y * 0)
            t.gathered = keep(t.gathered, before[1]) if isinstance(t.gathered, mx.array) else 0
        out.append(y)
    return mx.stack(out, 1), s


def case(rule, seed, B=2, T=9, H=2, N=4, K=8, V=6, gates=1.0, updates=1, mask=False, dtype="float32"):
    random = np.random.default_rng(seed)
    rows = 2 * K if rule == "momentum_delta" else K
    size = {"N2": (N, 2), "H": (H,), "N": (N,), "NK": (N, K), "NV": (N, V), "HK": (H, K)}
    normal = lambda *shape: random.standard_normal(shape)  # noqa: E731
    length = lambda a: a / np.sqrt((a * a).sum(-1, keepdims=True))  # noqa: E731
    x = {"q": length(normal(B, T, H, K)), "k": length(normal(B, T * updates, H, K)), "v": normal(B, T * updates, N, V),
         "initial_state": normal(B, N, rows, V) / 2}
    if rule == "linear_normalized":
        x["q"], x["k"] = np.abs(x["q"]), np.abs(x["k"])
    for word in RULES[rule][1].split():
        name = word.rstrip("HNKV2")
        shape = (B, T * (updates if name == "beta" else 1)) + size[word[len(name):]]
        if name == "g" or (name == "a" and rule.startswith("precond")):
            x[name] = -gates * np.log1p(np.exp(-normal(*shape)))
        elif name == "beta" or (name == "b" and rule.startswith("precond")) or (name in "ab" and rule == "gdn2"):
            x[name] = random.uniform(0.1, 0.9, shape)
        else:
            x[name] = length(normal(*shape))
    if rule in ("dplr", "iplr"):
        x["b"] = -x["a"] * random.uniform(size=x["b"].shape)
    if rule == "gated_oja":
        x["v"] = length(x["v"])
    if rule == "momentum_delta":
        x["b"] = np.stack([-gates * np.log1p(np.exp(-normal(B, T, N))), random.uniform(0.1, 0.9, (B, T, N))], -1)
    x = {name: mx.array(a.astype("float64")).astype(getattr(mx, dtype)) for name, a in x.items()}
    if mask:
        x["mask"] = mx.array(random.uniform(size=(B, T)) < 0.7)
    return x


def error(got, want):
    got, want = (np.array(a.astype(mx.float64)) for a in (got, want))
    assert np.isfinite(got).all()
    return np.sqrt(((got - want) ** 2).mean()) / (np.sqrt((want ** 2).mean()) + 1e-30)


def loss(out, weights):
    return sum((a.astype(mx.float64) * w).sum() for a, w in zip(out, weights))


class Delta(unittest.TestCase):
    def setUp(self):
        mx.set_default_device(mx.cpu)

    def compare(self, rule, x, updates=1, bounds=(TOKEN, CHUNK), gradients=True):
        scale = x["q"].shape[-1] ** -0.5
        wide = {name: a.astype(mx.float64) if name != "mask" else a for name, a in x.items()}
        f = lambda d: mx.fast.delta_rule(rule, **d)  # noqa: E731
        want, got = reference(rule, wide, updates, scale), f(x)
        self.assertEqual(got[0].dtype, x["v"].dtype)
        for name, a, b in zip(("o", "state"), got, want):
            self.assertLess(error(a, b), bounds[0], f"{rule} {name}")
        if not gradients:
            return
        weights = [mx.array(np.random.default_rng(7).standard_normal(a.shape)) for a in want]
        names = [name for name in x if name != "mask"]
        both = []
        for d, g in ((x, f), (wide, lambda d: reference(rule, d, updates, scale))):
            rest = {name: a for name, a in d.items() if name not in names}
            both.append(mx.grad(lambda p, g=g, rest=rest: loss(g({**p, **rest}), weights))({name: d[name] for name in names}))
        for name in names:
            self.assertLess(error(both[0][name], both[1][name]), bounds[1], f"{rule} d{name}")

    def test_every_rule(self):
        for i, rule in enumerate(RULES):
            updates = 3 if rule == "gated_delta_product" else 1
            with self.subTest(rule):
                self.compare(rule, case(rule, i, updates=updates), updates)
                self.compare(rule, case(rule, i, B=1, T=1, updates=updates), updates)
                self.compare(rule, case(rule, i, T=21, K=5, V=7, mask=True, updates=updates), updates)
                self.compare(rule, case(rule, i, T=6, dtype="float64", updates=updates), updates, (1e-13, 1e-12))

    def test_sizes_drawn_by_seed(self):
        for seed in range(60 if LONG else 12):
            random = np.random.default_rng(100 + seed)
            rule = random.choice(list(RULES))
            updates = 2 if rule == "gated_delta_product" else 1
            heads = int(random.choice([1, 2]))
            sizes = dict(B=int(random.integers(1, 3)), T=int(random.choice([1, 16, 17, 63, 64, 65, 75])), H=heads,
                         N=heads * int(random.choice([1, 2])), K=int(random.choice([4, 15, 32])), V=int(random.choice([3, 16, 33])),
                         gates=float(random.choice([0, 0.01, 1, 10])), mask=bool(random.integers(2)), updates=updates)
            with self.subTest(seed=seed, rule=rule, **sizes):
                self.compare(rule, case(rule, seed, **sizes), updates, gradients=LONG or sizes["T"] < 20)

    def test_long_lines(self):
        for rule, T, D in [("gated_delta", 500, 60), ("kda", 130, 100)] + LONG * [("gated_delta", 1000, 128), ("comba", 1000, 60)]:
            x = case(rule, T, B=1, T=T, H=1, N=1, K=D, V=D)
            self.compare(rule, x, bounds=(TOKEN, CHUNK), gradients=False)

    def test_gradients_of_some_chunks(self):
        # Of decays per head the CPU has a kernel, 32 tokens at a time: all that it tells apart, for two chunks and a part of a third.
        for rule, K, V, mask in (("simple_gla", 15, 33, False), ("delta", 40, 24, True), ("gated_delta", 33, 17, False),
                                 ("comba", 16, 40, True), ("gated_delta_product", 7, 5, False)):
            updates = 2 if rule == "gated_delta_product" else 1
            for gates in (1, 10):
                with self.subTest(rule, gates=gates):
                    self.compare(rule, case(rule, 21, B=1, T=75, K=K, V=V, mask=mask, gates=gates, updates=updates), updates)
        self.compare("gated_delta", case("gated_delta", 22, B=1, T=70, K=20, V=24, dtype="float64"), 1, (1e-13, 1e-12))

    def test_gradients_have_the_same_bits_in_each_run(self):
        x = case("gated_delta", 23, T=100, K=24, V=40)
        f = mx.grad(lambda d: sum((y * y).sum() for y in mx.fast.delta_rule("gated_delta", **d)))
        first = f(x)
        for _ in range(3):
            again = f(x)
            for name in x:
                self.assertTrue(mx.array_equal(first[name], again[name]).item(), name)

    def test_gradients_of_half_floats(self):
        for rule in ("gated_delta", "comba", "simple_gla"):
            x = case(rule, 24, B=1, T=70)
            half = {name: a.astype(mx.bfloat16) for name, a in x.items()}
            f = lambda d, rule=rule: sum((y.astype(mx.float32) ** 2).sum() for y in mx.fast.delta_rule(rule, **d))  # noqa: E731
            got, want = mx.grad(f)(half), mx.grad(f)({name: a.astype(mx.float32) for name, a in half.items()})
            for name in x:
                self.assertEqual(got[name].dtype, mx.bfloat16)
                self.assertLess(error(got[name], want[name]), 0.02 if name in ("g", "beta") else 8e-3, f"{rule} d{name}")

    def test_second_derivatives_and_batches_of_gradients(self):
        x = case("gated_delta", 25, B=1, T=40, dtype="float64")
        f = lambda q, v, g: sum((y * y).sum() for y in mx.fast.delta_rule("gated_delta", **{**x, "q": q, "v": v, "g": g}))  # noqa: E731
        at, step = [x["q"], x["v"], x["g"]], [mx.array(np.random.default_rng(4).standard_normal(x[n].shape)) for n in ("q", "v", "g")]
        grad = mx.grad(f, argnums=[0, 1, 2])
        slope = mx.jvp(lambda *a: sum((y * s).sum() for y, s in zip(grad(*a), step)), at, step)[1][0].item()
        twice = mx.grad(lambda *a: sum((y * s).sum() for y, s in zip(grad(*a), step)), argnums=[0, 1, 2])(*at)
        self.assertAlmostEqual(sum((y * s).sum() for y, s in zip(twice, step)).item() / slope, 1, 9)
        h = 1e-5
        far = [sum((y * s).sum() for y, s in zip(grad(*(a + n * s for a, s in zip(at, step))), step)).item() for n in (h, -h)]
        self.assertAlmostEqual((far[0] - far[1]) / (2 * h) / slope, 1, 5)
        many = [mx.stack([a, 0.5 * a, -a]) for a in at]
        for i, each in enumerate(zip(*mx.vmap(grad)(*many))):
            for got, want in zip(each, grad(*(a[i] for a in many))):
                self.assertTrue(mx.allclose(got, want, rtol=1e-12, atol=1e-12).item())

    def test_chunks_of_long_lines(self):
        # Derivatives are those of chunks: of a loss that is the sum of the outputs, the tangent along x is their difference.
        for rule in ("gated_delta", "kda", "dplr", "gla", "momentum_delta"):
            x = case(rule, 3, B=1, T=150, H=1, N=2, K=16, V=8, dtype="float64")
            names = sorted(x)
            f = lambda *a, rule=rule, names=names: sum(y.sum() for y in mx.fast.delta_rule(rule, **dict(zip(names, a))))  # noqa: E731
            base, step = [x[n] for n in names], [mx.array(np.random.default_rng(4).standard_normal(x[n].shape)) for n in names]
            slope = mx.jvp(f, base, step)[1][0].item()
            grads = mx.grad(f, argnums=list(range(len(names))))(*base)
            self.assertAlmostEqual(sum((g * d).sum().item() for g, d in zip(grads, step)) / slope, 1, 9)
            far = [f(*(b + h * d for b, d in zip(base, step))).item() for h in (1e-6, -1e-6)]
            self.assertAlmostEqual((far[0] - far[1]) / 2e-6 / slope, 1, 5)

    def test_packed_sequences(self):
        for rule in RULES:
            updates = 2 if rule == "gated_delta_product" else 1
            x = case(rule, 5, B=1, T=40, updates=updates)
            ends = [0, 3, 3, 20, 40]
            x["initial_state"] = mx.array(np.random.default_rng(6).standard_normal((4, *x["initial_state"].shape[1:])).astype("float32"))
            f = lambda d, rule=rule: mx.fast.delta_rule(rule, **d)  # noqa: E731
            def parts(d, f=f, updates=updates, ends=ends):
                out = []
                for i, (a, b) in enumerate(zip(ends, ends[1:])):
                    some = lambda n: d[n][i:i + 1] if n == "initial_state" else (  # noqa: E731
                        d[n][:, a * d[n].shape[1] // 40:b * d[n].shape[1] // 40])
                    out.append(f({n: some(n) for n in d}))
                return mx.concatenate([o[0] for o in out], 1), mx.concatenate([o[1] for o in out], 0)
            offsets = mx.array(ends)
            whole = lambda d, f=f: f({**d, "offsets": offsets})  # noqa: E731
            weights = [mx.array(np.random.default_rng(7).standard_normal(a.shape)) for a in whole(x)]
            for a, b in zip(whole(x), parts(x)):
                if rule == "momentum_delta":  # is taken by chunks, which are shorter in short sequences
                    self.assertLess(error(a, b), TOKEN)
                else:
                    self.assertTrue(mx.array_equal(a, b).item(), rule)
            grads = [mx.grad(lambda d, f=f: loss(f(d), weights))(x) for f in (whole, parts)]
            for name in x:
                self.assertLess(error(grads[0][name], grads[1][name]), CHUNK, f"{rule} d{name}")

    def test_batches(self):
        for rule in ("gated_delta", "kda", "dplr", "momentum_delta"):
            x = [case(rule, seed) for seed in (1, 2, 3)]
            stacked = {name: mx.stack([a[name] for a in x]) for name in x[0]}
            got = mx.vmap(lambda d, rule=rule: mx.fast.delta_rule(rule, **d))(stacked)
            for i, one in enumerate(x):
                for a, b in zip(got, mx.fast.delta_rule(rule, **one)):
                    self.assertTrue(mx.array_equal(a[i], b).item())

    def test_reference_recurrences(self):
        file = np.load(pathlib.Path(__file__).with_name("delta_vectors.npz"))
        for rule in sorted({name.split("/")[0] for name in file}):
            kept = {name.split("/")[1]: mx.array(file[name]) for name in file if name.startswith(rule + "/")}
            x = {n: kept[n] for n in ("q", "k", "v", "initial_state", "g", "beta", "a", "b") if n in kept}
            norm = rule.startswith("precond")  # that recurrence divides by lengths itself
            out = mx.fast.delta_rule(rule, **x, l2_norm=norm)
            for name, got in zip(("o", "state"), out):
                self.assertLess(error(got, kept[name]), TOKEN, f"{rule} {name}")
            weights = [kept["y_o"].astype(mx.float64), kept["y_state"].astype(mx.float64)]
            grads = mx.grad(lambda d, rule=rule, norm=norm, weights=weights: loss(mx.fast.delta_rule(rule, **d, l2_norm=norm), weights))(x)
            for name in x:
                self.assertLess(error(grads[name], kept["d" + name]), CHUNK, f"{rule} d{name}")

    def test_gates_in_the_call(self):
        x = case("kda", 8)
        raw = {**x, "q": x["q"] * 3, "k": x["k"] * 0.5, "beta": mx.log(x["beta"] / (1 - x["beta"]))}
        rate = mx.array([0.1, -1, 0.5, 0.2])
        bias = mx.array(np.random.default_rng(9).standard_normal(32).astype("float32"))
        raw["g"] = mx.array(np.random.default_rng(9).standard_normal(x["g"].shape).astype("float32"))
        g = -mx.exp(rate)[:, None] * mx.logaddexp(raw["g"] + bias.reshape(4, 8), 0)
        want = mx.fast.delta_rule("kda", **{**x, "q": unit(raw["q"]), "k": unit(raw["k"]), "g": g})
        got = mx.fast.delta_rule("kda", **raw, A_log=rate, dt_bias=bias, l2_norm=True, sigmoid=True)
        for a, b in zip(got, want):
            self.assertLess(error(a, b), TOKEN)

    def test_half_floats(self):
        for rule in RULES:
            x = case(rule, 9, T=30)
            for dtype, bound in ((mx.bfloat16, 5e-3), (mx.float16, 1e-3)):
                half = {name: a.astype(dtype) for name, a in x.items()}
                got = mx.fast.delta_rule(rule, **half)
                want = mx.fast.delta_rule(rule, **{name: a.astype(mx.float32) for name, a in half.items()})
                self.assertEqual((got[0].dtype, got[1].dtype), (dtype, mx.float32))
                self.assertLess(error(got[0], want[0]), bound, rule)
                self.assertLess(error(got[1], want[1]), TOKEN, rule)

    def test_momentum_of_one_token_keeps_what_many_do(self):
        x = case("momentum_delta", 4, T=20)
        want, state = mx.fast.delta_rule("momentum_delta", **x), x.pop("initial_state")
        for i in range(20):
            y, state = mx.fast.delta_rule("momentum_delta", **{n: a[:, i:i + 1] for n, a in x.items()}, initial_state=state)
            self.assertLess(error(y, want[0][:, i:i + 1]), TOKEN)
        self.assertLess(error(state, want[1]), TOKEN)
        with self.assertRaisesRegex(ValueError, r"initial_state of shape \(2, 4, 8, 6\): \(B, N, 2 K, V\)"):
            mx.fast.delta_rule("momentum_delta", **x, initial_state=state[:, :, :8])
        with self.assertRaisesRegex(ValueError, r"b of shape \(2, 20, 4\): \(B, T, N, 2\)"):
            mx.fast.delta_rule("momentum_delta", **{**x, "b": x["beta"]})

    def test_what_does_not_fit(self):
        x = case("kda", 1)
        for change, text in (({"g": x["beta"]}, r"g of shape \(2, 9, 4\): \(B, T, N, K\) is needed"), ({"beta": None}, "needs beta"),
                             ({"a": x["k"]}, "does not take a"), ({"initial_state": x["v"]}, "initial_state of shape"),
                             ({"k": x["v"]}, "are needed, N a multiple"), ({"offsets": mx.array([0, 9])}, "offsets of shape"),
                             ({"mask": x["beta"]}, "mask of shape"), ({"A_log": x["beta"]}, "A_log of shape")):
            with self.assertRaisesRegex(ValueError, "delta_rule: .*" + text):
                mx.fast.delta_rule("kda", **{**x, **change})
        with self.assertRaisesRegex(ValueError, "no rule 'kd'; there are linear .* kda"):
            mx.fast.delta_rule("kd", **x)


if __name__ == "__main__":
    unittest.main()
