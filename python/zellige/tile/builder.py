"""The kernel that is being traced: its open blocks, the names in them, and what is known inside of them.

A statement is one line of text and the user's line that it came from. What has no name yet when its statement is made
(a buffer before the assignment that names it) is a function, asked for its text at the end.
"""

import threading
from contextlib import contextmanager

from .dtypes import BOOL, INDEX
from .errors import TileError, fail, place
from .expr import Const, Expr, Name, Op, cast, wrap

WORDS = set("""kernel param where index grid threads map in step stages if else while break let copy copy_async gemm fill
load gemm_async store reduce scan accumulate clear axis atomic wait keep barrier assert print transpose reverse of bits align
exclusive swizzle stride inf nan true false global constant table shared fragment local extra
for parallel unroll vector pipeline subgroup group cluster bool u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64 c64 ceildiv
continue view safe fp8 thread shuffle once loose walk command im2col absmax abssum e4m3 e5m2 e4m3fnuz e5m2fnuz e8m0 e2m1 i4 u4""".split())
state = threading.local()


def is_word(name):
    """Whether a name means something in our language."""
    return name in WORDS or name.startswith(("inf_", "nan_"))


class Statement:
    __slots__ = ("text", "place", "body", "declares", "is_repeated")

    def __init__(self, text, place_, body=None, declares=None, is_repeated=False):
        self.text, self.place, self.body = text, place_, body
        self.declares, self.is_repeated = declares, is_repeated  # a function that gives the name; it may stand twice


class Builder:
    def __init__(self, name):
        self.name = name
        self.body = []
        self.blocks = [self.body]
        self.scopes = [set()]  # names in use, by block
        self.facts = []        # conditions that hold here, as texts, by block
        self.loops = []        # "ir" or "python", innermost last
        self.launches = []     # grid extents of each T.Kernel
        self.in_grid = False
        self.launch = None     # the T.Kernel around
        self.params = []       # Param, in the user's order
        self.outputs = []      # names of what T.empty made, in order of return
        self.constants = None  # values of T.const, while an eager function is traced
        self.resolving = None  # their values as far as known, while only those are looked for

    # Names

    def unique(self, wanted):
        """A name like the wanted one that means nothing else here."""
        base = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in wanted) or "x"
        base = f"_{base}" if base[0].isdigit() else base
        name, count = base, 0
        taken = set().union(*self.scopes)
        while is_word(name) or name in taken:
            count += 1
            name = f"{base}_{count}"
        self.scopes[-1].add(name)
        return name

    def reserve(self, name):
        self.scopes[0].add(name)

    # Statements

    def emit(self, text, body=None, declares=None, is_repeated=False):
        self.blocks[-1].append(Statement(text, place(), body, declares, is_repeated))

    @contextmanager
    def block(self, header, facts=()):
        """The statements made inside are the body of a statement that begins so."""
        body = []
        self.emit(header, body)
        with self.inside(body, facts):
            yield

    @contextmanager
    def inside(self, body, facts=()):
        self.blocks.append(body)
        self.scopes.append(set())
        self.facts.append(set(facts))
        try:
            yield
        finally:
            self.blocks.pop()
            self.scopes.pop()
            self.facts.pop()

    def knows(self, condition):
        text = condition.text()
        return any(text in facts for facts in self.facts)

    # Values

    def index(self, wanted, extent, begin=0):
        """A loop variable: its statement is made by the caller, in whose body it is visible."""
        from .bounds import bounds
        top = bounds(extent)[1]
        name = Name(self.unique(wanted or "i"), INDEX, "index", bounds=(bounds(begin)[0], None if top is None else top - 1))
        name.extent = extent
        return name

    def variable(self, wanted, value, type_=None):
        """A variable of the kernel that starts with a value."""
        e = wrap(value) if type_ is None else cast(value, type_)
        text = e.text(e.dtype)
        v = Variable(self, e.dtype, wanted)
        if wanted is not None:
            v.given = self.unique(wanted)
        is_fixed = isinstance(e, Const)
        self.emit(lambda: f"{v.name}: {e.dtype.word} = {text}", declares=(lambda: v.name) if is_fixed else None)
        return v

    def named(self, wanted, e):
        """An expression under a name. Only its value now is meant: what may change later becomes a variable."""
        if isinstance(e, (Name, Const)):
            return e
        if may_change(e):
            return Frozen(self.variable(wanted, e))
        name = Name(self.unique(wanted), e.dtype, "let", bounds=bounds_of(e))
        self.emit(f"let {name.name} = {e.text()}", declares=lambda: name.name, is_repeated=True)
        return name


class Variable(Expr):
    """T.alloc_var, and values that are kept."""

    __slots__ = ("builder", "wanted", "given")

    def __init__(self, builder, type_, wanted):
        super().__init__(type_)
        self.builder, self.wanted, self.given = builder, wanted, None

    @property
    def name(self):
        if self.given is None:
            self.given = self.builder.unique(self.wanted or "x")
        return self.given

    def text(self, expected=None):
        return self.name

    def assign(self, value):
        self.builder.emit(f"{self.name} = {cast(value, self.dtype).text(self.dtype)}")

    def __getitem__(self, key):  # a variable is a buffer of one element as well
        return self if key == 0 or key == (0,) else fail("a variable has one element: use it without an index")

    def __setitem__(self, key, value):
        self.assign(value)


class Frozen(Expr):
    """The value of a variable that nothing assigns to any more."""

    __slots__ = ("variable",)

    def __init__(self, variable):
        super().__init__(variable.dtype)
        self.variable = variable

    def text(self, expected=None):
        return self.variable.name


def may_change(e):
    """Whether its value depends on when it is computed."""
    from .buffers import Load
    return isinstance(e, (Load, Variable)) or any(may_change(c) for c in e.children)


def bounds_of(e):
    from .bounds import bounds
    return bounds(e) if e.dtype.is_integer else (None, None)


def facts_of(condition):
    """The parts of a condition that hold where it does."""
    if isinstance(condition, Op) and condition.op == "&" and condition.dtype == BOOL:
        return facts_of(condition.children[0]) | facts_of(condition.children[1])
    if may_change(condition):
        return set()
    return {condition.text()} | turned(condition)


def turned(condition):
    mirror = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
    if not isinstance(condition, Op) or condition.op not in mirror:
        return set()
    a, b = condition.children
    return {Op(mirror[condition.op], [b, a], BOOL).text()}


def current(what="this"):
    builder = getattr(state, "builder", None)
    if builder is None:
        raise NoKernel(f"{what} can only be used while a kernel is traced: in a @T.prim_func, or in an eager @jit function")
    return builder


def peek():
    return getattr(state, "builder", None)


class NoKernel(TileError):
    """Something of the language was used outside of any kernel."""


@contextmanager
def tracing(builder):
    outer = getattr(state, "builder", None)
    state.builder = builder
    try:
        yield builder
    finally:
        state.builder = outer
