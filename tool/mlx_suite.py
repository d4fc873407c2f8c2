#!/usr/bin/env python3
"""mlx_suite.py TESTS BUILD [FILE...] - MLX's own Python tests on zellige.core; writes doc/compatibility.md.

TESTS is the folder python/tests of a copy of MLX's repository, outside ours. The interpreter needs pytest, numpy and
mlx (mlx.nn and its neighbours come from there); torch and ml_dtypes are used where a test asks for them. One process
a file; a test that crashes or takes longer than a limit ends its process, is counted, and the rest of the file goes on.
With file names only those run, and nothing is written. With DEVICE=gpu the tests' default device is that one; then too
nothing is written, calls that fell back to the CPU are counted per op, and the exit status says whether as many tests pass as
doc/compatibility.md has of the CPU, and nothing fell back but what tool/may_fall_back.txt names. MLX_SUITE_JOBS files run at once. For a machine without pytest or mlx, name folders that hold copies of their Python files in PYTHONPATH.
"""

import collections
import concurrent.futures
import datetime
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

DEVICE = os.environ.get("DEVICE")
JOBS = int(os.environ.get("MLX_SUITE_JOBS", "1"))
LIMIT = float(os.environ.get("MLX_TEST_SECONDS", "120"))
# Files for several ranks, with the engine that connects them and numbers of ranks: a test passes if it does on all ranks, each time.
LAUNCHED = {"ring_test_distributed.py": ("ring", (2, 8)), "mpi_test_distributed.py": ("mpi", (8,)),
            "nccl_test_distributed.py": ("nccl", (8,))}
RANK_SECONDS = 600  # for a file on so many ranks
HERE = pathlib.Path(__file__).resolve()
PAGE = HERE.parent.parent / "doc" / "compatibility.md"


# Inside the process that runs a file: a pytest plugin -----------------------------------------------------------------

class Recorder:
    """Writes a line before and after each test, and leaves out those that have one already."""

    def __init__(self, path):
        self.path = path
        self.done = {event["test"] for event in read_events(path)}

    def write(self, **event):
        with open(self.path, "a") as file:
            file.write(json.dumps(event) + "\n")

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if item.nodeid.split("::", 1)[1] not in self.done]

    def pytest_runtest_protocol(self, item, nextitem):
        import faulthandler
        self.write(test=item.nodeid.split("::", 1)[1], state="started")
        faulthandler.dump_traceback_later(LIMIT, exit=True)

    def pytest_runtest_logreport(self, report):
        import faulthandler
        name = report.nodeid.split("::", 1)[1]
        if report.failed:
            reason = str(getattr(report.longrepr, "reprcrash", None) and report.longrepr.reprcrash.message or report.longrepr)
            self.write(test=name, state="failed", why=reason.strip().split("\n")[0][:160])
        elif report.skipped and not hasattr(report, "wasxfail"):
            self.write(test=name, state="skipped", why=str(report.longrepr[2] if isinstance(report.longrepr, tuple) else ""))
        elif report.when == "teardown":
            faulthandler.cancel_dump_traceback_later()
            self.write(test=name, state="passed")

    def pytest_collectreport(self, report):
        if report.failed:
            self.write(test="(import)", state="failed", why=str(report.longrepr).strip().split("\n")[-1][:160])


def own_events(events):
    rank = os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("MLX_RANK", ""))
    return f"{events}.{rank}" if rank else events


def run_inside(file, events):
    import pytest
    events = own_events(events)
    import zellige.mlx
    zellige.mlx.install()
    return pytest.main(["-q", "--tb=short", "-p", "no:cacheprovider", "--capture=no", "-W", "ignore", file], plugins=[Recorder(events)])


# Outside ----------------------------------------------------------------------------------------------------------------

def read_events(path):
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


RANK = {"started": 0, "passed": 1, "skipped": 2, "failed": 3, "crashed": 4}


def states(events):
    """Of each test the worst that happened to it."""
    result = {}
    for event in events:
        old = result.get(event["test"], ("started", ""))
        if RANK[event["state"]] >= RANK[old[0]]:
            result[event["test"]] = (event["state"], event.get("why", ""))
    return result


