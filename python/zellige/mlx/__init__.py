"""Programs written for MLX, on Zellige.

    python -m zellige.mlx script.py arguments...      runs a script
    zellige.mlx.install()                             before the first import of mlx.core

After that `import mlx.core` gives zellige.core, whether or not the package mlx is installed. mlx.nn, mlx.optimizers, mlx.utils
and what else is Python in that package are used as they are: `pip install 'zellige[mlx]'` installs it, without MLX's own back
ends.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys

__all__ = ["install"]

_CORE = "mlx.core"
_FRONTEND = ("mlx.nn", "mlx.optimizers", "mlx.utils")  # what the package mlx has beside its core


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
    """Finds mlx.core here, and tells how to get the rest where the package mlx is not installed."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname == "mlx":
            return _find_package()
        if fullname in _FRONTEND:
            return _find_frontend(fullname, path)
        if fullname != _CORE and not fullname.startswith(_CORE + "."):
            return None
        module = importlib.import_module("zellige.core")
        for part in fullname.split(".")[2:]:
            module = getattr(module, part, None)
        if module is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, _Loader(module), is_package=fullname == _CORE)


def _find_elsewhere(fullname, path):
    """What the other finders know of a module; None: nothing."""
    for finder in sys.meta_path:
        if not isinstance(finder, _Finder) and hasattr(finder, "find_spec"):
            spec = finder.find_spec(fullname, path)
            if spec is not None:
                return spec
    return None


def _find_package():
    """The package mlx, or one in its place that has nothing but mlx.core."""
    spec = _find_elsewhere("mlx", None)
    return spec or importlib.machinery.ModuleSpec("mlx", None, is_package=True)


def _find_frontend(fullname, path):
    spec = _find_elsewhere(fullname, path)
    if spec is None:  # with its own name, `from mlx import nn` would drop the message
        raise ModuleNotFoundError(f"No module named {fullname!r}. zellige.mlx has mlx.core; {', '.join(_FRONTEND)} are Python of "
                                  "the package mlx, which is not installed: pip install 'zellige[mlx]'", name="mlx")
    return spec


def install():
    """Makes mlx.core mean zellige.core in this process. Calling it again does nothing."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    known = sys.modules.get(_CORE)
    if known is not None and known is not sys.modules.get("zellige.core"):
        raise RuntimeError("zellige.mlx.install(): mlx.core was imported before; call it first, or use "
                           "python -m zellige.mlx")
    sys.meta_path.insert(0, _Finder())
