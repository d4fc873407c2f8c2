# test_fuzz_files.py - hostile archives and file-like objects: arrays as NumPy reads them, or an exception that names a function.
#
# Covers npz archives of random members, stored and deflated, with names that are long, empty, paths, no UTF-8 or come twice;
# members that share their data, directories whose offsets, sizes, checksums, methods and names differ from the local headers,
# zip64 fields, comments and bytes before the end; headers of safetensors made of random JSON; objects whose read() and
# write() give other types, give up, or are cut short.

import io
import json
import os
import random
import struct
import unittest
import zipfile

import numpy as np
import zellige.core as zl

COUNT = 20_000 if os.environ.get("ZL_LONG") else 400
NAMES = ["a", "b", "a/b", "../up", "", "é", "x" * 3000, "a.npy", "\\", "__metadata__", "n\n"]
EXPECTED = (zl.FileError, ValueError, TypeError, MemoryError, OSError, RuntimeError)


def npy(r):
    shape = [r.randrange(4) for _ in range(r.randrange(3))]
    file = io.BytesIO()
    np.save(file, np.full(shape, r.randrange(100), r.choice(["u1", "<i4", ">f8", "?"])))
    return file.getvalue()


def archive(r):
    """An archive of some members, whose directory may say what is not so."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        for name in r.sample(NAMES, r.randrange(1, 5)):
            info = zipfile.ZipInfo(name + ".npy")
            info.compress_type = r.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
            with z.open(info, "w", force_zip64=r.random() < 0.5) as member:
                member.write(npy(r))
        for _ in range(r.randrange(3)):
            info, other = r.choice(z.filelist), r.choice(z.filelist)
            if r.random() < 0.3:  # the same data once more
                info = zipfile.ZipInfo(r.choice(NAMES) + ".npy")
                for field in ("compress_type", "CRC", "compress_size", "file_size", "header_offset", "flag_bits"):
                    setattr(info, field, getattr(other, field))
                z.filelist.append(info)
            else:
                field = r.choice(["CRC", "compress_size", "file_size", "header_offset"])
                wrong = r.choice([0, 1, getattr(other, field), 2**31, 2**32 - 1, 2**40])
                setattr(info, field, wrong & 2**32 - 1 if field == "CRC" else wrong)
        z.comment = b"c" * r.choice([0, 0, 9])
    data = bytearray(file.getvalue())
    for _ in range(r.choice([0, 0, 0, 1, 2])):
        data[r.randrange(len(data))] = r.randrange(256)
    return bytes(data)


def value(r, depth=0):
    kind = r.randrange(7 if depth < 3 else 4)
    if kind < 4:
        return r.choice([0, 1, -1, 2**63, "F32", "U8", "", None, True, 1.5])
    if kind == 4:
        return [r.randrange(-1, 9) for _ in range(r.randrange(4))]
    names = r.choices(["dtype", "shape", "data_offsets", "__metadata__", *NAMES], k=r.randrange(5))
    return {name: value(r, depth + 1) for name in names}


class FuzzFiles(unittest.TestCase):
    def attempt(self, call):
        """The result of a call; None after an exception, whose message begins with a function's name."""
        try:
            return call()
        except EXPECTED as error:
            self.assertRegex(str(error), r"^(zl_\w+: |\w+\(\): )")
            return None

    def test_archives(self):
        r, sound = random.Random(1), 0
        before = zl.get_active_memory()
        for _ in range(COUNT):
            data = archive(r)
            got = self.attempt(lambda: {name: np.array(a) for name, a in zl.load(io.BytesIO(data), format="npz").items()})
            if got is None:  # deflated members show their damage when they are read
                continue
            try:
                with np.load(io.BytesIO(data)) as file:
                    expected = {name: file[name + ".npy"] for name in file.files}
            except NotImplementedError:  # versions of zip and flags that say nothing about the data
                continue
            self.assertEqual(sorted(got), sorted(expected))
            for name in got:
                self.assertTrue(np.array_equal(got[name], expected[name]))
            sound += 1
        self.assertGreater(sound, COUNT // 10)  # the others are not refused for nothing
        del got
        self.assertEqual(zl.get_active_memory(), before)

    def test_headers(self):
        r = random.Random(2)
        for _ in range(COUNT):
            names = r.choices(NAMES, k=r.randrange(4))
            header = {name: value(r) if r.random() < 0.5 else
                      {"dtype": "U8", "shape": [r.randrange(4)], "data_offsets": [r.randrange(4), r.randrange(8)]} for name in names}
            text = json.dumps(header, ensure_ascii=r.random() < 0.5).encode()
            length = r.choice([len(text)] * 6 + [0, len(text) + 1, 2**40])
            data = struct.pack("<Q", length) + text + bytes(8)
            self.attempt(lambda: zl.load(io.BytesIO(data), format="safetensors", return_metadata=True))

    def test_objects(self):
        class Odd:
            def __init__(self, result):
                self.result = result

            def read(self, *sizes):
                return self.result

            def write(self, data):
                return self.result

        results = ["text", None, 3, -1, 0, 2**70, b"", bytearray(b"GGUF"), memoryview(b"PK"), [], 1.5]
        for result in results:
            for form in ("npy", "npz", "safetensors", "gguf"):
                self.assertIsNone(self.attempt(lambda: zl.load(Odd(result), format=form)))
            self.attempt(lambda: zl.savez(Odd(result), zl.arange(100)))


if __name__ == "__main__":
    unittest.main()
