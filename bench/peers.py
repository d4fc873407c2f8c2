"""peers.py - times the same cases in several libraries, each in a process of its own.

Rounds go through all of them, and the best time of each counts. What is not installed, or cannot compute a case here, is named
and left out. A benchmark (fusion.py, cpu.py) gives main() its cases and a table of libraries: a class whose case(name) gives a
function that computes the case once and waits for it, and one that makes a number of its result that all libraries must agree on.
"""

import argparse
import ctypes.util
import gc
import json
import os
import subprocess
import sys
import time

ROUNDS, SLICE, WARM = 30, 0.03, 0.4  # a round gives each library so many seconds; before, it may warm up
THREAD_SETTINGS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "ZL_THREADS")
PAUSE = 0.004                        # threads of the one before fall asleep
LEAST, MOST = 4, 9                   # rounds that every case has, though they take longer than so many seconds
MORE = 15                            # seconds that a case below its bar may take again


# A library's own process ------------------------------------------------------------------------------------------


def answer(library, state, order):
    if order["do"] == "open":
        state["library"] = library()
        return {"version": state["library"].version}
    if order["do"] == "drop":
        state.pop("run", None)
        gc.collect()
        return {}
    if order["do"] == "prepare":
        run, value = state["library"].case(order["case"])
        result = run()
        number = value(result) if value else None
        calls, end = 0, time.perf_counter() + WARM
        while time.perf_counter() < end or calls < 3:
            run()
            calls += 1
        state["run"], state["calls"] = run, max(1, int(0.002 * calls / WARM))
        return {"value": number}
    if order["do"] == "memory":
        return {"bytes": state["library"].memory(state["run"])}
    return {"seconds": (processor_time if order["cpu"] else best_time)(state["run"], state["calls"])}


def best_time(run, calls):
    best, end = float("inf"), time.perf_counter() + SLICE
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(calls):
            run()
        best = min(best, (time.perf_counter() - start) / calls)
    return best


def processor_time(run, calls):
    """The mean of a whole slice: what threads on other processors used is known to the clock at ticks of some milliseconds."""
    made, end, start = 0, time.perf_counter() + max(SLICE, 0.2), time.process_time()
    while time.perf_counter() < end:
        for _ in range(calls):
            run()
        made += calls
    return (time.process_time() - start) / made


def serve(library):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(os.environ["ZL_THREADS"])])
    out, state = os.fdopen(os.dup(1), "w"), {}
    os.dup2(2, 1)  # libraries print what they like
    for line in sys.stdin:
        try:
            reply = answer(library, state, json.loads(line))
        except Exception as error:  # of any library: it is left out, and said why
            reply = {"error": " ".join(f"{type(error).__name__}: {error}".split())[:200]}
        print(json.dumps(reply), file=out, flush=True)


