"""Hooks of autograd: on inputs and leaves they are registered behind the graph, elsewhere for real."""

import pytest
import torch
from torch import nn

import alternator
from capture.agreement import Captured, same

pytestmark = pytest.mark.capture

LOG = []


def note(grad):
    LOG.append(grad.clone())


def scale(leaf):
    leaf.grad.mul_(5)


def double(grad):
    return grad * 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0, 1, 4))
        self.seen = []

    def keep(self, grad):
        self.seen.append(grad.clone())

    def forward(self, x):
        self.weight.register_hook(self.keep)
        return x * self.weight


def make_leaf():
    return torch.linspace(1, 2, 4, requires_grad=True)


# ---- Programs: (result, further things to compare) -----------------------------------------------------------------


def on_input(x):
    x.register_hook(note)
    return (x * 3).sum()


def behind_other_work(x):
    y = x * 3
    x.register_hook(double)
    return (y * x).sum()


def two_hooks(x):
    x.register_hook(double)
    first = x.register_hook(note)
    second = x.register_hook(lambda grad: grad + 1)
    return (x * 3).sum(), second.id - first.id, type(first)


def closure(x):
    factor = x.detach() * 2
    x.register_hook(lambda grad: grad * factor)
    return (x * factor).sum()


def removed_at_once(x):
    handle = x.register_hook(double)
    y = x * 3
    handle.remove()
    return y.sum()


def removed_later(x):
    handle = x.register_hook(double)
    x.register_hook(note)
    return (x * 3).sum(), handle.remove


def in_a_container(x):
    return (x * 3).sum(), {"handle": x.register_hook(double)}


def with_a_scope(x):
    with x.register_hook(double):
        y = x * 3
    return y.sum()


def on_something_with_a_history(x):
    x.register_hook(double)
    return (x * 3).sum()


def retained(x):
    x.retain_grad()
    return (x * 3).sum()


def behind_accumulation(x):
    x.register_post_accumulate_grad_hook(scale)
    return (x * 3).sum()


def on_a_new_leaf(x):
    p = nn.Parameter(x.detach() * 2)
    p.register_hook(note)
    return (p * x).sum(), p


def on_a_result(x):
    y = x * 2
    y.register_hook(note)
    return (y * 3).sum()


def retained_result(x):
    y = x * 2
    y.retain_grad()
    return (y * 3).sum(), y


def written_before(x):
    y = x * 1
    y.add_(1)
    x.register_hook(double)
    return (x * y).sum()


GRAPHS = {
    on_input: 1,
    behind_other_work: 1,
    two_hooks: None,
    closure: 1,
    removed_at_once: None,
    removed_later: 1,
    in_a_container: 1,
    with_a_scope: None,
    retained: 1,
    behind_accumulation: 1,
    on_a_new_leaf: 1,
    on_a_result: None,
    retained_result: None,
    written_before: 1,
}


def run(program, call, x):
    LOG.clear()
    result = call(x)
    loss, *others = result if isinstance(result, tuple) else (result,)
    for other in others:
        if callable(other) and not isinstance(other, type):
            other()  # removes the hook
        if isinstance(other, dict):
            other["handle"].remove()
    loss.backward()
    tensors = [(other, other.grad) for other in others if isinstance(other, torch.Tensor)]
    return loss, x.grad, list(LOG), tensors, [other for other in others if isinstance(other, (int, type))]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", GRAPHS, ids=lambda program: program.__name__)
def test_program(program, backend):
    compiled = Captured(program) if backend == "eager" else alternator.compile(program, backend=backend)
    for _ in range(3):
        assert same(run(program, compiled, make_leaf()), run(program, program, make_leaf()))
    if backend == "eager" and GRAPHS[program] is not None:
        assert len(compiled.graphs) == GRAPHS[program], compiled.breaks


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [on_something_with_a_history, retained, behind_other_work])
def test_input_with_a_history(program, backend):
    compiled = alternator.compile(program, backend=backend, fullgraph=True)
    for _ in range(3):
        results = []
        for call in (program, compiled):
            x = make_leaf()
            y = x * 5
            call(y).backward()
            results.append((x.grad, y.retains_grad, y.grad if y.retains_grad else None))
        assert same(results[1], results[0])


def test_input_that_is_written_to():
    def program(x):
        x.register_hook(double)  # of what it was
        x.mul_(3)
        x.register_hook(note)  # of what it is now
        return (x * x).sum()

    compiled = Captured(program)
    for _ in range(3):
        results = []
        for call in (program, compiled):
            LOG.clear()
            x = make_leaf()
            call(x * 5).backward()
            results.append((x.grad, list(LOG)))
        assert same(results[1], results[0])


def test_parameters_of_a_module():
    eager, module = Model(), Model()
    compiled = Captured(module)
    for calls in (1, 2, 3):
        for each, call in ((eager, eager), (module, compiled)):
            call(torch.ones(4)).sum().backward()
            assert len(each.seen) == calls * (calls + 1) // 2
    assert same(module.seen, eager.seen)
    assert len(compiled.graphs) == 1


@pytest.mark.parametrize("name", ["register_hook", "register_post_accumulate_grad_hook", "retain_grad"])
def test_torch_refuses(name):
    def program(x, log):
        log.append(1)
        y = x + 1
        getattr(x, name)(*() if name == "retain_grad" else (note,))
        return y

    compiled = Captured(program)
    for x in (make_leaf(), torch.ones(4), make_leaf() * 2, torch.ones(4)):
        outcomes = []
        for call in (program, compiled):
            log = []
            try:
                call(x, log)
                outcomes.append(log)
            except RuntimeError as error:
                outcomes.append((str(error), log))
        assert same(outcomes[1], outcomes[0])


def test_a_graph_that_fails_registers_its_hooks_once():
    def program(x, index):
        x.register_hook(note)
        return x[index].sum()

    compiled = Captured(program)
    for index in (1, 9, 2):
        counts = []
        for call in (program, compiled):
            LOG.clear()
            x = make_leaf()
            try:
                call(x, torch.tensor([index]))
            except IndexError:
                pass
            x.sum().backward()
            counts.append(len(LOG))
        assert counts == [1, 1]


def test_the_hook_is_guarded():
    def program(x, hook):
        x.register_hook(hook)
        return (x * 3).sum()

    compiled = Captured(program)
    for hook in (double, lambda grad: grad * 7, double):
        gradients = []
        for call in (program, compiled):
            x = make_leaf()
            call(x, hook).backward()
            gradients.append(x.grad)
        assert same(gradients[1], gradients[0])
