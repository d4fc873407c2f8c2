#!/usr/bin/env python3
"""programs.py [--device cpu|cuda] [OPTION...] - whole programs beside MLX and PyTorch: training, prefill and decoding, with memory.

How they are timed is in peers.py, what is timed in program_cases.py. One of the GPTs (on a GPU two) has a shape that the seed draws.
`make bench-programs` makes an environment for it. With --check the exit status says whether speed and memory hold their bars. With
--against FOLDER, the module zellige in FOLDER (the build/python of another tree) takes its turns too, and a program that is
slower than 0.97 of it is below its bar. --save FILE writes the figures, of our machines to bench/results. With
--baseline FILE, such figures are the bars instead: a program that has less than 0.9 of its ratio to PyTorch there is below its bar,
and one that needs more than 1.1 of its ratio of memory is too heavy. Ratios are compared because machines differ.
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import peers
import program_cases
import usage

COMPARED = ("zellige", "mlx", "torch", "torch.compile")
MEMORY_BAR = 1.05  # of the best of PyTorch's peaks
LEAST_OF_KEPT, MOST_OF_KEPT = 0.9, 1.1  # ratios of speed and of memory, of those of a baseline
BEFORE, LEAST_OF_BEFORE = "before", 0.97


class Program(peers.Case):
    def __init__(self, name, bar, libraries):
        super().__init__(name, bar, libraries)
        self.memory, self.memory_bar = {}, MEMORY_BAR

    def hold(self, row):
        """Takes its bars from a row of a baseline, as far as that has figures."""
        kept = Program(self.name, 0, [])
        kept.best, kept.memory = row["seconds"], row["bytes"]
        if kept.ratio():
            self.bar = round(LEAST_OF_KEPT * kept.ratio(), 3)
        if kept.memory_ratio():
            self.memory_bar = MOST_OF_KEPT * kept.memory_ratio()

    def prepare(self, libraries):
        super().prepare(libraries)
        for library in self.ready:
            self.memory[library.name] = library.ask(do="memory").get("bytes", 0)

    def rival(self):
        """What it must beat: PyTorch, the better of two."""
        return min((n for n in self.best if n.startswith("torch")), key=self.best.get, default=None)

    def of_before(self):
        return self.best[BEFORE] / self.best["zellige"] if {BEFORE, "zellige"} <= set(self.best) else None

    def memory_ratio(self):
        peaks = [m for n, m in self.memory.items() if n.startswith("torch") and m]
        return self.memory["zellige"] / min(peaks) if peaks and self.memory.get("zellige") else None

    def is_low(self):
        return super().is_low() or (self.of_before() or 1) < LEAST_OF_BEFORE

    def is_heavy(self):
        return (self.memory_ratio() or 0) > self.memory_bar

    def note(self):
        count, unit = program_cases.tokens_of(self.name)
        rates = ", ".join(f"{name} {count / seconds:,.1f}" for name, seconds in self.best.items())
        peaks = ", ".join(f"{name} {peak / 2**30:.2f}" for name, peak in self.memory.items())
        more = f"; {self.of_before():.3f} of the other tree" if self.of_before() else ""
        heavy = "" if self.memory_ratio() is None else f" ({self.memory_ratio():.2f} of the least of PyTorch{', HEAVY' if self.is_heavy() else ''})"
        return f"{unit} per second: {rates}{more}; peak GiB: {peaks}{heavy}"

    def seconds(self, rounds):
        return 30 * len(self.wanted)

    def kept(self):
        return super().kept() | {"memory": self.memory}


def machine_of(device):
    """The chip, as `zellige bench devices` names it; None without that program beside the module."""
    module = importlib.util.find_spec("zellige")
    program = module and pathlib.Path(module.origin).parents[2] / "zellige"
    if not (program and program.exists()):
        return None
    done = subprocess.run([program, "bench", "devices", "--json"], capture_output=True, text=True)
    return next((chip["chip"] for chip in json.loads(done.stdout or "[]") if chip["runs_as"] == device), None)


def save(path, device, cases, versions):
    rows = [{"name": c.name, "seconds": c.best, "bytes": c.memory, "ratio": round(c.ratio(), 4), "missing": c.missing} for c in cases]
    with open(path + ".new", "w") as file:
        json.dump({"machine": machine_of(device), "device": device, "versions": versions, "programs": rows}, file, indent=1)
        file.write("\n")
    os.replace(path + ".new", path)


def rows_of(path, device):
    """Rows of a file that save() wrote, by their names."""
    with open(path) as file:
        kept = json.load(file)
    if kept["device"] != device:
        sys.exit(f"{path} has figures of {kept['device']}, not of {device}")
    return {row["name"]: row for row in kept["programs"]}


def main():
    parser = peers.parser_of(__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--against", metavar="FOLDER", help="build/python of another tree")
    parser.add_argument("--baseline", metavar="FILE", help="figures that --save wrote, as bars")
    parser.add_argument("--save", metavar="FILE", help="where figures are written as JSON")
    options = parser.parse_args()
    makers = program_cases.libraries(options.device)
    makers[BEFORE] = makers["zellige"]
    if options.serve:
        return peers.serve(makers[options.serve])
    before = [BEFORE] if options.against else []
    wanted = ["zellige", *before, *(["mlx"] if options.device == "cpu" else []), "torch", "torch.compile"]
    cases = [Program(name, bar, wanted) for name, bar in program_cases.names(options.device, options.seed).items()]
    kept = rows_of(options.baseline, options.device) if options.baseline else {}
    for case in cases:
        if case.name in kept:
            case.hold(kept[case.name])
    cases, versions = peers.run(options, cases, [*before, *COMPARED], paths={BEFORE: options.against},
                                arguments=["--device", options.device])
    if options.save:
        save(options.save, options.device, cases, versions)
    return options.check and any(c.is_low() or c.is_heavy() for c in cases)


if __name__ == "__main__":
    usage.run(main)
