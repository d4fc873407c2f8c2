# test_files.py - arrays in files: paths and file-like objects, formats by name, errors; NumPy reads and writes them too.

import io
import json
import os
import pathlib
import stat
import struct
import tempfile
import time
import unittest
import zipfile

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

    def test_files_that_are_cut_short_while_in_use(self):
        for count, options in ((1000, {}), (600_000, {"mmap": False})):  # small files are read, others where that is asked for
            for save, form in ((zl.save, "npy"), (zl.savez, "npz"), (zl.savez_compressed, "npz"),
                               (lambda f, x: zl.save_safetensors(f, {"x": x}), "safetensors"),
                               (lambda f, x: zl.save_gguf(f, {"x": x}), "gguf")):
                path = self.folder / f"a.{form}"
                save(path, zl.arange(count, dtype=zl.float32))
                loaded = zl.load(path, **options)
                os.truncate(path, 0)
                loaded = loaded if form == "npy" else next(iter(loaded.values()))
                self.assertEqual(zl.max(loaded).item(), count - 1)
        with self.assertRaises(TypeError):
            zl.load(path, None, False, False)  # mmap has to be named

    def test_saving_keeps_mode_and_links(self):
        path, link = self.folder / "a.safetensors", self.folder / "link.safetensors"
        zl.save_safetensors(path, {"x": zl.zeros(600_000)})
        os.chmod(path, 0o604)
        link.symlink_to(path.name)
        mapped = zl.load(link)["x"]
        zl.save_safetensors(link, {"x": mapped + 1})
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o604)
        self.assertTrue(link.is_symlink() and not path.is_symlink())
        self.assertEqual((zl.max(mapped).item(), zl.min(zl.load(path)["x"]).item()), (0, 1))
        os.mkfifo(self.folder / "fifo.npy")
        os.mkdir(self.folder / "folder.npy")
        for name, kind in (("fifo.npy", "a FIFO"), ("folder.npy", "a directory")):
            with self.assertRaisesRegex(zl.FileError, f"^zl_save: .*{name}.* {kind}"):
                zl.save(self.folder / name, zl.array(1))
        self.assertEqual(len(os.listdir(self.folder)), 4)  # nothing is left beside them

    def test_many_keys_take_linear_time(self):
        begin = time.perf_counter()
        notes = {f"key.{i}": "v" for i in range(80_000)}
        for save, form in ((zl.save_safetensors, "safetensors"), (zl.save_gguf, "gguf")):
            save(self.folder / "m", {}, notes)
            self.assertEqual(zl.load(self.folder / f"m.{form}", return_metadata=True)[1], notes)
        self.assertLess(time.perf_counter() - begin, 10)  # compared with each other they take several times that

    def test_names(self):
        x = zl.array([1, 2])
        names = ["a/b", "../x", "é\n", "", "x" * 60_000, ".npy", "a\\b"]
        for save, form in ((lambda f, d: zl.savez(f, **d), "npz"), (zl.save_safetensors, "safetensors"), (zl.save_gguf, "gguf")):
            save(self.folder / "n", {name: x for name in names})
            self.assertEqual(list(zl.load(self.folder / f"n.{form}")), names)
            for name, why in (("a\0b", "NUL"), ("\udcff", "UTF-8")):
                with self.assertRaisesRegex(ValueError, rf"^save\w+\(\): .*{why}"):
                    save(self.folder / "n", {name: x})
        with self.assertRaisesRegex(ValueError, "^zl_savez: a name of 70000 bytes"):
            zl.savez(self.folder / "n", **{"x" * 70_000: x})
        for notes in ({"a\0b": "x"}, {"a": "\udcff"}, {"\udcff": "x"}):
            with self.assertRaisesRegex(ValueError, r"^save_gguf\(\): "):
                zl.save_gguf(self.folder / "n", {}, notes)
        with self.assertRaisesRegex(ValueError, r"^save_gguf\(\): metadata 'a' has 3"):
            zl.save_gguf(self.folder / "n", {}, {"a": ["x", 3]})
        header = json.dumps({"\udcff": {"dtype": "U8", "shape": [1], "data_offsets": [0, 2]}}, ensure_ascii=False)
        header = header.encode(errors="surrogateescape")
        with self.assertRaisesRegex(zl.FileError, r"^zl_load_memory: .*\\xff"):  # any bytes may be a name
            zl.load(io.BytesIO(struct.pack("<Q", len(header)) + header + b"12"), format="safetensors")

    def overlapping(self, members):
        """An archive of about 20 kB whose members all are the same megabyte of zeros."""
        file = io.BytesIO()
        np.save(file, np.zeros(1 << 20, np.uint8))
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as z:
            z.writestr("a.npy", file.getvalue())
            for i in range(members):  # each is the first one, by another name
                info = zipfile.ZipInfo(f"{i}.npy")
                for field in ("compress_type", "CRC", "compress_size", "file_size", "header_offset", "flag_bits"):
                    setattr(info, field, getattr(z.filelist[0], field))
                z.filelist.append(info)
        return archive.getvalue()

    def test_members_that_overlap(self):
        data = self.overlapping(300)
        (self.folder / "bomb.npz").write_bytes(data)
        self.assertLess(len(data), 25_000)
        before = zl.get_active_memory()
        with self.assertRaises(zl.FileError):
            zl.load(self.folder / "bomb.npz")
        with self.assertRaises(zl.FileError):
            zl.load(io.BytesIO(data), format="npz")
        self.assertEqual(zl.get_active_memory(), before)

    def test_deflated_members_are_inflated_when_they_are_used(self):
        path = self.folder / "a.npz"
        r = np.random.default_rng(1)
        arrays = {f"x{i}": r.random(500_000, np.float32) for i in range(4)}
        arrays |= {"truth": r.random(9) < 0.5, "swapped": np.arange(7, dtype=">i4"), "empty": np.zeros((0, 3)), "one": np.float16(3),
                   "columns": np.asfortranarray(np.arange(12.0).reshape(3, 4))}
        np.savez_compressed(path, **arrays)
        for options in ({}, {"mmap": False}):
            before = zl.get_active_memory()
            loaded = zl.load(path, **options)
            held = os.path.getsize(path) if options else 0
            self.assertLess(zl.get_active_memory() - before, held + 10_000)
            np.testing.assert_array_equal(np.array(loaded["x2"]), arrays["x2"])
            self.assertLess(zl.get_active_memory() - before, held + 2_100_000)  # the others stay in the file
            for name, value in arrays.items():
                np.testing.assert_array_equal(np.array(loaded[name]), value)
            del loaded
            self.assertEqual(zl.get_active_memory(), before)
        loaded = zl.load(path)
        zl.savez_compressed(path, **{name: a + 1 if name[0] == "x" else a for name, a in loaded.items()})
        np.testing.assert_array_equal(np.array(zl.load(path)["x3"]), arrays["x3"] + 1)
        np.testing.assert_array_equal(np.array(loaded["x3"]), arrays["x3"])  # of the file that was there

    def test_deflated_members_of_a_file_that_changes(self):
        path = self.folder / "a.npz"
        data = np.random.default_rng(1).random(1_000_000, np.float32)
        np.savez_compressed(path, x=data, y=data + 1)
        loaded, read = zl.load(path), zl.load(path, mmap=False)
        with open(path, "r+b") as file:  # in place: the mapped file is another now
            file.seek(1_000_000)
            file.write(bytes(1000))
        with self.assertRaisesRegex(zl.FileError, r"^zl_load_file: .*a\.npz: 'x': .*damaged"):
            zl.eval(loaded["x"])
        np.testing.assert_array_equal(np.array(loaded["y"]), data + 1)
        np.testing.assert_array_equal(np.array(read["x"]), data)

    def test_long_headers_of_deflated_members(self):
        for length in (200, 240, 256, 257, 5000, 70_000):
            header = "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }".ljust(length - 1) + "\n"
            kind, form = (1, "<H") if length < 65536 else (2, "<I")
            member = b"\x93NUMPY" + bytes([kind, 0]) + struct.pack(form, length) + header.encode() + np.arange(3, dtype="<i4").tobytes()
            archive = io.BytesIO()
            with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as z:
                z.writestr("x.npy", member)
                z.writestr("more.npy", member + bytes(100_000))  # what follows the elements is not read
            loaded = zl.load(io.BytesIO(archive.getvalue()), format="npz")
            self.assertEqual((loaded["x"].tolist(), loaded["more"].tolist()), ([0, 1, 2], [0, 1, 2]))
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as z:
            z.writestr("x.npy", b"\x93NUMPY\2\0" + struct.pack("<I", 2**32 - 1) + bytes(9))
        with self.assertRaisesRegex(zl.FileError, r"^zl_load_memory: memory: 'x': it ends too early"):
            zl.load(io.BytesIO(archive.getvalue()), format="npz")

    def test_objects_that_write_less_than_they_are_given(self):
        class Slow(io.RawIOBase):
            def __init__(self):
                self.data = bytearray()

            def write(self, data):
                self.data += data[:100]
                return min(len(data), 100)

        class Full(Slow):
            def write(self, data):
                return 0

        slow = Slow()
        zl.save(slow, zl.arange(1000))
        self.assertEqual(zl.load(io.BytesIO(slow.data), format="npy").tolist(), list(range(1000)))
        with self.assertRaisesRegex(OSError, r"^save\(\): write\(\) wrote 0 of"):
            zl.save(Full(), zl.arange(1000))

    def test_errors_begin_with_the_function(self):
        class Text:
            def read(self):
                return "text"

        x, none = zl.array(1), self.folder / "none" / "none"
        for call in [
            lambda: zl.load(f"{none}.npy"), lambda: zl.load(f"{none}.npz"), lambda: zl.load(f"{none}.safetensors"),
            lambda: zl.load(f"{none}.gguf", mmap=False), lambda: zl.load("a\0b.npy"), lambda: zl.load(io.BytesIO()),
            lambda: zl.load(Text(), format="npy"), lambda: zl.load(3), lambda: zl.load(io.BytesIO(b"x"), format="gguf"),
            lambda: zl.load("a.txt"), lambda: zl.load(self.folder, format="npy"), lambda: zl.save(none, x), lambda: zl.savez(none, x),
            lambda: zl.savez_compressed(none, x), lambda: zl.save_safetensors(none, {"x": x}), lambda: zl.save_gguf(none, {"x": x}),
            lambda: zl.save_safetensors(none, {"x": "text"}), lambda: zl.save_gguf(none, {3: x}), lambda: zl.save("a\0b", x),
            lambda: zl.import_function(str(none)), lambda: zl.export_function(str(none), zl.exp, x),
            lambda: zl.import_function("a\0b"), lambda: zl.import_function(3), lambda: zl.exporter("a\0b", zl.exp),
            lambda: zl.exporter(none, zl.exp, metadata=3), lambda: zl.export_function("a\0b", zl.exp, x),
            lambda: zl.export_function(str(none), zl.exp, x, metadata="a\0b")]:
            with self.assertRaisesRegex(Exception, r"^(zl_\w+|\w+\(\)): "):
                call()

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
