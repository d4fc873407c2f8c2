"""fast.delta_rule: every rule against its recurrence, token by token in float64, with states, gradients, masks, packed sequences, batches;
and against FLA's reference recurrences (delta_vectors.npz, which delta_vectors.py made)."""

import pathlib
import unittest

import numpy as np

import zellige.core as mx

LONG = __import__("os").environ.get("ZL_LONG")
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
    return s + outer(t.k * 1.5 ** (-r / (1 + mx.abs(r))), (t.v - read(s, t.k)) * t.beta)


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


# rule: its formula, and what it takes beside q, k and v: shapes of H and N heads.
RULES = {
    "linear": (linear, ""), "linear_normalized": (linear, ""), "retention": (with_decay, ""), "simple_gla": (with_decay, "gN"),
    "gla": (with_decay, "gNK"), "delta": (delta, "betaN"), "gated_delta": (gated_delta, "gN betaN"), "kda": (gated_delta, "gNK betaN"),
    "gdn2": (gdn2, "gNK aNK bNV"), "precond_gated_delta": (precond, "gN betaN aH bH"), "precond_kda": (precond, "gNK betaN aHK bH"),
    "comba": (comba, "gN betaN aHK"), "dplr": (dplr, "gNK aHK bHK"), "iplr": (iplr, "aHK bHK"),
    "gated_delta_product": (product, "gN betaN"), "gated_oja": (oja, "gNV betaN"),
}


class Token:
    pass


def reference(rule, x, updates=1, scale=None):
    """The outputs and the last state in the dtype of x, which is a dict of arrays."""
    heads = x["v"].shape[2]
    full = lambda a: mx.repeat(a, heads // a.shape[2], 2)  # noqa: E731
    every = {name: full(a) if name not in ("initial_state", "mask") else a for name, a in x.items()}
    s, t, out = x["initial_state"], Token(), []
    t.gathered, keys = 0, s * 0
    normal = mx.zeros_like(s[..., 0])
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
        y = read(s, t.q) * scale
        if rule == "linear_normalized":
            y = y / ((t.q * normal).sum(-1, keepdims=True) * scale + 1e-10)
        if "mask" in x:
            seen = x["mask"][:, i]
            keep = lambda a, b: mx.where(seen.reshape(-1, *[1] * (a.ndim - 1)), a, b)  # noqa: E731, B023
            s, normal, y = keep(s, before[0]), keep(normal, before[2]), keep(y, y * 0)
            t.gathered = keep(t.gathered, before[1]) if t.gathered is not 0 else 0  # noqa: F632
        out.append(y)
    return mx.stack(out, 1), s


def case(rule, seed, B=2, T=9, H=2, N=4, K=8, V=6, gates=1.0, updates=1, mask=False, dtype="float32"):
    random = np.random.default_rng(seed)
    size = {"H": (H,), "N": (N,), "NK": (N, K), "NV": (N, V), "HK": (H, K)}
    normal = lambda *shape: random.standard_normal(shape)  # noqa: E731
    length = lambda a: a / np.sqrt((a * a).sum(-1, keepdims=True))  # noqa: E731
    x = {"q": length(normal(B, T, H, K)), "k": length(normal(B, T * updates, H, K)), "v": normal(B, T * updates, N, V),
         "initial_state": normal(B, N, K, V) / 2}
    if rule == "linear_normalized":
        x["q"], x["k"] = np.abs(x["q"]), np.abs(x["k"])
    for word in RULES[rule][1].split():
        name = word.rstrip("HNKV")
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


if __name__ == "__main__":
    unittest.main()
