"""Iterators over sets, dicts and ordered dicts behind a break: their class, what they give, and what they raise."""

import collections
import itertools

import pytest
import torch

import alternator

pytestmark = pytest.mark.capture

X = torch.ones(2)


def make_dict_with_a_hole():
    made = {"z": 0, "a": 1, "b": 2, "c": 3}
    del made["z"]
    return made


TABLES = {
    "set": lambda: {"a", "b", "c", "d"},
    "frozenset": lambda: frozenset((1, 2, 3)),
    "dict": lambda: {"a": 1, "b": 2, "c": 3},
    "dict with a hole": make_dict_with_a_hole,
    "ordered dict": lambda: collections.OrderedDict(a=1, b=2, c=3),
    "defaultdict": lambda: collections.defaultdict(int, a=1, b=2, c=3),
}
ITERATORS = {
    "iter": iter,
    "items": lambda table: iter(table.items()),
    "values": lambda table: iter(table.values()),
    "reversed": reversed,
    "reversed items": lambda table: reversed(table.items()),
    "reversed values": lambda table: reversed(table.values()),
}


def leave_alone(table):
    pass


def add(table):
    table.add("q") if isinstance(table, set) else table.__setitem__("q", 5)


def exchange(table):
    """Take one out and put another one in: the size stays."""
    table.discard("a") if isinstance(table, set) else table.pop("c")
    add(table)


def clear(table):
    table.clear()


CHANGES = (leave_alone, add, exchange, clear)


def write_program(make, begin, given, before, after):
    """Write a function that has an iterator across a break, over a table of its own or the one that it is given."""

    def program(x, table):
        table = make() if table is None else table
        iterator = begin(table)
        out = [next(iterator, None) for _ in range(given)]
        before(table)
        y = x * 2
        print(end="")
        out.append(type(iterator).__name__)
        after(table)
        try:
            out.append(iterator.__length_hint__() if hasattr(iterator, "__length_hint__") else None)
            out += iterator
            out.append(next(iterator, "end"))
        except RuntimeError as error:
            out.append(repr(error))
        return y, out

    return program


def call(fn, make, outside):
    table = make() if outside else None
    try:
        y, out = fn(X, table)
        return y.tolist(), out, table
    except Exception as error:  # a set has no items(), a frozenset no add()
        return type(error), str(error), table


@pytest.mark.parametrize("outside", [False, True], ids=["made inside", "from outside"])
@pytest.mark.parametrize("iterator", ITERATORS)
@pytest.mark.parametrize("table", TABLES)
def test_behind_a_break(table, iterator, outside):
    make, begin = TABLES[table], ITERATORS[iterator]
    for given, before, after in itertools.product((0, 1, 4), CHANGES[:3], CHANGES):
        program = write_program(make, begin, given, before, after)
        compiled = alternator.compile(program, backend="eager")
        expected = call(program, make, outside)
        for _ in range(2):
            assert call(compiled, make, outside) == expected, (given, before, after)
