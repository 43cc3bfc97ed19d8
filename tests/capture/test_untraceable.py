"""Operators that a backend cannot trace: the graph that it refused is split where they are called."""

import warnings

import pytest
import torch

import alternator
from alternator.compiling import find_backend

pytestmark = pytest.mark.capture


@torch.library.custom_op("alternator_tests::scale_by_first", mutates_args=())
def scale_by_first(x: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    return x * factors[0]


@scale_by_first.register_fake
def _(x, factors):
    return torch.empty_like(x)


def keep_factors(ctx, inputs, output):
    ctx.save_for_backward(inputs[1])


def read_factor(ctx, grad):
    (factors,) = ctx.saved_tensors
    return grad * factors.tolist()[0], None


scale_by_first.register_autograd(read_factor, setup_context=keep_factors)


def calls_it(x, factors):
    y = torch.ops.alternator_tests.scale_by_first(x.sin(), factors)
    return y.cos() * 2


def compile_counted(function, backend, **options):
    graphs = []

    def compile(module, examples):
        run = find_backend(backend)(module, examples)
        graphs.append(module)
        return run

    return alternator.compile(function, backend=compile, **options), graphs


def differentiate(function, backend, **options):
    compiled, graphs = compile_counted(function, backend, **options)
    for _ in range(2):
        results = []
        for call in (function, compiled):
            x = torch.randn(3, generator=torch.Generator().manual_seed(1)).requires_grad_()
            result = call(x, torch.tensor([3.0]))
            result.sum().backward()
            results.append((result.detach(), x.grad))
        for ours, eagers in zip(*results, strict=True):
            assert torch.equal(ours, eagers)
    return len(graphs)


def test_the_graph_is_split_where_the_gradient_cannot_be_traced():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert differentiate(calls_it, "aot_eager") == 2
    assert not [each for each in caught if str(each.message).startswith("alternator:")]


def test_it_is_one_graph_where_no_gradient_is_traced():
    assert differentiate(calls_it, "eager") == 1
    compiled, graphs = compile_counted(calls_it, "aot_eager")
    x = torch.randn(3)
    assert torch.equal(compiled(x, torch.tensor([3.0])), calls_it(x, torch.tensor([3.0])))
    assert len(graphs) == 1


def test_with_fullgraph_it_is_an_error():
    with pytest.raises(alternator.Unsupported, match="backward formula of scale_by_first"):
        differentiate(calls_it, "aot_eager", fullgraph=True)


def test_a_graph_that_is_refused_for_another_reason_runs_eagerly():
    calls = []

    def refuse(module, examples):
        calls.append(module)
        raise torch._subclasses.fake_tensor.DataDependentOutputException("of the backend")

    compiled = alternator.compile(calls_it, backend=refuse)
    x = torch.randn(3)
    with pytest.warns(UserWarning, match="the function runs eagerly"):
        assert torch.equal(compiled(x, torch.tensor([3.0])), calls_it(x, torch.tensor([3.0])))
    compiled(x, torch.tensor([3.0]))
    assert len(calls) == 1
