"""Zellige: one array and kernel stack for every accelerator.

    import zellige.core as mx
    print(mx.sum(mx.arange(10)))

    zellige.core       lazy arrays, transforms, linear algebra, Fourier transforms, files: the API of mlx.core
    zellige.model      language models: open, tokenise, generate, quantise
    zellige.tile       kernels in the tile language, written in Python as TileLang programs are
    zellige.mlx        runs programs for MLX: python -m zellige.mlx script.py
    zellige.tilelang   runs programs for TileLang: python -m zellige.tilelang script.py
    zellige.bench      what `zellige bench` measured: runs, rows, samples and history

The modules are loaded when they are first used: zellige.core.ones(3) needs no further import. The command `zellige` lists
devices, builds and times tile kernels, and runs benchmarks: `zellige help`. zellige.__version__ is the version.
"""

TYPE_CHECKING = False  # as in typing, which takes longer to load than this

if TYPE_CHECKING:
    from . import bench, core, mlx, model, tile, tilelang

    __version__: str

__all__ = ["bench", "core", "mlx", "model", "tile", "tilelang"]


def __getattr__(name):
    import importlib

    if name in __all__:
        return importlib.import_module(f"zellige.{name}")
    if name == "__version__":
        return importlib.import_module("zellige.core").__zellige_version__
    raise AttributeError(f"module 'zellige' has no attribute {name!r}: it has {', '.join(__all__)} and __version__")


def __dir__():
    return sorted({*__all__, "__version__", *(name for name in globals() if name.startswith("__"))})
