"""Programs: @T.prim_func and @T.macro, T.empty, and the text of a traced kernel."""

import inspect
import os

from . import hooks
from .buffers import Buffer, Pointer, Spec
from .builder import Builder, current, tracing
from .dtypes import INDEX, dtype
from .errors import TileError, fail
from .expr import Expr, Name
from .packed import Packed
from .rewrite import traced
from .statements import declaration


class Param:
    """A parameter of the kernel, in the order of the user's function. shape: sizes, None for a scalar."""

    def __init__(self, name, type_, shape=None, stride=None, buffer=None, is_result=False, packed=None):
        self.name, self.dtype, self.shape, self.stride = name, type_, shape, stride
        self.buffer, self.is_result, self.packed = buffer, is_result, packed  # packed: the type of two elements in a byte

    @property
    def is_scalar(self):
        return self.shape is None

    @property
    def is_written(self):
        return bool(self.buffer and self.buffer.is_written)

    def torch_dtype(self):
        return self.dtype.as_torch()

    def __repr__(self):
        return f"{self.name}: {self.dtype}" + ("" if self.is_scalar else f"[{', '.join(map(str, self.shape))}]")


def symbols_in(value, found):
    if isinstance(value, Name) and value.kind == "symbol":
        found.setdefault(value.name, value)
    for child in value.children if isinstance(value, Expr) else ():
        symbols_in(child, found)


class Tracer(Builder):
    """A kernel under construction with its parameters."""

    def __init__(self, name, arguments=None, constants=None, resolving=None):
        super().__init__(name)
        self.arguments = arguments or {}  # name: what the function was called with, of an eager function
        self.constants, self.resolving = constants, resolving
        self.results = []                 # buffers made by T.empty
        self.returned_value = None
        self.depth = 0                    # of macros

    def declare(self, name, spec):
        """A parameter; of one of an eager function also the values of T.const that its shape tells."""
        if isinstance(spec, dtype):
            made = Name(self.unique(name), spec, "scalar")
            self.params.append(Param(name, spec))
            made_name = made.name
            self.params[-1].text = lambda: f"{made_name}: {spec.word}"
            return made
        if isinstance(spec, Pointer):
            return PointerArgument(name, spec)
        found = {}
        for size in spec.shape + tuple(spec.stride or ()):
            symbols_in(size, found)
        for symbol in found:
            self.reserve(symbol)
        if self.resolving is not None and name in self.arguments:
            self.resolve(name, spec)
        if spec.dtype.is_packed:
            return self.packed(name, Packed(spec.shape, spec.dtype, self.unique(name), self))
        stride = spec.stride or self.strides_of(name, spec)
        buffer = Buffer(spec.shape, checked(spec.dtype, name), "global", stride, self.unique(name))
        buffer.builder = self
        self.params.append(Param(name, buffer.dtype, buffer.shape, stride, buffer))
        return buffer

    def packed(self, name, buffer, is_result=False):
        bytes_ = buffer.bytes
        self.params.append(Param(name, bytes_.dtype, bytes_.shape, None, bytes_, is_result, packed=buffer.dtype))
        return buffer

    def strides_of(self, name, spec):
        return None

    def resolve(self, name, spec):
        shape = getattr(self.arguments[name], "shape", None)
        if shape is None or len(shape) != len(spec.shape):
            raise TileError(f"{self.name}: argument '{name}' must be an array of {len(spec.shape)} axes, not "
                            + (f"one of {len(shape)}" if shape is not None else repr(self.arguments[name])))
        for size, actual in zip(spec.shape, shape):
            if isinstance(size, Name) and size.kind == "constant":
                self.resolving.setdefault(size.name, int(actual))

    def constant(self, name):
        if self.resolving is not None:
            return Name(name, INDEX, "constant", bounds=(0, None))
        if self.constants is None:
            fail("T.const is of eager functions: their sizes come from the arguments. Use T.dynamic here")
        if name not in self.constants:
            fail(f"T.const('{name}'): no argument has this size; give it by name: compile({name}=...)")
        return self.constants[name]

    def shape_pointer(self, pointer, shape, type_, strides):
        if not isinstance(pointer, PointerArgument):
            fail(f"T.make_tensor is of a T.ptr argument, not of {pointer!r}")
        return self.declare(pointer.name, Spec(shape, type_, strides))

    def result(self, shape, type_):
        type_ = checked(dtype(type_), "T.empty")
        buffer = Packed(shape, type_, self.unique("result"), self) if type_.is_packed else Buffer(shape, type_, "global")
        buffer.builder = self
        self.results.append(buffer)
        return buffer

    def returned(self, value):
        if self.depth:
            return value
        given = value if isinstance(value, (tuple, list)) else () if value is None else (value,)
        for buffer in given:
            if not isinstance(buffer, Buffer) or buffer not in self.results:
                fail(f"only arrays from T.empty can be returned, not {buffer!r}")
        self.outputs = list(given)
        return value

    def finish(self):
        for buffer in self.results:
            buffer.is_written = True
            if isinstance(buffer, Packed):
                self.packed(buffer.name, buffer, is_result=True)
                continue
            self.params.append(Param(buffer.name, buffer.dtype, buffer.shape, None, buffer, is_result=True))


