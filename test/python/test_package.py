# test_package.py - the package around zellige.core: what `import zellige` tells, programs for MLX without MLX, the wheel's build.

import importlib.util
import os
import pathlib
import pkgutil
import pty
import pydoc
import subprocess
import sys
import tempfile
import unittest

import zellige

root = pathlib.Path(__file__).resolve().parent.parent.parent


def run(code, *options):
    """What a Python without site-packages says: MLX is not installed there."""
    path = str(pathlib.Path(zellige.__file__).parent.parent)
    done = subprocess.run([sys.executable, "-S", *options, "-c", code], env={**os.environ, "PYTHONPATH": path},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout


class Package(unittest.TestCase):
    def test_modules_are_loaded_when_used(self):
        self.assertEqual(run("import sys, zellige; print('zellige.core' in sys.modules, zellige.core.ones(2).tolist(), "
                             "zellige.bench.load.__name__, zellige.tile.__name__)"), "False [1.0, 1.0] load zellige.tile\n")

    def test_it_tells_what_it_has(self):
        self.assertEqual(zellige.__version__, zellige.core.__zellige_version__)
        text = pydoc.plain(pydoc.render_doc(zellige))
        for name in zellige.__all__:
            self.assertIn(f"zellige.{name} ", zellige.__doc__)
            self.assertIn(name, dir(zellige))
            self.assertIn(f"    {name}", text)
        self.assertEqual({module.name for module in pkgutil.iter_modules(zellige.__path__)}, set(zellige.__all__))
        with self.assertRaisesRegex(AttributeError, "no attribute 'cores': it has bench, core,"):
            zellige.cores


class WithoutMlx(unittest.TestCase):
    def test_the_core_is_enough(self):
        self.assertEqual(run("import zellige.mlx; zellige.mlx.install(); import mlx.core as mx, mlx.core.random; "
                             "from mlx.core import fft; from mlx import core; print(mx.ones(2).tolist(), core is mx)"),
                         "[1.0, 1.0] True\n")

    def test_the_rest_says_what_to_install(self):
        for statement in ("import mlx.nn", "from mlx import nn", "from mlx.nn import Linear", "import mlx.optimizers as optim",
                          "from mlx.utils import tree_map", "import mlx.core, mlx.nn.layers"):
            text = run(f"import zellige.mlx; zellige.mlx.install(); {statement}").splitlines()[-1]
            self.assertRegex(text, r"^ModuleNotFoundError: No module named 'mlx\.\w+'.*pip install 'zellige\[mlx\]'$")

    def test_what_mlx_has_not_either_is_not_promised(self):
        for statement in ("import mlx.data", "from mlx import nothing"):
            self.assertNotIn("pip install", run(f"import zellige.mlx; zellige.mlx.install(); {statement}"))


@unittest.skipUnless(importlib.util.find_spec("scikit_build_core"), "scikit-build-core is not installed")
class Build(unittest.TestCase):
    def test_progress_on_a_terminal(self):
        """What is built is told on the terminal, and goes where it went before."""
        code = ("import subprocess, sys; sys.path.insert(0, sys.argv[1]); import build_wheel\n"
                "with build_wheel._progress():\n    subprocess.run(['printf', '[1/4] a\\\\n[3/4] b\\\\nend'])\n")
        with tempfile.NamedTemporaryFile() as out:
            child, terminal = pty.fork()
            if child == 0:
                os.dup2(out.fileno(), 1)
                os.execv(sys.executable, [sys.executable, "-c", code, str(root / "tool")])
            said = b""
            try:
                while data := os.read(terminal, 1000):
                    said += data
            except OSError:  # the child ended
                pass
            self.assertEqual(os.waitpid(child, 0)[1], 0, said)
            self.assertIn(b"Building zellige: 3 of 4 steps", said)
            self.assertEqual(pathlib.Path(out.name).read_bytes(), b"[1/4] a\n[3/4] b\nend")


if __name__ == "__main__":
    unittest.main()
