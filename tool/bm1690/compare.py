#!/usr/bin/env python3
"""compare.py BUILD FILE.c --entry NAME [--cores N] [--seed N] OPERAND... - whether device C gives the same bits on the vendor's model
and on our emulator.

Operands are the entry's arguments in their order: in:DTYPE[D,D] (seeded random numbers; of integers in:DTYPE[D,D]:LIMIT, below the
limit), out:DTYPE[D,D], inout:DTYPE[D,D], or a number such as i32:384 or f32:0.5. The dtypes are f32, f16, bf16, i32, u32, i16, u16, i8
and u8. Without arguments after BUILD, it runs a kernel that was written by hand and those of rendered.py, with new shapes; with
--port FOLDER all device C below that folder besides, as far as published.py can read how it is called.
"""

import argparse
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import model
import published
import rendered

HERE = Path(__file__).resolve().parent
NUMBERS = {"f32": np.float32, "f16": np.float16, "bf16": np.uint16, "i32": np.int32, "u32": np.uint32, "i16": np.int16, "u16": np.uint16,
           "i8": np.int8, "u8": np.uint8}
FORMATS = {"f32": "f", "i64": "q", "i32": "i", "u32": "I", "i16": "h", "u16": "H", "i8": "b", "u8": "B"}
# The library's names of dtypes that .npy files have no type of their own for: those arrays are read as 16-bit integers.
OUR_NAMES = {"bf16": "u16"}


def written(rng):
    """Kernels that were written by hand, with random shapes: file, entry, cores, operands."""
    pick = lambda *choices: int(choices[rng.integers(0, len(choices))])
    m, n, k = 128 * pick(1, 2, 3), 256 * pick(1, 2), 128 * pick(1, 2, 4)
    yield HERE.parent.parent / "test/bm1690/device/matmul.c", "matmul_kernel", pick(1, 2, 8), [f"out:f16[{m},{n}]", f"in:f16[{m},{k}]", f"in:f16[{k},{n}]",
                                                                         f"i32:{m}", f"i32:{n}", f"i32:{k}"]


def numbers(rng, dtype, shape, limit):
    if dtype in ("f32", "f16"):
        return rng.normal(0, 1, shape).astype(NUMBERS[dtype])
    if dtype == "bf16":
        return (rng.normal(0, 1, shape).astype(np.float32).view("u4") >> 16).astype("u2")
    return rng.integers(0 if limit or dtype[0] == "u" else -100, limit or 100, shape).astype(NUMBERS[dtype])


class Refused(Exception):
    """Our emulator ended a launch; the text is its error."""


class Operand:
    def __init__(self, text, rng):
        tensor = re.fullmatch(r"(in|out|inout):(\w+)\[([\d,]+)\](?::(\d+))?", text)
        number = re.fullmatch(r"(\w+):([-+.\deE]+)", text)
        if not tensor and not (number and number[1] in FORMATS):
            raise SystemExit(f"{text} is no operand, such as in:f16[384,768], out:f32[8] or i32:384")
        self.text, self.word, self.data, self.dtype = text, tensor and tensor[1], None, (tensor or number)[2 if tensor else 1]
        self.is_output = self.word in ("out", "inout")
        if tensor:
            shape = tuple(map(int, tensor[3].split(",")))
            self.data = np.zeros(shape, NUMBERS[self.dtype]) if self.word == "out" else numbers(rng, self.dtype, shape, int(tensor[4] or 0))
        else:
            self.bytes = struct.pack("<" + FORMATS[self.dtype], float(number[2]) if self.dtype == "f32" else int(number[2]))


def run_vendor(machine, text, entry, operands):
    """The outputs on the vendor's model. Arguments are a C structure: addresses and numbers, each aligned to its size."""
    kernel, arguments, addresses = machine.load(text), b"", []
    for operand in operands:
        if operand.data is None:
            word = operand.bytes
        else:
            addresses.append(machine.alloc(operand.data.nbytes))
            machine.write(addresses[-1], operand.data.tobytes())
            word = struct.pack("<Q", addresses[-1])
        arguments += bytes(-len(arguments) % len(word)) + word
    machine.launch(kernel, entry, arguments)
    tensors = [operand for operand in operands if operand.data is not None]
    return [machine.read(address, operand.data.nbytes) for address, operand in zip(addresses, tensors) if operand.is_output]


def run_ours(build, path, entry, cores, operands, folder):
    """The outputs on our emulator."""
    words, outputs = [], []
    for index, operand in enumerate(operands):
        file = Path(folder) / f"{index}.npy"
        if operand.is_output:
            outputs.append(file)
        if operand.word == "out":
            name = OUR_NAMES.get(operand.dtype, operand.dtype)
            words.append(f"out:{file}:{name}[{','.join(map(str, operand.data.shape))}]")
        elif operand.word:
            np.save(file, operand.data)
            words.append(f"{operand.word}:{file}")
        else:
            words.append(operand.text)
    command = [Path(build) / "zellige", "kernel", "run", path, "--target", "bm1690", "--entry", entry, "--cores", str(cores), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Refused(done.stderr.strip())
    return [np.load(file).tobytes() for file in outputs]


def compare(build, path, entry, cores, texts, rng):
    """Runs both, and prints a line on what came out. Returns whether all outputs have the same bits; None if one of both refuses to run it."""
    operands = [Operand(text, rng) for text in texts]
    said = f"{Path(path).name} {entry} on {cores} cores, {' '.join(texts)}"
    try:
        with tempfile.TemporaryDirectory() as folder:
            ours = run_ours(build, path, entry, cores, operands, folder)
        machine = model.Model(build, cores)
        vendor = run_vendor(machine, Path(path).read_text(), entry, operands)
        machine.close()
    except (Refused, model.Died) as error:
        print(f"{said}: refused: {error}", flush=True)
        return None
    outputs = [operand for operand in operands if operand.is_output]
    bits = lambda data, o: np.frombuffer(data, f"u{o.data.itemsize}")
    wrong = [int((bits(a, o) != bits(b, o)).sum()) for a, b, o in zip(vendor, ours, outputs)]
    print(f"{said}: {'the same bits' if not any(wrong) else f'{wrong} elements differ'}", flush=True)
    return not any(wrong)


def cases(o, rng):
    """Kernels of ours, or the one of the command line."""
    if o.file:
        yield o.file, o.entry, o.cores, o.operands
        return
    yield from written(rng)
    folder = Path(o.build) / "bm1690" / "rendered"
    folder.mkdir(parents=True, exist_ok=True)
    yield from rendered.cases(o.build, folder, rng)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("file", nargs="?")
    parser.add_argument("--entry")
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--port", default=os.environ.get("PORT"))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED", time.time_ns() % 1000000)))
    parser.add_argument("operands", nargs="*")
    o = parser.parse_intermixed_args()
    rng = np.random.default_rng(o.seed)
    print(f"seed {o.seed}")
    try:
        good = [compare(o.build, *case, rng) for case in cases(o, rng)]
        foreign = [compare(o.build, *case, rng) for case in published.cases(Path(o.port))] if o.port and not o.file else []
    except model.Missing as error:
        sys.exit(str(error))
    if foreign:
        print(f"device C of {o.port}: {foreign.count(True)} of {len(foreign)} kernels give the same bits, {foreign.count(None)} refused")
    sys.exit(0 if all(good) and False not in foreign else 1)


if __name__ == "__main__":
    main()
