#!/usr/bin/env python3
"""fuzz_templates.py BUILD [--count N] [--seed N] - generated programs in the language of chat templates, against jinja2.

Both sides must give the same text, or both refuse. Programs nest statements and expressions over variables of all types, with
filters, tests, methods, slices, macros, namespaces and blank control. The environment is that of transformers: trim_blocks,
lstrip_blocks, loop controls, its tojson.
"""

import argparse
import json
import random
import subprocess
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

VARIABLES = {
    "s": "Hello World", "t": "  a,b,,c \n", "u": "日本é ok", "e": "", "n": 7, "m": -3, "z": 0, "f": 2.5, "yes": True, "no": False,
    "nil": None, "xs": [3, 1, 2], "ys": ["b", "a", "c", "a"], "none": [], "d": {"k": 1, "b": "two", "items2": [1, 2]},
    "msgs": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "yo", "n": [1, {"q": None}]}, {"role": "tool", "content": ""}],
}
del VARIABLES["none"]
TEXTS = ["'a'", "','", "''", "'lo'", "'é'", "' '", "'b'", "\"x'y\"", "'\\n'", "'Hello'"]
STRINGS, LISTS, NUMBERS = ["s", "t", "u", "e"], ["xs", "ys", "msgs"], ["n", "m", "z", "f", "yes"]


