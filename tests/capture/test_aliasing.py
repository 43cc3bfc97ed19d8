"""Regions that change tensors do not answer calls in which two of their tensors have become one."""

import pytest
import torch

import alternator
from capture.agreement import Captured

pytestmark = pytest.mark.capture


def tensors(same, **options):
    x = torch.ones(3, **options)
    return (x, x) if same else (x, torch.ones(3, **options))


def switch(x, y):
    x.requires_grad_()
    y.requires_grad = False
    return x.requires_grad, y.requires_grad, x * 2


def ask_after_switch(x, y):
    x.requires_grad_()
    return y.requires_grad, x.requires_grad, x * 2


def ask_after_change_of_form(x, y):
    x.unsqueeze_(0)
    return y.shape, y.dim(), x * 2


def ask_for_grad(x, y):
    x.grad = torch.zeros(3)
    return y.grad is None, x.grad is None, x * 2


def replace_data(x, y):
    x.data = torch.zeros(2)
    return y.shape, y.dim()


@pytest.mark.parametrize("fn", [switch, ask_after_switch, ask_after_change_of_form, ask_for_grad, replace_data])
def test_what_is_changed_is_another_tensor(fn):
    captured = Captured(fn)
    for same in (False, True, False, True):
        expected, found = fn(*tensors(same)), captured(*tensors(same))
        assert expected[:2] == found[:2], same
    assert len(captured.graphs) <= 4


def add_to_list(x, y):
    torch._foreach_add_([x], 1)
    return y * 2


def normalize(x, y):
    out = torch.nn.functional.batch_norm(torch.arange(6.0).reshape(2, 3), x, torch.ones(3), training=True)
    return y * 2, out


@pytest.mark.parametrize("fn", [add_to_list, normalize])
def test_writes_that_torch_does_not_count(fn):
    compiled = alternator.compile(fn, backend="aot_eager")
    for same in (False, True, False, True):
        expected, found = tensors(same), tensors(same)
        results = fn(*expected), compiled(*found)
        results = [result if isinstance(result, tuple) else (result,) for result in results]
        assert all(map(torch.equal, *results)), same
        assert all(map(torch.equal, expected, found))


def test_a_graph_with_statistics_is_not_run_twice():
    mean, var = torch.zeros(3), torch.ones(3)

    def program(x, index):
        y = torch.nn.functional.batch_norm(x, mean, var, training=True)
        return y[index]

    captured = Captured(program)
    x = torch.arange(6.0).reshape(2, 3)
    captured(x, torch.tensor([0]))
    once = mean + 0.1 * (x.mean(0) - mean)
    with pytest.raises(IndexError):
        captured(x, torch.tensor([7]))
    torch.testing.assert_close(mean, once)
