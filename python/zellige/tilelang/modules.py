"""The modules that `import tilelang` and its like find: zellige.tile under other names, and what programs expect around it."""

import importlib.abc
import importlib.machinery
import os
import sys
import types

import zellige.tile as tile
from zellige.tile import language, mathematics, profiler
from zellige.tile.buffers import Buffer
from zellige.tile.builder import peek
from zellige.tile.dtypes import dtype
from zellige.tile.errors import fail
from zellige.tile.expr import Const, Expr, wrap
from zellige.tile.hints import GemmWarpPolicy, Layout

from . import driver, testing, torch_tpu


class Anything:
    """An option or object that matters to another compiler: all its attributes are names, all its calls give itself."""

    def __init__(self, name="", is_code=False):
        self._name, self._is_code = name, is_code

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name, self._is_code)

    def __call__(self, *args, **kwargs):
        if self._is_code and peek() and "layout" not in self._name:
            fail(f"{self._name} writes instructions of one GPU, which tile programs have not")
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def __getitem__(self, key):
        return self

    def __repr__(self):
        return self._name

    def __hash__(self):
        return hash(self._name)

    def __eq__(self, other):
        return isinstance(other, Anything) and other._name == self._name


class Environment(Anything):
    """tilelang.env: variables of the environment by name."""

    TILELANG_CACHE_DIR = os.environ.get("TILELANG_CACHE_DIR") or os.path.expanduser("~/.cache/zellige/tilelang")


def next_power_of_2(x):
    return 1 << max(int(x) - 1, 0).bit_length()


def cdiv(a, b):
    return mathematics.ceildiv(a, b)


def determine_fp8_type(kind="e4m3"):
    return f"float8_{kind}" + ("fn" if kind == "e4m3" else "")


def determine_torch_fp8_type(kind="e4m3"):
    import torch
    return getattr(torch, determine_fp8_type(kind))


def typed_number(value, dtype_=None):
    return wrap(value) if dtype_ is None else Const(value, dtype(dtype_))


class Analyzer:
    """tilelang.tools.Analyzer: what a program computes and moves, as our own language counts it."""

    @staticmethod
    def analysis(program, device=None):
        operations, moved = tile.compile(program).cost()
        return types.SimpleNamespace(total_flops=int(operations), total_global_bytes=int(moved), estimated_time=None)


def ignore(*args, **kwargs):
    return None


def layout_of(*args, **kwargs):
    return Layout()


def get_tensor_supply(kind=tile.TensorSupplyType.Auto):
    return lambda param: profiler.supply(param, tuple(param.shape), kind)


def contents():
    """{module: {name: value}} of everything that is there."""
    policy = {"GemmWarpPolicy": GemmWarpPolicy}
    numbers = {"next_power_of_2": next_power_of_2, "cdiv": cdiv}
    jit = {"jit": tile.jit, "lazy_jit": tile.jit, "compile": tile.compile, "par_compile": tile.par_compile, "lower": tile.lower,
           "JITKernel": tile.Kernel, "JITImpl": tile.JITFunction}
    tuning = {"autotune": tile.autotune, "AutoTuner": tile.AutoTuner, "set_autotune_inputs": tile.set_autotune_inputs}
    supply = {"TensorSupplyType": tile.TensorSupplyType, "torch_assert_close": profiler.assert_close,
              "get_tensor_supply": get_tensor_supply}
    options = {"PassConfigKey": Anything("PassConfigKey")}
    bench = {"do_bench": tile.do_bench, "Profiler": tile.Profiler}
    layouts = {"Layout": Layout, "Fragment": Layout, "make_swizzled_layout": layout_of}
    machine = {"driver": driver, "get_num_sms": driver.get_num_sms}
    switches = {"disable_cache": ignore, "enable_cache": ignore, "set_log_level": ignore, "env": Environment("env"),
                "__version__": "0.1.15", "__file__": __file__, "DataType": dtype}
    expressions = {**{k: getattr(language, k) for k in language.__all__}, "const": typed_number, "PrimExpr": Expr,
                   "Buffer": Buffer, "Var": Expr}
    return {
        "tilelang": {**jit, **tuning, **supply, **options, **numbers, **layouts, **switches, **bench},
        "tilelang.jit": jit, "tilelang.autotuner": tuning, "tilelang.profiler": bench, "tilelang.profiler.bench": bench,
        "tilelang.utils": supply, "tilelang.utils.tensor": supply, "tilelang.math": numbers, "tilelang.layout": layouts,
        "tilelang.tileop": policy, "tilelang.tileop.base": policy, "tilelang.testing": vars(testing),
        "tilelang.transform": {**options, "simplify_prim_func": lambda f: f},
        "tilelang.language.fp8": {"determine_fp8_type": determine_fp8_type, "determine_torch_fp8_type": determine_torch_fp8_type},
        "tilelang.language.dtypes": {"dtype": dtype, **{k: v for k, v in vars(language).items() if isinstance(v, dtype)}},
        "tilelang.tools": {"Analyzer": Analyzer}, "tilelang.contrib": {}, "tilelang.contrib.nvcc": {"get_target_compute_version": lambda target=None: "9.0"},
        "tilelang.engine": {"lower": tile.lower}, "tilelang.utils.target": {"determine_target": lambda target="auto", **hints: target},
        "tilelang.carver.arch": machine, "tilelang.carver": {}, "tilelang.carver.arch.driver": vars(driver),
        **{f"{tvm}{name}": values for tvm in ("tvm", "tilelang.tvm") for name, values in
           {"": {"DataType": dtype}, ".tirx": expressions, ".tir": expressions}.items()},
    }


LOOSE = ("tilelang.carver", "tilelang.tools", "tilelang.engine", "tilelang.contrib", "tilelang.cuda", "tilelang.rocm",
         "tilelang.backend", "tilelang.env", "tilelang.intrinsics", "tvm", "tilelang.tvm")


CODE = ("tilelang.cuda", "tilelang.rocm", "tilelang.intrinsics")  # what these do inside of a kernel cannot be left out


def is_loose(name):
    return any(name == loose or name.startswith(loose + ".") for loose in LOOSE)


class LooseModule(types.ModuleType):
    """A module of which programs only hand things on."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name, self.__name__.startswith(CODE))


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules that only other compilers have, and refuses other modules of tilelang by name."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in ("tilelang", "tvm"):
            return None
        if is_loose(name):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        made = LooseModule(spec.name)
        made.__path__ = []
        return made

    def exec_module(self, module):
        pass


def install(target=None):
    """Makes `import tilelang` find zellige.tile, and CUDA tensors live on the CPU where there is no CUDA, as those of SophGo's TPUs do
    where there is no torch_tpu. With a target all kernels are compiled for it, whatever the program asks for; tensors are on the GPU
    only if the target is one of torch's."""
    from .torch_device import install as install_devices
    finder = Finder()
    for name, values in contents().items():
        module = LooseModule(name) if is_loose(name) else types.ModuleType(name)
        module.__path__ = []
        module.__spec__ = importlib.machinery.ModuleSpec(name, finder, is_package=True)
        module.__dict__.update({k: v for k, v in values.items() if not k.startswith("__") or k in ("__version__", "__file__")})
        sys.modules[name] = module
    sys.modules["tilelang.language"] = language
    for name in [*contents(), "tilelang.language"]:
        parent, _, child = name.rpartition(".")
        if parent and parent != "tilelang.language" and not isinstance(vars(sys.modules[parent]).get(child), types.FunctionType):
            setattr(sys.modules[parent], child, sys.modules[name])
    sys.meta_path.insert(0, finder)
    install_devices(target)
    torch_tpu.install()
