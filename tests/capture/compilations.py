"""One program under many equivalent choices of how it is compiled: all agree with eager execution.

What is drawn: statements that a break is put in front of, sizes and numbers static or symbolic, the backend, whether
what was compiled is forgotten between calls, and an instruction at which the first traces are given up.
"""

import ast
import dataclasses
import functools

import torch

import alternator
from alternator.testing import Fault
from capture.perturbing import SETTINGS, Case, Pair, Unfit, Walk, heard, list_trials, suits

BREAK = "torch._dynamo.graph_break(); "


@dataclasses.dataclass
class Choice:
    breaks: tuple = ()  # which of the program's simple statements
    dynamic: bool | None = None
    backend: str = "eager"
    forgets: bool = False
    fault: int | None = None


def draw_choice(choice, statements):
    count = choice.choice([0, 0, 1, 1, 2, 3])
    return Choice(
        breaks=tuple(sorted(choice.sample(range(statements), min(count, statements)))),
        dynamic=choice.choice([None, None, True, False]),
        backend=choice.choice(["eager", "eager", "aot_eager"]),
        forgets=choice.random() < 0.25,
        fault=choice.choice([None, None, choice.randint(0, 150)]),
    )


def find_statements(text):
    """List the places of the simple statements in the functions of a program: (line, column)."""
    places = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name != "make":
            for part in ast.walk(node):
                simple = isinstance(part, (ast.Assign, ast.AugAssign, ast.Expr, ast.Return, ast.Delete, ast.Raise))
                if simple and (part.lineno, part.col_offset) not in places:
                    places.append((part.lineno, part.col_offset))
    return sorted(places)


def put_breaks(text, places):
    """Put breaks in front of statements, on their own lines, so that lines keep their numbers."""
    lines = text.splitlines()
    for line, column in sorted(places, reverse=True):
        # Columns count bytes.
        before, after = lines[line - 1].encode()[:column].decode(), lines[line - 1].encode()[column:].decode()
        lines[line - 1] = before + BREAK + after
    return "\n".join(lines) + "\n"


def compile_with(made, program):
    """Compile as chosen; while there is a fault, the first calls give up their traces at an instruction."""
    compiled = alternator.compile(program, backend=made.backend, dynamic=made.dynamic)
    if made.fault is None:
        return compiled
    calls = 0

    @functools.wraps(program)
    def call(*args):
        nonlocal calls
        calls += 1
        if calls > 2:
            return compiled(*args)
        with Fault(made.fault):
            return compiled(*args)

    return call


def check_choice(case, made, steps):
    """Run steps (see campaign.py) under a choice; raise Difference where the worlds part."""
    places = find_statements(case.text)
    if made.breaks:
        text = put_breaks(case.text, [places[i] for i in made.breaks])
        case = case.with_text(text) if hasattr(case, "with_text") else Case(case.name, text)
    pair = Pair(case, made.backend, compile=functools.partial(compile_with, made))
    for step in steps:
        if step == ("call",):
            pair.call()
        else:
            pair.try_change(*step)
        if made.forgets:
            alternator.reset()


def check_choices(case, choice, number):
    """Run a case under `number` choices with the same calls.

    Return what each found wrong, with its choice, and those of which nothing can be said.
    """
    plain = Pair(case, compile=lambda program: program)
    plain.make_arguments()
    trials = list_trials(Walk(plain.eager, most=100))
    steps = [("call",), ("call",), choice.choice(trials), choice.choice(trials), ("call",)]
    statements, findings, unfit = len(find_statements(case.text)), [], []
    with torch._dynamo.config.patch(SETTINGS):
        for _ in range(number):
            made, said = draw_choice(choice, statements), []
            if not suits(case, made.backend):
                made.backend = "eager"
            try:
                with heard(said):
                    check_choice(case, made, steps)
            except AssertionError as difference:
                findings.append((made, steps, str(difference)))
            except Unfit as what:
                unfit.append((made, steps, what))
            findings += [(made, steps, text) for text in said[:1]]
    return findings, unfit
