"""The modules that backends get: the program sees nothing of their calls."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.modules import module as hooks_of_all
from torch.utils.checkpoint import checkpoint

import alternator
from capture.agreement import same

pytestmark = pytest.mark.capture

BACKENDS = {
    "eager": "eager",
    "aot_eager": "aot_eager",
    "the module": lambda graph, examples: graph,
    "its forward": lambda graph, examples: graph.forward,
    "its code": lambda graph, examples: graph.code and graph,
    "a copy": lambda graph, examples: copy.copy(graph),
    "a deep copy": lambda graph, examples: copy.deepcopy(graph),
    "generated anew": lambda graph, examples: graph.recompile() or graph,
}
HOOKS = {
    "register_module_forward_hook": lambda module, args, result: note(module),
    "register_module_forward_pre_hook": lambda module, args: note(module),
    "register_module_full_backward_hook": lambda module, grads, results: note(module),
    "register_module_full_backward_pre_hook": lambda module, grads: note(module),
    "register_module_backward_hook": lambda module, grads, results: note(module),
}
REGISTRATIONS = {
    "register_module_module_registration_hook": lambda module, name, child: note(module),
    "register_module_parameter_registration_hook": lambda module, name, parameter: note(module),
    "register_module_buffer_registration_hook": lambda module, name, buffer: note(module),
}
seen = []


def note(module):
    seen.append(type(module).__name__)


def take():
    taken = list(seen)
    seen.clear()
    return taken


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def forward(self, x):
        return self.layers(x) + checkpoint(torch.sin, x * 2, use_reentrant=False)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.filterwarnings("ignore:Using a non-full backward hook")
def test_hooks_for_all_modules_see_those_of_the_program(name, backend):
    model, x = Model(), torch.ones(1, 2, requires_grad=True)
    compiled = alternator.compile(model, backend=BACKENDS[backend])
    hooks_of_all._global_is_full_backward_hook = None  # torch wants one kind only, and does not forget
    handle = getattr(hooks_of_all, name)(HOOKS[name])
    try:
        for _ in range(3):
            model(x).sum().backward()
            expected = take()
            compiled(x).sum().backward()
            assert sorted(take()) == sorted(expected)
            assert expected
    finally:
        handle.remove()
        hooks_of_all._global_is_full_backward_hook = None
        seen.clear()


@pytest.mark.parametrize("name", REGISTRATIONS)
def test_hooks_for_registrations_see_none_of_ours(name):
    handle = getattr(hooks_of_all, name)(REGISTRATIONS[name])
    try:
        model, x = Model(), torch.ones(1, 2, requires_grad=True)
        compiled = alternator.compile(model, backend="eager")
        seen.clear()
        compiled(x)
        assert take() == []
    finally:
        handle.remove()
        seen.clear()


def test_hooks_of_the_module_itself_run():
    """A backend may register them."""

    def backend(graph, examples):
        graph.register_forward_pre_hook(lambda module, args: note(module))
        return graph

    compiled = alternator.compile(lambda x: x + 1, backend=backend)
    for _ in range(2):
        assert same(compiled(torch.ones(2)), torch.ones(2) + 1)
        assert take() == ["GraphModule"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_graph_that_fails_prints_nothing(backend, capfd):
    def function(x, i):
        try:
            return x[i] * 2
        except IndexError:
            return None

    compiled = alternator.compile(function, backend=BACKENDS[backend])
    x = torch.ones(3)
    for i in (0, 7, 1, 9):
        assert same(compiled(x, torch.tensor([i])), function(x, torch.tensor([i])))
    assert capfd.readouterr() == ("", "")


def test_a_graph_that_was_changed_is_generated_anew():
    def backend(graph, examples):
        (node,) = graph.graph.find_nodes(op="call_function", target=torch.sin)
        graph.graph.inserting_after(node)
        node.target = torch.cos
        graph.recompile()
        assert "cos" in graph.code
        return graph.forward

    x = torch.ones(2)
    assert torch.equal(alternator.compile(lambda x: torch.sin(x), backend=backend)(x), x.cos())
