"""Numbers that are another one at each call: they are followed, not relied on, where that is possible."""

import types

import pytest
import torch

import alternator
from capture.agreement import Captured, outcome, same
from capture.breaking import stop

pytestmark = pytest.mark.capture

X = torch.linspace(-1, 1, 6).reshape(2, 3)
CALLS = 12  # more than recompile_limit

COUNTERS = {}


def counter(graphs):
    """`graphs`: of the first call, and again for each number that moves. Each function made has its own state."""

    def register(make):
        COUNTERS[make.__name__] = make, graphs
        return make

    return register


@counter(2)
def attribute():
    state = types.SimpleNamespace(n=0)

    def count(x):
        state.n += 1
        return x + 1, state.n

    return count


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.decay = 0.5

    def forward(self, x):
        self.calls += 1
        self.decay = self.decay * 0.75
        return x * 2, self.calls, self.decay


@counter(3)
def module():
    return Counting()


@counter(2)
def cell():
    total = 0

    def count(x):
        nonlocal total
        total += 3
        return x + 1, total - 1, [total * total]

    return count


GLOBAL = """
calls = 0
def count(x):
    global calls
    calls = calls + 1
    return x - 1, calls
"""


@counter(2)
def variable():
    space = {}
    exec(GLOBAL, space)
    return space["count"]


@counter(2)
def kept_as_it_was():
    state = types.SimpleNamespace(n=0, last=None)

    def note(x):
        before = state.n
        state.n = 10 * before
        state.n, state.last = before, state.n
        return x * 3

    return note, lambda: setattr(state, "n", state.n + 7), lambda: vars(state)


@counter(4)
def behind_a_break():
    state = types.SimpleNamespace(n=0)

    def count(x):
        state.n += 1
        x = x + 1
        stop()
        state.n += 1
        return x * 2, state.n

    return count


@pytest.mark.parametrize("name", COUNTERS)
def test_counters(name):
    make, graphs = COUNTERS[name]
    sides = []
    for _ in range(2):
        made = make()
        sides.append(made if isinstance(made, tuple) else (made, lambda: None, lambda: None))
    (fn, change, look), (eager, change_eager, look_eager) = sides
    captured = Captured(fn)
    for number in range(CALLS):
        found, expected = captured(X), eager(X)
        assert same(found, expected), number
        assert look() == look_eager()
        change()
        change_eager()
    assert captured.said == []
    assert len(captured.graphs) == graphs
    before = len(captured.graphs)
    captured(X)
    assert len(captured.graphs) == before


USES = {
    "compared": lambda x, n: (x + 1 if n + 1 > 4 else x - 1, n + 1),
    "in a tensor's arithmetic": lambda x, n: (x * (n + 1), n),
    "as a size": lambda x, n: (x.sum() + torch.ones(n + 1), n),
    "as text": lambda x, n: (x + 1, f"{n + 1}"),
    "as a key": lambda x, n: (x + 1, {n + 1: n}),
    "divided": lambda x, n: (x + 1, (n + 1) // 2, n / 2),
    "the same object": lambda x, n: (x + 1, n + 1 is n + 1, n is None),
    "of two kinds": lambda x, n: (x + 1, n + 0.5, n - True),
    "in a container that C code looks into": lambda x, n: (x + 1, sum([n, n + 1]), max(n + 1, 3)),
    "its type": lambda x, n: (x + 1, isinstance(n + 1, int), type(n + 1), n * 2),
}


@pytest.mark.parametrize("name", USES)
def test_uses(name):
    """Whatever is done with a number that is followed: eager's results."""
    states = [types.SimpleNamespace(n=0), types.SimpleNamespace(n=0)]

    def make(state):
        def program(x):
            state.n += 1
            return USES[name](x, state.n)

        return program

    captured, eager = Captured(make(states[0])), make(states[1])
    for value in (0, 1, 5, 300, 2**70, 2**70, 0, 0.5, -3.25, True, 7):
        for state in states:
            state.n = value
        found, expected = outcome(captured, (X,), __file__)[0], outcome(eager, (X,), __file__)[0]
        if "Overflow" in str(expected):  # with the addresses of C++ frames
            found, expected = found[:2], expected[:2]
        assert same(found, expected), value
        assert same(states[0].n, states[1].n)


# ---- Numbers inside of what C code compares, hashes or prints ------------------------------------------------------

HOLDING = {
    "a list is compared": lambda x, n: x + 1 if [n] == [3] else x - 1,
    "deep in a tuple": lambda x, n: x + 1 if (1, [(n,)]) < (1, [(4,)]) else x - 1,
    "looked for in a list": lambda x, n: x + 1 if 3 in [n] else x - 1,
    "a key that is looked for": lambda x, n: x + 1 if (n, 1) in {(3, 1)} else x - 1,
    "a key": lambda x, n: x + {(3, 1): 5, (4, 1): 6}[n, 1],
    "a text": lambda x, n: (x + 1, f"{[n]}"),
    "a text by %": lambda x, n: (x + 1, "%s" % ([n],)),
    "keys of a set": lambda x, n: x + len({(n, 1), (4, 1)}),
    "keys of a dict": lambda x, n: x + len({(n, 1): 0, (4, 1): 1}),
    "a bound method": lambda x, n: x + call([n].count, 3),
    "a method's wrapper": lambda x, n: x + call([n].__len__) + call([n].__eq__, [3]),
    "a slice": lambda x, n: x + sum([1, 2, 3, 4, 5][slice(0, n)]),
    "an operator of torch": lambda x, n: torch.ops.aten.add(x, x, alpha=n),
}


def call(function, *args):
    return function(*args)


@pytest.mark.parametrize("way", ["argument", "iterator", "attribute"])
@pytest.mark.parametrize("name", HOLDING)
def test_numbers_in_containers_that_c_code_looks_into(name, way):
    def of_iterator(x, numbers):
        return HOLDING[name](x, next(numbers))

    def of_attribute(x, holder):
        return HOLDING[name](x, holder.n)

    function = {"argument": HOLDING[name], "iterator": of_iterator, "attribute": of_attribute}[way]
    compiled = alternator.compile(function, backend="eager")
    for n in (3, 4, 5, 3, 4):
        given = {"argument": n, "iterator": iter([n]), "attribute": types.SimpleNamespace(n=n)}
        again = {"argument": n, "iterator": iter([n]), "attribute": types.SimpleNamespace(n=n)}
        if name == "a key" and n == 5:
            continue
        expected = function(torch.ones(2), given[way])
        assert same(compiled(torch.ones(2), again[way]), expected)
