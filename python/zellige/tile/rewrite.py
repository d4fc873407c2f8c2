"""Python functions whose control flow the builder sees: if, for, while, assignments, and, or, not, x if c else y.

The function's source is parsed, its statements are replaced by calls of hooks.py, and it is compiled again with its own
globals, closure and line numbers. Values that Python knows behave as ever; values of the kernel make statements.
"""

import ast
import copy
import linecache
import sys
import textwrap
import types

from . import errors

HOOKS = "__zellige_tile__"


rewritten = {}  # code object of a function: the code that replaces it


def traced(function, hooks):
    """function with its control flow turned into calls of hooks."""
    code = rewritten.get(function.__code__)
    if code is None:
        code = rewritten[function.__code__] = rewrite(function)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    cells[HOOKS] = types.CellType(hooks)
    closure = tuple(cells[name] for name in code.co_freevars)
    made = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def rewrite(function):
    tree, shift = parse(function)
    body = Rewriter(tree).run()
    module = placed(wrapped(body, [HOOKS, *function.__code__.co_freevars]))
    code = find_code(compile(module, function.__code__.co_filename, "exec"), function.__name__)
    note_shift(code, shift)
    return code


# Source ---------------------------------------------------------------------------------------------------------------


def parse(function):
    """(syntax of a function with the line numbers of its file, columns that it was moved to the left)"""
    remember_command()
    first = function.__code__.co_firstlineno
    lines = linecache.getlines(function.__code__.co_filename)[first - 1:]
    if not lines:
        raise errors.TileError(f"the source of {function.__name__} is needed to read it as a tile program; "
                               f"{function.__code__.co_filename} cannot be read")
    indent = len(lines[0]) - len(lines[0].lstrip())
    for end in ends(lines, indent):
        try:
            tree = ast.parse("\n" * (first - 1) + textwrap.dedent("".join(lines[:end]))).body[0]
        except (SyntaxError, IndexError):
            continue  # that line was inside of brackets or a text
        if isinstance(tree, ast.FunctionDef):
            return tree, indent
    raise errors.TileError(f"the source of {function.__name__} is not found at line {first} of {function.__code__.co_filename}")


def ends(lines, indent):
    """Where a block that begins with the first line may end: before lines that are not further in."""
    seen_def = False
    for at, line in enumerate(lines):
        text = line.lstrip()
        if seen_def and text and text[0] not in "#)]}" and len(line) - len(text) <= indent:
            yield at
        seen_def = seen_def or text.startswith(("def ", "async def "))
    yield len(lines)


def remember_command():
    """Lets the source of `python -c "..."` be found."""
    words = sys.orig_argv
    if "-c" in words[:-1] and "<string>" not in linecache.cache:
        text = words[words.index("-c") + 1]
        linecache.cache["<string>"] = (len(text), None, [line + "\n" for line in text.split("\n")], "<string>")


def wrapped(function, free):
    outer = ast.parse(f"def outer({', '.join(free)}):\n pass\n").body[0]
    outer.body = [function]
    return ast.Module([outer], [])


def find_code(code, name):
    outer = next(c for c in code.co_consts if isinstance(c, types.CodeType))
    return next(c for c in outer.co_consts if isinstance(c, types.CodeType) and c.co_name == name)


def note_shift(code, shift):
    errors.shifts[code] = shift
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            note_shift(inner, shift)


# Making syntax --------------------------------------------------------------------------------------------------------


def load(name):
    return ast.Name(name, ast.Load())


def hook(name, *args):
    return ast.Call(ast.Attribute(load(HOOKS), name, ast.Load()), list(args), [])


def later(expression):
    empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(empty, expression)


def names_of(target):
    """The names that a target binds, as a constant: 'i', or ('i', 'j')."""
    if isinstance(target, ast.Name):
        return ast.Constant(target.id)
    if isinstance(target, (ast.Tuple, ast.List)):
        return ast.Tuple([names_of(t) for t in target.elts], ast.Load())
    return ast.Constant(None)


