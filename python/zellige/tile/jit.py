"""jit and compile: from a Python function to a kernel, once for each set of compile-time arguments.

A function that returns a @T.prim_func is lazy: a call gives the kernel. One that is a kernel itself is eager: its arrays
are arguments, T.const sizes come from their shapes, and a call compiles and runs it.
"""

import ast
import functools
import inspect

from . import hooks
from .buffers import Pointer, Spec
from .builder import NoKernel, tracing
from .dtypes import dtype
from .errors import TileError
from .expr import Name
from .kernel import Kernel
from .programs import PointerArgument, PrimFunc, Tracer, annotations_of
from .rewrite import parse, traced


def compile(program, out_idx=None, target="auto", **options):
    """A kernel for a program."""
    if isinstance(program, JITFunction):
        return program.compile()
    if not isinstance(program, PrimFunc):
        raise TypeError(f"compile takes a @T.prim_func, not {program!r}")
    return Kernel(program, out_idx, target)


class Lowered(str):
    """What lower() gives: the text for the compiler of a target, with what the program and its parameters are."""

    def __new__(cls, kernel):
        made = super().__new__(cls, kernel.get_kernel_source())
        made.kernel_source, made.rt_mod, made.params = str(made), kernel, kernel.params
        made.host_mod = made.device_mod = made.optimized_mod = kernel.program
        return made

    def get_source(self):
        return self.kernel_source


def lower(program, target="auto", target_host=None, runtime_only=False, enable_host_codegen=False, enable_device_compile=False, **options):
    """The text of a program for a target, as a string: of "auto", for the one that its kernel would most likely run on."""
    return Lowered(compile(program, None, target))


def par_compile(programs, *args, **options):
    return [compile(p, *args, **{k: v for k, v in options.items() if k in ("out_idx", "target")}) for p in programs]


def jit(function=None, *, out_idx=None, target="auto", **options):
    """Makes kernels of a function when it is called."""
    if function is None:
        return lambda f: jit(f, out_idx=out_idx, target=target, **options)
    if isinstance(function, PrimFunc):
        return compile(function, out_idx, target)
    return JITFunction(function, out_idx, target, options)


lazy_jit = jit


class JITFunction:
    def __init__(self, function, out_idx, target, options):
        self.function, self.out_idx, self.target, self.options = function, out_idx, target, options
        self.signature = inspect.signature(function)
        self.kernels = {}
        self.eager = None
        functools.update_wrapper(self, function)

    def __call__(self, *args, **kwargs):
        if self.is_lazy(args, kwargs):
            kernel = self.compile(*args, **kwargs)
            return kernel
        return self.eager(self, args, kwargs)

    def compile(self, *args, **kwargs):
        """The kernel alone, also of an eager function: its sizes are then given by name."""
        if not self.is_lazy(args, kwargs):
            return self.eager.kernel(self, args, kwargs)
        return self.lazy_kernel(args, kwargs)

    def lazy_kernel(self, args, kwargs):
        key = key_of(args, kwargs)
        kernel = self.kernels.get(key) if key is not None else None
        if kernel is None:
            kernel = Kernel(self.program(args, kwargs), self.out_idx, self.target)
            if key is not None:
                self.kernels[key] = kernel
        return kernel

    def program(self, args, kwargs):
        tuned = {k: v for k, v in kwargs.items() if k != "__tune_params"}
        program = self.function(*args, **tuned)
        if not isinstance(program, PrimFunc):
            raise TileError(f"{self.function.__name__} must return a @T.prim_func, not {program!r}")
        return program

    def is_lazy(self, args, kwargs):
        if self.eager is None:
            self.eager = False if returns_program(self.function, args, kwargs) else Eager(self.function, self.out_idx)
        return self.eager is False

    def get_tir(self, *args, **kwargs):
        return self.program(args, kwargs) if self.is_lazy(args, kwargs) else self.eager.traced_program(args, kwargs)

    elaborate = get_tir

    def get_kernel_source(self, *args, **kwargs):
        return self.compile(*args, **kwargs).get_kernel_source()

    def __getitem__(self, grid):
        """function[grid](arrays) of an eager function, as kernel[grid](arrays)."""
        def launch(*args, **kwargs):
            if self.is_lazy(args, kwargs):
                raise TileError(f"{self.function.__name__} makes kernels: call it with its sizes, and launch what it returns")
            return self.eager(self, args, kwargs, grid)
        return launch

    def par_compile(self, configs, **options):
        return [self.compile(*c) if isinstance(c, (tuple, list)) else self.compile(**c) for c in configs]


def key_of(args, kwargs):
    key = (args, tuple(sorted(kwargs.items())))
    try:
        hash(key)
    except TypeError:
        plain = (list, tuple, dict, str, int, float, type(None))
        return repr(key) if all(isinstance(v, plain) for v in (*args, *kwargs.values())) else None
    return tuple(map(type, args)), key


def returns_program(function, args, kwargs):
    if "prim_func" in function.__code__.co_names:
        return True  # without reading its source: that takes a millisecond
    tree = parse(function)[0] if function.__name__ != "<lambda>" else None  # which can only call what gives programs
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.FunctionDef) and node is not tree and "prim_func" in map(decorator_name, node.decorator_list):
            return True
    try:
        return isinstance(function(*args, **kwargs), PrimFunc)
    except (NoKernel, TypeError):
        return False


def decorator_name(node):
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


