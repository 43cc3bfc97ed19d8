"""Attributes that programs give to tensors: those of inputs are guarded and written, those of results are given on."""

import pytest
import torch
from torch import nn

from capture.agreement import Captured, same

pytestmark = pytest.mark.capture


def make_input():
    x = torch.linspace(0, 1, 4)
    x.scale = 2
    x.notes = {"first": 1}
    return x


def read(x):
    return x * x.scale


def read_what_may_be_missing(x):
    return x * getattr(x, "factor", 3), hasattr(x, "scale"), hasattr(x, "nothing")


def write(x):
    y = x + 1
    x.result = y
    x.scale = 5
    x.notes["second"] = x.scale
    return y * x.scale


def delete(x):
    del x.scale
    return x + 1, hasattr(x, "scale")


def set_by_function(x):
    setattr(x, "scale", getattr(x, "scale") + 1)  # noqa: B009, B010
    x.__dict__["other"] = x.scale
    return x * x.other


def read_the_dict(x):
    return x * x.__dict__["scale"] * vars(x)["scale"], list(vars(x))


def give_to_result(x):
    y = x * 2
    y.title = "y"
    y.parents = [x, y]
    z = y + 1
    z.source = y
    return z


def give_to_result_and_break(x):
    y = x * 2
    y.scale = 4
    torch._dynamo.graph_break()
    return (y + 1) * y.scale, y


def give_to_result_in_place(x):
    y = x * 2
    y.scale = 4
    y += 1
    y.mul_(2)
    return y


def take_from_result(x):
    y = x * 2
    y.scale = 4
    y.more = 5
    del y.more
    return y * y.scale * getattr(y, "more", 1), y


def give_to_parameter(x):
    p = nn.Parameter(x + 1)
    p.tag = "made here"
    return p


def alias(x):
    y = x.add_(1)
    y.scale = 7  # the very object that came in
    return x * x.scale


def missing(x):
    try:
        return x.nothing
    except AttributeError:
        return x + 1


PROGRAMS = [
    *(read, read_what_may_be_missing, write, delete, set_by_function, read_the_dict, give_to_result),
    *(give_to_result_and_break, give_to_result_in_place, take_from_result, give_to_parameter, alias, missing),
]


def describe(value, seen=None):
    """Take apart what a program can see of tensors and their attributes."""
    seen = {} if seen is None else seen
    if id(value) in seen:
        return seen[id(value)]
    if isinstance(value, torch.Tensor):
        seen[id(value)] = f"tensor {len(seen)}"
        return value.detach().clone(), type(value), {name: describe(each, seen) for name, each in vars(value).items()}
    if isinstance(value, (list, tuple)):
        return [describe(each, seen) for each in value]
    if isinstance(value, dict):
        return {name: describe(each, seen) for name, each in value.items()}
    return value


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_program(program):
    compiled = Captured(program)
    for _ in range(3):
        results = []
        for run in (program, compiled):
            x = make_input()
            results.append(describe((run(x), x)))
        assert same(results[1], results[0])
    assert len(compiled.graphs) == (2 if program is give_to_result_and_break else 1), compiled.breaks


def change(x):
    x.scale = 9


def remove(x):
    del x.scale


def retype(x):
    x.scale = 2.0


def add_factor(x):
    x.factor = 10


def fill_notes(x):
    x.notes["second"] = 2


@pytest.mark.parametrize("program", [read, read_what_may_be_missing, write, read_the_dict, set_by_function])
def test_attributes_are_guarded(program):
    compiled = Captured(program)
    for alter in (lambda x: None, change, lambda x: None, remove, retype, add_factor, fill_notes):
        results = []
        for run in (program, compiled):
            x = make_input()
            alter(x)
            try:
                results.append(describe((run(x), x)))
            except (AttributeError, KeyError) as error:
                results.append((str(error), describe(x)))
        assert same(results[1], results[0])


def test_what_is_overwritten_is_not_guarded():
    def program(x):
        x.result = x + 1
        return x.result * 2

    compiled = Captured(program)
    x = torch.ones(3)
    for _ in range(4):
        assert torch.equal(compiled(x), x * 4)
        assert torch.equal(x.result, x + 1)
    assert len(compiled.graphs) == 2  # it was absent at first


def test_a_trace_that_is_given_up_leaves_no_attributes():
    def program(x):
        x.first = 1
        x.scale = 3
        y = x * x.scale
        torch._dynamo.graph_break()
        x.first = 2
        raise ValueError("at the end")

    for run in (program, Captured(program)):
        x = make_input()
        with pytest.raises(ValueError, match="at the end"):
            run(x)
        assert (x.first, x.scale) == (2, 3)
    x = make_input()
    with pytest.raises(ValueError, match="at the end"):
        Captured(program)(x)
    assert list(vars(x)) == ["scale", "notes", "first"]


def test_parameters_of_a_module():
    class Tagged(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))
            self.weight.scale = 2

        def forward(self, x):
            self.weight.calls = getattr(self.weight, "calls", 0) + 1
            return x * self.weight * self.weight.scale

    eager, module = Tagged(), Tagged()
    compiled = Captured(module)
    for scale in (2, 2, 3):
        eager.weight.scale = module.weight.scale = scale
        assert same(compiled(make_input()), eager(make_input()))
        assert module.weight.calls == eager.weight.calls