class Library:
    def __init__(self, name, preload, path=None, arguments=(), threads=2):
        """path: where Python looks for it first; arguments: of the benchmark, which its process needs too."""
        environment = {**os.environ, **dict.fromkeys(THREAD_SETTINGS, str(threads)),
                       "ZL_DEVICE": "cpu", "JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS", "cpu")}  # unless the benchmark chooses others itself
        if path:
            environment["PYTHONPATH"] = os.path.abspath(path)
        blas = ctypes.util.find_library("openblas")
        if preload and blas:  # MLX's wheel comes with a slower one
            environment["LD_PRELOAD"] = blas
        self.process = subprocess.Popen([sys.executable, sys.argv[0], *arguments, "--serve", name], text=True, env=environment,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.name, self.opened = name, self.ask(do="open")

    def ask(self, **order):
        try:
            print(json.dumps(order), file=self.process.stdin, flush=True)
            reply = self.process.stdout.readline()
        except BrokenPipeError:
            reply = ""
        return json.loads(reply) if reply else {"error": f"ended with status {self.process.wait()}"}

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait()


# Cases ------------------------------------------------------------------------------------------------------------


class Case:
    """ratio is the best time of the others divided by zellige's; a limit is no rival."""

    limit = None  # the library that is one

    def __init__(self, name, bar, libraries):
        self.name, self.bar, self.wanted = name, bar, libraries
        self.best, self.missing, self.values = {}, {}, {}

    def prepare(self, libraries):
        self.ready = []
        for library in (libraries[name] for name in self.wanted):
            reply = library.opened if "error" in library.opened else library.ask(do="prepare", case=self.name)
            if "error" in reply:
                self.missing[library.name] = reply["error"]
                continue
            self.values[library.name] = reply["value"]
            self.ready.append(library)

    def round(self, cpu):
        for library in self.ready:
            time.sleep(PAUSE)
            seconds = library.ask(do="time", cpu=cpu).get("seconds", float("inf"))
            self.best[library.name] = min(self.best.get(library.name, seconds), seconds)

    def rival(self):
        return min((n for n in self.best if n not in ("zellige", self.limit)), key=self.best.get, default=None)

    def ratio(self):
        return self.best[self.rival()] / self.best["zellige"] if self.rival() and "zellige" in self.best else 0

    def is_low(self):
        return bool(self.rival()) and self.ratio() < self.bar

    def note(self):
        """A line below its row."""

    def disagree(self):
        numbers = [v for v in self.values.values() if v is not None]
        return bool(numbers) and max(numbers) - min(numbers) > 1e-3 * max(1, max(map(abs, numbers)))


    def seconds(self, rounds):
        """How long it takes, about."""
        return len(self.wanted) * (1.5 * WARM + (SLICE + PAUSE) * rounds)

    def kept(self):
        return {"best": self.best, "missing": self.missing, "values": self.values}


def measure(case, rounds, libraries, cpu):
    case.prepare(libraries)
    end = time.monotonic() + MOST
    for turn in range(rounds):
        if turn >= LEAST and time.monotonic() > end:
            break
        case.round(cpu)
    end = time.monotonic() + MORE
    while rounds == ROUNDS and case.is_low() and time.monotonic() < end:
        case.round(cpu)
    for library in case.ready:
        library.ask(do="drop")


# What was measured before -----------------------------------------------------------------------------------------


def read_kept(options):
    """Times of cases by their names: those of a run that was interrupted."""
    if not (options.resume and options.keep and os.path.exists(options.keep)):
        return {}
    with open(options.keep) as file:
        return json.load(file)


def write_kept(options, kept):
    if options.keep:
        with open(options.keep, "w") as file:
            json.dump(kept, file)


# Reports ----------------------------------------------------------------------------------------------------------


def minutes(seconds):
    return f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"


def print_head(compared, cases, seconds):
    print(f"{len(cases)} cases, about {minutes(seconds)}, more if some are below their bars")
    print(f"{'microseconds':34}" + "".join(f"{name:>14}" for name in compared) + "   ratio  bar")


def print_row(case, compared, left):
    times = "".join(f"{case.best[name] * 1e6:14.1f}" if name in case.best else f"{'-':>14}" for name in compared)
    verdict = "LOW" if case.is_low() else "ok " if case.ratio() else "?  "  # nothing to compare it with
    print(f"{case.name:34}{times}  {case.ratio():6.2f}  {verdict} {case.bar}  {minutes(left)} left", flush=True)
    if case.note():
        print(f"  {case.note()}")
    if case.disagree():
        print(f"  results differ: {case.values}")


def print_end(cases, versions, options):
    kind = "processor time, " if options.cpu else ""
    print(f"\n{kind}best of rounds in turns, {options.threads} threads each: " + ", ".join(f"{n} {v}" for n, v in versions.items()))
    for reason in sorted({f"without {name}: {why}" for c in cases for name, why in c.missing.items()}):
        print(reason)


def print_markdown(cases, versions, compared):
    """The table of a document."""
    shown = [name for name in compared if name in versions]
    print("| microseconds | " + " | ".join(f"{name} {versions[name]}" for name in shown) + " | ratio |")
    print("| --- |" + " ---: |" * (len(shown) + 1))
    for c in cases:
        times = (c.best[name] * 1e6 if name in c.best else None for name in shown)
        cells = ("" if t is None else f"{t:.1f}" if t < 100 else f"{t:,.0f}" for t in times)
        print(f"| {c.name} | {' | '.join(cells)} | {c.ratio():.2f} |")


def report_json(cases, versions, threads):
    rows = [{"name": c.name, "ratio": round(c.ratio(), 4), "bar": c.bar, "missing": c.missing,
             "us": {name: round(seconds * 1e6, 2) for name, seconds in c.best.items()}} for c in cases]
    print(json.dumps({"threads": threads, "versions": versions, "results": rows}, indent=2))


# -----------------------------------------------------------------------------------------------------------------


def parser_of(doc):
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true", help="as a table of a document")
    parser.add_argument("--quick", action="store_true", help="few rounds: no figures to hold on to")
    parser.add_argument("--cpu", action="store_true", help="time of both processors together, waiting threads included: "
                        "steadier where other programs run, but no proof of speed")
    parser.add_argument("--check", action="store_true", help="fail when a ratio is below its bar")
    parser.add_argument("--only", default="", metavar="WORD", help="cases whose name contains it")
    parser.add_argument("--keep", metavar="FILE", help="where times of cases are kept as they are measured")
    parser.add_argument("--resume", action="store_true", help="cases that the file has are not measured again")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="of each library (default 2)")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    return parser


def run(options, cases, compared, preloaded=("mlx",), paths={}, arguments=()):
    """Measures and reports; the cases that were chosen, and the versions of the libraries."""
    cases = [c for c in cases if options.only in c.name]
    libraries = {name: Library(name, name in preloaded, paths.get(name), arguments, options.threads)
                 for name in sorted({name for case in cases for name in case.wanted})}
    versions = {name: l.opened["version"] for name, l in libraries.items() if "version" in l.opened}
    table = not (options.json or options.markdown)
    rounds, kept = LEAST if options.quick else ROUNDS, read_kept(options)
    left = {c.name: c.seconds(rounds) for c in cases if c.name not in kept}
    if table:
        print_head(compared, cases, sum(left.values()))
    for case in cases:
        if case.name in kept:
            vars(case).update(kept[case.name])
        else:
            try:
                measure(case, rounds, libraries, options.cpu)
            except KeyboardInterrupt:
                sys.exit("interrupted" + (f"; --keep {options.keep} --resume goes on" if options.keep else ""))
            kept[case.name] = case.kept()
            write_kept(options, kept)
        left.pop(case.name, None)
        if table:
            print_row(case, compared, sum(left.values()))
    for library in libraries.values():
        library.close()
    if options.json:
        report_json(cases, versions, options.threads)
    elif options.markdown:
        print_markdown(cases, versions, compared)
    else:
        print_end(cases, versions, options)
    return cases, versions


def main(options, cases, table_of_libraries, compared, preloaded=("mlx",)):
    """compared: libraries in the order of columns; preloaded: those that are given the system's BLAS."""
    if options.serve:
        return serve(table_of_libraries[options.serve])
    return any(c.is_low() for c in run(options, cases, compared, preloaded)[0]) and options.check
