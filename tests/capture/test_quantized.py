"""Quantized tensors: there are no fakes of them, so what makes one, or takes one, runs eagerly."""

import pytest
import torch

import alternator

pytestmark = [pytest.mark.capture, pytest.mark.filterwarnings("ignore")]
X = torch.tensor([[1.0, 2.0], [-0.3, 0.04]])


def quantize(x):
    return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)


def quantize_rows(x):
    return torch.quantize_per_channel(x, torch.ones(2) * 0.1, torch.zeros(2), 0, torch.quint8)


PROGRAMS = {
    "there and back": lambda x: quantize(x).dequantize() + 1,
    "by torch.dequantize": lambda x: torch.dequantize(quantize(x)) + 1,
    "of ordinary tensors": lambda x: (x.half().dequantize(), x.dequantize() is x),
    "rows": lambda x: quantize_rows(x).dequantize(),
    "given out": lambda x: (quantize(x), quantize_rows(x), x + 1),
    "what they are": lambda x: (quantize(x).is_quantized, quantize(x).dtype, quantize(x).shape, x + 1),
    "scheme": lambda x: (str(quantize(x).qscheme()), quantize(x).q_scale(), quantize(x).q_zero_point(), x + 1),
    "scales": lambda x: (quantize_rows(x).q_per_channel_scales() * 2, quantize_rows(x).q_per_channel_axis()),
    "numbers": lambda x: quantize(x).int_repr() + 1,
    "dynamically": lambda x: torch.quantize_per_tensor_dynamic(x, torch.qint8, False).dequantize(),
    "lists": lambda x: torch.quantize_per_tensor([x, x], torch.tensor([0.1, 0.1]), torch.tensor([0, 0]), torch.quint8),
    "of numbers": lambda x: torch._make_per_tensor_quantized_tensor(x.to(torch.int8), 0.1, 0),
    "empty": lambda x: torch._empty_affine_quantized([2], scale=0.5, zero_point=0, dtype=torch.qint8).q_scale() * x,
    "like": lambda x: torch.empty_like(quantize(x)).q_scale() * x,
    "operators": lambda x: (torch.relu(quantize(x)), quantize(x)[0], quantize(x).view(-1), quantize(x).clone()),
    "copied": lambda x: torch.zeros(2, 2).copy_(quantize(x)),
    "a type": lambda x: torch.empty(2, dtype=torch.qint8),
    "another type": lambda x: x.to(torch.qint8),
    "rounding": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127),
}


def outcome(function, x):
    try:
        return repr(function(x))
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_agree(name, backend):
    compiled = alternator.compile(PROGRAMS[name], backend=backend)
    for x in (X, X, X * 2):
        assert outcome(compiled, x) == outcome(PROGRAMS[name], x)


def test_quantized_tensors_from_outside():
    def program(q):
        return q.dequantize() + 1, q.q_scale(), q.int_repr(), torch.relu(q), q.dtype

    compiled = alternator.compile(program, backend="eager")
    for scale, zero in ((0.1, 0), (0.2, 0), (0.2, 3)):
        q = torch.quantize_per_tensor(X, scale, zero, torch.qint8)
        assert repr(compiled(q)) == repr(program(q))


def test_what_rounds_alone_stays_in_the_graph():
    function = alternator.compile(PROGRAMS["rounding"], backend="eager", fullgraph=True)
    assert torch.equal(function(X), PROGRAMS["rounding"](X))
