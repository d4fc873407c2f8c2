#!/usr/bin/env python3
"""golden.py BUILD FOLDER [--seed N] [GROUP...] - runs cases.py on the vendor's model and writes FOLDER/GROUP.npz for each group.

A file has the device C, the cases' names, and the bytes of their inputs and of the outputs that the model gave:
text, names (lines), table (an int32 row of case, 0 input or 1 output, offset, bytes), data, before (what outputs held at first), expected
(what they hold afterwards). The committed files under test/bm1690/golden have seed 1; test-bm1690-vendor takes a new one.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

import cases
import model


def run_group(machine, name, seed):
    """Runs every case of a group. Returns the arrays of its file."""
    group = cases.make(name, seed)
    text = cases.group_text(group)
    table, data, before, expected = [], b"", b"", b""
    for index, case in enumerate(group):
        try:
            outputs = machine.run(text, f"case_{index}", case.inputs, case.outputs)
        except model.Died as error:
            raise SystemExit(f"{name}: the model refuses case {index}, {case.name}:\n{case.text(index)}{error}") from None
        for given in case.inputs:
            table.append((index, 0, len(data), len(given)))
            data += given
        for first, after in zip(case.outputs, outputs):
            table.append((index, 1, len(expected), len(after)))
            before += b"\xcc" * first if isinstance(first, int) else first
            expected += after
    as_bytes = lambda b: np.frombuffer(b, np.uint8)
    return {"text": as_bytes(text.encode()), "names": as_bytes("\n".join(case.name for case in group).encode()),
            "table": np.array(table, np.int32), "data": as_bytes(data), "before": as_bytes(before), "expected": as_bytes(expected)}


def write(build, folder, seed, names):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    machine = model.Model(build)
    for name in names or cases.GROUPS:
        arrays = run_group(machine, name, seed)
        np.savez(folder / f"{name}.npz", **arrays)
        print(f"{name}: {int(arrays['table'][-1, 0]) + 1} cases, {(folder / f'{name}.npz').stat().st_size} bytes", flush=True)
    machine.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("groups", nargs="*")
    options = parser.parse_intermixed_args()
    try:
        write(options.build, options.folder, options.seed, options.groups)
    except model.Missing as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
