"""What objects hold where only C code sees it: values of derived classes, bodies of C classes, bound methods."""

import array
import collections
import decimal
import enum
import functools

import pytest
import torch
from torch.nn.attention import SDPBackend

from capture.agreement import Captured, same

pytestmark = pytest.mark.capture

X = torch.arange(3.0)


class Whole(int):
    pass


class Fraction(float):
    pass


class Text(str):
    pass


class Data(bytes):
    pass


class Counted(list):
    added = 0

    def append(self, value):
        super().append(value)
        self.added += 1


def compute(x, n):
    return x * (n + 1), n == 4, {4: "four"}.get(n), [n] == [4], -n


def measure(x, text):
    return x * len(text), text[0], text.upper(), text == type(text)(text[:1])


def look_into(x, items):
    return x * items[0] + len(items), list(items), 3 in items, x if items else -x


def turn(x, items):
    items.append(x + 1)
    items.extend([2, 3])
    return x * len(items), list(items)


def add(x, method, items):
    method(x + 1)
    return x * len(items)


def put(x, method, items):
    method("b", x + 1)
    return x * len(items)


def find(x, method):
    return x * method("a")


def decide(x, value):
    return x if value else x * 2


def apply(x, function):
    return function(x), function in [1, function], {function: 3}[function], function == x.numel()


def compare(x, kind):
    return x * int(kind), kind == SDPBackend.MATH


def append_twice(x, items, n):
    items.append(x + n)
    return x * n


CASES = {
    "int": (compute, [lambda n=n: (X, Whole(n)) for n in (3, 4, 0, 4)]),
    "float": (compute, [lambda n=n: (X, Fraction(n)) for n in (3, 4, -0.0, 0.0, 4)]),
    "str": (measure, [lambda t=t: (X, Text(t)) for t in ("abc", "abd", "x", "abc")]),
    "bytes": (measure, [lambda t=t: (X, Data(t)) for t in (b"abc", b"abd", b"x")]),
    "array": (look_into, [lambda v=v: (X, array.array("i", v)) for v in ([1, 2], [2, 2], [2, 3, 1])]),
    "bytearray": (look_into, [lambda v=v: (X, bytearray(v)) for v in (b"ab", b"bb", b"bba")]),
    "deque": (turn, [lambda n=n: (X, collections.deque([1, 2, 3], n)) for n in (4, None, 3, 4)]),
    "decimal": (decide, [lambda n=n: (X, decimal.Decimal(n)) for n in (0, 1, 0)]),
    "empty": (decide, [lambda v=v: (X, array.array("i", v)) for v in ([], [1], [])]),
    "append": (add, [lambda n=n: (lambda items: (X, items.append, items))([n]) for n in (1, 2)]),
    "of another": (add, [lambda v=v: (lambda a, b: (X, a.append, v and a or b))([1], [1, 2]) for v in (0, 1, 0)]),
    "another method": (add, [lambda v=v: (lambda a: (X, a.extend if v else a.append, a))([1]) for v in (0, 1, 0)]),
    "item": (put, [lambda n=n: (lambda d: (X, d.__setitem__, d))({"a": n}) for n in (1, 2)]),
    "found item": (find, [lambda n=n: (X, {"a": n}.get) for n in (1, 2, 1)]),
    "found by operator": (find, [lambda n=n: (X, {"a": n}.__getitem__) for n in (1, 2, 1)]),
    "partial": (apply, [lambda n=n: (X, functools.partial(pow, exp=n)) for n in (2, 3, 2)]),
    "pybind11": (compare, [lambda kind=kind: (X, kind) for kind in (SDPBackend.MATH, SDPBackend(1), SDPBackend.MATH)]),
    "behind a break": (append_twice, [lambda n=n: (X, Counted(), Fraction(n)) for n in (1, 2, 1)]),
}


@pytest.mark.parametrize("name", CASES)
def test_hidden_contents_are_watched(name):
    fn, makers = CASES[name]
    captured = Captured(fn)
    for make in makers:
        expected, found = make(), make()
        results = fn(*expected), captured(*found)
        assert same(results[0], results[1]), results
        shown = [[arg for arg in args if not callable(arg)] for args in (expected, found)]
        assert same(*shown), shown
    assert captured.graphs or name == "behind a break"


def test_a_bound_method_that_an_object_keeps():
    """What it is bound to was not reached in any other way."""

    class Log:
        def __init__(self):
            self.items = []
            self.add = self.items.append

    def program(x, log):
        log.add(x + 1)
        return x * 2

    captured = Captured(program)
    log = Log()
    for size in (1, 2, 3):
        captured(X, log)
        assert len(log.items) == size
        assert all(torch.equal(item, X + 1) for item in log.items)
    assert len(captured.graphs) == 1


