"""Classes that are defined in a compiled function: part of the trace, unless they leave it."""

import pytest
import torch
from torch import nn

from capture.agreement import Captured, check_calls

pytestmark = pytest.mark.capture

X = torch.ones(2)
SCALE = 3


class Base:
    factor = 2

    def run(self, x):
        return x * self.factor


def plain(x, n):
    class Adder:
        step: int = 2

        def __init__(self, n):
            self.n = n

        def __call__(self, x):
            return x + self.n * self.step * SCALE

    return Adder(n)(x)


def derived(x, n):
    class Derived(Base):
        own = n

        def run(self, x):
            return super().run(x) + self.own + __class__.own

        @property
        def double(self):
            return self.own * 2

        @staticmethod
        def shift(x):
            return x - 1

    thing = Derived()
    Derived.added = 4
    assert isinstance(thing, Base) and issubclass(Derived, Base)
    return Derived.shift(thing.run(x)) + thing.double + thing.added


def with_items(x, n):
    class Table:
        def __init__(self):
            self.values = {}

        def __setitem__(self, key, value):
            self.values[key] = value

        def __getitem__(self, key):
            return self.values[key]

        def __delitem__(self, key):
            del self.values[key]

    table = Table()
    table["a"], table["b"] = x * n, 1
    del table["b"]
    return table["a"], len(table.values)


def nested(x, n):
    class Outer:
        class Inner:
            value = n

        def get(self):
            return self.Inner.value + self.Inner().value

    return x + Outer().get()


def module(x, n):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = n

        def forward(self, x):
            return x * self.scale

    return Model()(x)


def raises(x, n):
    class Problem(Exception):
        def __init__(self, value):
            super().__init__("no", value)
            self.value = value

    try:
        raise Problem(n)
    except Problem as problem:
        return x + problem.value


PROGRAMS = [plain, derived, with_items, nested, module, raises]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_class_inside_is_part_of_the_graph(program):
    captured = check_calls(program, [(X, 2), (X, 2)], graphs=1)
    assert captured.breaks == []
    check_calls(program, [(X, 2), (X, 3), (X, 2.5), (X, 2)])


def test_what_the_class_takes_from_outside_is_guarded(monkeypatch):
    captured = Captured(derived)
    assert torch.equal(captured(X, 1), derived(X, 1))
    monkeypatch.setattr(Base, "factor", 5)
    assert torch.equal(captured(X, 1), derived(X, 1))
    monkeypatch.setattr(Base, "run", lambda self, x: x - 7)
    assert torch.equal(captured(X, 1), derived(X, 1))
    captured = Captured(plain)
    assert torch.equal(captured(X, 1), plain(X, 1))
    monkeypatch.setitem(globals(), "SCALE", 4)
    assert torch.equal(captured(X, 1), plain(X, 1))
    assert len(captured.graphs) == 2


class Counted:
    made = []

    def __init_subclass__(cls):
        Counted.made.append(cls.__name__)


class Meta(type):
    def __call__(cls, *args):
        return [super().__call__(*args)]


def gives_out_the_class(x):
    y = x + 1

    class Kept:
        value = 3

    return y * Kept.value, Kept


def gives_out_an_object(x):
    y = x + 1

    class Kept:
        def __init__(self, y):
            self.y = y

    return y * 2, Kept(y)


def has_a_metaclass(x):
    class Made(metaclass=Meta):
        pass

    return x + len(Made())


def tells_its_base(x):
    class Made(Counted):
        pass

    return x + len(Made.__name__)


def breaks_inside(x):
    y = x + 1

    class Made:
        torch._dynamo.graph_break()
        value = 2

    torch._dynamo.graph_break()
    return y * Made.value


def breaks_behind(x):
    class Made:
        value = 2

        def get(self, x):
            torch._dynamo.graph_break()
            return x * self.value

    return Made().get(x + 1) + 1


def test_classes_that_leave_are_made_for_real():
    captured = Captured(gives_out_the_class)
    (one, first), (other, second) = captured(X), captured(X)
    assert torch.equal(one, other) and torch.equal(one, X * 6)
    assert first is not second and first.value == 3 and first.__qualname__.endswith("Kept")
    captured = Captured(gives_out_an_object)
    (one, first), (other, second) = captured(X), captured(X)
    assert type(first) is not type(second) and torch.equal(first.y, X + 1)
    for program in (has_a_metaclass, breaks_inside, breaks_behind):
        check_calls(program, [(X,), (X,), (X,)])
    captured = Captured(tells_its_base)
    for _ in range(2):
        assert torch.equal(captured(X), X + 4)
    assert Counted.made == ["Made", "Made"]
