# test_bench.py - zellige.bench: runs and histories as the program wrote them, and files that are none.

import dataclasses
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import zellige
import zellige.bench

sys.path.append(str(pathlib.Path(__file__).parents[2] / "bench"))
import programs  # noqa: E402

program = pathlib.Path(zellige.__file__).parents[2] / "zellige"
header = pathlib.Path(__file__).parents[2] / "include/zellige_bench.h"


class Programs(unittest.TestCase):
    def test_help_is_told_before_anything_is_measured(self):
        for path in sorted(pathlib.Path(__file__).parents[2].glob("bench/*.py")):
            if "usage.help_if_asked(__doc__)" not in path.read_text():
                continue
            done = subprocess.run([sys.executable, "-S", path, "--help"], capture_output=True, text=True, timeout=20)
            self.assertEqual((done.returncode, done.stdout.split()[0]), (0, path.name), done.stderr)

    def test_an_interruption_is_a_line(self):
        script = "import usage\ndef main(): raise KeyboardInterrupt\nusage.run(main)"
        done = subprocess.run([sys.executable, "-c", script], cwd=pathlib.Path(__file__).parents[2] / "bench", capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (1, "-c: interrupted\n"))


class Gate(unittest.TestCase):
    """bench/programs.py --check --baseline FILE, with figures that are made up."""

    name = "train resnet50 images 4x64 float32"  # which has a bar of 1.0, and 1.05 for memory

    def figures(self, seconds, size):
        return {"zellige": seconds, "mlx": 0.1, "torch": 5.0, "torch.compile": 4.0}, {"zellige": size, "torch": 300, "torch.compile": 200}

    def status(self, seconds, size, *options):
        """The exit status after a run that measured these."""
        def run(options, cases, *_, **__):
            case, = (c for c in cases if c.name == self.name)
            case.best, case.memory = self.figures(seconds, size)
            return [case], {"zellige": "0"}

        with unittest.mock.patch.object(programs.peers, "run", run), \
                unittest.mock.patch.object(sys, "argv", ["programs.py", "--check", *map(str, options)]):
            return int(programs.main())

    def test_what_was_kept_is_the_bar(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "kept.json"
            self.assertEqual(self.status(2.0, 100, "--save", file), 0)  # ratios 2 and 0.5
            self.assertEqual(self.status(2.2, 109, "--baseline", file), 0)
            self.assertEqual(self.status(2.3, 100, "--baseline", file), 1)
            self.assertEqual(self.status(2.0, 111, "--baseline", file), 1)
            self.assertEqual(self.status(2.3, 111), 0)
            with self.assertRaisesRegex(SystemExit, "has figures of cpu, not of cuda"):
                self.status(2.0, 100, "--baseline", file, "--device", "cuda")

    def test_below_the_bar_but_not_worse_than_what_was_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "kept.json"
            self.assertEqual(self.status(4.4, 240, "--save", file), 1)
            self.assertEqual(self.status(4.4, 240, "--baseline", file), 0)

    def test_programs_that_the_file_does_not_have(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "kept.json"
            file.write_text('{"device": "cpu", "programs": []}')
            self.assertEqual(self.status(3.9, 200, "--baseline", file), 0)
            self.assertEqual(self.status(4.1, 200, "--baseline", file), 1)
            self.assertEqual(self.status(3.9, 211, "--baseline", file), 1)


class Bench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, value):
        (self.folder / name).write_text(value if isinstance(value, str) else json.dumps(value))
        return self.folder / name

    def test_a_file(self):
        row = {"id": "gemm/bf16/64", "work": "gemm", "dtype": "bf16", "size": [64], "status": "ok", "median_s": 0.5,
               "samples_s": [0.4, 0.5, 0.6], "rate": 8.0, "peak": None, "stable": True, "later": "unknown"}
        subject = {"chip": "tpu-v6e", "name": "TPU v6e", "threads": 4, "peaks": {"bf16": {"rate": 918e12}, "f64": {"rate": None}}}
        run = zellige.bench.load(self.write("metrics.json", {"suite": "x", "subject": subject, "rows": [row]}))
        self.assertEqual((run.suite, run.chip, run.threads, len(run)), ("x", "tpu-v6e", 4, 1))
        self.assertEqual(run.peaks, {"bf16": 918e12, "f64": None})
        got = run["gemm/bf16/64"]
        self.assertEqual((got.median, got.samples, got.size, got.rate), (0.5, (0.4, 0.5, 0.6), (64,), 8.0))
        self.assertEqual((got.peak, got.note, got.stable, got.bimodal, got.outliers), (None, "", True, False, 0))
        with self.assertRaisesRegex(KeyError, "no row 'gemm/f99'"):
            run["gemm/f99"]

    @unittest.skipUnless(header.exists(), "no headers beside this module")
    def test_rows_have_what_rows_in_c_have(self):
        struct = re.search(r"\btypedef struct \{([^}]*)\} zl_run_row;", header.read_text()).group(1)
        names = re.findall(r"(\w+)(?:\[\d+\])?[,;]", re.sub("//.*", "", struct))
        names = {name for name in names if name not in ("sample_count", "size_count")}
        self.assertEqual(names, {field.name for field in dataclasses.fields(zellige.bench.Row)})

    def test_files_that_are_no_runs(self):
        with self.assertRaisesRegex(ValueError, "no list 'rows'"):
            zellige.bench.load(self.write("a.json", {"suite": "x"}))
        with self.assertRaises(ValueError):
            zellige.bench.load(self.write("b.json", "{"))
        with self.assertRaises(FileNotFoundError):
            zellige.bench.load(self.folder)

    def test_histories(self):
        lines = [{"folder": "1", "suite": "a", "status": "complete", "threads": 2}, {"folder": "2", "suite": "b"}]
        self.write("index.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        self.assertEqual([entry.path for entry in zellige.bench.history(self.folder)],
                         [os.path.join(self.folder, name) for name in "12"])
        self.assertEqual([entry.suite for entry in zellige.bench.history(self.folder, suite="b")], ["b"])
        resumed = [{"folder": "1", "status": "interrupted"}, {"folder": "2"}, {"folder": "1", "status": "complete"}]
        self.write("index.jsonl", "".join(json.dumps(line) + "\n" for line in resumed))
        self.assertEqual([entry.status for entry in zellige.bench.history(self.folder)], ["complete", ""])
        self.write("index.jsonl", '{"folder": "1"}\n{"fol')
        with self.assertRaisesRegex(ValueError, "index.jsonl:2 is damaged"):
            zellige.bench.history(self.folder)
        self.write("index.jsonl", "")
        with self.assertRaisesRegex(TypeError, "no 'colour'"):
            zellige.bench.history(self.folder, colour="red")

    @unittest.skipUnless(program.exists(), "no program beside this module")
    def test_what_the_program_writes(self):
        suite = self.write("suite.json", {"name": "tiny", "items": [{"work": "gemm", "dtypes": ["f32", "tf32"], "sizes": [16]}]})
        runs = self.folder / "runs"
        command = [program, "bench", "run", suite, "--seconds", "0.001", "--samples", "4", "--out", runs]
        done = subprocess.run(command, capture_output=True, text=True)
        entry, = zellige.bench.history(runs, suite="tiny")
        run = zellige.bench.load(entry.path)
        self.assertEqual((run.status, run.device, entry.name), ("complete", "cpu", run.name))
        self.assertEqual([row.status for row in run], ["ok", "absent"])
        row = run["gemm/f32/16"]
        self.assertEqual(len(row.samples), 4)
        self.assertEqual(row.best, min(row.samples))
        self.assertEqual(row.median, statistics.median(row.samples))
        self.assertEqual(row.mad, statistics.median(abs(sample - row.median) for sample in row.samples))
        self.assertTrue(row.best <= row.p5 <= row.median <= row.p95 <= max(row.samples))
        self.assertTrue(row.low <= row.median <= row.high)
        self.assertAlmostEqual(row.rate, row.flops / row.median)
        self.assertAlmostEqual(row.utilisation, row.rate / run.peaks["f32"])


if __name__ == "__main__":
    sys.exit(unittest.main())
