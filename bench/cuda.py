#!/usr/bin/env python3
"""cuda.py - the device cuda beside PyTorch, JAX and MLX's CUDA build on one GPU: each case with its bar, in one run.

    PYTHONPATH=build/python python3 bench/cuda.py [--check] [--only TEXT] [--seed N] [--markdown FILE] [--json FILE]

Each library has a process of its own; rounds go through all of them, and the best time of each counts. A call follows the other
without waiting, but for copies. Rates count bytes read and written, or operations. Seven of the ten shapes of products are drawn by
the seed. With --check the exit status says whether all bars were reached; what is not installed, or cannot compute a
case, is named and left out.
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

ROUNDS, SLICE, WARM, CALLS_MOST = 5, 0.06, 0.15, 400


# A library's own process -----------------------------------------------------------------------------------------------

def time_calls(run, count):
    start = time.perf_counter()
    run(count)
    return (time.perf_counter() - start) / count


def work(name):
    out, sys.stdout = sys.stdout, sys.stderr
    library, run, count = None, None, 1
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if order["do"] == "open":
                library = cuda_cases.LIBRARIES[name]()
                answer = {"version": library.version}
            elif order["do"] == "prepare":
                run = None
                if not hasattr(library, order["kind"]):
                    raise NotImplementedError("it has no such thing")
                run = getattr(library, order["kind"])(*order["arguments"])
                run(4)
                end = time.perf_counter() + WARM
                one = time_calls(run, 1)
                while time.perf_counter() < end:
                    one = min(one, time_calls(run, 3))
                count = max(1, min(CALLS_MOST, int(SLICE / one)))
                answer = {}
            else:
                answer = {"seconds": time_calls(run, count)}
        except Exception as e:
            answer = {"failed": f"{type(e).__name__}: {e}".split("\n")[0][:200]}
        print(json.dumps(answer), file=out, flush=True)


# All of them -----------------------------------------------------------------------------------------------------------

class Worker:
    def __init__(self, name):
        self.name = name
        env = dict(os.environ, **cuda_cases.SETTINGS.get(name, {}))
        self.process = subprocess.Popen([sys.executable, __file__, "--worker", name], env=env, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        answer = self.ask(do="open")
        self.failed = answer.get("failed")
        self.version = answer.get("version", "")

    def ask(self, **order):
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            self.failed = f"its process ended with {self.process.wait()}"
            return {"failed": self.failed}
        return json.loads(line)


def measure(case, workers):
    """Best seconds of one call by library, and why others have none."""
    best, why, ready = {}, {}, []
    for name in (case.ours, "torch", "jax", "mlx"):
        worker = workers.get(name)
        if not worker or worker.failed:
            continue
        answer = worker.ask(do="prepare", kind=case.kind, arguments=case.arguments)
        if "failed" in answer:
            why[name] = answer["failed"]
        else:
            ready.append(worker)
    for _ in range(ROUNDS):
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
        return share, None if share is None or case.group else share >= case.bar
    figure = rate(case, ours)
    return figure, figure <= case.bar if case.less else figure >= case.bar


def show(case, best, share, reached, why):
    columns = [f"{rate(case, best[n]):.3g}" if n in best else "–" for n in (case.ours, "torch", "jax", "mlx")]
    bar = f"{'≤' if case.less else '≥'} {case.bar:g}{'×' if case.by_best else ''}"
    ratio = f"{share:.2f}" if case.by_best and share else ""
    verdict = "" if reached is None else "reached" if reached else "not reached"
    note = "; ".join(f"{name}: {text}" for name, text in why.items() if name == case.ours)
    return [case.name, case.unit] + columns + [ratio, bar, verdict or ("by the median" if case.group else ""), note]


def clocks():
    got = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu",
                          "--format=csv,noheader"], capture_output=True, text=True)
    return got.stdout.strip() if got.returncode == 0 else "nvidia-smi: not here"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worker")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bar is not reached")
    parser.add_argument("--only", default="", help="cases whose name has one of these texts, separated by commas")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peers", default="torch,jax,mlx")
    parser.add_argument("--markdown")
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.worker:
        return work(options.worker)
    chosen = [c for c in cuda_cases.cases(options.seed) if any(t in c.name for t in options.only.split(","))]
    names = list(dict.fromkeys(c.ours for c in chosen)) + [p for p in options.peers.split(",") if p]
    workers = {name: Worker(name) for name in names}
    lines = [f"seed {options.seed}, {time.strftime('%Y-%m-%d')}, before: {clocks()}"]
    lines += [f"{n}: {w.failed or w.version or 'here'}" for n, w in workers.items()]
    print("\n".join(lines), flush=True)
    header = ["case", "unit", "zellige", "PyTorch", "JAX", "MLX", "of the best", "bar", "", "why not"]
    rows, shares, good, data = [], {}, True, []
    for case in chosen:
        best, why = measure(case, workers)
        share, reached = judge(case, best)
        if case.group and share:
            shares.setdefault((case.group, case.bar), []).append(share)
        good &= reached is not False
        rows.append(show(case, best, share, reached, why))
        data.append({"case": case.name, "seconds": best, "failed": why, "share": share, "bar": case.bar, "reached": reached})
        print(" | ".join(rows[-1]), flush=True)
    for (group, bar), list_of in shares.items():
        median = statistics.median(list_of)
        good &= median >= bar
        rows.append([f"{group}, median of {len(list_of)}", "", "", "", "", "", f"{median:.2f}", f"≥ {bar:g}×",
                     "reached" if median >= bar else "not reached", f"least {min(list_of):.2f}"])
        print(" | ".join(rows[-1]), flush=True)
    lines.append(f"after: {clocks()}")
    print(lines[-1])
    if options.markdown:
        table = ["| " + " | ".join(r) + " |" for r in [header, ["---"] * len(header)] + rows]
        pathlib.Path(options.markdown).write_text("\n".join(f"- {line}" for line in lines) + "\n\n" + "\n".join(table) + "\n")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"about": lines, "cases": data}, indent=1))
    return 1 if options.check and not good else 0


if __name__ == "__main__":
    sys.exit(main())
