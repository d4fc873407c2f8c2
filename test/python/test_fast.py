"""fast.cross_entropy and fast.gated_delta_update against MLX, with their gradients."""

import unittest

import numpy as np

import zellige.core as mx

try:
    import mlx.core as mlx
except ImportError as reason:
    raise unittest.SkipTest(f"MLX is not installed: {reason}")

random = np.random.default_rng(5)


def normal(*shape):
    return (random.standard_normal(shape) / 4).astype("float32")


def uniform(*shape):
    return random.uniform(size=shape).astype("float32")


class Fast(unittest.TestCase):
    def check(self, f, *arrays, bound=1e-4):
        """f(module, arrays) gives one array or several, the same in both."""
        ours, theirs = (f(m, *[m.array(a) if a is not None else None for a in arrays]) for m in (mx, mlx))
        if not isinstance(ours, (list, tuple)):
            ours, theirs = [ours], [theirs]
        for a, b in zip(ours, theirs, strict=True):
            self.assertEqual((a.shape, str(a.dtype)), (b.shape, str(b.dtype)))
            np.testing.assert_allclose(np.array(a), np.array(b), bound, bound)

    def test_cross_entropy(self):
        logits, targets = normal(4, 3, 50), random.integers(0, 50, (4, 3))
        self.check(lambda m, x, t: m.fast.cross_entropy(x, t), logits, targets)
        self.check(lambda m, x, t: m.fast.cross_entropy(x, t), 40 * normal(9, 10007), random.integers(-10007, 10007, (9,)))
        self.check(lambda m, x, t: m.fast.cross_entropy(x.astype(m.float16), t), logits, targets, bound=1e-2)
        self.check(lambda m, x, t: m.grad(lambda x: (m.fast.cross_entropy(x, t) ** 2).sum())(x), logits, targets)
        self.check(lambda m, x, t: m.jvp(lambda x: m.fast.cross_entropy(x, t), [x], [x * x])[1], logits, targets)
        for x, t in [(logits, targets[0]), (logits, targets.astype("float32")), (logits.astype("int32"), targets)]:
            for m in (mx, mlx):
                self.assertRaises(ValueError, lambda: m.fast.cross_entropy(m.array(x), m.array(t)))

    def test_gated_delta_update(self):
        args = normal(2, 5, 2, 32), normal(2, 5, 2, 32), normal(2, 5, 4, 8), uniform(2, 5, 4), uniform(2, 5, 4)
        state, mask, gates = normal(2, 4, 8, 32), random.random((2, 5)) > 0.4, uniform(2, 5, 4, 32)
        update = lambda m, *a: m.fast.gated_delta_update(*a)  # noqa: E731
        self.check(update, *args)
        self.check(update, *args, state)
        self.check(update, *args, state, mask)
        self.check(update, *args, None, mask)
        self.check(update, *args[:3], gates, args[4], state, mask)
        for at in range(6):
            self.check(lambda m, *a: m.grad(lambda *a: sum((x ** 2).sum() for x in update(m, *a, m.array(mask))), argnums=at)(*a),
                       *args, state)
        self.check(lambda m, *a: m.jvp(lambda *a: update(m, *a), a, [x * x for x in a])[1], *args, state)


if __name__ == "__main__":
    unittest.main()
