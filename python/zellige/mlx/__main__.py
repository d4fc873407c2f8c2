"""python -m zellige.mlx [-m MODULE | SCRIPT] ARGUMENTS... - runs a program with mlx.core being zellige.core."""

import os
import runpy
import sys

from . import install

USAGE = """usage: python -m zellige.mlx SCRIPT [ARGUMENT...]
       python -m zellige.mlx -m MODULE [ARGUMENT...]

Runs a program that imports mlx.core on zellige.core instead. Everything else of MLX (mlx.nn, mlx.optimizers, ...) comes
from the package mlx, which programs that import only mlx.core do not need: pip install 'zellige[mlx]'."""


def main():
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if arguments else 2
    install()
    if arguments[0] == "-m":
        if len(arguments) < 2:
            print(USAGE, file=sys.stderr)
            return 2
        sys.argv = arguments[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return 0
    if not os.path.exists(arguments[0]):
        print(f"zellige.mlx: there is no file {arguments[0]}", file=sys.stderr)
        return 2
    sys.argv = arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
    runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
