"""What objects hold where only C code sees it: values of derived classes, bodies of C classes, bound methods."""

import array
import collections
import decimal

import pytest
import torch

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
