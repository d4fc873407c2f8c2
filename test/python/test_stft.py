"""fft.stft and fft.istft: against torch and against MLX, each where it is installed."""

import itertools
import unittest

import numpy as np

import zellige.core as mx

try:
    import torch
except ImportError:
    torch = None
try:
    import mlx.core as mlx
except ImportError:
    mlx = None

random = np.random.default_rng(3)
SIGNAL = random.standard_normal((2, 500)).astype("float32")
WINDOW = (np.hanning(64) + 0.1).astype("float32")


def result(f):
    """What f gives as a NumPy array, or that it was refused."""
    try:
        return np.array(f())
    except (ValueError, IndexError):
        return None


class Frames(unittest.TestCase):
    def check(self, ours, theirs, what, bound=1e-4):
        if theirs is None or ours is None:
            self.assertEqual(ours is None, theirs is None, what)
            return
        self.assertEqual(ours.shape, theirs.shape, what)
        np.testing.assert_allclose(ours, theirs, bound, bound, err_msg=what)

    @unittest.skipUnless(torch, "torch is not installed")
    def test_as_torch(self):
        for hop, length, center, mode, norm, half in itertools.product(
                (None, 10, 64), (None, 40), (True, False), ("reflect", "constant"), (False, True), (True, False)):
            what = f"hop {hop} length {length} center {center} {mode} norm {norm} onesided {half}"
            window = WINDOW[:length or 64]
            theirs = torch.stft(torch.tensor(SIGNAL), 64, hop, length, torch.tensor(window), center, mode, norm, half,
                                return_complex=True)
            ours = mx.fft.stft(mx.array(SIGNAL), 64, hop, length, mx.array(window), center, mode, "ortho" if norm else "backward",
                               half)
            self.check(np.array(ours), theirs.numpy(), what)
            if center and hop == 10:  # torch refuses what no window covers
                back = torch.istft(theirs, 64, hop, length, torch.tensor(window), center, norm, half)
                again = mx.fft.istft(ours, 64, hop, length, mx.array(window), center, "ortho" if norm else "backward", half)
                self.check(np.array(again), back.numpy(), what)

    @unittest.skipUnless(mlx, "MLX is not installed")
    def test_as_mlx(self):
        ways = [{}, {"n_fft": 64}, {"n_fft": 65, "hop_length": 7}, {"n_fft": 64, "pad_mode": "edge"}, {"n_fft": 64, "norm": "forward"},
                {"n_fft": 64, "win_length": 30}, {"n_fft": 64, "win_length": 65}, {"n_fft": 64, "hop_length": 0}, {"n_fft": 0},
                {"n_fft": 64, "norm": "none"}, {"n_fft": 64, "pad_mode": "wrap"}, {"n_fft": 1200}, {"n_fft": 600, "center": False}]
        for way, dtype in itertools.product(ways, ("float32", "complex64", "int32")):
            x = (9 * SIGNAL).astype(dtype)
            self.check(result(lambda: mx.fft.stft(mx.array(x), **way)), result(lambda: mlx.fft.stft(mlx.array(x), **way)), f"{way} {dtype}", 1e-3)
        y = np.array(mx.fft.stft(mx.array(SIGNAL), 64, window=mx.array(WINDOW)))
        ways = [{}, {"n_fft": 64}, {"n_fft": 65}, {"length": 500}, {"length": 900}, {"length": 0}, {"norm": "ortho"}, {"center": False},
                {"hop_length": 5}, {"hop_length": 0}, {"onesided": False}, {"n_fft": 0}, {"win_length": 30}, {"norm": "none"}]
        for way in ways:
            self.check(result(lambda: mx.fft.istft(mx.array(y), **way)), result(lambda: mlx.fft.istft(mlx.array(y), **way)), f"{way}")

    @unittest.skipUnless(torch, "torch is not installed")
    def test_gradient(self):
        def loss(x):
            return (mx.abs(mx.fft.stft(x, 64, window=mx.array(WINDOW))) ** 2).sum()

        x = torch.tensor(SIGNAL, requires_grad=True)
        y = torch.stft(x, 64, window=torch.tensor(WINDOW), return_complex=True)
        (y.abs() ** 2).sum().backward()
        np.testing.assert_allclose(np.array(mx.grad(loss)(mx.array(SIGNAL))), x.grad.numpy(), 1e-3, 1e-3)


if __name__ == "__main__":
    unittest.main()