class PointerArgument:
    def __init__(self, name, spec):
        self.name, self.dtype = name, spec.dtype


def checked(type_, what):
    if type_.word is None:
        fail(f"'{what}' is {type_!r}, which our tile language does not have yet")
    return type_


# Text -----------------------------------------------------------------------------------------------------------------


def text_of(builder, file):
    symbols = {}
    for param in builder.params:
        for size in (param.shape or ()) + tuple(param.stride or ()):
            symbols_in(size, symbols)
    inputs = [p for p in builder.params if not p.is_written]
    outputs = [p for p in builder.params if p.is_written]
    show = lambda p: p.text() if p.is_scalar else declaration(p.buffer)  # noqa: E731
    name = builder.unique(builder.name)
    listed = f"<{', '.join(symbols)}>" if symbols else ""
    head = f"kernel {name}{listed}({', '.join(map(show, inputs))}) -> ({', '.join(map(show, outputs))})"
    lines = [f"# {builder.name}: the numbers at the ends of lines are those of {os.path.basename(file)}", head + " {"]
    write(builder.body, lines, "  ", file)
    return "\n".join([*lines, "}", ""]), list(symbols), inputs + outputs


def write(statements, lines, indent, file):
    for s in statements:
        text = s.text if isinstance(s.text, str) else s.text()
        where = f"  # {s.place[1]}" if s.place[0] == file else f"  # {s.place[0]}:{s.place[1]}"
        if s.body is None:
            lines.append(f"{indent}{text}{where}")
            continue
        lines.append(f"{indent}{text} {{{where}")
        write(s.body, lines, indent + "  ", file)
        lines.append(f"{indent}}}")


class PrimFunc:
    """A traced kernel: its text in our tile language, and how its parameters and symbols are ordered in it."""

    def __init__(self, function, builder):
        self.function, self.name = function, builder.name
        self.file = function.__code__.co_filename
        builder.finish()
        self.params = builder.params
        self.launches = builder.launches
        self.results = [next(i for i, p in enumerate(self.params) if p.buffer in (b, getattr(b, "bytes", b))) for b in builder.outputs]
        self.text, self.symbols, ordered = text_of(builder, self.file)
        self.order = [self.params.index(p) for p in ordered]  # parameter of the text: parameter of the user
        self.attrs = {}

    @property
    def __name__(self):
        return self.name

    def script(self, *args, **kwargs):
        return self.text

    def with_attr(self, *args):
        return self

    def __repr__(self):
        return self.text

    def __call__(self, *args, **kwargs):
        raise TileError(f"{self.name} is a program, not a kernel: zellige.tile.compile({self.name}) makes one")


def annotations_of(function):
    """Annotations as values, also those that `from __future__ import annotations` left as text."""
    scope = dict(function.__globals__)
    names = function.__code__.co_freevars
    for name, cell in zip(names, function.__closure__ or ()):
        try:
            scope[name] = cell.cell_contents
        except ValueError:
            pass
    found = {}
    for name, value in function.__annotations__.items():
        if isinstance(value, str) and not isinstance(value, dtype):
            try:
                value = eval(value, scope)
            except Exception:
                pass
        found[name] = value() if callable(value) and not isinstance(value, (type, dtype)) and inspect.isfunction(value) else value
    return found


def prim_func(function=None, **options):
    """Traces a function whose annotations say what its parameters are."""
    if function is None:
        return lambda f: prim_func(f, **options)
    builder = Tracer(function.__name__)
    annotations = annotations_of(function)
    run = traced(function, hooks)
    with tracing(builder):
        arguments = {}
        for name, parameter in inspect.signature(function).parameters.items():
            spec = annotations.get(name)
            if isinstance(spec, (Spec, Pointer, dtype)):
                arguments[name] = builder.declare(name, spec)
            elif parameter.default is not inspect.Parameter.empty:
                arguments[name] = parameter.default
            elif spec is None:
                arguments[name] = PointerArgument(name, Pointer())
            else:
                raise TileError(f"{function.__name__}: parameter '{name}' needs an annotation such as "
                                f"T.Tensor((M, N), T.float16), not {spec!r}")
        run(**arguments)
    return PrimFunc(function, builder)


class Ref:
    """Annotation of a macro's parameter that is assigned to: T.Ref."""


class Macro:
    """A function whose statements go to where it is called."""

    def __init__(self, function):
        self.function, self.run = function, None
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def __call__(self, *args, **kwargs):
        builder = current(f"the macro {self.__name__}")
        if self.run is None:
            self.run = traced(self.function, hooks)
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        builder.depth += 1
        try:
            return self.run(*bound.args, **bound.kwargs)
        finally:
            builder.depth -= 1

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        return lambda *args, **kwargs: self(instance, *args, **kwargs)


def macro(function=None, **options):
    return Macro(function) if function is not None else Macro


def empty(*shape, dtype="float32"):
    """An array that the kernel makes and returns."""
    builder = current("T.empty")
    if len(shape) == 2 and isinstance(shape[0], (tuple, list)):
        shape, dtype = shape
    elif len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = shape[0]
    return builder.result(shape, dtype)


