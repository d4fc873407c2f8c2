#!/usr/bin/env python3
"""tilelang_suite.py EXAMPLES BUILD [FILE...] - TileLang's own examples on zellige.tile; writes doc/tilelang-compatibility.md.

EXAMPLES is the folder examples/ of a copy of TileLang's repository, outside ours. The interpreter needs torch, and what
programs import besides (einops, tqdm, flash-linear-attention). Each tile-level program runs as it is, in a process of its
own, with limits of time and memory, for the target that TARGET names (c, opencl, cuda, hip or tpu; c without it). Where torch has no such
GPU, tensors are on the CPU, and kernels copy them. Sizes are small where the program takes them: by its flags, or by arguments of its
functions (tilelang_cases.py). With TILELANG_SIZES=own, as is meant for cuda and hip without that variable, programs have their own sizes.
A program passes when it ends well and a comparison of its own was made; where it makes none, the case has one with PyTorch, which is
made at small sizes. On tpu it must also leave at most 1 % of the elements to the control program, one at a time. With file names only
those run, and the page is not written.

Results are in BUILD/tilelang-suite-TARGET.json. The page has a column for each such file, also for those that were brought from another
machine; --page writes it without running anything.
"""

import ast
import collections
import concurrent.futures
import datetime
import importlib.util
import inspect
import json
import os
import pathlib
import re
import resource
import runpy
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tilelang_cases  # noqa: E402
import tilelang_references  # noqa: E402
from tilelang_cases import CALLS, FLAGS, REASONS, SIZES  # noqa: E402

LIMIT = float(os.environ.get("TILELANG_TEST_SECONDS", "300"))
MEMORY = int(os.environ.get("TILELANG_TEST_BYTES", str(14 << 30)))
JOBS = int(os.environ.get("TILELANG_TEST_JOBS", "2"))
TARGETS = ("c", "opencl", "cuda", "hip", "tpu")
TARGET = os.environ.get("TARGET") or "c"
HAS_OWN_SIZES = os.environ.get("TILELANG_SIZES", "own" if TARGET in ("cuda", "hip") else "small") == "own"
MOST_SINGLES = 0.01  # the share of elements that the control program of a tpu may handle one at a time
HERE = pathlib.Path(__file__).resolve()

# What a file has that is not of the tile level: code of threads, or of one GPU.
THREADS = {"get_thread_binding", "sync_threads", "tvm_thread_allreduce", "shfl_xor", "shfl_down", "warp_reduce_sum"}
GPU = {"alloc_barrier", "mbarrier_wait_parity", "mbarrier_arrive", "mbarrier_expect_tx", "tma_copy", "alloc_tmem", "tcgen05_gemm",
       "wgmma_gemm", "ClusterKernel", "ws", "call_extern", "import_source", "gemm_sp", "barrier_arrive", "barrier_wait",
       "ptx_ldmatrix"}
GPU_MODULES = ("intrinsics", "mma_macro_generator", "iket", "bitblas")


# Inside of the process that runs a program ------------------------------------------------------------------------------


