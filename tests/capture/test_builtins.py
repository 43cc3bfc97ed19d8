"""Builtin functions that the program replaces, before the first call or between two: those of torch's code too."""

import builtins

import pytest
import torch

import alternator
from capture.agreement import same

pytestmark = pytest.mark.capture
X = torch.ones(2)
ITEMS = [1, 2, 3]
LAYERS = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Sigmoid(), torch.nn.Tanh())


def length(x):
    return x + len(ITEMS)


def nested(x):
    def inner():
        return [len(ITEMS) for _ in (1,)]

    return x + inner()[0]


def of_a_tensor(x):
    return x + len(x)


def of_torchs_code(x):
    return LAYERS[-1](x) + len(LAYERS)  # Sequential.__getitem__ and __len__ call it


def in_a_loop(x):
    for i in range(77):
        x = x + i
    return x


def largest(x):
    return x + max(ITEMS)


def total(x):
    return x * sum(ITEMS)


CHANGED = {  # name -> what becomes of the result
    "len": lambda result: result - 1,
    "range": lambda result: result[:3],
    "max": lambda result: result + 1,
    "sum": lambda result: result + 1,
}


def replace(name):
    """Make a function that gives something else for the objects here, and the same for all others."""
    former = getattr(builtins, name)

    def replaced(*args):
        result = former(*args)
        ours = args[0] is ITEMS or args[0] is X or args[0] is LAYERS or args[0] is LAYERS._modules or args == (77,)
        return CHANGED[name](result) if ours else result

    return replaced


@pytest.mark.parametrize("early", [True, False], ids=["before the first call", "between calls"])
@pytest.mark.parametrize("name", CHANGED)
@pytest.mark.parametrize(
    "function", [length, nested, of_a_tensor, of_torchs_code, in_a_loop, largest, total], ids=lambda f: f.__name__
)
def test_a_builtin_that_is_replaced(function, name, early, monkeypatch):
    compiled = alternator.compile(function, backend="eager")
    if not early:
        assert same(compiled(X), function(X))
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(builtins, name, replace(name))
            expected, results = function(X), [compiled(X), compiled(X)]
        assert same(results, [expected, expected])
        assert same(compiled(X), function(X))


@pytest.mark.parametrize("function", [length, of_torchs_code], ids=lambda f: f.__name__)
def test_a_global_of_the_same_name(function, monkeypatch):
    compiled = alternator.compile(function, backend="eager")
    assert same(compiled(X), function(X))
    monkeypatch.setitem(function.__globals__, "len", lambda items: 7)
    assert same(compiled(X), function(X))
    monkeypatch.delitem(function.__globals__, "len")
    assert same(compiled(X), function(X))
