"""The vendor's reference model of the BM1690: runs device C and answers what device memory holds afterwards.

The model is libtpuv7_emulator.so of the PyPI wheel tpu_mlir, for x86_64. `Model` starts it by runner.c, natively or under
qemu-x86_64, and keeps it running: a start takes a second, a kernel's compilation half of one, a small launch milliseconds.
"""

import hashlib
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

LIBRARIES = ("lib/libtpuv7_emulator.so", "lib/third_party/libdnnl.so.3", "lib/third_party/libomp.so.5")
HEADERS = tuple("cross_toolchains/ppl_compile/deps/" + folder for folder in
                ("chip/tpub_7_1/TPU1686/kernel/include/", "common/dev/kernel/", "common/dev/utils/include/",
                 "runtime/tpuv7-runtime/include/"))
DOWNLOAD = "pip download --no-deps --python-version 310 tpu_mlir"


class Missing(Exception):
    """Something that the model needs is not here; the text says what it is and how to get it."""


class Died(Exception):
    """The model ended its process, as it does when a command breaks a rule; the text is what it said last."""


def find_wheel(build):
    """The path of the wheel: TPU_MLIR_WHEEL, or the one in BUILD/bm1690, downloaded if there is none."""
    named = os.environ.get("TPU_MLIR_WHEEL")
    if named and not Path(named).exists():
        raise Missing(f"TPU_MLIR_WHEEL names {named}, which is not there")
    if named:
        return Path(named)
    folder = Path(build) / "bm1690"
    folder.mkdir(parents=True, exist_ok=True)
    if not list(folder.glob("tpu_mlir-*.whl")):
        print(f"the vendor's wheel is downloaded: 300 MB ({DOWNLOAD})", flush=True)
        subprocess.run([sys.executable, "-m", *DOWNLOAD.split(), "-q", "--dest", folder], stdin=subprocess.DEVNULL)
    wheels = sorted(folder.glob("tpu_mlir-*.whl"))
    if not wheels:
        raise Missing(f"no wheel: run `{DOWNLOAD}` where there is a network and name the file in TPU_MLIR_WHEEL")
    return wheels[-1]


def unpack(build):
    """Unpacks the model and its headers to BUILD/bm1690/vendor, once for each wheel. Returns that folder."""
    wheel = find_wheel(build)
    folder = Path(build).resolve() / "bm1690" / "vendor"
    mark, wanted = folder / "wheel.txt", " ".join((wheel.name, *LIBRARIES, *HEADERS))
    if mark.exists() and mark.read_text() == wanted:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("lib", "include"):
        (folder / name).mkdir(parents=True)
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            inside = name.split("/", 1)[-1]
            if inside in LIBRARIES:
                (folder / "lib" / Path(name).name).write_bytes(archive.read(name))
            elif inside.startswith(HEADERS) and name.endswith(".h"):
                (folder / "include" / Path(name).name).write_bytes(archive.read(name))
    mark.write_text(wanted)
    return folder


def is_native():
    return platform.machine() in ("x86_64", "amd64")


def compiler():
    name = os.environ.get("CC", "cc") if is_native() else "x86_64-linux-gnu-gcc"
    if not shutil.which(name):
        raise Missing(f"no C compiler for x86_64 ({name}): apt-get install gcc-x86-64-linux-gnu libc6-dev-amd64-cross")
    return name


def emulator():
    """What runs an x86_64 program here: its words come before the program's. The model's own libraries are in the wheel; the C and
    C++ libraries are those of the cross compiler."""
    if is_native():
        return []
    if not Path("/usr/x86_64-linux-gnu/lib/libstdc++.so.6").exists():
        raise Missing("no C++ library for x86_64: apt-get install libstdc++6-amd64-cross libgomp1-amd64-cross")
    for name in ("qemu-x86_64", "qemu-x86_64-static"):
        if shutil.which(name):
            return [name, "-L", "/usr/x86_64-linux-gnu"]
    raise Missing("no qemu-x86_64: apt-get install qemu-user-static")


def compile_c(target, source, *options):
    command = [compiler(), "-O1", "-o", str(target), str(source), *options, "-ldl", "-lpthread", "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")


