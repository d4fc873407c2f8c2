"""cpu_bars.py - the bars of the CPU as one table: what bench/cpu.py measured beside other libraries, and what programs of their own
say of threads, peaks of instructions and quantised matrices.
"""

import pathlib
import re
import statistics
import subprocess
import sys


class Bar:
    """Figures of one kind of work. `most`: they may not be above the bar, else not below it."""

    def __init__(self, work, bar, most=False):
        self.work, self.bar, self.most = work, bar, most
        self.figures = {}  # case: figure
        self.limits = {}   # case: what no figure can exceed, where that is known
        self.missing = ""  # why there are none

    def low(self):
        return {case: x for case, x in self.figures.items() if (x > self.bar if self.most else x < self.bar)}

    def worst(self):
        return (max if self.most else min)(self.figures.values())

    def row(self):
        if not self.figures:
            return f"{self.work:52}{self.bar:6.2f}{'-':>8}{'-':>8}{0:7}  ?   {self.missing}"
        middle = statistics.median(self.figures.values())
        beyond = sum(self.limits.get(case, self.bar) < self.bar for case in self.low())
        verdict = f"LOW {len(self.low())}{f', {beyond} beyond the limit' if beyond else ''}" if self.low() else "ok"
        return f"{self.work:52}{self.bar:6.2f}{self.worst():8.2f}{middle:8.2f}{len(self.figures):7}  {verdict}"


# Programs ---------------------------------------------------------------------------------------------------------


def run(*command):
    """What a program prints, which is shown as it comes; fails if the program does."""
    print(f"== {' '.join(command[-3:])}", flush=True)
    lines = []
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE) as program:
        for line in program.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if program.returncode:
        raise OSError(f"{command[-1]} ended with status {program.returncode}")
    return "".join(lines)


def threads_bars(build):
    bar = Bar("waking the pool, of waking a thread by a futex", 1.3, most=True)
    found = re.search(r"wake the pool.* ([\d.]+) of a bare futex", run(f"{build}/bench/threads"))
    bar.figures = {"wake": float(found[1])} if found else {}
    return [bar]


def peak_bars(build, quick):
    """The median of some shapes is what has a bar."""
    text, bars = run(f"{build}/bench/gemm", *(["--quick"] if quick else [])), []
    for dtype, peak, median, bar in re.findall(r"^(\w+): (.+?) [\d.]+ GFLOP/s\n(?:.*\n)*?  median ([\d.]+).* bar ([\d.]+)", text, re.MULTILINE):
        bars.append(Bar(f"products of {dtype}, of the peak of {peak}", float(bar)))
        bars[-1].figures = {"median": float(median)}
    return bars


OURS = 8  # columns of quantized.py that are there without llama.cpp


def quantized_bars(folder):
    """Beside llama.cpp's kernels for matrices as files have them: what its test-backend-ops measures."""
    bars = {"1": Bar("quantised matrix by a vector, beside llama.cpp", 1.0), "128": Bar("quantised matrix by 128 rows, beside llama.cpp", 1.5)}
    wide = Bar("4-bit matrix by 128 rows of float32, beside llama.cpp", 1.5)
    if not folder:
        for bar in (*bars.values(), wide):
            bar.missing = "no folder of llama.cpp was given: make bench-cpu GGML=FOLDER"
        return [*bars.values(), wide]
    for line in run(sys.executable, str(pathlib.Path(__file__).with_name("quantized.py")), "--ggml", folder).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        others = (len(cells) - OURS) // 2  # kinds of its kernels: a time of each, then a ratio of each
        if others > 0 and cells[1] in bars:
            bars[cells[1]].figures[f"{cells[0]}, {cells[1]} rows"] = float(cells[OURS + others])
            if cells[1] == "128" and cells[0].startswith("q4"):
                wide.figures[cells[0]] = float(cells[OURS]) / float(cells[2])
    return [*bars.values(), wide]


def program_bars(options):
    """Of all programs. One that fails is named in its row."""
    print(f"threads, peaks of instructions, quantised matrices: about {4 if options.ggml else 1} min", flush=True)
    bars = []
    for part in (lambda: threads_bars(options.build), lambda: peak_bars(options.build, options.quick), lambda: quantized_bars(options.ggml)):
        try:
            bars += part()
        except OSError as error:
            bars.append(Bar("a program that failed", 0))
            bars[-1].missing = str(error)
    return bars


# Cases ------------------------------------------------------------------------------------------------------------


def work_of(name):
    """The kind of work that a case of cpu_cases.py is."""
    word, dtype, *rest = name.split()
    if word == "epoch":
        return "epochs of training"
    if word == "conv" and rest[-1] in ("input", "kernel"):
        return f"conv's gradients of {dtype}, beside PyTorch"
    if word in ("attention", "conv"):
        return f"{word} of {dtype}, beside PyTorch"
    if word == "linear":
        return f"few rows by a transposed matrix of {dtype}"
    if word != "matmul":
        return word if dtype == "float32" else f"{word} of {dtype}"
    sizes = [int(n) for n in rest[0].split("x")]
    if min(sizes) == 1:
        return "products of a vector"
    if min(sizes) <= 16:
        return "products of few rows or columns"
    return "products of 64 to 256" if max(sizes) <= 256 else f"products of {dtype}, 512 to 4096"


def case_bars(cases):
    bars = {}
    for case in cases:
        bar = bars.setdefault(work_of(case.name), Bar(work_of(case.name), case.bar))
        if case.ratio() or "zellige" in case.missing:
            bar.figures[case.name] = case.ratio()
        if getattr(case, "most", None) and case.most():
            bar.limits[case.name] = case.most()
        if not case.ratio():
            bar.missing = "; ".join(f"without {name}: {why}" for name, why in case.missing.items()) or "nothing to compare it with"
        if getattr(case, "share", None) and case.share():
            reading = bars.setdefault("reading", Bar("products of a vector, of the rate of reading", case.least))
            reading.figures[case.name] = case.share()
    return list(bars.values())


def print_bars(bars):
    """The table, and below it what misses its bar. Whether nothing does."""
    print(f"\n{'work':52}{'bar':>6}{'worst':>8}{'median':>8}{'cases':>7}")
    for bar in bars:
        print(bar.row())
    low = [(bar, case, figure) for bar in bars for case, figure in bar.low().items()]
    unknown = [bar.work for bar in bars if not bar.figures]
    print("\nall bars hold" if not low else f"\nbelow their bars, {len(low)} of {sum(len(b.figures) for b in bars)}:")
    for bar, case, figure in low:
        limit = f", limit {bar.limits[case]:.2f}" if case in bar.limits else ""
        print(f"  {bar.work}: {case}: {figure:.2f}, {'at most' if bar.most else 'bar'} {bar.bar}{limit}")
    if unknown:
        print(f"not measured: {'; '.join(unknown)}")
    return not low