class Writer:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.names = []

    def one(self, *choices):
        return self.random.choice(choices)

    def chance(self, p):
        return self.random.random() < p

    def text(self, depth):
        if depth <= 0:
            return self.one(*STRINGS, *TEXTS)
        return self.one(
            lambda: self.one(*STRINGS, *TEXTS),
            lambda: f"{self.text(depth - 1)}|{self.one('trim', 'string', 'capitalize', 'title', 'upper', 'lower', 'escape', 'indent')}" if self.chance(0.9) else "s|indent(2, true)",
            lambda: f"({self.text(depth - 1)} ~ {self.value(depth - 1)})",
            lambda: f"({self.text(depth - 1)} + {self.text(depth - 1)})",
            lambda: f"{self.text(0)}.{self.one('strip()', 'lstrip()', 'rstrip()', 'upper()', 'lower()', 'title()', 'capitalize()')}",
            lambda: f"{self.text(0)}.{self.one('strip', 'lstrip', 'rstrip', 'removeprefix', 'removesuffix')}({self.one(*TEXTS)})",
            lambda: f"{self.text(0)}.replace({self.one(*TEXTS)}, {self.one(*TEXTS)})",
            lambda: f"{self.text(0)}|replace({self.one(*TEXTS)}, {self.one(*TEXTS)}{self.one('', ', 1')})",
            lambda: f"{self.text(0)}[{self.slice()}]",
            lambda: f"{self.list(depth - 1)}|join({self.one(*TEXTS)})",
            lambda: f"{self.value(depth - 1)}|tojson{self.one('', '', '(indent=2)', '(ensure_ascii=true)')}",
            lambda: f"{self.text(0)}.split({self.one('', *TEXTS)})[{self.one(0, -1, 1)}]",
            lambda: f"'{self.one('ab', '-')}' * {self.one(0, 2, 3)}",
        )()

    def number(self, depth):
        if depth <= 0:
            return self.one(*NUMBERS, "0", "1", "2", "10", "-1", "3.0", "0.1", "1e3")
        return self.one(
            lambda: self.number(0),
            lambda: f"({self.number(depth - 1)} {self.one('+', '-', '*', '/', '//', '%')} {self.number(depth - 1)})",
            lambda: f"{self.value(depth - 1)}|{self.one('length', 'count', 'int', 'float')}",
            lambda: f"{self.number(depth - 1)}|{self.one('abs', 'int', 'float', 'round')}",
            lambda: f"-{self.number(0)}",
            lambda: f"{self.text(0)}.{self.one('find', 'rfind', 'count')}({self.one(*TEXTS)})",
            lambda: f"xs|{self.one('sum', 'min', 'max', 'first', 'last')}",
            lambda: f"{self.one(2, 3)} ** {self.one(0, 2, 3)}",
        )()

    def truth(self, depth):
        if depth <= 0:
            return self.one("yes", "no", "true", "false", "nil", "missing", *STRINGS, *LISTS)
        v = lambda: self.value(depth - 1)
        return self.one(
            lambda: self.truth(0),
            lambda: f"{v()} {self.one('==', '!=')} {v()}",
            lambda: f"{self.number(depth - 1)} {self.one('<', '<=', '>', '>=')} {self.number(depth - 1)}",
            lambda: f"{self.number(0)} < {self.number(0)} <= {self.number(0)}",
            lambda: f"not {self.truth(depth - 1)}",
            lambda: f"({self.truth(depth - 1)} {self.one('and', 'or')} {self.truth(depth - 1)})",
            lambda: f"{self.text(0)} {self.one('in', 'not in')} {self.one(self.text(0), 'ys', 'd')}",
            lambda: f"({self.one(v(), 'missing', 'd.nope', 'd.k', 'msgs[5]')} is {self.one('', 'not ')}{self.one('defined', 'undefined', 'none', 'string', 'mapping', 'iterable', 'sequence', 'number', 'integer', 'float', 'boolean', 'true', 'false', 'callable')})",
            lambda: f"({self.number(0)} is {self.one('odd', 'even', 'divisibleby 2', 'eq 1', 'gt 2', 'le(3)')})",
            lambda: f"{self.text(0)}.{self.one('startswith', 'endswith')}({self.one(*TEXTS)})",
            lambda: f"{self.text(0)}.{self.one('isdigit', 'isspace', 'isalpha', 'isupper', 'islower')}()",
        )()

    def list(self, depth):
        if depth <= 0:
            return self.one(*LISTS, "[]", "range(3)|list", "(1, 2)", "d")
        return self.one(
            lambda: self.list(0),
            lambda: f"[{', '.join(self.value(depth - 1) for _ in range(self.random.randrange(4)))}]",
            lambda: f"({self.list(depth - 1)})|{self.one('list', 'reverse|list', 'unique|list')}",
            lambda: f"ys|{self.one('sort', 'sort(reverse=true)', 'map(chr39upperchr39)|list', 'select(chr39equaltochr39, chr39achr39)|list', 'reject(chr39inchr39, [chr39achr39])|list')}".replace("chr39", "'"),
            lambda: f"{self.one('xs', 'ys', 'msgs', '[1, 2, 3, 4]')}[{self.slice()}]",
            lambda: f"{self.text(0)}.{self.one('split', 'rsplit')}({self.one('', *TEXTS)}{self.one('', '')})",
            lambda: f"{self.text(0)}.{self.one('split', 'rsplit')}({self.one(*TEXTS)}, {self.one(0, 1, 2)})",
            lambda: f"{self.text(0)}.splitlines()",
            lambda: self.one("d.items()|list", "d|items|list", "d.keys()|list", "d.values()|list", "d|dictsort", "msgs|map(attribute='role')|list", "msgs|selectattr('n', 'defined')|list", "msgs|rejectattr('content')|list", "msgs|selectattr('role', 'equalto', 'user')|list"),
            lambda: f"{self.one('xs', 'ys')} + {self.one('xs', '[1]', 'ys')}",
            lambda: f"range({self.one(0, 2, 5)}, {self.one(3, 9, -1)}, {self.one(1, 2, -1)})|list",
        )()

    def value(self, depth):
        if depth <= 0:
            return self.one(self.text(0), self.number(0), self.list(0), "nil", "missing", "d", *(self.names or ["n"]))
        return self.one(
            lambda: self.text(depth), lambda: self.number(depth), lambda: self.truth(depth), lambda: self.list(depth),
            lambda: f"({self.value(depth - 1)} if {self.truth(depth - 1)} else {self.value(depth - 1)})",
            lambda: f"({self.value(depth - 1)} if {self.truth(depth - 1)})",
            lambda: f"{self.value(depth - 1)}|default({self.value(0)}{self.one('', ', true')})",
            lambda: "{" + f"'a': {self.value(depth - 1)}, {self.text(0)}: {self.value(0)}" + "}",
            lambda: self.one("d.k", "d['b']", "d.get('b')", "d.get('q', 4)", "msgs[0].role", "msgs[-1]['content']", "msgs[1].n[1].q", "missing.x", "d.nope", "s[0]", "xs[-1]", "xs[9]", "ns.a", "ns.b"),
            lambda: f"mac({self.value(depth - 1)}{self.one('', ', b=2', ', 3')})",
            lambda: self.one(*(self.names or ["n"])),
        )()

    def slice(self):
        part = lambda: self.one("", "", "0", "1", "2", "-1", "-2", "5", "m")
        return f"{part()}:{part()}" + self.one("", "", ":", ":-1", ":2")

    def tag(self, inside):
        return f"{{%{self.one('', '', '-', '+')} {inside} {self.one('', '', '-', '+')}%}}"

    def data(self):
        return self.one("x", " ", "\n", "  \n  ", "a b\n", "\n\n", "\t", "{ }", "", "é\n ")

    def body(self, depth):
        return "".join(self.statement(depth) for _ in range(self.random.randrange(1, 4)))

    def statement(self, depth):
        choices = [self.data, lambda: f"{{{{{self.one('', '', '-')} {self.value(self.random.randrange(3))} {self.one('', '', '-')}}}}}"]
        if depth > 0:
            choices += [lambda: self.branch(depth), lambda: self.loop(depth), self.set, lambda: self.comment(), lambda: self.set_body(depth)]
        return self.random.choice(choices)()

    def comment(self):
        return self.one("{# c #}", "{#- c -#}", "{# a\n#}\n", self.tag("raw") + "{{ x }} {% if %}" + self.tag("endraw"))

    def branch(self, depth):
        out = self.tag(f"if {self.truth(2)}") + self.body(depth - 1)
        if self.chance(0.3):
            out += self.tag(f"elif {self.truth(1)}") + self.body(depth - 1)
        if self.chance(0.5):
            out += self.tag("else") + self.body(depth - 1)
        return out + self.tag("endif")

    def loop(self, depth):
        name = self.one("i", "j")
        over = self.list(1)
        out = self.tag(f"for {name} in {over}" + (f" if {self.truth(1)}" if self.chance(0.2) else ""))
        self.names.append(name)
        if self.chance(0.6):
            out += "{{ " + self.one("loop.index", "loop.index0", "loop.first", "loop.last", "loop.length", "loop.revindex", "loop.previtem", "loop.nextitem", "loop.cycle('a', 'b')", "loop.changed(1)", name) + " }}"
        if self.chance(0.2):
            out += self.tag(f"if {self.truth(1)}") + self.tag(self.one("break", "continue")) + self.tag("endif")
        out += self.body(depth - 1)
        self.names.pop()
        if self.chance(0.2):
            out += self.tag("else") + self.body(depth - 1)
        return out + self.tag("endfor")

    def set(self):
        name = self.one("v", "w", "ns.a", "v, w")
        return self.tag(f"set {name} = " + (f"{self.value(1)}, {self.value(1)}" if "," in name else self.value(2)))

    def set_body(self, depth):
        return self.tag(f"set {self.one('v', 'w')}{self.one('', '', '|trim', '|upper')}") + self.body(depth - 1) + self.tag("endset")

    def program(self):
        self.names = []
        head = "{% set ns = namespace(a=0) %}{% macro mac(a, b=s) %}" + self.one("{{ a }}{{ b }}", "<{{ a|string }}>\n", "{% if b %}{{ a }}{% endif %}") + "{% endmacro %}"
        self.names = ["v", "w"] if self.chance(0.5) else []
        return head + "".join(self.statement(3) for _ in range(self.random.randrange(1, 6))) + self.one("", "\n", "\n\n")