class Eager:
    """A kernel function whose arrays are arguments."""

    def __init__(self, function, out_idx):
        self.function, self.name, self.out_idx = function, function.__name__, out_idx
        self.signature = inspect.signature(function)
        self.run = traced(function, hooks)
        self.annotations = annotations_of(function)
        self.arrays = self.array_names()
        indices = [] if out_idx is None else [out_idx] if isinstance(out_idx, int) else out_idx
        self.results = {self.arrays[i] for i in indices if -len(self.arrays) <= i < len(self.arrays)}  # which callers may leave out
        self.sources = {}  # constant: (argument, axis) that tells it
        self.has_constants = "const" in function.__code__.co_names

    def array_names(self):
        """Parameters that an annotation, here or in the body, or T.make_tensor gives a shape."""
        found = {n for n, a in self.annotations.items() if isinstance(a, (Spec, Pointer, dtype))}
        for node in ast.walk(parse(self.function)[0]):
            if isinstance(node, ast.AnnAssign) and node.value is None:
                found.add(getattr(node.target, "id", None))
            elif isinstance(node, ast.Call) and node.args and getattr(node.func, "attr", "") in ("match_buffer", "make_tensor"):
                found.add(getattr(node.args[0], "id", None))
        return [n for n in self.signature.parameters if n in found]

    def bind(self, args, kwargs, partial=False):
        """(compile-time values, arrays, constants given by name)"""
        known = {k: v for k, v in kwargs.items() if k in self.signature.parameters}
        constants = {k: v for k, v in kwargs.items() if k not in self.signature.parameters}
        try:
            bound = self.signature.bind_partial(*args, **known)
        except TypeError as error:
            raise TileError(f"{self.name}: {error}") from None
        bound.apply_defaults()
        arrays = {n: bound.arguments.pop(n) for n in self.arrays if n in bound.arguments}
        missing = [n for n, p in self.signature.parameters.items()
                   if n not in bound.arguments and (n not in arrays and not (partial and n in self.arrays) and n not in self.results)]
        if missing:
            raise TileError(f"{self.name}: argument '{missing[0]}' is missing")
        return dict(bound.arguments), arrays, constants

    def __call__(self, jit_function, args, kwargs, grid=None):
        values, arrays, constants = self.bind(args, kwargs)
        kernel = self.find(jit_function, values, arrays, constants)
        launch = kernel if grid is None else kernel[grid]
        return launch(*(arrays.get(p.name) for p in kernel.params))

    def kernel(self, jit_function, args, kwargs):
        return self.find(jit_function, *self.bind(args, kwargs, partial=True))

    def find(self, jit_function, values, arrays, constants):
        constants = {**self.constants(values, arrays), **constants} if self.has_constants else constants
        key = key_of((), {**values, "": tuple(sorted(constants.items()))})
        kernel = jit_function.kernels.get(key) if key is not None else None
        if kernel is None:
            kernel = Kernel(self.trace(values, constants), self.out_idx, jit_function.target)
            if key is not None:
                jit_function.kernels[key] = kernel
        return kernel

    def traced_program(self, args, kwargs):
        values, arrays, constants = self.bind(args, kwargs, partial=True)
        return self.trace(values, {**self.constants(values, arrays), **constants})

    def constants(self, values, arrays):
        """T.const sizes, from the shapes of the arrays; where they come from is found once."""
        arrays = {n: a for n, a in arrays.items() if hasattr(a, "shape")}
        if not arrays:
            return {}
        key = key_of((), {**values, "": tuple(arrays)})
        sources = self.sources.get(key)
        if sources is None:
            sources = self.sources[key] = self.find_sources(values, arrays)
        found = {}
        for name, axis, ndim, constant in sources:
            shape = arrays[name].shape
            if len(shape) != ndim:
                raise TileError(f"{self.name}: argument '{name}' has {len(shape)} axes, shape {tuple(shape)}; {ndim} are needed")
            size = int(shape[axis])
            if found.setdefault(constant, size) != size:
                raise TileError(f"{self.name}: argument '{name}' has size {size} along axis {axis}, "
                                f"but {constant} is {found[constant]} by another argument")
        return found

    def find_sources(self, values, arrays):
        builder = Sources(self.name, arrays)
        with tracing(builder):
            try:
                self.run(**self.arguments(builder, values))
            except Exception:  # whatever needs the values themselves: the trace with them tells what is wrong
                pass
        return builder.sources

    def arguments(self, builder, values):
        arguments = dict(values)
        for name in self.arrays:
            spec = self.annotations.get(name)
            is_spec = isinstance(spec, (Spec, Pointer, dtype))
            arguments[name] = builder.declare(name, spec) if is_spec else PointerArgument(name, Pointer())
        return arguments

    def trace(self, values, constants):
        builder = Tracer(self.name, constants=constants)
        with tracing(builder):
            self.run(**self.arguments(builder, values))
        order = {name: at for at, name in enumerate(self.arrays)}
        builder.params.sort(key=lambda p: order.get(p.name, len(order)))
        return PrimFunc(self.function, builder)


class Sources(Tracer):
    """Finds which axis of which argument tells each T.const; ends at the launch."""

    def __init__(self, name, arrays):
        super().__init__(name, arrays, resolving={})
        self.sources = []

    def resolve(self, name, spec):
        for axis, size in enumerate(spec.shape):
            if isinstance(size, Name) and size.kind == "constant":
                self.sources.append((name, axis, len(spec.shape), size.name))
