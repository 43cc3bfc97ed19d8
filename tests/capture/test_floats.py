"""Floats that are others at each call: inputs of the graph, and what is relied on of them."""

import math

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import alternator
from capture.agreement import same

pytestmark = pytest.mark.capture

VALUES = (0.5, 0.7, 0.9, 1.3, -2.0, 0.25, 3.0)
PROGRAMS = {}


def program(graphs):
    def register(function):
        PROGRAMS[function.__name__] = function, graphs
        return function

    return register


def run(function, calls, backend="eager", **options):
    """Compare with eager execution, bitwise if the backend runs the graph as it is; return the number of graphs."""
    counter = CompileCounterWithBackend(backend)
    compiled = alternator.compile(function, backend=counter, **options)
    for args in calls:
        expected, found = function(*args), compiled(*args)
        if backend == "eager":
            assert same(expected, found)
        else:
            torch.testing.assert_close(found, expected, equal_nan=True)
    return counter.frame_count


def calls_with(*values):
    x = torch.linspace(-1.0, 2.0, 12).reshape(3, 4)
    return [(x, value) for value in values]


@program(2)
def factor(x, s):
    return x * s


@program(2)
def temperature(x, s):
    return (x / s).softmax(-1)


@program(2)
def arithmetic(x, s):
    return x * (s * 2 + 1) / (3.5 - s), x + s / 3, x * -s, x * abs(s), x * math.sqrt(abs(s))


@program(2)
def given_out(x, s):
    return x * s, s, s * 2, s + s, s - 1.5, [s]


@program(3)
def compared(x, s):
    return x * s if s > 0 else x - s


@program(3)
def computed_and_compared(x, s):
    return x * s if s * 2 + 1 > 0.0 and 1 <= 10 - s else x - s


@program(2)
def never_equal(x, s):
    return x * s if s != 17.0 and s else x


@program(2)
def in_an_unseen_text(x, s):
    text = f"scale {s}"
    return x * s if text is not None else x


@program(7)
def in_a_text(x, s):
    return x * s + len(str(s))


@program(7)
def rounded(x, s):
    return x * int(s * 10)


@program(7)
def size(x, s):
    return torch.arange(0, abs(s) * 4) * 2


@program(2)
def argument(x, s):
    return torch.add(x, x, alpha=s), x.clamp(-abs(s), abs(s)), torch.full((3,), s), torch.tensor(s) + x, x.abs() ** s


@program(7)
def key(x, s):
    return x * {0.5: 3.0}.get(s, 2.0)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    function, graphs = PROGRAMS[name]
    calls = calls_with(*VALUES)
    assert run(function, calls + calls) == graphs


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "given_out"])
def test_aot(name):
    with torch._dynamo.config.patch(recompile_limit=100):
        graphs = run(PROGRAMS[name][0], calls_with(*VALUES), "aot_eager")
    assert graphs <= 2 or name not in ("factor", "temperature", "arithmetic", "in_an_unseen_text", "never_equal")


def test_inductor():
    for function in (factor, compared):
        assert run(function, calls_with(*VALUES[:5]), "inductor") <= 3


def test_gradients():
    x = torch.linspace(0.1, 1.0, 6, requires_grad=True)
    for backend in ("eager", "aot_eager"):
        compiled = alternator.compile(lambda x, s: (x * s).exp().sum(), backend=backend)
        for value in VALUES:
            (found,) = torch.autograd.grad(compiled(x, value), x)
            (expected,) = torch.autograd.grad((x * value).exp().sum(), x)
            torch.testing.assert_close(found, expected)


def test_numbers_that_are_not_finite():
    values = (0.5, 0.7, math.nan, 0.9, math.inf, -math.inf, 1.5, 0.0, -0.0, 2.5, math.nan)
    for function in (factor, compared, given_out):
        run(lambda x, s, function=function: function(x, s), calls_with(*values))


def one_by(x, s):
    return x * s, math.copysign(1.0, s)


def test_the_sign_of_zero():
    run(one_by, calls_with(0.5, 0.7, 0.0, -0.0, 1.5, -0.0, 0.0, -1.0))


def difference(x, s, t):
    return x + (s - s) * t + (s * 0.0)


def test_what_holds_of_real_numbers_only():
    x = torch.ones(2)
    run(
        difference,
        [(x, 0.5, 0.1), (x, 0.7, 0.2), (x, 1e308, 3.0), (x, math.inf, 1.0), (x, math.nan, 1.0), (x, 2.0, 0.3)],
    )


def test_sums_are_not_reordered():
    def total(x, s, t):
        return x * ((s + t) - t) * (s / t * t)

    x = torch.ones(2, dtype=torch.float64)
    pairs = [(0.1, 0.2), (0.3, 1e17), (0.7, 3.3), (1e-9, 1e9), (0.1, 0.7)]
    assert run(total, [(x, s, t) for s, t in pairs]) == 2


def test_floats_beside_sizes_and_integers():
    calls = [(torch.ones(n, 4), value, n + 3) for n, value in zip((3, 4, 5, 6, 7, 8), VALUES, strict=False)]
    assert run(lambda x, s, n: x * s * x.shape[0] + s * n, calls) == 2
    # A backend that cannot do with floats still has its sizes.
    assert run(lambda x, s: torch.add(x, x, alpha=s) * x.shape[0], [call[:2] for call in calls], "aot_eager") <= 8
    changing = [(torch.ones(n, 4), value) for n in (3, 4, 5, 6, 7, 8) for value in (0.5, 0.7)]
    assert run(lambda x, s: torch.add(x, x, alpha=s), changing, "aot_eager") <= 6


def test_dynamic_from_the_first_call_on():
    assert run(factor, calls_with(*VALUES), dynamic=True) == 1
    assert run(factor, calls_with(*VALUES), dynamic=False) == len(VALUES)
    with torch._dynamo.config.patch(specialize_float=True):
        assert run(factor, calls_with(*VALUES)) == len(VALUES)


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 0.3
        self.options = {"rate": 0.1}

    def forward(self, x):
        return x * self.scale + self.options["rate"]


def test_attributes_and_items():
    module, x = Scaled(), torch.ones(3)
    counter = CompileCounterWithBackend("eager")
    compiled = alternator.compile(module, backend=counter)
    for value in VALUES:
        module.scale = value
        module.options["rate"] = value * 3
        assert same(compiled(x), module(x))
    assert counter.frame_count == 2


def test_an_integer_in_its_place():
    run(factor, calls_with(0.5, 0.7, 2, 0.9, True, 3, 1.5))


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adagrad], ids=lambda each: each.__name__)
def test_learning_rates(make):
    counter = CompileCounterWithBackend("eager")
    mine, eagers = ([torch.nn.Parameter(torch.ones(3)) for _ in range(2)] for _ in range(2))
    optimizers = [make(parameters, lr=0.1) for parameters in (mine, eagers)]
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(each, 0.9) for each in optimizers]
    step = alternator.compile(lambda: optimizers[0].step(), backend=counter)
    for number in range(8):
        for parameter in mine + eagers:
            parameter.grad = torch.full((3,), number + 1.0)
        step()
        optimizers[1].step()
        for scheduler in schedulers:
            scheduler.step()
        torch.testing.assert_close(mine, eagers)
    assert counter.frame_count <= 3
