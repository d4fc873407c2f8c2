"""TileLang's programs on Zellige: `python -m zellige.tilelang script.py`, or install() before anything imports tilelang.

`import tilelang` then gives zellige.tile under TileLang's names; tilelang itself need not be installed. Torch tensors that a
program puts on a CUDA device or a TPU of SophGo's which is not there live on the CPU.
"""

from .modules import install

__all__ = ["install"]
