"""A failed guard says which, in the user's words."""

import collections
import types

import pytest
import torch

import alternator

pytestmark = pytest.mark.capture

X = torch.ones(3)
NUMBER = 1


class Settings:
    def __init__(self, n):
        self.n = n
        self.table = {"a": n}


class Slotted:
    __slots__ = ("n",)

    def __init__(self, n):
        self.n = n


def twice(value):
    return value, value


def with_grad():
    tensor = torch.ones(3)
    tensor.grad = torch.ones(3)
    return tensor


def views():
    base = torch.ones(3)
    return base, base.view(3)


# Name of the arguments, what they were, what they are, what is to be said.
CALLS = {
    "int": (lambda x, n: x * n, (X, 3), (X, 4), "`n` was 3, is now 4"),
    "float": (lambda x, n: x * n, (X, 1.0), (X, 1), "`n` was 1.0, is now 1"),
    "text": (lambda x, m: x * 2 if m == "a" else x, (X, "a"), (X, "b"), "`m` was 'a', is now 'b'"),
    "long": (lambda x, m: x * len(m), (X, "a"), (X, "b" * 999), "`m` was 'a', is now '" + "b" * 199 + " .."),
    "none": (lambda x, m=None: x if m is None else x * m, (X,), (X, 2), "`m` was None, is now 2"),
    "length": (lambda x, xs: sum(xs, x), (X, [X, X]), (X, [X] * 3), "`len(xs)` was 2, is now 3"),
    "item": (lambda x, xs: x * xs[1][0], (X, [1, (2,)]), (X, [1, (3,)]), "`xs[1][0]` was 2, is now 3"),
    "dict": (lambda x, d: x * d["a"], (X, {"a": 1}), (X, {"a": 2}), "`d['a']` was 1, is now 2"),
    "absent": (lambda x, d: x * d.get("q", 1), (X, {}), (X, {"q": 2}), "`d['q']` was absent, is now 2"),
    "keys": (
        lambda x, d: [x * v for v in d.values()],
        *((X, {"a": 1, "b": 2}), (X, {"a": 1, "c": 2}), "key 1 of `d` was 'b', is now 'c'"),
    ),
    "more keys": (lambda x, d: [x * v for v in d.values()], (X, {"a": 1}), (X, {}), "`len(d)` was 1, is now 0"),
    "set": (lambda x, s: [x * v for v in s], (X, {1, 2}), (X, {1, 3}), "`s` has other keys now"),
    "deque": (
        lambda x, d: x * len(d),
        *((X, collections.deque([1])), (X, collections.deque([1, 2])), "`len(d)` was 1, is now 2"),
    ),
    "iterator": (
        lambda x, it: [x * v for v in it],
        *((X, iter([1, 2])), (X, iter([1, 2, 3])), "`it` had 2 items left, has now 3"),
    ),
    "attribute": (lambda x, s: x * s.n, (X, Settings(1)), (X, Settings(2)), "`s.n` was 1, is now 2"),
    "nested": (
        lambda x, s: x * s.table["a"],
        *((X, Settings(1)), (X, Settings(2)), "`s.table['a']` was 1, is now 2"),
    ),
    "slot": (lambda x, s: x * s.n, (X, Slotted(1)), (X, Slotted(2)), "`s.n` was 1, is now 2"),
    "type": (
        lambda x, s: x * s.n,
        *((X, Settings(1)), (X, Slotted(1)), "`s` was of type Settings, is now Slotted"),
    ),
    "function": (lambda x, f: f(x), (X, torch.sin), (X, torch.cos), "`f` was function sin, is now function cos"),
    "class": (lambda x, c: c(2).n * x, (X, Settings), (X, Slotted), "`c` was class Settings, is now class Slotted"),
    "module": (
        lambda x, m: x * m.pi,
        *((X, types.ModuleType("one")), (X, types.ModuleType("two")), "`m` was module one, is now module two"),
    ),
    "same": (
        lambda a, b, x: x if a is b else x * 2,
        *((*twice(Settings(1)), X), (Settings(1), Settings(1), X)),
        "`b` was the same object as `a`, is now another one",
    ),
    "distinct": (
        lambda a, b, x: x + 1 if a is b else x * 2,
        *((Settings(1), Settings(1), X), (*twice(Settings(1)), X)),
        "`a` and `b` were two objects, are now one",
    ),
    "memory": (
        lambda x, y: x.add_(y),
        *((torch.ones(3), torch.ones(3)), views(), "`x` and `y` did not share memory, do so now"),
    ),
    "no memory": (
        lambda x, y: x.add_(y),
        *(views(), (torch.ones(3), torch.ones(3)), "`x` and `y` shared memory, do not any more"),
    ),
    "sizes": (lambda x: x + 1, (X,), (torch.ones(4),), "`x` had sizes [3], has now [4]"),
    "strides": (
        lambda x: x + 1,
        *((torch.ones(3, 2),), (torch.ones(2, 3).t(),), "`x` had strides [2, 1], has now [1, 3]"),
    ),
    "dtype": (lambda x: x + 1, (X,), (X.double(),), "`x` had dtype Float, has now Double"),
    "requires_grad": (
        lambda x: x + 1,
        *((X,), (torch.ones(3, requires_grad=True),), "`x` had requires_grad=False, has now True"),
    ),
    "device": (lambda x: x + 1, (X,), (X.to("meta"),), "`x` was on cpu, is now on meta"),
    "subclass": (
        lambda x: x + 1,
        *((X,), (torch.nn.Parameter(X, requires_grad=False),), "`x` was of type Tensor, is now Parameter"),
    ),
    "gradient": (
        lambda x: x + 1 if x.grad is None else x,
        *((X,), (with_grad(),), "`x.grad` was absent, is now an object of type Tensor"),
    ),
}
for module in (CALLS["module"][1][1], CALLS["module"][2][1]):
    module.pi = 3


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_arguments(name):
    program, before, now, text = CALLS[name]
    compiled = alternator.compile(program, backend="eager")
    compiled(*before)
    assert len(compiled.regions()) == 1
    compiled(*now)
    assert compiled.last_miss() == text


