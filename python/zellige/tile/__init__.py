"""The tile language in Python: kernels written as TileLang programs, compiled for any target of Zellige.

    import zellige.tile as tile
    import zellige.tile.language as T
"""

from . import language
from .autotune import AutoTuner, autotune, set_autotune_inputs
from .errors import TileError
from .jit import JITFunction, compile, jit, lazy_jit, lower, par_compile
from .kernel import Kernel
from .profiler import Profiler, TensorSupplyType, do_bench

__all__ = ["AutoTuner", "JITFunction", "Kernel", "Profiler", "TensorSupplyType", "TileError", "autotune", "compile", "do_bench",
           "jit", "language", "lazy_jit", "lower", "par_compile", "set_autotune_inputs"]
