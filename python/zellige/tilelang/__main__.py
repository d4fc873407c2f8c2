"""python -m zellige.tilelang script.py arguments...: runs a TileLang program."""

import os
import runpy
import sys

from . import install


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: python -m zellige.tilelang script.py [arguments...]")
    sys.argv = sys.argv[1:]
    script = sys.argv[0]
    if not os.path.isfile(script):
        sys.exit(f"zellige.tilelang: there is no file {script}")
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    install()
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