def helper(x, k=1):
    return x * k


def other(x, k=1):
    return x + k


def call_helper(x):
    return helper(x)


def use_global(x):
    return x * NUMBER


def make_cell():
    number = 1

    def inner(x):
        return x * number

    def change():
        nonlocal number
        number = 2

    return inner, change


def explain_change(function, change, undo=lambda: None):
    compiled = alternator.compile(function, backend="eager")
    compiled(X)
    change()
    try:
        compiled(X)
    finally:
        undo()
    return compiled.last_miss()


def test_globals(monkeypatch):
    change = lambda: monkeypatch.setitem(globals(), "NUMBER", 2)  # noqa: E731
    assert explain_change(use_global, change) == "`NUMBER` was 1, is now 2"


def test_cells():
    inner, change = make_cell()
    assert explain_change(inner, change) == "`number` was 1, is now 2"


def test_functions(monkeypatch):
    change = lambda: monkeypatch.setattr(helper, "__defaults__", (2,))  # noqa: E731
    assert explain_change(call_helper, change) == "`helper.__defaults__[0]` was 1, is now 2"
    change = lambda: monkeypatch.setattr(helper, "__code__", other.__code__)  # noqa: E731
    assert explain_change(call_helper, change) == "`helper.__code__` was code of helper, is now code of other"


def test_classes():
    class Local:
        tags = (1, 2)

    local = Local()
    change = lambda: setattr(Local, "tags", (3, 4))  # noqa: E731
    assert explain_change(lambda x: x * local.tags[0], change).endswith(".tags` changed")


def test_state_of_torch():
    change, undo = lambda: torch.set_grad_enabled(False), lambda: torch.set_grad_enabled(True)
    assert explain_change(helper, change, undo) == "torch.is_grad_enabled() was true, is now false"


def test_two_of_the_same_name():
    compiled = alternator.compile(lambda x, cls: x * cls.n, backend="eager")
    first, second = (type("Local", (), {"n": n}) for n in (1, 2))
    compiled(X, first)
    compiled(X, second)
    assert compiled.last_miss() == "`cls` is now another one of the same name: class Local"
