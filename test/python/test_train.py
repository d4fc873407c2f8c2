"""Small transformers of mlx.nn, trained by compiled steps with AdamW: the loss falls, and as it does with MLX."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import unittest

PROGRAM = pathlib.Path(__file__).with_name("small_transformers.py")
FIRST, STEPS = 12, 100 # MLX would compile its kernels for half a minute: it runs op by op, for the first steps


def run(steps, *how, **environment):
    command = [sys.executable, *how, str(PROGRAM), str(steps)]
    ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    if ran.returncode:
        raise AssertionError(ran.stderr)
    return json.loads(ran.stdout)


@unittest.skipUnless(importlib.util.find_spec("mlx"), "mlx.nn is not installed")
class Transformers(unittest.TestCase):
    def test_losses_fall_as_with_mlx(self):
        ours, theirs = run(STEPS, "-m", "zellige.mlx"), run(FIRST, MLX_DISABLE_COMPILE="1")
        self.assertEqual([ours["core"], theirs["core"]], ["zellige.core", "mlx.core"])
        for model in ("encoder", "decoder"):
            with self.subTest(model):
                a, b = ours[model], theirs[model]
                self.assertLess(a[-1], 0.3 * a[0])
                for i in range(FIRST): # the same weights and batches: later, differences of rounding have grown
                    self.assertAlmostEqual(a[i], b[i], delta=1e-4 * b[i], msg=f"step {i}")


if __name__ == "__main__":
    unittest.main()
