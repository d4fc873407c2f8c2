"""Programs written for MLX, on Zellige.

    python -m zellige.mlx script.py arguments...      runs a script
    zellige.mlx.install()                             before the first import of mlx.core

After that `import mlx.core` gives zellige.core; mlx.nn, mlx.optimizers, mlx.utils and what else is Python in the
installed mlx package are used as they are.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys

__all__ = ["install"]

_CORE = "mlx.core"


class _Loader(importlib.abc.Loader):
    """Hands out a module that exists already, and leaves its own name and origin as they are."""

    def __init__(self, module):
        self.module = module
        self.own = {name: getattr(module, name, None) for name in ("__spec__", "__loader__")}

    def create_module(self, spec):
        return self.module

    def exec_module(self, module):
        for name, value in self.own.items():
            setattr(module, name, value)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        if fullname != _CORE and not fullname.startswith(_CORE + "."):
            return None
        module = importlib.import_module("zellige.core")
        for part in fullname.split(".")[2:]:
            module = getattr(module, part, None)
        if module is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, _Loader(module), is_package=fullname == _CORE)


def install():
    """Makes mlx.core mean zellige.core in this process. Calling it again does nothing."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    known = sys.modules.get(_CORE)
    if known is not None and known is not sys.modules.get("zellige.core"):
        raise RuntimeError("zellige.mlx.install(): mlx.core was imported before; call it first, or use "
                           "python -m zellige.mlx")
    sys.meta_path.insert(0, _Finder())
