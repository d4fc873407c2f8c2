#!/usr/bin/env python3
"""run.py [FILE...] - runs the unit tests of this folder on the zellige.core that PYTHONPATH leads to.

Ends with "N passed, N failed, N skipped", as every test program here does.
"""

import pathlib
import sys
import unittest

here = pathlib.Path(__file__).parent
sys.path.insert(0, str(here))


class Result(unittest.TextTestResult):
    def startTestRun(self):
        self.passed = 0

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
