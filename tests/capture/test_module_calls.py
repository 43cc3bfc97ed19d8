"""What a call of a compiled module is: its class's `__call__`, whatever that is at the time."""

import functools

import pytest
import torch
from torch import nn

import alternator

pytestmark = pytest.mark.capture
X = torch.ones(1, 2)


class Doubling(nn.Linear):
    def __call__(self, x):
        return super().__call__(x) * 2


class Tripling(nn.Linear):
    def __call__(self, x):
        return super().__call__(x) * 3


def check(module, compiled, times=2):
    for _ in range(times):
        assert torch.equal(compiled(X), module(X))


def test_a_class_that_gets_another_call(monkeypatch):
    module = Doubling(2, 2)
    compiled = alternator.compile(module, backend="eager")
    check(module, compiled)
    for call in (lambda self, x: x, lambda self, x: self.forward(x) + 1, functools.partial(torch.mul, 3), torch.sin):
        with monkeypatch.context() as patch:
            patch.setattr(Doubling, "__call__", call)
            check(module, compiled)
        before = alternator.frames_translated()
        check(module, compiled)  # back again: with the graph that it had
        assert alternator.frames_translated() == before
    with monkeypatch.context() as patch:
        patch.delattr(Doubling, "__call__")
        check(module, compiled)
    check(module, compiled)


def test_the_call_of_all_modules(monkeypatch):
    seen = []
    former = nn.Module.__call__

    def call(self, *args, **kwargs):
        seen.append(type(self).__name__)
        return former(self, *args, **kwargs)

    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    compiled = alternator.compile(module, backend="eager")
    check(module, compiled)
    with monkeypatch.context() as patch:
        patch.setattr(nn.Module, "__call__", call)
        for _ in range(2):
            module(X)
            expected = list(seen)
            seen.clear()
            compiled(X)
            assert seen == expected == ["Sequential", "Linear", "ReLU"]
            seen.clear()
    check(module, compiled)
    assert seen == []


def test_a_module_that_gets_another_class():
    module = Doubling(2, 2)
    compiled = alternator.compile(module, backend="eager")
    for cls in (Doubling, Tripling, nn.Linear, Doubling):
        module.__class__ = cls
        check(module, compiled)


def test_a_compiled_module_that_is_called_inside(monkeypatch):
    module = Doubling(2, 2)
    compiled = alternator.compile(module, backend="eager")
    outer = alternator.compile(lambda x: compiled(x) + 1, backend="eager")
    for call in (Doubling.__call__, lambda self, x: x, Doubling.__call__):
        monkeypatch.setattr(Doubling, "__call__", call)
        for _ in range(2):
            assert torch.equal(outer(X), module(X) + 1)


def test_a_call_that_cannot_be_bound(monkeypatch):
    class Refuses:
        def __get__(self, instance, owner):
            raise LookupError("not this one")

    module = Doubling(2, 2)
    compiled = alternator.compile(module, backend="eager")
    check(module, compiled)
    with monkeypatch.context() as patch:
        patch.setattr(Doubling, "__call__", Refuses())
        for call in (module, compiled, compiled):
            with pytest.raises(LookupError, match="not this one"):
                call(X)
    check(module, compiled)