def test_super_in_the_middle_of_a_method():
    class Base:
        def scale(self, x):
            return x * self.n

    class Derived(Base):
        def scale(self, x):
            print("a break", end="")
            x = x + 1
            return super().scale(x)  # nothing else reads `self` behind the break

    def program(x, scaler):
        return scaler.scale(x)

    captured = Captured(program)
    for n in (1, 2, 1):
        scaler = Derived()
        scaler.n = n
        assert torch.equal(captured(X, scaler), (X + 1) * n)


def test_names_of_classes():
    class Named:
        pass

    def program(x, thing):
        return x * len(type(thing).__name__) + len(type(thing).__qualname__)

    captured = Captured(program)
    thing = Named()
    for name, qualified in [("A", "B"), ("AA", "B"), ("AA", "BBB"), ("A", "B")]:
        Named.__name__, Named.__qualname__ = name, qualified
        assert torch.equal(captured(X, thing), X * len(name) + len(qualified))


def test_a_class_that_becomes_one_of_descriptors():
    class Plain:
        pass

    class Holder:
        value = Plain()

    def program(x, holder):
        return x * (holder.value if isinstance(holder.value, int) else 1)

    captured = Captured(program)
    holder = Holder()
    assert torch.equal(captured(X, holder), X)
    Plain.__get__ = lambda self, instance, owner: 2
    assert torch.equal(captured(X, holder), X * 2)
    vars(holder)["value"] = 5
    assert torch.equal(captured(X, holder), X * 5)
    Plain.__set__ = lambda self, instance, value: None
    assert torch.equal(captured(X, holder), X * 2)


class Kind(enum.IntFlag):
    FIRST = 1
    SECOND = 2


def test_numbers_of_derived_classes_are_plain_in_graphs():
    """The code of a graph cannot name two flags in one."""

    class Shown(int):
        def __repr__(self):
            return "<shown>"

    def program(x, n):
        return x * n

    captured = Captured(program)
    for n in (Kind.FIRST, Kind.FIRST | Kind.SECOND, Shown(5)):
        assert torch.equal(captured(X, n), X * int(n))
        (call,) = (node for node in captured.graphs[-1].graph.nodes if node.op == "call_function")
        assert type(call.args[1]) is int


class Table(dict):
    """Its methods lead to those of dict."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value)

    def __getitem__(self, key):
        return super().__getitem__(key)

    def __len__(self):
        return super().__len__() + 1


class Row(list):
    def __len__(self):
        return super().__len__() + 1

    def __setitem__(self, index, value):
        super().__setitem__(index, value)


def fill(x, table):
    table["b"] = x + 1
    return x * len(table), table.pop("a")


def fill_row(x, row):
    row[0] = x + 1
    return x * len(row)


@pytest.mark.parametrize("fn, make", [(fill, Table), (fill_row, Row)])
def test_methods_that_call_those_of_their_base(fn, make):
    captured = Captured(fn)
    for contents in ({"a": 1}, {"a": 2}, {"a": 2, "c": 3}, {"a": 1}):
        expected, found = make(contents), make(contents)
        assert same(fn(X, expected), captured(X, found))
        assert same(expected, found)
    assert captured.graphs


def change_set(x, items, steps):
    """The order of what is left, and what pop() takes, are matters of how the set came about."""
    made = set(items)
    for step in steps:
        made.symmetric_difference_update({step, step + 7})
        items.discard(step)
        items.add(step + 32)
    first = items.pop() if items else None
    return x * len(items), first, made, frozenset(made)


def see_order(items):
    copy = set(items)
    return list(items), [copy.pop() for _ in range(len(copy))]


def test_order_of_sets():
    captured = Captured(change_set)
    for call in range(12):
        steps = [(call * 5 + i * 3) % 41 for i in range(call % 4)]
        start = range(call % 3, 50, 1 + call // 2 % 5) if call % 2 else [8, 16, 0, 24]
        expected, found = set(start), set(start)
        for _ in range(3):
            results = change_set(X, expected, steps), captured(X, found, steps)
            assert same(results[0], results[1])
            for mine, other in zip(results[0][2:] + (expected,), results[1][2:] + (found,), strict=True):
                assert see_order(mine) == see_order(other)


def test_a_set_that_was_filled_in_another_way():
    """Equal items in the same order, but pop() goes on where it stopped."""

    def program(x, items):
        return x * items.pop()

    captured = Captured(program)
    for takes in (0, 1, 2, 0):
        sets = {1, 2, 3, 4}, {1, 2, 3, 4}
        for items in sets:
            for taken in [items.pop() for _ in range(takes)]:
                items.add(taken)
        assert torch.equal(program(X, sets[0]), captured(X, sets[1]))