def check_host(folder, text):
    """Compiles the text that runs a kernel from the host, with the vendor's header of its runtime, and no warnings."""
    source = folder / "host.c"
    source.write_text(text)
    compile_c(source.with_suffix(".o"), source, "-c", "-Wall", "-Wextra", "-Werror", "-I", str(folder / "include"))


def older(text):
    """Device C that was generated for older headers: it has a function of today's helper itself, and another name for its structure."""
    name = "" if "} __ppl_tensor_info" in text else "typedef ppl_tensor_t __ppl_tensor_info;\n"
    return ("#define __ppl_get_dtype helper_get_dtype\n#include \"ppl_helper.h\"\n#undef __ppl_get_dtype\n" + name + text)


class Model:
    """A running model of `cores` cores with `memory` bytes of device memory, which begins at address 0."""

    def __init__(self, build, cores=1, memory=1 << 30):
        self.folder = unpack(build)
        runner, source = self.folder / "runner", Path(__file__).with_name("runner.c")
        if not runner.exists() or runner.stat().st_mtime < source.stat().st_mtime:
            compile_c(runner, source)
        self.command = [*emulator(), runner, self.folder / "lib" / LIBRARIES[0].split("/")[-1], str(cores), str(memory)]
        self.start()

    def start(self):
        """Starts the process, with fresh memory; also after one that died."""
        self.words = tempfile.TemporaryFile()
        environment = dict(os.environ, LD_LIBRARY_PATH=str(self.folder / "lib"), OMP_NUM_THREADS="1")
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.words,
                                        env=environment)
        self.used = 4096
        self.loaded = {}
        self.take(8)

    def close(self):
        self.process.stdin.close()
        self.process.wait()

    def died(self):
        self.process.wait()
        self.words.seek(0)
        said = self.words.read().decode(errors="replace").strip().splitlines()
        raise Died("\n".join(line for line in said if "(+0x" not in line and "stack frames" not in line)[-600:]
                   or f"status {self.process.returncode}")

    def take(self, count):
        got = self.process.stdout.read(count) if count else b""
        if len(got) < count:
            self.died()
        return got

    def give(self, *words):
        data = b"".join(struct.pack("<Q", word) if isinstance(word, int) else word for word in words)
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except BrokenPipeError:
            self.died()

    def alloc(self, count):
        """Device memory that nothing else has until the next start()."""
        address = self.used
        self.used += -(-count // 4096) * 4096
        return address

    def write(self, address, data):
        self.give(b"W", address, len(data), data)

    def read(self, address, count):
        self.give(b"R", address, count)
        return self.take(count)

    def load(self, text):
        """Compiles device C with the vendor's headers and loads it. Returns a number for launch()."""
        if text not in self.loaded:
            stem = self.folder / ("kernel_" + hashlib.sha256(text.encode()).hexdigest()[:16])
            stem.with_suffix(".c").write_text(text if "__ppl_tensor_info" not in text else older(text))
            compile_c(stem.with_suffix(".so"), stem.with_suffix(".c"), "-shared", "-fPIC", "-w", "-D__sg2260__", "-D__bm1690__",
                      "-DUSING_CMODEL", "-I", str(self.folder / "include"))
            path = str(stem.with_suffix(".so")).encode()
            self.give(b"L", len(path), path)
            self.loaded[text] = struct.unpack("<Q", self.take(8))[0]
        return self.loaded[text]

    def launch(self, kernel, entry, arguments):
        """Runs an entry on every core to its end, with the bytes of its argument structure."""
        name = entry.encode()
        self.give(b"K", kernel, len(name), name, len(arguments), arguments)
        self.take(8)

    def run(self, text, entry, inputs, outputs, scalars=b""):
        """Runs device C whose arguments are the addresses of inputs (bytes) and of outputs (of these sizes, filled with 0xcc or
        with the bytes given instead of a size), then `scalars`. Returns the outputs' bytes."""
        kernel = self.load(text)
        outputs = [b"\xcc" * data if isinstance(data, int) else data for data in outputs]
        addresses = []
        for data in [*inputs, *outputs]:
            addresses.append(self.alloc(len(data)))
            self.write(addresses[-1], data)
        self.launch(kernel, entry, struct.pack(f"<{len(addresses)}Q", *addresses) + scalars)
        return [self.read(address, len(data)) for address, data in zip(addresses[len(inputs):], outputs)]