class Watch:
    """Counts comparisons of numbers, and those that fail: calls of functions that compare, and asserts about differences."""

    WORDS = re.compile(r"close|diff|err|sim\b|simil|equal|torch\.|mismatch|max\(|norm|ratio", re.I)
    NAMES = re.compile(r"assert_.*(simil|close|equal|correct)")

    def __init__(self, folder):
        self.folder, self.made, self.failed, self.asserts = folder, collections.Counter(), [], {}

    def count(self, owner, name):
        function = getattr(owner, name)

        def counted(*args, **kwargs):
            try:
                result = function(*args, **kwargs)
            except AssertionError as error:
                self.failed.append(f"{name}: {error}")
                raise
            if result is False and name == "allclose":
                self.failed.append("allclose is False")
            self.made[name] += result is not False
            return result
        setattr(owner, name, counted)

    def watch_profiler(self):
        from zellige.tile import profiler
        self.count(profiler.Profiler, "assert_allclose")
        self.count(profiler, "assert_close")

    def watch_torch(self):
        import torch
        self.count(torch.testing, "assert_close")
        for name in ("allclose", "equal"):
            self.count(torch, name)
        sys.settrace(self.enter)

    def enter(self, frame, event, argument):
        path = frame.f_code.co_filename
        if not path.startswith(self.folder):
            return None
        lines = self.lines(path)
        watched = self.NAMES.match(frame.f_code.co_name) or any(line in lines for _, _, line in frame.f_code.co_lines())
        return self.step if watched else None

    def step(self, frame, event, argument):
        if event == "exception" and issubclass(argument[0], AssertionError):
            self.failed.append(f"line {frame.f_lineno} of {os.path.basename(frame.f_code.co_filename)}: {argument[1]}")
        elif event == "line" and frame.f_lineno in self.lines(frame.f_code.co_filename):
            self.made[f"assert at line {frame.f_lineno}"] += 1
        elif event == "return" and self.NAMES.match(frame.f_code.co_name):
            self.made[frame.f_code.co_name] += 1
        return self.step

    def lines(self, path):
        """Lines of a file with asserts about differences."""
        if path not in self.asserts:
            with open(path) as file:
                found = [n for n in ast.walk(ast.parse(file.read())) if isinstance(n, ast.Assert)]
            texts = {n.lineno: ast.unparse(n.test) for n in found}
            self.asserts[path] = {line for line, text in texts.items() if self.WORDS.search(text) and ".shape" not in text}
        return self.asserts[path]


def run_inside(examples, name, report):
    if TARGET not in ("cuda", "hip"):  # whose drivers reserve more addresses than there is memory
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    path = os.path.join(examples, name)
    sys.path[0] = os.path.dirname(path)
    os.chdir(os.path.dirname(report))
    sys.argv = [path, *arguments_of(examples, name)]
    watch = Watch(examples)
    watch.watch_profiler()
    from zellige import tilelang
    from zellige.tilelang import driver
    tilelang.install(TARGET)
    tilelang_references.prepare(driver.has_gpu())
    watch.watch_torch()
    if name not in CALLS or HAS_OWN_SIZES:
        ending_well(lambda: runpy.run_path(path, run_name="__main__"))
    if name in CALLS and not +watch.made:
        ending_well(lambda: run_call(path, name))
    watch.made["comparison in tool/tilelang_cases.py"] = tilelang_cases.similar.calls
    from zellige.core import _tile
    elements = [_tile.counter(name) for name in ("lane_singles", "lane_elements")]
    with open(report, "w") as file:
        json.dump({"made": +watch.made, "failed": watch.failed, "elements": elements}, file)


def ending_well(run):
    try:
        run()
    except SystemExit as leave:
        if leave.code:
            raise


def run_call(path, name):
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    helpers = {k: v for owner in (tilelang_cases, tilelang_references) for k, v in vars(owner).items() if inspect.isfunction(v)}
    for key, value in helpers.items():
        module.__dict__.setdefault(key, value)
    exec(compile(CALLS[name], f"<{name}>", "exec"), module.__dict__)


# What runs, and with which arguments ------------------------------------------------------------------------------------


def level_of(path):
    """tile, thread or gpu: the level of what a file launches; None if it launches nothing."""
    with open(path) as file:
        text = file.read()
    tree = ast.parse(text)
    used = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "T"}
    if not used & {"Kernel", "ClusterKernel"}:
        return None
    imports = [ast.unparse(n) for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
    if used & GPU or any(m in i for m in GPU_MODULES for i in imports) or any(f".{m}" in text for m in ("iket",)):
        return "gpu"
    return "thread" if used & THREADS else "tile"


def programs(examples):
    """Paths of the tile-level programs, from EXAMPLES."""
    found = []
    for folder, folders, files in os.walk(examples):
        folders.sort()
        names = [os.path.relpath(os.path.join(folder, f), examples) for f in sorted(files) if f.endswith(".py")]
        found += [n for n in names if level_of(os.path.join(examples, n)) == "tile"]
    return found


def arguments_of(examples, name):
    """Small sizes for the flags that a program has."""
    if HAS_OWN_SIZES:
        return []
    if name in FLAGS:
        return FLAGS[name].split()
    if name in CALLS:
        return []
    with open(os.path.join(examples, name)) as file:
        tree = ast.parse(file.read())
    flags = [n.args[0].value for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "attr", "") == "add_argument"
             and n.args and isinstance(n.args[0], ast.Constant)]
    return [word for flag in dict.fromkeys(flags) if flag in SIZES for word in (flag, str(SIZES[flag]))]


