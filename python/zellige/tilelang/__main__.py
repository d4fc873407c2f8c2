"""python -m zellige.tilelang [--target NAME] script.py arguments...: runs a TileLang program."""

import os
import runpy
import sys

from . import install


USAGE = """usage: python -m zellige.tilelang [--target NAME] SCRIPT [ARGUMENT...]

Runs a program that imports tilelang on zellige.tile instead. Kernels run where their tensors are: on the GPU of torch's CUDA, else on the
CPU. With --target all of them are compiled for c, opencl, vulkan, cuda, hip or bm1690 (tpu)."""


def main():
    arguments, target = sys.argv[1:], None
    if len(arguments) > 1 and arguments[0] == "--target":
        target, arguments = arguments[1], arguments[2:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if arguments else 2
    script = arguments[0]
    if not os.path.isfile(script):
        print(f"zellige.tilelang: there is no file {script}", file=sys.stderr)
        return 2
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    install(target)
    runpy.run_path(script, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
