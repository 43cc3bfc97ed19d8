"""Generates whole programs, as source text, for comparing engines.

A program is the prelude (prelude.py), a few functions of which each may call those before it, and `main(log)`. What
can be written at a place is in grammar.py; here is the writer that draws from it, and the scopes it keeps. Every
choice is a draw with the plainest alternative first, so hypothesis shrinks to readable programs.

Expressions are typed loosely (integers, lists, anything), so that most programs live long; errors still come from
raise, assert, unbound and deleted names, division by zero, wrong calls, managers and iterators.

Variables are named by their type and by the depth of their function: i0 i1 (integers), s0 (a list), o0 (anything) in a
top-level function; j0 j1 t0 p0 one level deeper; k0 k1 u0 q0 below that. So a nested function can read all names and
assign only its own and those that it declares nonlocal.
"""

import dataclasses
import warnings
from pathlib import Path

from hypothesis import strategies as st

from . import grammar

PRELUDE = Path(__file__).with_name("prelude.py").read_text()
INTEGERS, LISTS, OBJECTS = ("i", "j", "k"), ("s", "t", "u"), ("o", "p", "q")
DEEPEST_LEVEL = len(INTEGERS) - 1
DEEPEST_BLOCK = 4
SIGNATURES = ("x, y=2, *rest, k=1, **more", "x, y=3", "x=1, /, y=2, *, k=0", "x, *rest, y=1, k=3")


@dataclasses.dataclass
class Scope:
    """What code may use at the place where it stands."""

    kind: str  # function, generator or coroutine
    level: int  # depth of nested functions; -1 is the module
    integers: list  # readable names, by type
    lists: list
    objects: list
    writable: list  # integers that may be assigned
    callees: list  # (name, kind) of the functions that may be called
    in_loop: bool = False
    in_handler: bool = False
    may_leave: bool = True  # break, continue and return are allowed: not so in except*
    inside: bool = False  # in a comprehension or a lambda: no walrus, yield or await

    def replace(self, **changes):
        return dataclasses.replace(self, **changes)

    def list_callees(self, kind):
        return [name for name, its_kind in self.callees if its_kind == kind]

    @property
    def own_list(self):
        return f"{LISTS[self.level]}0"

    @property
    def own_object(self):
        return f"{OBJECTS[self.level]}0"


class Writer:
    """Draws statements and expressions, and keeps the text. `budget` bounds the number of compound statements."""

    def __init__(self, draw, budget):
        self.draw, self.budget = draw, budget
        self.lines, self.indent, self.counter = [], 0, 0

    def choose(self, options):
        return options[self.number(0, len(options) - 1)]

    def number(self, low, high):
        return self.draw(st.integers(low, high))

    def chance(self, one_in):
        """True once in so many draws; shrinks to False."""
        return self.number(1, one_in) == one_in

    def name(self, stem):
        self.counter += 1
        return f"{stem}{self.counter}"

    def line(self, text):
        self.lines.append("    " * self.indent + text)

    def block(self, head, write_body):
        self.line(head)
        self.indent += 1
        write_body()
        self.indent -= 1

    def integer(self, scope, depth=0):
        if depth > 2:
            return self.choose([*scope.integers, "1", "2", "0"])
        return self.choose(grammar.INTEGERS)(self, scope, depth + 1)

    def condition(self, scope, depth=0):
        return self.choose(grammar.CONDITIONS)(self, scope, depth + 1)

    def list_of_integers(self, scope, depth=0):
        if depth > 1:
            return self.choose([*scope.lists, "[1, 2]", "[]"])
        return self.choose(grammar.LISTS)(self, scope, depth + 1)

    def anything(self, scope, depth=0):
        return self.choose(grammar.OBJECTS)(self, scope, depth + 1)

    def iterable(self, scope, depth=0):
        return self.choose(grammar.ITERABLES)(self, scope, depth + 1)

    def body(self, scope, depth, most=3):
        for _ in range(self.number(1, most)):
            self.statement(scope, depth)

    def statement(self, scope, depth):
        self.budget -= 1
        if self.budget < 0 or depth >= DEEPEST_BLOCK:
            forms = grammar.SIMPLE_STATEMENTS
        else:
            forms = grammar.STATEMENTS + grammar.STATEMENTS_OF_KIND[scope.kind] * 3
        self.choose(forms)(self, scope, depth + 1)

    def function(self, name, kind, outer, depth):
        """Write a function definition; `outer` is the scope around it."""
        level = outer.level + 1
        own = [f"{INTEGERS[level]}{n}" for n in range(2)]
        shared = [name for name in outer.writable if name != "total" and self.chance(2)]
        scope = Scope(
            kind=kind,
            level=level,
            integers=["x", "y", *own, *outer.integers],
            lists=[f"{LISTS[level]}0", *outer.lists],
            objects=[f"{OBJECTS[level]}0", *outer.objects],
            writable=[*own, *shared],
            callees=outer.callees,
        )
        head = f"{'async ' * (kind == 'coroutine')}def {name}({self.choose(SIGNATURES)}):"
        self.block(head, lambda: self.function_body(scope, own, shared, depth))

    def guarded_statement(self, scope, depth):
        """A statement whose error is noted, so that what follows runs as well."""
        self.block("try:", lambda: self.statement(scope, depth))
        self.block("except Exception as error:", lambda: self.line("note(type(error).__name__, str(error)[:60])"))

    def function_body(self, scope, own, shared, depth):
        if shared:
            self.line(f"nonlocal {', '.join(shared)}")
        if self.chance(4):
            self.line("global total")
            scope = scope.replace(integers=[*scope.integers, "total"], writable=[*scope.writable, "total"])
        self.bind_own_names(scope, own)
        for _ in range(self.number(1, 5)):
            self.choose([self.guarded_statement, self.statement])(scope, depth)
        if scope.level == 0:
            for name, callee_kind in scope.callees:
                self.line(
                    f"note({self.choose(grammar.USES[callee_kind])})".format(
                        f=name, a=self.integer(scope.replace(inside=True), 1)
                    )
                )
        self.line(f"return {self.integer(scope)}")

    def bind_own_names(self, scope, own):
        """Give a function's names their first values; now and then one stays unbound."""
        start = scope.replace(integers=["x", "y"], lists=["[1, x]"], objects=["None"], callees=[], inside=True)
        for name in own:
            self.line(f"{'if y > 4: ' if self.chance(16) else ''}{name} = {self.integer(start, 2)}")
        self.line(f"{scope.own_list} = {self.list_of_integers(start, 1)}")
        self.line(f"{scope.own_object} = {self.anything(start, 1)}")
        if scope.kind == "generator":
            self.line(f"{own[0]} = (yield x) or 1")


@st.composite
def programs(draw, budget=45):
    """The source text of a program without its prelude."""
    return write_program(Writer(draw, budget))


def write_program(writer):
    module = Scope("function", -1, [], [], [], [], callees=[])
    for number in range(writer.number(1, 3)):
        kind = writer.choose(["function", "function", "generator", "coroutine"])
        name = f"{kind}{number}"
        writer.function(name, kind, module, depth=1)
        writer.line("")
        module = module.replace(callees=[*module.callees, (name, kind)])
    writer.function("run", "function", module, depth=0)
    return "\n".join([*writer.lines, "", "", "def main(log):", "    begin(log)", "    return run(3)", ""])


def compile_program(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        return compile(f"{PRELUDE}\n\n{text}", "<generated>", "exec")


def make_main(code):
    """Run the module of a compiled program; return its `main`."""
    namespace = {"__name__": "generated"}
    exec(code, namespace)
    return namespace["main"]
