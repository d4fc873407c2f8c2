"""test_fuzz.py - runs fuzz_calls.py and fuzz_pickles.py, each in a process of its own, so that a crash is a failure here.

ZL_LONG=1 takes 200,000 of each instead of 3,000; ZL_SEED=n begins with another one.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

here = pathlib.Path(__file__).parent
COUNT = 200_000 if os.environ.get("ZL_LONG") == "1" else 3_000
SEED = int(os.environ.get("ZL_SEED", "1"))


class Fuzzers(unittest.TestCase):
    def check(self, program):
        with tempfile.TemporaryFile() as log:  # the seed of the call that is made now
            done = subprocess.run([sys.executable, "-W", "ignore", here / program, str(SEED), str(COUNT)],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                  env={**os.environ, "ZL_FUZZ_LOG": str(log.fileno())}, pass_fds=[log.fileno()])
            last = os.pread(log.fileno(), 21, 0).decode().strip()
        self.assertEqual(done.returncode, 0, f"{program} ended with {done.returncode} in seed {last}:\n{done.stdout[-4000:]}")

    def test_calls(self):
        self.check("fuzz_calls.py")

    def test_pickles(self):
        self.check("fuzz_pickles.py")


if __name__ == "__main__":
    unittest.main()
