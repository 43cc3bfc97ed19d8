"""Calls of backends: the program cannot tell that they were made."""

import random
import warnings
import weakref
from collections import OrderedDict

import pytest
import torch
from torch.utils.hooks import RemovableHandle

import alternator
from alternator.backend_calls import HookNumbers
from capture.agreement import same

pytestmark = pytest.mark.capture
X = torch.ones(2, 3)


def greedy(graph, examples):
    """Take from all that there is."""
    torch.rand(3)
    torch.randn(3)
    random.random()
    for _ in range(5):
        RemovableHandle(OrderedDict())
    return graph


def failing(graph, examples):
    greedy(graph, examples)
    raise NotImplementedError("no")


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", [greedy, failing, "aot_eager"])
def test_random_numbers_and_counters_go_on_where_they_were(backend, dynamic):
    compiled = alternator.compile(lambda x: x * 2, backend=backend, dynamic=dynamic)
    before = random.getstate(), torch.get_rng_state(), RemovableHandle.next_id
    try:
        compiled(X)
    except torch._dynamo.exc.BackendCompilerFailed:
        assert backend is failing
    after = random.getstate(), torch.get_rng_state(), RemovableHandle.next_id
    assert same(after, before)


def test_hooks_of_backends_have_numbers_of_their_own():
    hooks = OrderedDict()

    def backend(graph, examples):
        handle = RemovableHandle(hooks)
        hooks[handle.id] = "the backend's"
        return graph

    for size in (2, 3):
        alternator.compile(lambda x: x * 2, backend=backend, dynamic=False)(torch.ones(size))
        handle = RemovableHandle(hooks)
        hooks[handle.id] = "the program's"
    assert sorted(hooks.values()) == ["the backend's"] * 2 + ["the program's"] * 2
    assert HookNumbers.compiling == 0


@pytest.mark.parametrize("backend", ["eager", "aot_eager", greedy])
def test_a_hook_that_the_function_registers(backend):
    module = torch.nn.Linear(3, 3)

    def function(x):
        handle = module.register_forward_hook(lambda module, args, result: result + 1)
        y = module(x)
        handle.remove()
        return y, handle.id

    compiled = alternator.compile(function, backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            expected, number = function(X)
            result, next_number = compiled(X)
            assert same(result, expected)
            assert next_number == number + 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", greedy])
def test_no_weak_references_to_inputs_stay(backend):
    x, weight = torch.ones(2, 3), torch.nn.Parameter(torch.ones(3, 3))
    mine = weakref.ref(x)
    table = torch.utils.weak.WeakIdKeyDictionary({weight: "mine"})
    alternator.compile(lambda x: (x @ weight).sum(), backend=backend)(x).backward()
    assert weakref.getweakrefs(x) == [mine]
    assert weakref.getweakrefcount(weight) == 1
    assert table[weight] == "mine"


def test_weak_references_of_the_backends_own_stay():
    table = torch.utils.weak.WeakIdKeyDictionary()

    def backend(graph, examples):
        table[examples[0]] = graph
        return graph

    x = torch.ones(2)
    alternator.compile(lambda x: x + 1, backend=backend)(x)
    assert list(table.keys()) == [x]
