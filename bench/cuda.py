#!/usr/bin/env python3
"""cuda.py - the device cuda beside PyTorch, JAX and MLX's CUDA build on one GPU: each case with its bar, in one run.

    PYTHONPATH=build/python python3 bench/cuda.py [--check] [--only TEXT] [--seed N] [--markdown FILE] [--json FILE]
    PYTHONPATH=build/python python3 bench/cuda.py --against FOLDER [--check] [--only TEXT] [--seed N] [--turns N]

Each library has a process of its own; rounds go through all of them, and the best time of each counts; a case below its bar gets
more rounds, which all of them run. A call follows the other without waiting, but for copies. Rates count bytes read and written, or
operations. Seven of the ten shapes of products are drawn by the seed. With --check the exit status says whether all bars were
reached; what is not installed, or cannot compute a case, is named and left out. All of it takes some
minutes on an H200.

With --against, the module zellige in FOLDER (the build/python of another tree) and ours measure each case in turns, and nobody else
does; each calls it untimed before it is timed. A case's figure is the other's median time by ours: no case may be below 0.97, the
median of no group below 1.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import cuda_cases
import usage

ROUNDS, MORE_ROUNDS, SLICE, WARM, CALLS_MOST = 3, 4, 0.03, 0.05, 400
SETTLE = 0.1  # seconds of its own calls before a turn: a GPU's clocks follow its load late, and the load before was the other's
LEAST_OF_CASE, LEAST_OF_GROUP = 0.97, 0.995  # 0.995: what rounds to 1.0 is no loss
HEADER = ["case", "unit", "zellige", "PyTorch", "JAX", "MLX", "of the best", "bar", "verdict", "why not"]
VERDICT = HEADER.index("verdict")
REACHED, MISSED = "reached", "**not reached**"


# A library's own process -----------------------------------------------------------------------------------------------

def time_calls(run, count):
    start = time.perf_counter()
    run(count)
    return (time.perf_counter() - start) / count


def call_for(run, seconds):
    """Calls for so long; the least seconds of one."""
    end, one = time.perf_counter() + seconds, time_calls(run, 1)
    while time.perf_counter() < end:
        one = min(one, time_calls(run, 3))
    return one


def work(name):
    out, sys.stdout = sys.stdout, sys.stderr
    library, run, count = None, None, 1
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if order["do"] == "open":
                library = cuda_cases.LIBRARIES[name]()
                answer = {"version": library.version}
            elif order["do"] == "ready":
                answer = {"milliseconds": library.ready()}
            elif order["do"] == "peak":
                run = getattr(library, order["kind"])(*order["arguments"])
                answer = library.peak(run)
            elif order["do"] == "prepare":
                run = None
                if not hasattr(library, order["kind"]):
                    raise NotImplementedError("it has no such thing")
                run = getattr(library, order["kind"])(*order["arguments"])
                run(4)
                answer = {}
            elif order["do"] == "warm":
                count = max(1, min(CALLS_MOST, int(SLICE / call_for(run, WARM))))
                answer = {}
            else:
                if "settle" in order:
                    call_for(run, order["settle"])
                answer = {"seconds": time_calls(run, count)}
        except Exception as e:
            answer = {"failed": f"{type(e).__name__}: {e}".split("\n")[0][:200]}
        print(json.dumps(answer), file=out, flush=True)


# All of them -----------------------------------------------------------------------------------------------------------

class Worker:
    """A process that measures with one library. `folder`, if any, is where it finds its modules."""

    def __init__(self, name, folder=None):
        self.name = name
        env = dict(os.environ, **cuda_cases.SETTINGS.get(name, {}))
        if folder:
            env["PYTHONPATH"] = folder
        self.process = subprocess.Popen([sys.executable, __file__, "--worker", name], env=env, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.failed, self.version = None, ""
        self.tell(do="open")

    def opened(self):
        answer = self.answer()
        self.failed, self.version = answer.get("failed"), answer.get("version", "")

    def tell(self, **order):
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
        except OSError:
            pass  # answer() says so

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.failed = f"its process ended with {self.process.wait()}"
            return {"failed": self.failed}
        return json.loads(line)

    def ask(self, **order):
        self.tell(**order)
        return self.answer()


def prepare(case, workers):
    """Those that can compute it, ready to, and why others cannot. What has to be compiled is compiled by all of them at once."""
    asked = [w for w in (workers.get(n) for n in (case.ours,) + case.peers) if w and not w.failed]
    for worker in asked:
        worker.tell(do="prepare", kind=case.kind, arguments=case.arguments)
    answers = {w.name: w.answer() for w in asked}
    for worker in asked:
        if "failed" not in answers[worker.name]:
            answers[worker.name] = worker.ask(do="warm")
    why = {name: a["failed"] for name, a in answers.items() if "failed" in a}
    return [w for w in asked if w.name not in why], why


def measure(case, workers):
    """Best seconds of one call by library, and why others have none."""
    ready, why = prepare(case, workers)
    best = {}
    for turn in range(ROUNDS + MORE_ROUNDS):
        if turn >= ROUNDS and judge(case, best)[1] is not False:
            break
        for worker in ready:
            answer = worker.ask(do="run")
            if "failed" in answer:
                why[worker.name] = answer["failed"]
            else:
                best[worker.name] = min(best.get(worker.name, answer["seconds"]), answer["seconds"])
    return best, why


def rate(case, seconds):
    return seconds / case.work / case.scale if case.less else case.work / seconds / case.scale


def judge(case, best):
    """The figure that is compared with the bar, and whether it reaches it; None: there is nothing to say."""
    ours, others = best.get(case.ours), [s for name, s in best.items() if name != case.ours]
    if ours is None:
        return None, False
    if case.by_best:
        share = min(others) / ours if others else None
        return share, None if share is None or case.group else share >= case.bar and rate(case, ours) >= case.floor
    figure = rate(case, ours)
    return figure, figure <= case.bar if case.less else figure >= case.bar


def row(cells):
    return "| " + " | ".join(cells) + " |"


def show(case, best, share, reached, why):
    columns = [f"{rate(case, best[n]):.3g}" if n in best else "–" for n in (case.ours, "torch", "jax", "mlx")]
    bar = f"{'≤' if case.less else '≥'} {case.bar:g}{'×' if case.by_best else ''}"
    bar += f", ≥ {case.floor:g}" if case.floor else ""
    ratio = f"{share:.2f}" if case.by_best and share else ""
    verdict = "" if reached is None else REACHED if reached else MISSED
    note = "; ".join(f"{name}: {text}" for name, text in why.items() if name == case.ours)
    return [case.name, case.unit] + columns + [ratio, bar, verdict or ("by the median" if case.group else ""), note]


def clocks():
    try:
        got = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu",
                              "--format=csv,noheader"], capture_output=True, text=True)
    except OSError:
        return "nvidia-smi: not here"
    return got.stdout.strip() if got.returncode == 0 else "nvidia-smi: it failed"


def open_workers(names):
    workers = {name: Worker(name) for name in names}
    for worker in workers.values():
        worker.opened()
    return workers


def measure_all(chosen, workers):
    """Prints a row of each case; the rows, and what was measured."""
    rows, shares, data = [], {}, []
    for case in chosen:
        best, why = measure(case, workers)
        share, reached = judge(case, best)
        if case.group and share:
            shares.setdefault((case.group, case.bar), []).append(share)
        rows.append(show(case, best, share, reached, why))
        data.append({"case": case.name, "seconds": best, "failed": why, "share": share, "bar": case.bar, "reached": reached})
        print(row(rows[-1]), flush=True)
    for (group, bar), list_of in shares.items():
        median = statistics.median(list_of)
        rows.append([f"{group}, median of {len(list_of)}", "", "", "", "", "", f"{median:.2f}", f"≥ {bar:g}×",
                     REACHED if median >= bar else MISSED, f"least {min(list_of):.2f}"])
        print(row(rows[-1]), flush=True)
    return rows, data


# Two trees ---------------------------------------------------------------------------------------------------------------

def measure_pair(case, pair, turns):
    """Median seconds of one call by each of two workers, under a load that is its own; or None and why."""
    for worker in pair:
        answer = worker.ask(do="prepare", kind=case.kind, arguments=case.arguments)
        answer = answer if "failed" in answer else worker.ask(do="warm")
        if "failed" in answer:
            return None, answer["failed"]
    seconds = [[], []]
    for turn in range(turns):
        for i in ((0, 1), (1, 0))[turn % 2]:
            answer = pair[i].ask(do="run", settle=SETTLE)
            if "failed" in answer:
                return None, answer["failed"]
            seconds[i].append(answer["seconds"])
    return [statistics.median(s) for s in seconds], None


def compare_trees(chosen, folder, turns):
    """Prints a row of each case and of each group; the names of those that lose more than they may."""
    header = ["case", "unit", "before", "after", "ratio", "verdict"]
    print("\n".join([f"before: {folder}; {turns} turns; {clocks()}", "", row(header), row(["---"] * len(header))]), flush=True)
    pairs = {name: [Worker(name, folder), Worker(name)] for name in dict.fromkeys(c.ours for c in chosen)}
    for worker in (w for pair in pairs.values() for w in pair):
        worker.opened()
        if worker.failed:
            raise SystemExit(f"cuda.py: {worker.name}: {worker.failed}")
    missed, ratios = [], {}
    for case in chosen:
        seconds, why = measure_pair(case, pairs[case.ours], turns)
        ratio = seconds[0] / seconds[1] if seconds else 0
        if not seconds or ratio < LEAST_OF_CASE:
            missed.append(case.name)
        ratios.setdefault(case.group or case.kind, []).append(ratio)
        cells = [f"{rate(case, s):.4g}" for s in seconds] + [f"{ratio:.3f}"] if seconds else ["–", "–", why]
        print(row([case.name, case.unit] + cells + [MISSED if case.name in missed else REACHED]), flush=True)
    for group, of_cases in ratios.items():
        median = statistics.median(of_cases)
        if median < LEAST_OF_GROUP:
            missed.append(group)
        print(row([f"{group}, median of {len(of_cases)}", "", "", "", f"{median:.3f}", MISSED if group in missed else REACHED]))
    return missed


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worker")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bar is not reached")
    parser.add_argument("--only", default="", help="cases whose name has one of these texts, separated by commas")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peers", default="torch,jax,mlx")
    parser.add_argument("--against", metavar="FOLDER", help="compare with the module zellige in this folder, and with nobody else")
    parser.add_argument("--turns", type=int, default=5, help="how often each tree measures a case with --against")
    parser.add_argument("--markdown")
    parser.add_argument("--json")
    return parser.parse_args()


def main():
    options, began = read_options(), time.perf_counter()
    if options.worker:
        return work(options.worker)
    chosen = [c for c in cuda_cases.cases(options.seed) if any(t in c.name for t in options.only.split(","))]
    if options.against:
        missed = compare_trees(chosen, options.against, options.turns)
        print(f"\n{time.perf_counter() - began:.0f} s; below the least: {len(missed)}" + "".join(f"\n- {n}" for n in missed))
        return 1 if options.check and missed else 0
    workers = open_workers(list(dict.fromkeys(c.ours for c in chosen)) + [p for p in options.peers.split(",") if p])
    about = [f"seed {options.seed}, {time.strftime('%Y-%m-%d')}, before: {clocks()}"]
    about += [f"{n}: {w.failed or w.version or 'here'}" for n, w in workers.items()]
    print("\n".join(about + ["", row(HEADER), row(["---"] * len(HEADER))]), flush=True)
    rows, data = measure_all(chosen, workers)
    missed = [r[0] for r in rows if r[VERDICT] == MISSED]
    about.append(f"after: {clocks()}; {time.perf_counter() - began:.0f} s")
    print("\n" + about[-1] + f"\nbars not reached: {len(missed)}" + "".join(f"\n- {name}" for name in missed))
    if options.markdown:
        table = [row(r) for r in [HEADER, ["---"] * len(HEADER)] + rows]
        pathlib.Path(options.markdown).write_text("\n".join(f"- {line}" for line in about) + "\n\n" + "\n".join(table) + "\n")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"about": about, "cases": data}, indent=1))
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    usage.run(main)
