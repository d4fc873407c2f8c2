"""Programs in a process where the driver of test/fake has two GPUs."""

import os
import pathlib
import subprocess
import sys

import zellige.core as mx


def settings(test):
    """The environment of such a process, without ZL_DEVICE."""
    fake = pathlib.Path(mx.__file__).parent.parent.parent / "fake"
    if not fake.is_dir():
        test.skipTest("the driver of test/fake is not beside the module")
    return {**os.environ, "ZL_DEVICE": "", "ZL_CUDA": str(fake), "LD_LIBRARY_PATH": str(fake), "PYTHONPATH": os.pathsep.join(sys.path)}


def words_of(test, script, **environment):
    """The words that a script prints there; it must end well and say nothing else."""
    where = {**settings(test), **environment}
    got = subprocess.run([sys.executable, "-c", script], env=where, capture_output=True, text=True, timeout=120)
    test.assertEqual((got.returncode, got.stderr), (0, ""))
    return got.stdout.split()
