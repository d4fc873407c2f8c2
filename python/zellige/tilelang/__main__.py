"""python -m zellige.tilelang script.py arguments...: runs a TileLang program."""

import os
import runpy
import sys

from . import install


USAGE = """usage: python -m zellige.tilelang SCRIPT [ARGUMENT...]

Runs a program that imports tilelang on zellige.tile instead."""


def main():
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if arguments else 2
    script = arguments[0]
    if not os.path.isfile(script):
        print(f"zellige.tilelang: there is no file {script}", file=sys.stderr)
        return 2
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    install()
    runpy.run_path(script, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