def launcher(engine, ranks, build):
    """The words before those that run a file."""
    words = [os.path.join(build, "zellige"), "launch", "--backend", engine, "-n", str(ranks)]
    if engine == "ring":
        words += ["--starting-port", str(20000 + os.getpid() % 20000)]
    if engine == "mpi":
        words += ["--mpi-arg", "--oversubscribe,--bind-to,none" + (",--allow-run-as-root" if os.geteuid() == 0 else "")]
    return words + ["--"]


def has_gpus(count):
    """NCCL connects GPUs, one for each rank."""
    got = subprocess.run("nvidia-smi -L | wc -l", shell=True, capture_output=True, text=True)
    return int(got.stdout or 0) >= count


def run_ranks(engine, ranks, build, file, events, env, folder, log):
    """One file by several ranks: of each test the worst of all ranks."""
    if engine == "nccl" and not has_gpus(ranks):
        return {"(launch)": ("skipped", f"{ranks} NVIDIA GPUs are needed")}
    words = launcher(engine, ranks, build) + [sys.executable, str(HERE), "--inside", file, events]
    try:
        code = subprocess.run(words, env=env, cwd=folder, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              timeout=RANK_SECONDS).returncode
    except subprocess.TimeoutExpired:
        code = f"none: no end after {RANK_SECONDS} s"
    merged = {}
    for rank in range(ranks):
        for name, (state, why) in states(read_events(f"{events}.{rank}")).items():
            state, why = ("crashed", f"exit code {code}") if state == "started" else (state, why)
            if RANK[state] >= RANK[merged.get(name, ("started", ""))[0]]:
                merged[name] = (state, f"{ranks} ranks, rank {rank}: {why}" if why else "")
    return merged or {"(launch)": ("failed", f"{ranks} ranks: exit code {code}")}


def run_launched(file, build, events, env, folder, log):
    """By each number of ranks: of each test the worst."""
    engine, counts = LAUNCHED[pathlib.Path(file).name]
    merged = {}
    for ranks in counts:
        for name, (state, why) in run_ranks(engine, ranks, build, file, f"{events}-{ranks}", env, folder, log).items():
            if RANK[state] >= RANK[merged.get(name, ("started", ""))[0]]:
                merged[name] = (state, why)
    return merged


def run_file(file, build, folder):
    events = os.path.join(folder, pathlib.Path(file).stem + ".jsonl")
    paths = [os.path.join(build, "python"), os.environ.get("PYTHONPATH", "")]
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, paths)), HF_HUB_OFFLINE="1")
    if not DEVICE:
        env.setdefault("ZL_DEVICE", "cpu")  # the page is about the CPU, also when it is written on a machine with a GPU
    else:
        env["ZL_LOG"] = "info"  # which names what falls back
    with open(os.path.join(folder, pathlib.Path(file).stem + ".log"), "a") as log:
        if pathlib.Path(file).name in LAUNCHED:
            return run_launched(file, build, events, env, folder, log)
        for _ in range(100):
            code = subprocess.run([sys.executable, str(HERE), "--inside", file, events], env=env, cwd=folder, stdout=log,
                                  stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL).returncode
            ended = [name for name, (state, _) in states(read_events(events)).items() if state == "started"]
            if not ended:
                break
            why = f"signal {signal.Signals(-code).name}" if code < 0 else f"no end after {LIMIT:.0f} s"
            with open(events, "a") as out:
                out.writelines(json.dumps({"test": name, "state": "crashed", "why": why}) + "\n" for name in ended)
    return states(read_events(events))


def fell_back(folder):
    """Calls that plans placed on the CPU, by op and dtype, most frequent first."""
    count = collections.Counter()
    for log in pathlib.Path(folder).glob("*.log"):
        count.update(re.findall(r"info: (\w+ of \w+) falls back to the CPU", log.read_text(errors="replace")))
    return count.most_common()


def may_fall_back(call):
    rows = (HERE.parent / "may_fall_back.txt").read_text().splitlines()
    return any(re.search(row, call) for row in rows)


