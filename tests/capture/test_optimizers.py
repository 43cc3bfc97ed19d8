"""Steps of torch's optimizers: one graph, what eager execution leaves, and no other graph later on."""

import copy

import pytest
import torch
from torch import nn

import alternator
from capture.agreement import Captured

pytestmark = pytest.mark.capture

# Where torch computes with tensors while compiling and with Python's numbers otherwise, the corrections of the first
# steps are rounded to float32.
EXACT, ROUNDED = 0.0, 1e-4

OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {"foreach": False}, EXACT),
    "sgd foreach": (torch.optim.SGD, {"foreach": True, "maximize": True}, EXACT),
    "momentum": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1, "foreach": True}, EXACT),
    "adam": (torch.optim.Adam, {"foreach": False, "weight_decay": 0.1}, ROUNDED),
    "adam foreach": (torch.optim.Adam, {"foreach": True, "amsgrad": True}, ROUNDED),
    "adamw": (torch.optim.AdamW, {"foreach": False, "amsgrad": True}, ROUNDED),
    "adamw foreach": (torch.optim.AdamW, {"foreach": True}, ROUNDED),
    "adamax": (torch.optim.Adamax, {"foreach": False}, ROUNDED),
    "adamax foreach": (torch.optim.Adamax, {"foreach": True}, ROUNDED),
    "nadam": (torch.optim.NAdam, {"foreach": False}, ROUNDED),
    "nadam foreach": (torch.optim.NAdam, {"foreach": True}, ROUNDED),
    "adadelta": (torch.optim.Adadelta, {"foreach": True}, EXACT),
    "adagrad": (torch.optim.Adagrad, {"foreach": False}, EXACT),
    "adagrad foreach": (torch.optim.Adagrad, {"foreach": True}, EXACT),
    "rmsprop": (torch.optim.RMSprop, {"foreach": False, "momentum": 0.9, "centered": True}, EXACT),
    "rmsprop foreach": (torch.optim.RMSprop, {"foreach": True}, EXACT),
    "rprop": (torch.optim.Rprop, {"foreach": True}, EXACT),
    "muon": (torch.optim.Muon, {}, EXACT),
}


def make_optimizer(cls, options, count=3):
    torch.manual_seed(0)
    parameters = [nn.Parameter(torch.randn(4, 4)) for _ in range(count)]
    return cls(parameters, lr=0.01, **options)


def parameters_of(optimizer):
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def set_gradients(optimizer, seed):
    generator = torch.Generator().manual_seed(seed)
    for parameter in parameters_of(optimizer):
        parameter.grad = torch.randn(parameter.shape, generator=generator)


def compare(ours, theirs, tolerance):
    for left, right in zip(parameters_of(ours), parameters_of(theirs), strict=True):
        assert list(ours.state[left]) == list(theirs.state[right])
        torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance / 10)
        torch.testing.assert_close(ours.state[left], theirs.state[right], rtol=tolerance, atol=tolerance / 10)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name, plain_optimizers):
    cls, options, tolerance = OPTIMIZERS[name]
    ours, theirs = make_optimizer(cls, options), make_optimizer(cls, options)
    compiled = Captured(lambda: ours.step())
    counts = []
    for seed in range(6):
        for optimizer in (ours, theirs):
            set_gradients(optimizer, seed)
        compiled.fn()
        theirs.step()
        compare(ours, theirs, tolerance)
        counts.append(len(compiled.graphs))
    assert counts[0] == 1, compiled.breaks  # the first step makes the state
    assert counts[1:] == [counts[1]] * 5
    assert counts[1] <= 2
    assert not any(parameter.grad is None or parameter.grad.grad_fn for parameter in parameters_of(ours))


def test_many_parameters_are_one_graph():
    ours, theirs = (make_optimizer(torch.optim.Adam, {"foreach": False}, count=300) for _ in range(2))
    for optimizer in (ours, theirs):
        set_gradients(optimizer, 0)
        optimizer.step()
    compiled = Captured(lambda: ours.step())
    for seed in range(3):
        for optimizer in (ours, theirs):
            set_gradients(optimizer, seed)
        compiled.fn()
        theirs.step()
    compare(ours, theirs, ROUNDED)
    assert len(compiled.graphs) == 1


# ---- What a step depends on ----------------------------------------------------------------------------------------


def drop_gradient(optimizer):
    parameters_of(optimizer)[1].grad = None


def change_rate(optimizer):
    optimizer.param_groups[0]["lr"] = 0.5


def swap_state(optimizer):
    first, second, _ = parameters_of(optimizer)
    state = optimizer.state
    state[first], state[second] = state[second], state[first]


def share_state(optimizer):
    first, second, _ = parameters_of(optimizer)
    optimizer.state[second] = optimizer.state[first]


def replace_moment(optimizer):
    optimizer.state[parameters_of(optimizer)[0]]["exp_avg"] = torch.ones(4, 4)


def forget_state(optimizer):
    del optimizer.state[parameters_of(optimizer)[2]]


def reorder_parameters(optimizer):
    optimizer.param_groups[0]["params"].reverse()


def repeat_parameter(optimizer):
    parameters = optimizer.param_groups[0]["params"]
    parameters[1] = parameters[0]


def add_group(optimizer):
    parameter = nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    optimizer.add_param_group({"params": [parameter], "lr": 0.1})


def add_hook(optimizer):
    optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: change_rate(optimizer))


def load_state(optimizer):
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))


