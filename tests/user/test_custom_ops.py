"""Operators of the program's own, torch.library.custom_op and triton_op: one node each, whatever is inside."""

import itertools

import pytest
import torch
from torch._dynamo.testing import EagerAndRecordGraphs
from torch.library import custom_op, triton_op

import alternator

pytestmark = pytest.mark.capture
X = torch.arange(4.0)
SPACE = "alternator_operators"


@custom_op(f"{SPACE}::scale", mutates_args=())
def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() * factor)  # no graph could look inside


@scale.register_fake
def _(x, factor):
    return torch.empty_like(x)


def keep_factor(ctx, inputs, output):
    ctx.factor = inputs[1]


def scale_backward(ctx, gradient):
    return gradient * ctx.factor, None


scale.register_autograd(scale_backward, setup_context=keep_factor)


@custom_op(f"{SPACE}::add_to", mutates_args=("out",))
def add_to(x: torch.Tensor, out: torch.Tensor) -> None:
    out.detach().numpy()[...] += x.detach().numpy()


@custom_op(f"{SPACE}::split", mutates_args=())
def split(x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    return x.clone(), [x + 1, x + 2]


@split.register_fake
def _(x):
    return torch.empty_like(x), [torch.empty_like(x), torch.empty_like(x)]


@triton_op(f"{SPACE}::wave", mutates_args=())
def wave(x: torch.Tensor, factor: int) -> torch.Tensor:
    return x.sin() * factor


def keep_input(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.factor = inputs[1]


def wave_backward(ctx, gradient):
    (x,) = ctx.saved_tensors
    return gradient * x.cos() * ctx.factor, None


wave.register_autograd(wave_backward, setup_context=keep_input)


@triton_op(f"{SPACE}::wave_to", mutates_args={"out"})
def wave_to(x: torch.Tensor, out: torch.Tensor) -> None:
    out.add_(x.sin())


def call_scale(x, out):
    return scale(x + 1, 3.0) + 1


def call_by_name(x, out):
    operators = getattr(torch.ops, SPACE)
    return operators.scale(x, 2.0) + operators.scale.default(x, 3.0)


def call_add_to(x, out):
    made = torch.zeros_like(x)
    add_to(x, made)
    add_to(made, out)
    return made * 2


def call_split(x, out):
    first, (second, third) = split(x)
    return first + second * third


def call_wave(x, out):
    return wave(x * 2, 3) + 1


def call_wave_to(x, out):
    wave_to(x, out)
    return out * 2


OPERATORS = {
    call_scale: ["scale"],
    call_by_name: ["scale", "scale"],
    call_add_to: ["add_to", "add_to"],
    call_split: ["split"],
    call_wave: ["wave"],
    call_wave_to: ["wave_to"],
}
DIFFERENTIABLE = [call_scale, call_by_name, call_wave]


def check(program, compiled, x=X):
    for _ in range(2):
        outs = [torch.ones(4), torch.ones(4)]
        assert torch.equal(compiled(x, outs[0]), program(x, outs[1]))
        assert torch.equal(*outs)


@pytest.mark.parametrize("program", OPERATORS, ids=lambda program: program.__name__)
def test_one_node(program):
    graphs = EagerAndRecordGraphs()
    check(program, alternator.compile(program, backend=graphs, fullgraph=True))
    (graph,) = graphs.graphs
    operators = [str(node.target).split(".") for node in graph.graph.nodes if SPACE in str(node.target)]
    assert [name for _, name, *_ in operators] == OPERATORS[program]


@pytest.mark.parametrize("program", OPERATORS, ids=lambda program: program.__name__)
def test_with_a_backend_that_traces_again(program):
    check(program, alternator.compile(program, backend="aot_eager", fullgraph=True))


@pytest.mark.parametrize(
    "program, backend",
    [*itertools.product(DIFFERENTIABLE, ["eager", "aot_eager"])],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_gradients(program, backend):
    inputs = [X.clone().requires_grad_() for _ in range(2)]
    compiled = alternator.compile(program, backend=backend, fullgraph=True)
    for fn, x in zip((compiled, program), inputs, strict=True):
        fn(x, None).sum().backward()
    assert torch.equal(inputs[0].grad, inputs[1].grad)


def test_operator_without_a_fake_kernel_is_a_break():
    @custom_op(f"{SPACE}::opaque", mutates_args=())
    def opaque(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    with pytest.raises(alternator.Unsupported, match="register_fake"):
        alternator.compile(lambda x: opaque(x + 1), backend="eager", fullgraph=True)(X)
    assert torch.equal(alternator.compile(lambda x: opaque(x + 1), backend="eager")(X), (X + 1) * 2)