def commit_of(tests):
    for command in (["git", "-C", tests, "rev-parse", "HEAD"],):
        got = subprocess.run(command, capture_output=True, text=True)
        if got.returncode == 0:
            return got.stdout.strip()
    return os.environ.get("MLX_COMMIT", "unknown (set MLX_COMMIT)")


def reasons(results):
    """What fails, most frequent first."""
    count = collections.Counter(why for _, (state, why) in results.items() if state in ("failed", "crashed"))
    return "; ".join(f"{why.replace('|', '/')} ({n})" for why, n in count.most_common(3))


def page(tests, all_results):
    total = collections.Counter(state for results in all_results.values() for state, _ in results.values())
    lines = ["# MLX's own tests on zellige.core", "",
             "Written by `make mlx-suite MLX_TESTS=<python/tests of MLX's repository>`; do not edit.", "",
             f"- MLX's repository at commit `{commit_of(tests)}`", f"- {datetime.date.today()}",
             f"- {total['passed']} pass, {total['failed'] + total['crashed']} fail (of them {total['crashed']} end the "
             f"interpreter), {total['skipped']} are skipped by themselves", "",
             "Tests of several ranks pass if they do on all of them: " +
             ", ".join(f"{engine} with {' and '.join(map(str, counts))}" for engine, counts in LAUNCHED.values()) + ".", "",
             "| file | pass | fail | skip | why, most frequent first |", "| --- | --- | --- | --- | --- |"]
    for name, results in sorted(all_results.items()):
        c = collections.Counter(state for state, _ in results.values())
        lines.append(f"| {name} | {c['passed']} | {c['failed'] + c['crashed']} | {c['skipped']} | {reasons(results)} |")
    return "\n".join(lines) + "\n"


def show(name, results):
    c = collections.Counter(state for state, _ in results.values())
    print(f"{name:28} {c['passed']:4} passed {c['failed']:4} failed {c['crashed']:3} crashed {c['skipped']:4} skipped", flush=True)
    if os.environ.get("MLX_SUITE_VERBOSE"):
        for test, (state, why) in results.items():
            if state in ("failed", "crashed"):
                print(f"    {test}: {why}")


def run_files(tests, files, build):
    all_results = {}
    with tempfile.TemporaryDirectory(prefix="mlx-suite-") as folder, concurrent.futures.ThreadPoolExecutor(JOBS) as jobs:
        running = {name: jobs.submit(run_file, os.path.join(tests, name), build, folder) for name in files}
        for name, job in running.items():
            all_results[name] = job.result()
            show(name, all_results[name])
        return all_results, fell_back(folder)


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--inside":
        return run_inside(*sys.argv[2:])
    if len(sys.argv) < 3 or not os.path.isdir(sys.argv[1]):
        print(__doc__, file=sys.stderr)
        return 2
    tests, build, chosen = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]
    files = chosen or sorted(name for name in os.listdir(tests)
                             if name in LAUNCHED or (name.startswith("test_") and name.endswith(".py")))
    all_results, fallbacks = run_files(tests, files, build)
    if not chosen and not DEVICE:
        beside = PAGE.with_suffix(".new")
        beside.write_text(page(tests, all_results))
        beside.replace(PAGE)
        print(f"wrote {PAGE.relative_to(HERE.parent.parent)}")
    total = collections.Counter(state for results in all_results.values() for state, _ in results.values())
    print(f"{total['passed']} passed, {total['failed'] + total['crashed']} failed, {total['skipped']} skipped")
    for call, count in fallbacks if DEVICE else []:
        print(f"fell back: {call}, {count} times" + ("" if may_fall_back(call) else ", which is a failure"))
    if not DEVICE or chosen:
        return 0
    wanted = int(re.search(r"^- (\d+) pass,", PAGE.read_text(), re.M).group(1))
    print(f"the CPU passes {wanted}")
    return int(total["passed"] < wanted or not all(may_fall_back(call) for call, _ in fallbacks))


if __name__ == "__main__":
    sys.exit(main())