def oracle():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    return env


def main():
    args = argparse.ArgumentParser()
    args.add_argument("build")
    args.add_argument("--count", type=int, default=3000)
    args.add_argument("--seed", type=int, default=1)
    args = args.parse_args()
    env, failed, refused, shown = oracle(), 0, 0, 0
    for first in range(0, args.count, 10000):
        count = min(10000, args.count - first)
        programs = [Writer(args.seed * 1000003 + first + i).program() for i in range(count)]
        data = json.dumps(VARIABLES)
        fed = "".join(f"{p}\0{data}\0" for p in programs).encode()
        got = subprocess.run([f"{args.build}/render_cases"], input=fed, capture_output=True, check=True, timeout=1200).stdout.split(b"\0")
        for i, (program, ours) in enumerate(zip(programs, got)):
            try:
                want = env.from_string(program).render(**json.loads(data))
            except RecursionError:
                continue
            except Exception as error:  # any refusal of theirs must be one of ours
                want, why = None, repr(error)
            refused += want is None
            text = ours[1:].decode() if ours[:1] == b"+" else None
            if text == want:
                continue
            failed += 1
            if shown < 5:
                shown += 1
                print(f"--- program {first + i}: {program!r}\n  jinja2: {why[:200] if want is None else repr(want)}\n  zellige: {ours[:300].decode()!r}")
    print(f"{args.count} programs, seed {args.seed}: {failed} differ; {refused} are refused")
    sys.exit(failed > 0)


main()
