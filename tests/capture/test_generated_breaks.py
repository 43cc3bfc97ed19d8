"""Generated programs with breaks at random places and depths: eager = compiled, and graphs = breaks + 1."""

import contextlib
import io
import os
import random

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capture import break_grammar
from capture.agreement import Captured, outcome, same

pytestmark = pytest.mark.capture

FILE = "<generated>"
EXAMPLES = int(os.environ.get("ALTERNATOR_EXAMPLES", "60"))


# Breaks that the programs do not say: numbers that change, a generator whose end runs code and that is dropped, an
# exception that is written out or that cannot be made again, one that leaves the program.
UNSAID = ("VaryingNumber", "VaryingClass", "GeneratorEnd", "the text of", "Result:", "UserException")


class Side:
    def __init__(self, text, wrap=None):
        self.space = {"__name__": "generated"}
        exec(compile(text, FILE, "exec"), self.space)
        self.program = wrap(self.space["program"]) if wrap else self.space["program"]

    def call(self, n):
        """Return the outcome, the arguments as they are afterwards, the output and the state."""
        torch.manual_seed(n)
        box = self.space["Box"](torch.randn(2, 3))
        with contextlib.redirect_stdout(io.StringIO()) as output:
            result, _ = outcome(self.program, (torch.randn(2, 3), n, box), FILE)
        return result, vars(box), output.getvalue(), list(self.space["log"]), torch.is_grad_enabled()


def check(texts, calls):
    """Return (breaks that the first call met, graphs that it made)."""
    text, counted = texts
    eager, count = Side(text), Side(counted)
    compiled = None

    def wrap(program):
        nonlocal compiled
        compiled = Captured(program)
        return compiled.fn

    traced = Side(text, wrap)
    first, counts = None, []
    for number, n in enumerate([calls[0]] * 4 + calls):
        expected, found = eager.call(n), traced.call(n)
        assert same(found, expected), f"{text}\n\ncall {number}, n={n}\n compiled: {found}\n eager:    {expected}"
        if number == 0:
            count.call(n)
            first = count.space["hits"], len(compiled.graphs)
        counts.append(len(compiled.graphs))
    hits, graphs = first
    # A number that is another one in each turn of a loop is relied on twice, and then no more.
    settled = 1 if len(set(hits)) == len(hits) else 3
    assert counts[settled - 1] == counts[3], f"{text}\n\nlater calls make other graphs: {counts} {compiled.breaks}"
    if not hits or any(reason in text for text in compiled.breaks for reason in UNSAID):
        return len(hits), graphs
    told = f"{text}\n\n{graphs} graphs for {len(hits)} breaks\n" + "\n".join(compiled.breaks)
    assert graphs <= len(hits) + 1, told
    # A context manager that swallows an exception may leave nothing to compute behind a break.
    if len(set(hits)) == len(hits) and " managed(box):" not in text:
        assert graphs == len(hits) + 1, told
    return len(hits), graphs


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data(), st.lists(st.integers(0, 3), min_size=2, max_size=2))
def test_programs(data, calls):
    check(break_grammar.write(lambda low, high: data.draw(st.integers(low, high))), calls)


def test_the_generator_is_worth_something():
    """Breaks at depth, and programs whose number of graphs is known exactly."""
    numbers = [check(break_grammar.write(random.Random(seed).randint), [1]) for seed in range(40)]
    assert sum(graphs == breaks + 1 for breaks, graphs in numbers) >= 20
    assert sum(breaks >= 3 for breaks, _ in numbers) >= 15
