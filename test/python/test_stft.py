"""fft.stft and fft.istft against torch, where it is installed; oracle_parts.py compares them with MLX."""

import itertools
import unittest

import numpy as np

import zellige.core as mx

try:
    import torch
except ImportError:
    torch = None

random = np.random.default_rng(3)
SIGNAL = random.standard_normal((2, 500)).astype("float32")
WINDOW = (np.hanning(64) + 0.1).astype("float32")


class Frames(unittest.TestCase):
    def check(self, ours, theirs, what, bound=1e-4):
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
