"""Constructors of tensors from before torch 0.4: they are in the graph, and give what eager execution gives."""

import pytest
import torch
from torch.autograd import Variable

import alternator
from alternator.compiling import find_backend

pytestmark = pytest.mark.capture

PROGRAMS = {
    "new_of_sizes": lambda x: x.sin().new(3, 4).zero_() + x,
    "new_of_a_size": lambda x: x.new(x.size()).fill_(2) * x.sin(),
    "new_of_free_sizes": lambda x: x.new(x.size(0), x.size(1)).fill_(x.size(0)) * x.sin(),
    "new_of_numbers": lambda x: x.sin().new([1, 2, 3, 4]) + x,
    "new_of_a_tensor": lambda x: x.new(x.sin()) + 1,
    "new_of_nothing": lambda x: torch.cat([x.new(), x.flatten()]),
    "new_of_data": lambda x: x.data.new(1, 4).zero_() + x.sin(),
    "variable": lambda x: Variable(x.sin()) * 2 + x,
    "variable_that_requires_grad": lambda x: Variable(torch.ones(4), requires_grad=True) * x.sin(),
    "floats_of_sizes": lambda x: torch.FloatTensor(3, 4).zero_() + x.sin(),
    "floats_of_numbers": lambda x: torch.FloatTensor([1, 2, 3, 4]) * x.sin(),
    "longs": lambda x: x.sin()[torch.LongTensor([0, 1])],
    "bytes": lambda x: x.sin() * torch.ByteTensor([1, 0, 1, 0]),
    "tensor_of_sizes": lambda x: torch.Tensor(3, 4).zero_() + x.sin(),
    "tensor_of_numbers": lambda x: torch.Tensor([1, 2, 3, 4]) + x.sin(),
    "tensor_of_a_tensor": lambda x: torch.Tensor(x.sin()) + 1,
    "tensor_of_a_size": lambda x: torch.Tensor(x.size()).zero_() + x.sin(),
}


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_constructors_are_in_the_graph(name, backend, requires_grad):
    program = PROGRAMS[name]
    graphs = []
    call_backend = find_backend(backend)

    def count(module, inputs):
        graphs.append(module)
        return call_backend(module, inputs)

    compiled = alternator.compile(program, backend=count, fullgraph=True)
    for _ in range(2):
        x = torch.randn(3, 4)
        theirs, ours = x.clone().requires_grad_(requires_grad), x.clone().requires_grad_(requires_grad)
        expected, result = program(theirs), compiled(ours)
        assert torch.equal(result, expected)
        assert result.requires_grad == expected.requires_grad
        if expected.requires_grad:
            expected.sum().backward()
            result.sum().backward()
            assert (ours.grad is None) == (theirs.grad is None)
            assert ours.grad is None or torch.equal(ours.grad, theirs.grad)
    assert len(graphs) == 1  # a call that fails on fakes would run eagerly, without a word


def test_other_sizes_and_dtypes():
    program = PROGRAMS["new_of_free_sizes"]
    compiled = alternator.compile(program, backend="eager")
    for x in (torch.ones(3, 4), torch.ones(5, 4), torch.ones(6, 2), torch.ones(3, 4, dtype=torch.float64)):
        expected, result = program(x), compiled(x)
        assert result.dtype is expected.dtype and torch.equal(result, expected)


def test_the_default_dtype_is_read():
    def program(x):
        return torch.Tensor([1, 2, 3]) + x

    compiled = alternator.compile(program, backend="eager")
    assert compiled(torch.ones(3)).dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert compiled(torch.ones(3)).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_tensor_of_a_tensor_has_its_memory():
    def program(x):
        torch.Tensor(x).add_(1)
        Variable(x).mul_(2)
        x.new(x).sub_(3)
        return x * 1

    theirs, ours = torch.ones(3), torch.ones(3)
    assert torch.equal(alternator.compile(program, backend="eager")(ours), program(theirs))
    assert torch.equal(ours, theirs) and ours._version == theirs._version


@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.Tensor(2.0) + x,
        lambda x: torch.FloatTensor(x.double()),
        lambda x: x.new(2, 3.0),
        lambda x: torch.Tensor(-1) + x,
        lambda x: torch.Tensor([[1, 2], [3]]) + x,
    ],
)
def test_mistakes_are_eager_ones(program):
    with pytest.raises(Exception) as expected:
        program(torch.ones(3))
    with pytest.raises(type(expected.value)) as found:
        alternator.compile(program, backend="eager")(torch.ones(3))
    assert str(found.value) == str(expected.value)


def test_lists_of_tensors_run_eagerly():
    def program(x):
        return torch.Tensor([x[0], x[1]]) + x

    compiled = alternator.compile(program, backend="eager")
    for x in (torch.ones(2), torch.arange(2.0)):
        assert torch.equal(compiled(x), program(x))
