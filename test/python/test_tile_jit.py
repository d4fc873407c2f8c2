"""zellige.tile from source to a running kernel: the cache that processes share, where runs fail, what tuning tells."""

import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import types
import unittest
import unittest.mock

import numpy as np

import zellige.tile as tile
import zellige.tile.language as T
from zellige.tile import tuned
from zellige.tile.errors import TileError

PROGRAM = textwrap.dedent("""
    import sys
    import numpy as np
    import zellige.tile as tile
    import zellige.tile.language as T

    @tile.jit
    def scale(N, factor):
        @T.prim_func
        def main(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
            with T.Kernel(T.ceildiv(N, 64), threads=64) as bx:
                for i in T.Parallel(64):
                    Y[bx * 64 + i] = T.exp(X[bx * 64 + i]) * factor
        return main

    x, y = np.zeros(100, "float32"), np.zeros(100, "float32")
    for factor in range(1, 4):
        scale(100, float(factor))(x, y)
        assert (y == factor).all(), y
    print("done")
    """)


@tile.jit
def guarded(N):
    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(N, threads=1) as bx:
            T.device_assert(X[bx] >= 0, "negative")
            Y[bx] = T.sqrt(X[bx])
    return main


class Cache(unittest.TestCase):
    def run_together(self, folder, count):
        with open(os.path.join(folder, "program.py"), "w") as file:
            file.write(PROGRAM)
        environment = {**os.environ, "ZL_CACHE_DIR": os.path.join(folder, "cache")}
        running = [subprocess.Popen([sys.executable, file.name], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                   for _ in range(count)]
        for process in running:
            out, error = process.communicate(timeout=300)
            self.assertEqual((process.returncode, out), (0, "done\n"), error)

    def entries(self, folder):
        return sorted(name for name in os.listdir(os.path.join(folder, "cache", "zellige-kernels-v1")) if name != "CACHEDIR.TAG")

    def test_processes_share_it(self):
        """Those that compile the same at once leave one entry of each kernel and nothing half made; an entry that was damaged is made anew."""
        with tempfile.TemporaryDirectory() as folder:
            self.run_together(folder, 6)
            made = self.entries(folder)
            self.assertEqual(len(made), 3, made)
            self.assertTrue(all(len(name) == 64 for name in made), made)
            entry = os.path.join(folder, "cache", "zellige-kernels-v1", made[0])
            library = next(os.path.join(entry, n) for n in os.listdir(entry) if n.endswith(".so"))
            with open(library, "r+b") as file:
                file.truncate(100)
            self.run_together(folder, 3)
            self.assertEqual(self.entries(folder), made)


class Runs(unittest.TestCase):
    def test_assertions_have_places(self):
        x, y = np.array([1, 4, -1], "float32"), np.zeros(3, "float32")
        with self.assertRaises(TileError) as caught:
            guarded(3)(x, y)
        self.assertIn("test_tile_jit.py", str(caught.exception))
        self.assertIn("negative", str(caught.exception))
        self.assertIn("T.device_assert", str(caught.exception))

    def test_indices_are_tested(self):
        """With ZL_CHECK=1 elements outside of a tile are errors, unless the program asks before; of arrays they never are."""
        def program(how):
            @T.prim_func
            def main(X: T.Tensor((8,), "float32"), At: T.Tensor((8,), "int32"), Y: T.Tensor((8,), "float32")):
                with T.Kernel(1, threads=8):
                    tile = T.alloc_shared((8,), "float32")
                    T.copy(X, tile)
                    for i in T.Parallel(8):
                        if how == "store":
                            tile[At[i]] = X[i]
                        elif how == "load":
                            Y[i] = tile[At[i]]
                        elif how == "asked":
                            Y[i] = T.if_then_else(At[i] < 8, tile[At[i]], 0)
                        else:
                            Y[i] = X[At[i]]
            return main

        x, at, y = np.arange(8, dtype="float32"), np.arange(8, dtype="int32"), np.zeros(8, "float32")
        at[3] = 9
        with unittest.mock.patch.dict(os.environ, ZL_CHECK="1"):
            for how, line in (("store", "tile[At[i]] = X[i]"), ("load", "Y[i] = tile[At[i]]")):
                with self.assertRaises(TileError) as caught:
                    tile.compile(program(how), target="c")(x, at, y)
                self.assertIn("has 8 elements along axis 0, and its index there is 9", str(caught.exception))
                self.assertIn(line, str(caught.exception))
            for how in ("asked", "array"):
                tile.compile(program(how), target="c")(x, at, y)
                np.testing.assert_array_equal(y, [0, 1, 2, 0, 4, 5, 6, 7])
        tile.compile(program("load"), target="c")(x, at, y)

    def test_arguments_are_refused_by_name(self):
        kernel = guarded(3)
        good = np.zeros(3, "float32")
        for wrong, reason in ((None, "'X' is None"), (np.zeros((3, 1), "float32"), "'X' has 2 axes"), (np.zeros(3), "'X' is float64"),
                              (np.zeros(4, "float32"), r"'X' has shape \(4,\)"), (np.zeros(6, "float32")[::2], "'X' has strides"),
                              ("text", "'X' is 'text'"), ([1.0, 2.0, 3.0], "'X' is ")):
            with self.assertRaisesRegex(TileError, reason):
                kernel(wrong, good)
        readonly = np.zeros(3, "float32")
        readonly.flags.writeable = False
        with self.assertRaisesRegex(TileError, "'Y' is written"):
            kernel(good, readonly)
        with self.assertRaisesRegex(TileError, "launched over"):
            kernel[4](good, good)
        kernel[3](good, good)


class Tuning(unittest.TestCase):
    def test_rows(self):
        """Every configuration is a row: its time, or why it has none; what was found is on disk for the next process."""
        @tile.autotune(configs=[{"block": 32}, {"block": 64}, {"block": 1 << 24}])
        @tile.jit
        def copied(N, block=16):
            @T.prim_func
            def main(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
                with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
                    part = T.alloc_fragment((block,), "float32")
                    T.copy(X[bx * block], part)
                    T.copy(part, Y[bx * block])
            return main

        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, ZL_CACHE_DIR=folder):
            kernel = copied(1000)
            self.assertIn(kernel.config["block"], (32, 64))
            rows = copied.rows(1000)
            self.assertEqual([row["config"]["block"] for row in rows], [32, 64, 1 << 24])
            self.assertTrue(all(row["latency"] > 0 for row in rows[:2]), rows)
            self.assertIn("4 MiB", rows[2]["error"])
            found = os.listdir(os.path.join(folder, "zellige-tuned"))
            self.assertEqual([name.endswith(".json") for name in found], [True])

    def test_times_of_a_model(self):
        """They say so, also those that are read from disk."""
        def rows():
            @tile.autotune(configs=[{"block": 8}, {"block": 64}])
            @tile.jit(target="bm1690")
            def copied(N, block=16):
                @T.prim_func
                def main(X: T.Tensor((N, N), "float32"), Y: T.Tensor((N, N), "float32")):
                    with T.Kernel(T.ceildiv(N, block)) as bx:
                        part = T.alloc_shared((block, N), "float32")
                        T.copy(X[bx * block, 0], part)
                        T.copy(part, Y[bx * block, 0])
                return main
            return copied.rows(128)

        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, ZL_CACHE_DIR=folder):
            first, second = rows(), rows()
        self.assertEqual(first, second)
        for row in first + second:
            self.assertIn("(modelled)", str(row["latency"]))

    def test_hanging_configurations(self):
        """Those that hang as they are compiled, as they run, or as they are compared are rows; the others take their place."""
        @tile.autotune(configs=[{"mode": m} for m in ("compile", "compile again", "and again", "run", "good")], timeout=3, warmup=1,
                       rep=1, ref_prog=lambda x: x)
        @tile.jit(out_idx=[-1])
        def counted(N, mode="good"):
            if "compile" in mode or "again" in mode:
                forever.wait()
            count = 10**10 if mode == "run" else 10  # some 20 seconds

            @T.prim_func
            def main(X: T.Tensor((N,), "int64"), Y: T.Tensor((N,), "int64")):
                with T.Kernel(1, threads=1):
                    x = T.alloc_var("int64", 0)
                    i = T.alloc_var("int64", 0)
                    x = X[0]
                    while i < count:
                        x = x * 3 + x // 7
                        i = i + 1
                    for j in T.Parallel(N):
                        Y[j] = X[j] + x
            return main

        forever = threading.Event()
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, ZL_CACHE_DIR=folder):
            with tile.set_autotune_inputs(np.zeros(8, "int64")):
                kernel = counted(8)
                rows = counted.rows(8)
        forever.set()
        self.assertEqual(kernel.config["mode"], "good")
        for row in rows[:4]:
            self.assertIn("more than 3 s", row["error"])

    def test_targets_are_tuned_apart(self):
        program = guarded.get_tir(3)
        paths = {tuned.path_of([({}, types.SimpleNamespace(program=program, target=t))]) for t in ("c", "opencl", "cuda", "auto")}
        self.assertEqual(len(paths), 3)

    def test_lambdas_give_programs(self):
        kernel = tile.jit(lambda n: guarded.get_tir(n))(3)
        y = np.zeros(3, "float32")
        kernel(np.array([1, 4, 9], "float32"), y)
        np.testing.assert_array_equal(y, [1, 2, 3])


if __name__ == "__main__":
    unittest.main()
