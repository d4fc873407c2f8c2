"""Programs in a process where the driver of test/fake has two GPUs."""

import os
import pathlib
import subprocess
import sys

import zellige.core as mx


def words_of(test, script, **environment):
    """The words that a script prints there, without ZL_DEVICE unless it is given; it must end well and say nothing else."""
    fake = pathlib.Path(mx.__file__).parent.parent.parent / "fake"
    if not fake.is_dir():
        test.skipTest("the driver of test/fake is not beside the module")
    where = {**os.environ, "ZL_DEVICE": "", "LD_LIBRARY_PATH": str(fake), "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    got = subprocess.run([sys.executable, "-c", script], env=where, capture_output=True, text=True, timeout=120)
    test.assertEqual((got.returncode, got.stderr), (0, ""))
    return got.stdout.split()