def at(node, made):
    """made, or the parts of that list, with the place where node begins if it has none."""
    for part in made if isinstance(made, list) else [made]:
        if not hasattr(part, "lineno"):
            part.lineno = part.end_lineno = node.lineno
            part.col_offset = part.end_col_offset = node.col_offset
    return made


def placed(tree, line=1, column=0):
    """Gives what has no place that where its parent begins: CPython takes the line of a method call from its end."""
    if "lineno" in tree._attributes:
        if not hasattr(tree, "lineno"):
            tree.lineno = tree.end_lineno = line
            tree.col_offset = tree.end_col_offset = column
        line, column = tree.lineno, tree.col_offset
    for child in ast.iter_child_nodes(tree):
        placed(child, line, column)
    return tree


class Stores(ast.NodeVisitor):
    """How often each name is bound in a function."""

    def __init__(self, function):
        self.count = {a.arg: 1 for a in ast.walk(function.args) if isinstance(a, ast.arg)}
        for statement in function.body:
            self.visit(statement)

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Store):
            self.count[node.id] = self.count.get(node.id, 0) + 1

    def visit_AugAssign(self, node):
        self.generic_visit(node)
        self.generic_visit(node)

    def visit_FunctionDef(self, node):
        pass

    visit_Lambda = visit_FunctionDef


# continue: what follows it goes into the other branch -----------------------------------------------------------------


def has_continue(statements):
    for s in statements:
        if isinstance(s, ast.Continue):
            return True
        if isinstance(s, ast.If) and (has_continue(s.body) or has_continue(s.orelse)):
            return True
        if isinstance(s, ast.With) and has_continue(s.body):
            return True
    return False


def without_continue(statements):
    for i, s in enumerate(statements):
        if isinstance(s, ast.Continue):
            return statements[:i]
        if isinstance(s, ast.If) and has_continue([s]):
            rest = statements[i + 1:]
            s.body = without_continue(s.body + copy.deepcopy(rest)) or [ast.copy_location(ast.Pass(), s)]
            s.orelse = without_continue(s.orelse + rest)
            return statements[:i + 1]
    return statements


# The rewriting --------------------------------------------------------------------------------------------------------


