"""Rows of a batch have the bits that they have alone: fuzz_rows.py, in processes of their own since settings are read once."""

import os
import pathlib
import subprocess
import sys
import unittest

FUZZER = pathlib.Path(__file__).with_name("fuzz_rows.py")
COUNT = 20000 if os.environ.get("ZL_LONG") else 250


def run(*options, **settings):
    command = [sys.executable, str(FUZZER), "--count", str(COUNT), "--seed", os.environ.get("ZL_SEED", "1"), *options]
    return subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True)


class Rows(unittest.TestCase):
    @unittest.skipUnless(os.uname().machine == "aarch64", "x86_64 has kernels for few rows that round twice: the setting is needed")
    def test_of_small_matrices(self):
        done = run()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_with_the_setting(self):
        done = run("--large", ZL_BATCH_INVARIANT="1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
