"""fast.cross_entropy and fast.gated_delta_update against their formulas in other functions, with gradients and batches."""

import unittest

import numpy as np

import zellige.core as mx

random = np.random.default_rng(5)


def normal(*shape):
    return mx.array((random.standard_normal(shape) / 4).astype("float32"))


def uniform(*shape):
    return mx.array(random.uniform(size=shape).astype("float32"))


def entropy(logits, targets):
    return mx.logsumexp(logits, -1) - mx.squeeze(mx.take_along_axis(logits, targets[..., None], -1), -1)


def delta_rule(q, k, v, gamma, beta, state):
    q, k = (mx.repeat(x, v.shape[2] // x.shape[2], 2) for x in (q, k))
    out = []
    for t in range(v.shape[1]):
        state = state * gamma[:, t, :, None, None]
        wrong = v[:, t] - (state * k[:, t, :, None]).sum(-1)
        state = state + (wrong * beta[:, t, :, None])[..., None] * k[:, t, :, None]
        out.append((state * q[:, t, :, None]).sum(-1))
    return mx.stack(out, 1), state


class Fast(unittest.TestCase):
    def same(self, ours, theirs):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(np.array(a), np.array(b), 1e-4, 1e-4)

    def test_cross_entropy(self):
        logits, targets = normal(4, 3, 50), mx.array(random.integers(0, 50, (4, 3)))
        loss = mx.fast.cross_entropy(logits, targets)
        self.assertEqual(loss.dtype, mx.float32)
        self.same([loss], [entropy(logits, targets)])
        self.same([mx.vmap(mx.fast.cross_entropy)(logits, targets)], [loss])
        slopes = [mx.grad(lambda x, f=f: (f(x, targets) ** 2).sum())(logits) for f in (mx.fast.cross_entropy, entropy)]
        self.same(slopes[:1], slopes[1:])
        moves = [mx.jvp(lambda x, f=f: f(x, targets), [logits], [logits * logits])[1] for f in (mx.fast.cross_entropy, entropy)]
        self.same(*moves)

    def test_cross_entropy_of_cast_logits(self):
        x, targets = normal(2, 6, 40).astype(mx.bfloat16), mx.array(random.integers(0, 40, (2, 6)))
        wide = mx.value_and_grad(lambda x: mx.fast.cross_entropy(x.astype(mx.float32), targets).mean())
        loss, slope = wide(x)
        self.assertEqual(slope.dtype, mx.bfloat16)
        value, grad = mx.value_and_grad(lambda x: entropy(x, targets).mean())(x.astype(mx.float32))
        self.same([loss], [value])
        np.testing.assert_allclose(np.array(slope.astype(mx.float32)), np.array(grad), 2 ** -8)
        for other in (mx.compile(wide)(x), mx.checkpoint(wide)(x)):
            self.same([y.astype(mx.float32) for y in other], [loss, slope.astype(mx.float32)])
        flat = mx.grad(lambda x: mx.fast.cross_entropy(x.astype(mx.float32).reshape(-1, 40), targets.reshape(-1)).mean())(x)
        self.same([flat.astype(mx.float32)], [slope.astype(mx.float32)])
        each = mx.vmap(lambda x, y: mx.grad(lambda x: mx.fast.cross_entropy(x.astype(mx.float32), y).mean())(x))(x, targets)
        self.same([each.astype(mx.float32)], [2 * slope.astype(mx.float32)])

    def test_gated_delta_update(self):
        args = normal(2, 5, 2, 16), normal(2, 5, 2, 16), normal(2, 5, 4, 8), uniform(2, 5, 4), uniform(2, 5, 4), normal(2, 4, 8, 16)
        self.same(mx.fast.gated_delta_update(*args), delta_rule(*args))
        total = lambda f, *a: sum((x ** 2).sum() for x in f(*a))  # noqa: E731
        both = [mx.grad(lambda *a, f=f: total(f, *a), argnums=list(range(6)))(*args) for f in (mx.fast.gated_delta_update, delta_rule)]
        self.same(*both)
        moved = [mx.jvp(f, args, [x * x for x in args])[1] for f in (mx.fast.gated_delta_update, delta_rule)]
        self.same(*moved)
        batch = [mx.stack([x, x * 0.5]) for x in args]
        self.same(mx.vmap(mx.fast.gated_delta_update)(*batch), [mx.stack(pair) for pair in zip(
            *(mx.fast.gated_delta_update(*(x[i] for x in batch)) for i in range(2)))])


if __name__ == "__main__":
    unittest.main()
