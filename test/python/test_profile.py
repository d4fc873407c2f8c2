"""Profiles: `zellige.core.profile`, metal's capture, ZL_PROFILE, and that the timeline is one."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

import zellige.core as mx


def tracks(events):
    """The complete events of each track, in the order of their beginning."""
    found = {}
    for e in events:
        if e["ph"] == "X":
            found.setdefault((e["pid"], e["tid"]), []).append(e)
    return {track: sorted(list_, key=lambda e: (e["ts"], -e["dur"])) for track, list_ in found.items()}


class Profiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "profile.json"

    def events(self):
        return json.loads(self.path.read_text())["traceEvents"]

    def nest(self, events):
        """Events of a track lie within each other, or after each other."""
        for track, list_ in tracks(events).items():
            open_ = []
            for e in list_:
                begin, end = e["ts"], e["ts"] + e["dur"]
                while open_ and open_[-1] <= begin + 1e-6:
                    open_.pop()
                self.assertTrue(not open_ or end <= open_[-1] + 0.002, (track, e))
                open_.append(end)

    def test_table_and_timeline(self):
        x = mx.random.normal((64, 32))
        mx.eval(x)
        with mx.profile(self.path) as p:
            self.assertIsNone(p.table)
            mx.eval(mx.exp(x @ x.T) + 1)
        self.assertIn("matmul", p.table)
        self.assertEqual(str(p), p.table)
        events = self.events()
        self.nest(events)
        names = [e["name"] for e in events if e["ph"] == "X"]
        self.assertIn("matmul", names)
        product = next(e for e in events if e["name"] == "matmul")
        self.assertEqual(product["args"]["flops"], 2 * 64 * 64 * 32)
        self.assertEqual(product["args"]["written"], 64 * 64 * 4)
        self.assertEqual(product["cat"], "kernel")
        self.assertTrue(any(e["cat"] == "evaluation" for e in events if e["ph"] == "X"))

    def test_without_a_file(self):
        with mx.profile() as p:
            mx.eval(mx.ones((3,)) * 2)
        self.assertIn("multiply", p.table)

    def test_threads(self):
        x = mx.ones((4, 4))
        mx.eval(x)

        def work():
            for _ in range(50):
                mx.eval(mx.sin(x))

        with mx.profile(self.path) as p:
            threads = [threading.Thread(target=work) for _ in range(4)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        self.nest(self.events())
        self.assertEqual(sum(e["name"] == "sin" for e in self.events()), 200)
        self.assertIn("200 evaluations", p.table)

    def test_errors(self):
        with mx.profile():
            with self.assertRaisesRegex(RuntimeError, "recorded already"):
                mx.profile().__enter__()
        with self.assertRaises(OSError):
            mx.profile("/nonexistent/folder/p.json").__enter__()
        self.assertRaises(TypeError, mx.profile, 3)
        with self.assertRaisesRegex(ZeroDivisionError, "by zero"):  # what is raised within goes on
            with mx.profile():
                1 / 0
        with mx.profile() as p:
            pass
        self.assertIn("nothing was evaluated", p.table)

    def test_capture(self):
        mx.metal.start_capture(str(self.path))
        mx.eval(mx.cos(mx.ones((5,))))
        mx.metal.stop_capture()
        self.assertTrue(any(e["name"] == "cos" for e in self.events()))

    def run_program(self, program, **settings):
        env = {**os.environ, "ZL_PROFILE": str(self.path), **settings}
        return subprocess.run([sys.executable, "-c", "import zellige.core as mx\n" + program], env=env, text=True,
                              capture_output=True)

    def test_setting(self):
        done = self.run_program("mx.eval(mx.exp(mx.ones((7,))))")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"(?m)^profile of [0-9.]+ ms$")
        self.assertIn("exp", done.stderr)
        self.nest(self.events())

    def test_setting_of_programs_that_fail(self):
        done = self.run_program("mx.eval(mx.exp(mx.ones((7,)))); raise SystemExit(3)")
        self.assertEqual(done.returncode, 3)
        self.assertIn("profile of", done.stderr)
        done = self.run_program("pass", ZL_PROFILE="/nonexistent/x.json")
        self.assertEqual(done.returncode, 0)
        self.assertIn("ZL_PROFILE: zl_profile_begin: cannot write /nonexistent/x.json", done.stderr)

    def test_setting_of_programs_that_evaluate_nothing(self):
        done = self.run_program("x = mx.ones((3,)) + 1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertFalse(self.path.exists())


if __name__ == "__main__":
    unittest.main()
