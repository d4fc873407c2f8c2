# test_files.py - arrays in files: paths and file-like objects, formats by name, errors; NumPy reads and writes them too.

import io
import os
import pathlib
import tempfile
import unittest

import numpy as np
import zellige.core as zl


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_numpy_reads_what_is_saved(self):
        a = zl.arange(12, dtype=zl.float32).reshape(3, 4)
        zl.save(self.folder / "a", a.T)  # the extension is added
        self.assertTrue(np.array_equal(np.load(self.folder / "a.npy"), np.arange(12).reshape(3, 4).T))
        for save in (zl.savez, zl.savez_compressed):
            save(self.folder / "a.npz", a, b=zl.array([True, False]))
            with np.load(self.folder / "a.npz") as file:
                self.assertEqual(sorted(file), ["arr_0", "b"])
                self.assertTrue(np.array_equal(file["arr_0"], np.arange(12).reshape(3, 4)))

    def test_what_numpy_saves_is_loaded(self):
        data = np.asfortranarray(np.arange(600_000, dtype=">f8").reshape(2, -1))
        np.save(self.folder / "a.npy", data)
        self.assertTrue(np.array_equal(np.array(zl.load(self.folder / "a.npy")), data))
        np.savez_compressed(self.folder / "a.npz", x=data, y=np.int8(3))
        loaded = zl.load(str(self.folder / "a.npz"))
        self.assertTrue(np.array_equal(np.array(loaded["x"]), data))
        self.assertEqual(loaded["y"].item(), 3)

    def test_file_like_objects(self):
        a = zl.array([1, 2, 3])
        for save, form in [(zl.save, "npy"), (zl.savez, "npz"), (lambda f, x: zl.save_safetensors(f, {"x": x}), "safetensors")]:
            file = io.BytesIO()
            save(file, a)
            file.seek(0)
            got = zl.load(file, format=form)
            got = got if form == "npy" else next(iter(got.values()))
            self.assertEqual(got.tolist(), [1, 2, 3])

    def test_metadata(self):
        path = self.folder / "m.gguf"
        notes = {"text": "é", "list": ["a", ""], "numbers": zl.array([1, 2], zl.uint8)}
        zl.save_gguf(path, {"w": zl.zeros((2, 2))}, notes)
        arrays, got = zl.load(path, return_metadata=True)
        self.assertEqual(arrays["w"].shape, (2, 2))
        self.assertEqual((got["text"], got["list"], got["numbers"].tolist()), ("é", ["a", ""], [1, 2]))

    def test_mistakes(self):
        for error, call in [
            (RuntimeError, lambda: zl.load(self.folder / "none.npy")), (OSError, lambda: zl.load(self.folder / "none.gguf")),
            (ValueError, lambda: zl.load("name")), (ValueError, lambda: zl.load("a.txt")), (ValueError, lambda: zl.load(3)),
            (ValueError, lambda: zl.load("a.npy", return_metadata=True)), (ValueError, lambda: zl.save(3, zl.array(1))),
            (ValueError, lambda: zl.savez(self.folder / "a", zl.array(1), arr_0=zl.array(1))),
            (ValueError, lambda: zl.save_safetensors(self.folder / "a", {"a": zl.array(1)}, {"n": 1})),
            (TypeError, lambda: zl.save_safetensors(self.folder / "a", [zl.array(1)])),
            (RuntimeError, lambda: zl.load(io.BytesIO(b"no file"), format="safetensors"))]:
            with self.assertRaises(error):
                call()
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main()