def run_program(examples, build, name):
    """{state, why, checks, seconds} of a program."""
    packages = [os.path.join(build, "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(packages), PYTHONDONTWRITEBYTECODE="1")
    with tempfile.TemporaryDirectory(prefix="tilelang-suite-") as folder:
        report, log = os.path.join(folder, "report.json"), os.path.join(folder, "log")
        with open(log, "w") as out:
            process = subprocess.Popen([sys.executable, str(HERE), "--inside", examples, name, report], env=env, stdout=out,
                                       stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
            started = datetime.datetime.now()
            try:
                code = process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                code = None
        text = pathlib.Path(log).read_text(errors="replace")
        if os.environ.get("TILELANG_SUITE_LOGS"):
            pathlib.Path(os.environ["TILELANG_SUITE_LOGS"], name.replace("/", "+") + ".log").write_text(text)
        told = json.loads(pathlib.Path(report).read_text()) if os.path.exists(report) else {"made": {}, "failed": [], "elements": [0, 0]}
    checks = told["made"]
    row = {"checks": checks, "seconds": round((datetime.datetime.now() - started).total_seconds(), 1),
           "flags": " ".join(arguments_of(examples, name)), "is_call": name in CALLS and not HAS_OWN_SIZES}
    if TARGET == "tpu":
        row["one_at_a_time"] = told["elements"][0] / max(sum(told["elements"]), 1)
    if code is None:
        return {**row, "state": "fails", "why": f"no end after {LIMIT:.0f} s"}
    if code:
        return {**row, "state": "fails", "why": reason(text, code)}
    if told["failed"]:
        return {**row, "state": "fails", "why": "a comparison fails: " + re.sub(r"\s+", " ", told["failed"][0])[:160]}
    if row.get("one_at_a_time", 0) > MOST_SINGLES:
        return {**row, "state": "fails", "why": f"{row['one_at_a_time']:.1%} of its elements are handled one at a time"}
    return {**row, "state": "passes" if checks else "no check", "why": "" if checks else "it ends well, but compares nothing"}


def reason(text, code):
    if code < 0:
        return f"signal {signal.Signals(-code).name}"
    lines = [line for line in text.strip().split("\n") if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Exit|Interrupt)\b|[\w.]+:\d+:", line.strip())]
    first = (errors or lines or ["no output"])[-1].strip()
    return re.sub(r"\S*/(examples|site-packages)/", "", re.sub(r"\s+", " ", first))[:200]


# The page ---------------------------------------------------------------------------------------------------------------


def commit_of(examples):
    """A copy that lies in the folder of another repository has to be told."""
    got = subprocess.run(["git", "-C", examples, "rev-parse", "HEAD"], capture_output=True, text=True)
    return os.environ.get("TILELANG_COMMIT") or (got.stdout.strip() if got.returncode == 0 else "unknown (set TILELANG_COMMIT)")


def how_called(row):
    return "a call in `tool/tilelang_cases.py`" if row["is_call"] else f"`{row['flags']}`" if row["flags"] else "as it is"


def cell(row):
    """How a program ended, how long it took, and the share of elements that were handled one at a time, where there are any."""
    share = row.get("one_at_a_time", 0)
    return f"{row['state']}, {row['seconds']} s" + (f", {100 * share:.2g} %" if share else "")


def summary(target, found, names):
    """A line about the runs for a target."""
    rows = [found["rows"][n] for n in names if n in found["rows"]]
    count = collections.Counter(row["state"] for row in rows)
    builds = sorted({row["build"] for row in rows if "build" in row})
    return (f"- `{target}`: {found['date']}, {found['machine']}, {found['sizes']} sizes{', build ' * bool(builds)}{' and '.join(builds)}; "
            f"{len(rows)} programs: {count['passes']} pass their checks, {count['no check']} end well but compare nothing, "
            f"{count['fails']} fail")


def remarks(name, rows):
    """What was compared, and for each target that did not pass why."""
    passed = [row for row in rows.values() if row["state"] == "passes"]
    made = [k if n == 1 else f"{k} ({n})" for k, n in passed[-1]["checks"].items()] if passed else []
    reasons = {}
    for target, row in rows.items():
        if row["state"] != "passes":
            reasons.setdefault(REASONS.get(f"{name}:{target}") or REASONS.get(name) or row["why"], []).append(f"`{target}`")
    return "; ".join(filter(None, [", ".join(made), *(f"{', '.join(targets)}: {why}" for why, targets in reasons.items())]))


def page(examples, names, results):
    lines = ["# TileLang's own examples on zellige.tile", "",
             "Written by `make tilelang-suite TILELANG_EXAMPLES=<examples of TileLang's repository> TARGET=<target>`; do not edit.", "",
             f"- TileLang's repository at commit `{commit_of(examples)}`", f"- {len(names)} programs of the tile level",
             *(summary(target, found, names) for target, found in results.items()), "",
             "Programs are not changed; small sizes are chosen by their flags, or by the arguments of their functions. What counts as a",
             "check: a comparison with a reference that the program makes itself, or, where it has none, one in the case. References",
             "that are Triton programs run in Triton's interpreter, in float32, where torch has no GPU; attention of flash_attn is PyTorch's.",
             "A share beside the seconds of `tpu` is that of elements which its control program handled one at a time, of all that commands",
             "and it handled; with more than 1 % a program does not pass.", "",
             f"| program | {' | '.join(results)} | how it is called | checks, or why not |", "| --- " * (len(results) + 3) + "|"]
    for name in names:
        rows = {target: found["rows"][name] for target, found in results.items() if name in found["rows"]}
        states = [cell(rows[t]) if t in rows else "not run" for t in results]
        how = "; ".join(dict.fromkeys(how_called(row) for row in rows.values()))
        lines.append(f"| {name} | {' | '.join(states)} | {how} | {remarks(name, rows).replace('|', '/')} |")
    return "\n".join(lines) + "\n"


def store_of(build, target):
    return pathlib.Path(build, f"tilelang-suite-{target}.json")


def stored(build):
    """What was run for each target."""
    files = {target: store_of(build, target) for target in TARGETS}
    return {target: json.loads(file.read_text()) for target, file in files.items() if file.exists()}


def build_of():
    """The commit of ours that runs: each row keeps it, so that a page of several builds says so."""
    got = subprocess.run(["git", "-C", str(HERE.parent), "describe", "--always", "--dirty", "--abbrev=8", "--exclude=*"],
                         capture_output=True, text=True)
    return got.stdout.strip() or "unknown"


def machine():
    """What a target's kernels ran on, as the library calls it."""
    import zellige.core as mx
    kind = mx.gpu if TARGET in ("cuda", "hip") and mx.is_available(mx.gpu) else mx.cpu
    return mx.device_info(kind).get("device_name", "unknown")


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "--inside":
        return run_inside(*sys.argv[2:])
    if len(sys.argv) < 3 or not os.path.isdir(sys.argv[1]):
        print(__doc__, file=sys.stderr)
        return 2
    examples, build, chosen = os.path.realpath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]
    if TARGET not in TARGETS:
        print(f"tilelang_suite.py: TARGET={TARGET}: {', '.join(TARGETS)} are expected", file=sys.stderr)
        return 2
    sys.path.insert(0, os.path.join(build, "python"))
    found = stored(build).get(TARGET) or {"rows": {}}
    found.update(date=str(datetime.date.today()), machine=machine(), sizes="own" if HAS_OWN_SIZES else "small")
    results, store = found["rows"], store_of(build, TARGET)
    names, build_name = programs(examples), build_of()
    todo = [] if chosen == ["--page"] else [n for n in names if any(c in n for c in chosen)] if chosen else names
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        started = {pool.submit(run_program, examples, build, n): n for n in todo}
        for done in concurrent.futures.as_completed(started):
            name, row = started[done], done.result()
            results[name] = {**row, "build": build_name}
            print(f"{name}: {row['state']}, {row['seconds']} s {row['why'] or ', '.join(row['checks'])}", flush=True)
            store.write_text(json.dumps(found, indent=1))
    count = collections.Counter(results[n]["state"] for n in names if n in results)
    print(f"{len(names)} programs: {dict(count)}")
    if not chosen or chosen == ["--page"]:
        HERE.parent.parent.joinpath("doc", "tilelang-compatibility.md").write_text(page(examples, names, stored(build)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
