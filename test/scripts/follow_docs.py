#!/usr/bin/env python3
"""follow_docs.py BUILD - does what doc/add-an-op.md, add-a-device.md, add-a-target.md and add-a-pass.md say, literally, one
after the other in a copy of the tree.

A block that names a file is put there: ```def src/op/elementwise.def adds its rows to that file, ```c src/... is the
whole file, ```diff src/... changes lines of it. After each page the copy is built as anyone would, and has to have the op in C, in
the documentation, in the tests and in every renderer, the device in the list of devices, run a kernel for the target, or rewrite
one in the pass.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("ZL_DEVICE", "cpu")  # also on a machine with a GPU
JOBS = str(os.cpu_count())
results = {"passed": 0, "failed": 0, "skipped": 0}


def report(result, name, why=""):
    results[result] += 1
    print(f"{result if result != 'failed' else 'FAILED'} {name}" + (f": {why}" if why else ""))


def check(name, holds, why=""):
    report("passed" if holds else "failed", name, "" if holds else why)


def run(folder, *command, lines=60):
    """Whether it ended well, and the last lines of what it wrote."""
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode == 0, "\n".join(done.stdout.split("\n")[-lines:])


def file_blocks(page):
    """[(path, text)] of the blocks that name a file."""
    return re.findall(r"^```(?!diff)\w+ (\S+/\S+)\n(.*?)^```", page.read_text(), re.M | re.S)


def change_blocks(page):
    """[(path, text)] of the blocks that change lines of a file: each begins with a space, - or +."""
    return re.findall(r"^```diff (\S+/\S+)\n(.*?)^```", page.read_text(), re.M | re.S)


def change(tree, path, text):
    """Whether the lines that the change leaves or removes are in the file, once, and so could be changed."""
    def those_with(signs):
        return "".join(line[1:] + "\n" for line in text.splitlines() if not line or line[0] in signs)
    target = tree / path
    old, before = target.read_text(), those_with(" -")
    target.write_text(old.replace(before, those_with(" +")))
    return old.count(before) == 1


def put(tree, path, text):
    target = tree / path
    target.parent.mkdir(parents=True, exist_ok=True)
    if not path.endswith(".def"):
        target.write_text(text)
        return
    old = target.read_text()
    at = re.search(r"^#undef", old, re.M)
    at = at.start() if at else len(old)
    target.write_text(old[:at] + text + old[at:])


def copy_and_build(page, folder):
    """The copy of the tree with the page's blocks in place, built quickly: with one instruction-set level and no optimisation, without
    which gcc warns of variables that are set in branches; None if that fails. A new op changes the headers that all files see, so that
    a compiler cache would only grow."""
    tree = pathlib.Path(folder) / "copy"
    def is_built(folder, names):
        return [name for name in names if folder == str(ROOT) and (name.startswith("build") or name == ".git")]
    if not tree.exists():
        shutil.copytree(ROOT, tree, ignore=is_built)
    for path, text in file_blocks(page):
        put(tree, path, text)
    for path, text in change_blocks(page):
        check(f"{page.name}: the lines to change are in {path}", change(tree, path, text), text)
    built, text = run(tree, "env", "-u", "CMAKE_C_COMPILER_LAUNCHER", "make", "build",
                      "OPTIONS=-DZL_LEVELS=scalar -DCMAKE_C_FLAGS_RELEASE='-O0 -DNDEBUG -Wno-maybe-uninitialized'")
    check(f"{page.name}: the copy builds", built, text)
    return tree if built else None


def check_everywhere(tree, op, pages, stages, call):
    """It is in the header, the documentation, the texts of kernels and the Python module."""
    function = f"zl_{op}"
    headers = "".join(header.read_text() for header in (tree / "include").glob("*_ops.h"))
    check(f"{function} is in a header", re.search(rf"\b{function}\(", headers))
    check(f"{function} is in doc/api", function in pages)
    for stage in stages:
        shown, text = run(tree, "build/zellige", "kernel", "show", "--op", op, "--stage", stage)
        check(f"{function} is shown at stage {stage}", shown, text)
    stub = tree / "build/python/zellige/core.pyi"
    if stub.exists():
        check(f"{op} is in zellige.core, and in its stub", f"def {op}(" in stub.read_text() and run(
            tree, "env", "PYTHONPATH=build/python", "python3", "-c",
            f"import zellige.core as mx; assert mx.{op}.__doc__ and mx.{op}({call}).shape == (1,)")[0])
    else:
        report("skipped", op, "this machine has no Python with headers")


def nvrtc_home():
    """The folder of NVRTC of PyPI, and "", or None and why there is none."""
    done = subprocess.run(["tool/python.sh", sys.argv[1], "nvidia-cuda-nvrtc>=13,<14"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        return None, (done.stderr.strip().split("\n") or [""])[-1]
    found = run(ROOT, done.stdout.strip(), "-c", "import glob, sysconfig; "
                "print(*glob.glob(sysconfig.get_path('purelib') + '/nvidia/*/lib/libnvrtc.so.*'))")[1].split()
    return (str(pathlib.Path(found[0]).parents[1]), "") if found else (None, "the package has no libnvrtc")


def try_kernel(tree, op, folder):
    """Its kernel, with the gradient that the tests ask for, on the CPU by the compiler and by the interpreter, on OpenCL, for CUDA."""
    words = f"op/test_{op}:"
    devices = json.loads(run(tree, "build/zellige", "devices", "--json", lines=10000)[1])
    why = {d["device"]: d.get("reason", "it is not there") for d in devices if not d["available"]}
    for setting in ("ZL_DEVICE=cpu", "ZL_CC=none", "ZL_DEVICE=opencl"):
        if setting == "ZL_DEVICE=opencl" and "opencl" in why:
            report("skipped", f"{op} on opencl", why["opencl"])
            continue
        passed, text = run(tree, "env", setting, f"ZL_CACHE_DIR={folder}/{setting}", "build/test", words)
        check(f"the tests of {op} pass with {setting}", passed, text)
    for how in ("interpreter", "c"):
        passed, text = run(tree, "env", "ZL_CHECK=1", "build/test", "--on", how, words)
        check(f"the tests of {op} pass on {how}", passed, text)
    home, why = nvrtc_home()
    if not home:
        report("skipped", f"{op} for CUDA", f"NVRTC of PyPI: {why}")
        return
    passed, text = run(tree, "env", f"ZL_CUDA={home}", "build/test", "files_of_kernels")
    check(f"the kernel of {op} compiles for CUDA", passed and " 0 skipped" in text, text)


def try_op(page, folder):
    tree = copy_and_build(page, folder)
    if not tree:
        return
    blocks = file_blocks(page)
    pages = "".join(page.read_text() for page in (tree / "doc/api").glob("**/*.md"))
    stages = run(tree, "build/zellige", "kernel", "show", "--stages")[1].split()
    targets = [stage for stage in stages if stage.endswith("_tiles")]
    for function in re.findall(r"\b(zl_\w+),", "".join(text for path, text in blocks if path == "src/op/elementwise.def")):
        check_everywhere(tree, function[len("zl_"):], pages, stages, "mx.array([1.0])")
    kernels = re.findall(r"^OP\((\w+)\)$", "".join(text for path, text in blocks if path == "src/op/ops.def"), re.M)
    wanted = {"src/op/elementwise.def", "src/op/ops.def"}
    for op in kernels:
        wanted |= {f"src/op/{op}.c", f"src/kernel/{op}.tile", f"test/op/test_{op}.c"}
        check_everywhere(tree, op, pages, targets, "mx.array([[1.0]]), mx.array([1.0])")
        try_kernel(tree, op, folder)
    changed = {path for path, _ in blocks}
    check("an op is a row, or three files and a row", len(kernels) == 1 and changed == wanted, str(changed))
    passed, text = run(tree, "build/test", "--quick", "--jobs", JOBS, "op/")
    check("the tests of all ops pass", passed, text)
    passed, text = run(tree, "tool/check_symbols.sh", "build/libzellige.so")
    check("what is exported is declared", passed, text)


def try_device(page, folder):
    tree = copy_and_build(page, folder)
    if not tree:
        return
    lines = [text for path, text in file_blocks(page) if path == "src/device/devices.def"]
    names = re.findall(r"^DEVICE\((\w+)\)", "".join(lines), re.M)
    folders = {str(pathlib.Path(path).parent) for path, _ in file_blocks(page) if not path.endswith("devices.def")}
    check("a device is one line and one folder", len(names) == 1 and folders == {f"src/device/{names[0]}"},
          f"{names}, {folders}")
    shown, text = run(tree, "build/zellige", "devices", "--json", lines=10000)
    check(f"{names[0]} is among the devices", shown and names[0] in [d["device"] for d in json.loads(text)], text)
    if (tree / "build/python/zellige/core.pyi").exists():
        ran, text = run(tree, "env", "PYTHONPATH=build/python", f"ZL_DEVICE={names[0]}", "python3", "-c",
                        "import zellige.core as mx; mx.eval(mx.abs(mx.array([1.0])))")
        check(f"{names[0]} prints the calls that it is given", ran and re.search(r"^abs -> ", text, re.M), text)
    else:
        report("skipped", names[0], "this machine has no Python with headers")
    # Those of the other files are about one device by its name, which no row of devices.def changes, or about those that run kernels.
    files = ["device/test_devices:", "device/test_streams:", "device/test_replicas:"]
    passed, text = run(tree, "build/test", "--quick", "--jobs", JOBS, *files)
    check("the tests of all devices pass", passed, text)


KERNEL = """kernel twice(a: f32[n, 8]) -> (y: f32[n]) {
  grid b in n, threads 32 {
    fragment row: f32[8]
    fragment sum: f32[1]
    copy a[b, 0] of [1, 8] -> row
    reduce add row -> sum axis 0
    copy sum -> y[b]
  }
}
"""


LARGE = """kernel large(a: f32[64, 16384]) -> (y: f32[64, 16384]) {
  grid b in 1 {
    shared s: f32[64, 16384]
    shared t: f32[64, 16384]
    copy a -> s
    copy a -> t
    map i in 64, j in 16384 { s[i, j] = s[i, j] + t[i, 16383 - j] }
    copy s -> y
  }
}
"""


def try_target(page, folder):
    tree = copy_and_build(page, folder)
    if not tree:
        return
    blocks = file_blocks(page)
    names = re.findall(r"^TARGET\((\w+)\)", "".join(text for path, text in blocks if path.endswith("targets.def")), re.M)
    check("a target is two lines and two files", len(names) == 2 and len(blocks) == 8, str([path for path, _ in blocks]))
    (tree / "twice.tile").write_text(KERNEL)
    shown, text = run(tree, "build/zellige", "kernel", "show", "twice.tile", "--stage", names[0], lines=100000)
    words = re.findall(r'\.(?:global|shared|thread) = "(.*?)"', "".join(text for _, text in blocks))
    check(f"the text of {names[0]} has its words", shown and words and all(word in text for word in words), text)
    shown, text = run(tree, "build/zellige", "kernel", "show", "twice.tile", "--stage", names[1], lines=100000)
    check(f"the text of {names[1]} is commands", shown and "tpu_gdma_cpy_S2L" in text and "tpu_gdma_cpy_L2S" in text, text)
    (tree / "large.tile").write_text(LARGE)
    shown, text = run(tree, "build/zellige", "kernel", "show", "large.tile", "--stage", names[1])
    check(f"{names[1]} says what its lanes have no room for", not shown and "65536 bytes in each lane" in text, text)
    again, wanted = run(tree, "build/zellige", "kernel", "run", "twice.tile", "--target", "c", "--size", "n=3")
    for name in names:
        ran, text = run(tree, "build/zellige", "kernel", "run", "twice.tile", "--target", name, "--size", "n=3")
        check(f"{name} computes what the target c does", ran and again and text == wanted, f"{text}\n{wanted}")


def try_pass(page, folder):
    tree = copy_and_build(page, folder)
    if not tree:
        return
    names = [pathlib.Path(path).stem for path, _ in file_blocks(page)]
    changed = {path for path, _ in change_blocks(page)}
    check("a pass is a file, its name, and a line",
          len(names) == 1 and changed == {"src/pass/pass.h", "src/pass/pipeline.c", "test/unit/test_pass.c"}, str(changed))
    stages = run(tree, "build/zellige", "kernel", "show", "--stages")[1].split()
    check(f"{names[0]} is a stage", names[0] in stages, str(stages))
    shown, text = run(tree, "env", f"ZL_DUMP={names[0]}", "build/zellige", "kernel", "show", "--op", "exp", "--stage", "c", lines=10000)
    check(f"ZL_DUMP prints kernels after {names[0]}", shown and f"{names[0]}" in text and "kernel" in text, text)
    passed, text = run(tree, "build/test", "--quick", "--jobs", JOBS, "unit/test_pass", "render/test_row_kernels")
    check("the tests of passes and rows pass", passed and " 0 failed" in text, text)


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name, attempt in {"add-an-op.md": try_op, "add-a-device.md": try_device, "add-a-target.md": try_target,
                              "add-a-pass.md": try_pass}.items():
            page = ROOT / "doc" / name
            if not page.exists() or not file_blocks(page):
                report("skipped", name, "no such page, or no block that names a file")
                continue
            attempt(page, folder)
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**results))
    return results["failed"] > 0


sys.exit(main())
