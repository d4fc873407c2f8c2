#!/usr/bin/env python3
"""run.py [FILE...] - runs the unit tests of this folder on the zellige.core that PYTHONPATH leads to.

Ends with "N passed, N failed, N skipped", as every test program here does.
"""

import faulthandler
import os
import pathlib
import sys
import unittest

here = pathlib.Path(__file__).parent
LIMIT = 7200 if os.environ.get("ZL_LONG") else 600  # seconds, after which a test that hangs shows where
os.environ.setdefault("ZL_DEVICE", "cpu")  # also on a machine with a GPU
sys.path.insert(0, str(here))


class Result(unittest.TextTestResult):
    def startTestRun(self):
        self.passed = 0

    def startTest(self, test):
        super().startTest(test)
        faulthandler.dump_traceback_later(LIMIT, exit=True)

    def stopTest(self, test):
        faulthandler.cancel_dump_traceback_later()
        super().stopTest(test)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def load(name):
    """The tests of a file; one that is skipped, where the file as a whole says that it cannot run."""
    try:
        return unittest.defaultTestLoader.loadTestsFromName(name)
    except unittest.SkipTest as reason:
        return unittest.FunctionTestCase(unittest.skip(str(reason))(lambda: None), description=name)


def main():
    files = sys.argv[1:] or sorted(path.name for path in here.glob("test_*.py"))
    suite = unittest.TestSuite(load(pathlib.Path(name).stem) for name in files)
    result = unittest.TextTestRunner(resultclass=Result, verbosity=1, stream=sys.stdout).run(suite)
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    for test, reason in result.skipped:
        print(f"skipped {test}: {reason}")
    print(f"{result.passed} passed, {failed} failed, {len(result.skipped)} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
