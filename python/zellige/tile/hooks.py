"""What rewritten functions call (rewrite.py): each does Python's own thing for Python's values, and makes statements of the
kernel for the kernel's."""

from . import loops
from .buffers import Buffer, Pointer, Spec
from .builder import Frozen, Variable, current, facts_of, peek
from .dtypes import BOOL, dtype
from .errors import fail
from .expr import Const, Expr, Op, select, truth


def range(*args):
    return loops.serial(*args)


def is_runtime(value):
    return isinstance(value, Expr) and not isinstance(value, Const)


# Branches -------------------------------------------------------------------------------------------------------------


class Choice:
    """An if that Python decides."""

    def __init__(self, value):
        self.value = bool(value.value if isinstance(value, Const) else value)

    def then(self):
        return self.value

    def orelse(self):
        return not self.value

    def close(self):
        pass


class Branch:
    """An if of the kernel: both sides are traced."""

    def __init__(self, condition):
        self.builder = current("if")
        self.condition = truth(condition)
        self.open = None

    def enter(self, header, facts):
        self.close()
        self.open = self.builder.block(header, facts)
        self.open.__enter__()
        return True

    def then(self):
        return self.enter(f"if {self.condition.text()}", facts_of(self.condition))

    def orelse(self):
        return self.enter("else", facts_of(negated(self.condition)))

    def close(self):
        if self.open:
            self.open.__exit__(None, None, None)
        self.open = None


def branch(condition):
    if isinstance(condition, Buffer):
        condition = condition.as_scalar()
    return Branch(condition) if is_runtime(condition) and peek() else Choice(condition)


def negated(condition):
    opposite = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
    if isinstance(condition, Op) and condition.op in opposite and not condition.children[0].dtype.is_float:
        return Op(opposite[condition.op], condition.children, BOOL)
    return Op("!", [condition], BOOL)


# Loops ----------------------------------------------------------------------------------------------------------------


def loop(iterable, names):
    if isinstance(iterable, loops.Loop):
        yield from iterable.run(names)
        return
    if isinstance(iterable, Expr):
        fail("a loop runs over range(...), T.serial, T.Parallel and their like, not over a value of the kernel")
    builder = peek()
    if builder is None:
        yield from iterable
        return
    for value in iterable:  # Python's own: the body is traced once for each value
        builder.loops.append("python")
        try:
            yield value
        finally:
            builder.loops.pop()


def turns(condition):
    first = condition()
    if not is_runtime(first):
        while bool(condition()):
            yield
        return
    builder = current("while")
    builder.loops.append("ir")
    with builder.block(f"while {truth(first).text()}"):
        yield
    builder.loops.pop()


def stop():
    """break: whether it is Python's."""
    builder = peek()
    if builder is None or not builder.loops or builder.loops[-1] == "python":
        return True
    if builder.loops[-1] == "map":
        fail("break inside of T.Parallel: its iterations have no order")
    builder.emit("break")
    return False


# Assignments ----------------------------------------------------------------------------------------------------------


def bind(name, value, old):
    builder = peek()
    if builder is None:
        return value
    if isinstance(value, Buffer) and value.given_name is None and value.builder is builder:
        value.given_name = builder.unique(name)
        return value
    before = present(old)
    if isinstance(before, Variable) and not isinstance(value, Variable) and is_value(value):
        before.assign(value)
        return before
    if isinstance(value, Variable):
        if value.given is None and value.wanted is None:
            value.wanted = name
            value.name
            return value
        if isinstance(before, Variable):
            before.assign(value)
            return before
    if isinstance(value, Const) and value.dtype.is_integer and value.dtype.bits >= 32:
        return value.value
    if isinstance(value, Expr) and len(builder.blocks) > 1 and not isinstance(value, Frozen):
        return builder.named(name, value)
    return value


def is_value(value):
    return isinstance(value, (Expr, int, float))


def present(old):
    if old is None:
        return None
    try:
        return old()
    except NameError:
        return None


def unpack(value):
    """The parts of a tuple, each as it is now: a, b = b, a."""
    builder = peek()
    parts = list(value)
    if builder is None or len(builder.blocks) == 1 or not any(isinstance(p, Variable) for p in parts):
        return parts
    is_new = lambda p: isinstance(p, Variable) and p.wanted is None  # noqa: E731
    return [builder.named("t", p) if isinstance(p, Expr) and not is_new(p) else p for p in parts]


def annotate(name, annotation, value):
    """A: T.Tensor(...) in the body of a function says what its argument A is."""
    builder = peek()
    if builder is None or not isinstance(annotation, (Spec, Pointer, dtype)):
        return value()
    return builder.declare(name, annotation)


def give_back(value):
    builder = peek()
    return value if builder is None else builder.returned(value)


def scope(context, names):
    if hasattr(context, "name_blocks"):
        context.name_blocks(names)
    return context


def claim(condition, message):
    if not is_runtime(condition):
        assert condition, message
        return
    text = str(message or "it does not hold").replace("\\", "\\\\").replace('"', "'").replace("\n", " ")
    current("assert").emit(f'assert {truth(condition).text()}, "{text}"')


# Logic ----------------------------------------------------------------------------------------------------------------


def both(a, b):
    if not is_runtime(a):
        return b() if truth_of(a) else a
    b = b()
    if not is_runtime(b):
        return a if truth_of(b) else False
    return Op("&", [truth(a), truth(b)], BOOL)


def either(a, b):
    if not is_runtime(a):
        return a if truth_of(a) else b()
    b = b()
    if not is_runtime(b):
        return True if truth_of(b) else a
    return Op("|", [truth(a), truth(b)], BOOL)


def truth_of(value):
    return bool(value.value) if isinstance(value, Const) else bool(value)


def no(a):
    return negated(truth(a)) if is_runtime(a) else not truth_of(a)


def choose(condition, a, b):
    if not is_runtime(condition):
        return a() if truth_of(condition) else b()
    return select(condition, a(), b())