class Rewriter(ast.NodeTransformer):
    def __init__(self, function):
        self.function = function
        self.stores = Stores(function).count
        self.temporaries = 0

    def run(self):
        f = self.function
        f.decorator_list = []
        f.returns = None
        for a in ast.walk(f.args):
            if isinstance(a, ast.arg):
                a.annotation = None
        f.args.defaults = [ast.Constant(None) for _ in f.args.defaults]
        f.args.kw_defaults = [None if d is None else ast.Constant(None) for d in f.args.kw_defaults]
        f.body = self.block(f.body)
        return f

    def block(self, statements):
        out = []
        for s in statements:
            made = self.visit(s)
            out += at(s, made) if isinstance(made, list) else [at(s, made)]
        return out

    def temporary(self):
        self.temporaries += 1
        return f"__zellige_{self.temporaries}"

    # Statements

    def visit_If(self, node):
        branch = self.temporary()
        call = lambda name: ast.Call(ast.Attribute(load(branch), name, ast.Load()), [], [])  # noqa: E731
        made = [ast.Assign([ast.Name(branch, ast.Store())], hook("branch", self.visit(node.test))),
                ast.If(call("then"), self.block(node.body), [])]
        if node.orelse:
            made.append(ast.If(call("orelse"), self.block(node.orelse), []))
        return [*made, ast.Expr(call("close"))]

    def visit_For(self, node):
        node.body = without_continue(node.body)
        if isinstance(node.iter, ast.Call) and isinstance(node.iter.func, ast.Name) and node.iter.func.id == "range":
            node.iter.func = at(node.iter.func, ast.Attribute(load(HOOKS), "range", ast.Load()))
        node.iter = hook("loop", self.visit(node.iter), names_of(node.target))
        node.body = self.block(node.body) or [ast.Pass()]
        node.orelse = self.block(node.orelse)
        return node

    def visit_While(self, node):
        body = self.block(without_continue(node.body)) or [ast.Pass()]
        turns = hook("turns", later(self.visit(node.test)))
        return ast.For(ast.Name(self.temporary(), ast.Store()), turns, body, [])

    def visit_Break(self, node):
        return ast.If(hook("stop"), [ast.Break()], [])

    def visit_Return(self, node):
        return ast.Return(hook("give_back", self.visit(node.value) if node.value else ast.Constant(None)))

    def visit_Assert(self, node):
        return ast.Expr(hook("claim", self.visit(node.test), self.visit(node.msg) if node.msg else ast.Constant(None)))

    def visit_With(self, node):
        for item in node.items:
            names = names_of(item.optional_vars) if item.optional_vars else ast.Constant(None)
            item.context_expr = at(node, hook("scope", self.visit(item.context_expr), names))
        node.body = self.block(node.body)
        return node

    def visit_FunctionDef(self, node):
        return node

    def visit_Lambda(self, node):
        return node

    # Assignments

    def bound(self, name, value):
        old = later(load(name)) if self.stores.get(name, 0) > 1 else ast.Constant(None)
        return ast.Assign([ast.Name(name, ast.Store())], hook("bind", ast.Constant(name), value, old))

    def assign(self, target, value):
        if isinstance(target, ast.Name):
            return [self.bound(target.id, value)]
        if isinstance(target, (ast.Tuple, ast.List)) and not any(isinstance(t, ast.Starred) for t in target.elts):
            parts = [self.temporary() for _ in target.elts]
            all_parts = ast.Tuple([ast.Name(p, ast.Store()) for p in parts], ast.Store())
            made = [ast.Assign([all_parts], hook("unpack", value))]
            for part, inner in zip(parts, target.elts):
                made += self.assign(inner, load(part))
            return made
        return [ast.Assign([self.generic_visit(target)], value)]

    def visit_Assign(self, node):
        value = self.visit(node.value)
        if len(node.targets) == 1:
            return self.assign(node.targets[0], value)
        shared = self.temporary()
        made = [ast.Assign([ast.Name(shared, ast.Store())], value)]
        for target in node.targets:
            made += self.assign(target, load(shared))
        return made

    def visit_AugAssign(self, node):
        if not isinstance(node.target, ast.Name):
            return self.generic_visit(node)
        value = ast.BinOp(load(node.target.id), node.op, self.visit(node.value))
        return self.bound(node.target.id, value)

    def visit_AnnAssign(self, node):
        if node.value is not None:
            return self.assign(node.target, self.visit(node.value))
        if not isinstance(node.target, ast.Name):
            return node
        name = node.target.id
        value = hook("annotate", ast.Constant(name), self.visit(node.annotation), later(load(name)))
        return ast.Assign([ast.Name(name, ast.Store())], value)

    # Expressions

    def visit_BoolOp(self, node):
        *values, last = (self.visit(v) for v in node.values)
        name = "both" if isinstance(node.op, ast.And) else "either"
        for value in reversed(values):
            last = at(node, hook(name, value, later(last)))
        return last

    def visit_UnaryOp(self, node):
        node = self.generic_visit(node)
        return at(node, hook("no", node.operand)) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node):
        node = self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        left, pairs = node.left, []
        for op, right in zip(node.ops, node.comparators):
            pairs.append(at(node, ast.Compare(copy.deepcopy(left), [op], [right])))
            left = right
        last = pairs.pop()
        while pairs:
            last = at(node, hook("both", pairs.pop(), later(last)))
        return last

    def visit_IfExp(self, node):
        node = self.generic_visit(node)
        return at(node, hook("choose", node.test, later(node.body), later(node.orelse)))