CHANGES = [
    *(drop_gradient, change_rate, swap_state, share_state, replace_moment, forget_state, reorder_parameters),
    *(repeat_parameter, add_group, add_hook, load_state),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_change_between_steps(change):
    ours, theirs = (make_optimizer(torch.optim.AdamW, {"foreach": False}) for _ in range(2))
    compiled = Captured(lambda: ours.step())
    for seed in range(6):
        for optimizer in (ours, theirs):
            set_gradients(optimizer, seed)
            if seed == 3:
                change(optimizer)
        compiled.fn()
        theirs.step()
        compare(ours, theirs, ROUNDED)


def test_hooks_of_the_optimizer_run_once_a_step():
    optimizer = make_optimizer(torch.optim.SGD, {})
    seen = []
    optimizer.register_step_post_hook(lambda optimizer, args, kwargs: seen.append(len(args)))
    compiled = Captured(lambda: optimizer.step())
    for seed in range(4):
        set_gradients(optimizer, seed)
        compiled.fn()
    assert seen == [1] * 4


def test_step_with_a_closure():
    def run(call):
        optimizer = make_optimizer(torch.optim.SGD, {"momentum": 0.9})

        def closure():
            optimizer.zero_grad()
            loss = sum(parameter.square().sum() for parameter in parameters_of(optimizer))
            loss.backward()
            return loss

        losses = [call(optimizer, closure).item() for _ in range(4)]
        return losses, parameters_of(optimizer)

    def step(optimizer, closure):
        return optimizer.step(closure)

    torch.testing.assert_close(run(alternator.compile(step, backend="eager")), run(step), rtol=0, atol=0)


# ---- Tensors in the place of numbers -------------------------------------------------------------------------------


def take_apart(name):
    def call(x, a, b, t):
        if "addc" in name:
            return getattr(x, name)(a, b, value=t)
        return getattr(x, name)(a, alpha=-t)

    return call


NUMBERS = {
    **{name: take_apart(name) for name in ("addcdiv", "addcdiv_", "addcmul", "addcmul_", "add", "add_", "sub", "sub_")},
    "torch.addcdiv": lambda x, a, b, t: torch.addcdiv(x, a, b, value=t),
    "list of quotients": lambda x, a, b, t: torch._foreach_addcdiv([x, a], [a, b], [b, x], torch.stack([t, t * 2])),
    "list of products": lambda x, a, b, t: torch._foreach_addcmul_([x, a], [a, b], [b, b], torch.stack([t, t * 2])),
    "scaled list": lambda x, a, b, t: torch._foreach_add([x, a], [a, b], alpha=t),
    "list scaled and taken away": lambda x, a, b, t: torch._foreach_sub_([x, b], [a, a], alpha=t),
    "lists in between": lambda x, a, b, t: torch._foreach_lerp_([x, b], [a, a], t),
    "powers": lambda x, a, b, t: torch._foreach_pow(t, [a, b]),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", NUMBERS)
def test_tensor_in_the_place_of_a_number(name, dtype):
    program = NUMBERS[name]
    generator = torch.Generator().manual_seed(1)
    inputs = [torch.rand(65, generator=generator) + 0.5 for _ in range(3)]
    inputs.append(torch.tensor(0.3, dtype=dtype))
    expected_inputs = copy.deepcopy(inputs)
    expected = program(*expected_inputs)
    result = alternator.compile(program, backend="eager", fullgraph=True)(*inputs)
    torch.testing.assert_close((result, inputs), (expected, expected_inputs), rtol=0, atol=0)


@pytest.mark.parametrize("name", ["_foreach_addcdiv", "_foreach_addcdiv_", "_foreach_addcmul", "_foreach_addcmul_"])
def test_list_of_tensors_in_the_place_of_numbers(name):
    """Outside of traces torch refuses such lists; its optimizers make them while compiling, all the same."""

    def program(numbers, x, a, b):
        return getattr(torch, name)([x, a], [a, b], [b, b], numbers)

    generator = torch.Generator().manual_seed(1)
    inputs = [torch.rand(65, generator=generator) + 0.5 for _ in range(3)]
    expected_inputs = copy.deepcopy(inputs)
    numbers = torch.tensor([0.3, 0.6])
    expected = program(numbers, *expected_inputs)
    result = alternator.compile(program, backend="eager", fullgraph=True)(list(numbers), *inputs)
    torch.testing.assert_close((result, inputs), (expected, expected_inputs), rtol=0, atol=0)


def test_number_that_changes_the_dtype_is_a_break():
    def program(x, t):
        return torch.add(x, x, alpha=t)

    x = torch.arange(4)
    compiled = alternator.compile(program, backend="eager")
    for number in (torch.tensor(2), torch.tensor(3)):
        assert torch.equal(compiled(x, number), program(x, number))
    with pytest.raises(RuntimeError):
        compiled(x, torch.tensor(2.5))


# ---- Spans of the profiler -----------------------------------------------------------------------------------------


def test_spans_are_no_breaks():
    def program(x):
        with torch.profiler.record_function("first") as span:
            y = x * 2
            assert span.name == "first"
        with torch.autograd.profiler.record_function("second", "with text"):
            return y + 1

    compiled = Captured(program)
    assert torch.equal(compiled.fn(torch.ones(3)), torch.full((3,), 3.0))
    assert len(compiled.graphs) == 1


def test_break_inside_a_span():
    def program(x):
        with torch.profiler.record_function("span"):
            y = x * 2
            torch._dynamo.graph_break()
            return y + 1

    compiled = Captured(program)
    for _ in range(3):
        assert torch.equal(compiled.fn(torch.ones(3)), torch.full((3,), 3.0))
    assert len(compiled.graphs) == 2
