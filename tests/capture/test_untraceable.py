"""Operators that a backend cannot trace: the graph that it refused is split where they are called."""

import warnings

import pytest
import torch

import alternator
from alternator.compiling import find_backend

pytestmark = pytest.mark.capture


def define(name, compute, differentiate, **options):
    """Make an operator whose formula for the gradient looks at data."""
    operator = torch.library.custom_op(f"alternator_tests::{name}", compute, mutates_args=(), **options)
    operator.register_fake(lambda x, *_, **__: torch.empty_like(x))
    operator.register_autograd(differentiate, setup_context=keep_inputs)
    return getattr(torch.ops.alternator_tests, name)


def keep_inputs(ctx, inputs, output, **keywords):
    ctx.save_for_backward(*(each for each in inputs if isinstance(each, torch.Tensor)))
    ctx.inputs = inputs


def scale(x: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    return x * factors[0]


def scaled_back(ctx, grad):
    return grad * ctx.saved_tensors[1].tolist()[0], None


scale_by_first = define("scale_by_first", scale, scaled_back)
scale_at_random = define("scale_at_random", scale, scaled_back, tags=[torch.Tag.nondeterministic_seeded])


def calls_it(x, factors):
    y = scale_by_first(x.sin(), factors)
    return y.cos() * 2


def calls_another(x, factors):
    y = scale_at_random(x.sin(), factors)
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
        assert differentiate(calls_another, "aot_eager") == 2
    assert not [each for each in caught if str(each.message).startswith("alternator:")]


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_the_gradient_of_an_operator_that_can_be_repeated_is_hidden(backend):
    assert differentiate(calls_it, backend, fullgraph=True) == 1


def test_it_is_one_graph_where_no_gradient_is_traced():
    assert differentiate(calls_it, "eager") == 1
    compiled, graphs = compile_counted(calls_it, "aot_eager")
    x = torch.randn(3)
    assert torch.equal(compiled(x, torch.tensor([3.0])), calls_it(x, torch.tensor([3.0])))
    assert len(graphs) == 1


def test_with_fullgraph_it_is_an_error():
    with pytest.raises(alternator.Unsupported, match="backward formula of scale_at_random"):
        differentiate(calls_another, "aot_eager", fullgraph=True)


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


def mix(
    xs: list[torch.Tensor], other: torch.Tensor | None, factor: float, *, power: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    total = sum(xs) * factor
    return total**power, total.sum(0) if other is None else total.T @ other


def mixed_back(ctx, first, second):
    xs, other, factor = ctx.inputs
    power, parts = ctx.power, [each.tolist() for each in xs]  # it looks at data
    total = sum(torch.tensor(part) for part in parts) * factor
    grad = first * power * total ** (power - 1)
    grad = grad + (second.expand_as(total) if other is None else other @ second.T)
    return [grad * factor for _ in xs], None if other is None else total @ second, None


def keep_mixed(ctx, inputs, keyword_only_inputs, output):
    ctx.inputs, ctx.power = inputs, keyword_only_inputs["power"]


mixing = torch.library.custom_op("alternator_tests::mix", mix, mutates_args=())
mixing.register_fake(
    lambda xs, other, factor, *, power=1: tuple(each.clone() for each in mix(xs, other, factor, power=power))
)
mixing.register_autograd(mixed_back, setup_context=keep_mixed)


@pytest.mark.parametrize("with_other", [False, True])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_arguments_of_all_kinds(backend, with_other):
    """Lists, what may be missing, numbers, keywords; strided tensors; several results, of which not all are used."""

    def program(x, y, z, both):
        first, second = torch.ops.alternator_tests.mix([x.sin(), y.T], z if with_other else None, 0.5, power=3)
        return first.cos() + second.sum() if both else second * 2

    compiled, graphs = compile_counted(program, backend, fullgraph=True)
    for both in (True, False):
        results = []
        for call in (program, compiled):
            x, y, z = (torch.linspace(0, 1, 12).reshape(shape).requires_grad_() for shape in ((3, 4), (4, 3), (3, 4)))
            result = call(x, y, z, both)
            result.sum().backward()
            results.append((result.detach(), x.grad, y.grad, z.grad))
        for ours, eagers in zip(*reversed(results), strict=True):
            torch.testing.assert_close(ours, eagers)
    assert len(graphs) == 2


def test_sizes_that_change():
    compiled, graphs = compile_counted(calls_it, "aot_eager", fullgraph=True)
    for size in (3, 4, 5, 6):
        results = []
        for call in (calls_it, compiled):
            x = torch.linspace(0, 1, size).requires_grad_()
            call(x, torch.tensor([3.0])).sum().backward()
            results.append(x.grad)
        assert torch.equal(*results)
    assert len(graphs) == 2
