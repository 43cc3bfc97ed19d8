"""options={"guard_filter_fn": ..}: a program drops guards, and sees them as TorchDynamo's entries."""

import pytest
import torch
from torch._dynamo.testing import CompileCounter

import alternator

pytestmark = [pytest.mark.capture, pytest.mark.usefixtures("take_over")]
X = torch.arange(6.0).reshape(2, 3)
FACTOR = [2]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.scale = 2

    def forward(self, x):
        return self.linear(x) * self.scale * FACTOR[0]


@pytest.fixture(autouse=True)
def factor():
    FACTOR[:] = [2]


def compile_with(choose, fn, **options):
    counter = CompileCounter()
    return torch.compile(fn, backend=counter, options={"guard_filter_fn": choose}, **options), counter


def scale(x):
    return x * FACTOR[0]


def test_entries():
    seen = []

    def keep_all(entries):
        seen.append(entries)
        return [True] * len(entries)

    model = Model()
    compiled, counter = compile_with(keep_all, model)
    assert torch.equal(compiled(X), model(X))
    (entries,) = seen
    found = {(entry.name, entry.guard_type): entry for entry in entries}
    tensor = found["x", "TENSOR_MATCH"]
    assert tensor.has_value and tensor.value is X and tensor.derived_guard_types == ("TENSOR_MATCH",)
    assert not tensor.is_global and not tensor.orig_guard.source.is_unspecialized_nn_module()
    number = found["G['FACTOR'][0]", "CONSTANT_MATCH"]
    assert number.value == 2 and number.is_global and number.derived_guard_types == ("EQUALS_MATCH",)
    assert found["self", "TYPE_MATCH"].orig_guard.source.is_unspecialized_nn_module()
    assert not found["self.scale", "CONSTANT_MATCH"].orig_guard.source.is_unspecialized_builtin_nn_module()
    weight = found["self._modules['linear']._parameters['weight']", "TENSOR_MATCH"]
    assert weight.value is model.linear.weight
    assert weight.orig_guard.source.is_unspecialized_builtin_nn_module()
    assert not found["", "GLOBAL_STATE"].has_value and ("", "SHAPE_ENV") in found
    FACTOR[0] = 3  # all guards are kept
    assert torch.equal(compiled(X), model(X)) and counter.frame_count == 2


def test_without_any_guard():
    compiled, counter = compile_with(torch.compiler.skip_all_guards_unsafe, scale)
    assert torch.equal(compiled(X), X * 2)
    FACTOR[0] = 5
    assert torch.equal(compiled(X), X * 2)
    assert torch.equal(compiled(torch.ones(7)), torch.ones(7) * 2)
    with torch.no_grad():
        assert torch.equal(compiled(X), X * 2)
    assert counter.frame_count == 1


def test_without_globals():
    compiled, counter = compile_with(torch.compiler.skip_guard_on_globals_unsafe, scale)
    compiled(X)
    FACTOR[0] = 5
    assert torch.equal(compiled(X), X * 2) and counter.frame_count == 1
    assert torch.equal(compiled(X[:1]), X[:1] * 5) and counter.frame_count == 2


def test_tensors_alone():
    model = Model()
    compiled, counter = compile_with(torch.compiler.keep_tensor_guards_unsafe, model)
    expected = model(X)
    assert torch.equal(compiled(X), expected)
    model.scale = 7
    assert torch.equal(compiled(X), expected) and counter.frame_count == 1
    assert torch.equal(compiled(X.double().float()[:1]), model(X[:1])) and counter.frame_count == 2


def test_without_modules():
    model = Model()
    compiled, counter = compile_with(torch.compiler.skip_guard_on_all_nn_modules_unsafe, model)
    expected = model(X)
    compiled(X)
    model.scale = 7
    assert torch.equal(compiled(X), expected) and counter.frame_count == 1
    with torch.no_grad():  # what the graph computes with is looked up in each call
        model.linear.weight.zero_()
    model.linear.bias = torch.nn.Parameter(torch.ones(3))
    assert torch.equal(compiled(X), torch.full((2, 3), 4.0)) and counter.frame_count == 1
    FACTOR[0] = 1
    assert torch.equal(compiled(X), torch.full((2, 3), 7.0)) and counter.frame_count == 2


def test_conditions_on_sizes():
    def keep_but_sizes(entries):
        return [entry.guard_type != "SHAPE_ENV" for entry in entries]

    compiled, counter = compile_with(keep_but_sizes, lambda x: x.sin() + x.shape[0], dynamic=True)
    for rows in (4, 8, 1):  # one row is a case of its own otherwise
        x = torch.ones(rows, 3)
        assert torch.equal(compiled(x), x.sin() + rows)
    assert counter.frame_count == 1


def test_what_is_needed_to_reach_inputs_stays():
    holder = {"x": X}
    compiled, counter = compile_with(torch.compiler.skip_all_guards_unsafe, lambda holder: holder["x"] + 1)
    assert torch.equal(compiled(holder), X + 1)
    assert torch.equal(compiled({"y": 1, "x": X * 2}), X * 2 + 1)
    with pytest.raises(KeyError):
        compiled({"y": X})


def test_effects():
    def append(items, x):
        items.append(x + 1)
        return len(items)

    compiled, _ = compile_with(torch.compiler.skip_all_guards_unsafe, append)
    for length in (0, 3, 1):
        items = [X] * length
        assert compiled(items, X) == length + 1 and len(items) == length + 1


def test_wrong_answers():
    with pytest.raises(AssertionError, match="filter_results length"):
        compile_with(lambda entries: [], scale)[0](X)
    with pytest.raises(AssertionError, match="must be bool"):
        compile_with(lambda entries: [1] * len(entries), scale)[0](X)
    with pytest.raises(ZeroDivisionError):
        compile_with(lambda entries: 1 / 0, scale)[0](X)


def test_without_taking_over():
    options = {"guard_filter_fn": torch.compiler.skip_guard_on_globals_unsafe}
    compiled = alternator.compile(scale, backend=lambda module, inputs: module, options=options)
    compiled(X)
    FACTOR[0] = 5
    assert torch.equal(compiled(X), X * 2)
    assert "guard_filter_fn" in options
