"""Where a tensor begins in its storage: it matters to a region only if something relied on it."""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import alternator
from capture.agreement import same

pytestmark = pytest.mark.capture

NUMBERS = torch.arange(400.0)
OFFSETS = (0, 3, 8, 64, 101)


def cut(offset, count=8):
    return NUMBERS.clone()[offset : offset + count]


def cut_two(first, second):
    numbers = NUMBERS.clone()
    return numbers[first : first + 8], numbers[second : second + 8]


class Counted:
    """A compiled function, and how many graphs its backend was given."""

    def __init__(self, function, backend="eager", **options):
        self.counter = CompileCounterWithBackend(backend)
        self.compiled = alternator.compile(function, backend=self.counter, **options)

    def __call__(self, *args):
        return self.compiled(*args)

    @property
    def graphs(self):
        return self.counter.frame_count


def compare(function, captured, make):
    """Call both with arguments of their own; compare results, arguments and the memory behind them."""
    mine, eagers = make(), make()
    expected, found = function(*eagers), captured(*mine)
    assert same(expected, found)
    for one, other in zip(mine, eagers, strict=True):
        assert torch.equal(one._base if one._is_view() else one, other._base if other._is_view() else other)


def count(function, calls, backend="eager", **options):
    captured = Counted(function, backend=backend, **options)
    for make in calls:
        compare(function, captured, make)
    return captured.graphs


def pointwise(x):
    return x * 2


def view_of_input(x):
    return x[2:], x


def write(x):
    x[1:3].add_(1)
    return x.view(2, 4)


def write_then_index(x):
    x[1:3].add_(1)
    return x[(x[:1] * 0 + 3).long()]


FREE = [pointwise, view_of_input, write, write_then_index]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", FREE, ids=lambda each: each.__name__)
def test_any_offset_fits(function, backend):
    assert count(function, [lambda at=at: (cut(at),) for at in OFFSETS], backend) == 1


@pytest.mark.parametrize("function", FREE, ids=lambda each: each.__name__)
def test_any_offset_fits_beside_symbols(function):
    calls = [lambda at=at, n=n: (cut(at, 2 * n),) for at, n in ((0, 4), (3, 5), (2, 6), (1, 7), (64, 8), (0, 9))]
    function = {write: write_then_index}.get(function, function)
    assert count(function, calls) == 2


def test_rows_and_columns():
    table = torch.randn(10, 6, 8)
    assert count(pointwise, [lambda i=i: (table[i],) for i in range(10)]) == 1
    assert count(pointwise, [lambda i=i: (table[:, i],) for i in range(6)]) == 1
    assert count(lambda x, t: x * t.float(), [lambda t=t: (table, t) for t in torch.arange(10)]) == 1
    layer = torch.nn.Linear(8, 4)
    assert count(lambda x: layer(x), [lambda b=b: (b,) for b in torch.randn(40, 8).chunk(10)]) == 1


def offset_is_read(x):
    return x * x.storage_offset()


def position_is_fixed(x):
    return x.as_strided((2,), (1,), 5) * 2


def position_is_fixed_of_a_view(x):
    return x.view(2, 4).t().as_strided((2,), (1,), 5) * 2


def strides_are_given(x):
    return torch.as_strided(x, (3,), (2,)) * 2


def operator_with_position(x):
    return torch.ops.aten.as_strided.default(x, [2], [1], 5) + 1


def a_leaf_of_a_part(x):
    return torch.nn.Parameter(x[1:])


RELYING = [
    *(offset_is_read, position_is_fixed, position_is_fixed_of_a_view, strides_are_given),
    *(operator_with_position, a_leaf_of_a_part),
]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", RELYING, ids=lambda each: each.__name__)
def test_an_offset_that_is_relied_on(function, backend, dynamic):
    calls = [lambda at=at: (cut(at),) for at in (*OFFSETS, *OFFSETS)]
    assert count(function, calls, backend, dynamic=dynamic) >= len(OFFSETS)


@pytest.mark.parametrize("dynamic", [None, True])
def test_inductor_and_positions(dynamic):
    for function in (position_is_fixed, position_is_fixed_of_a_view, view_of_input, write):
        count(function, [lambda at=at: (cut(at),) for at in (0, 3, 8)], "inductor", dynamic=dynamic)


def reads_as_doubles(x):
    return x.view(torch.float64) * 1


def reads_as_complex(x):
    return torch.view_as_complex(x.view(4, 2)) * 2


@pytest.mark.parametrize("function", [reads_as_doubles, reads_as_complex], ids=lambda each: each.__name__)
def test_an_offset_that_is_no_multiple(function):
    captured = Counted(function, backend="aot_eager")
    for at in (0, 2, 4):
        compare(function, captured, lambda at=at: (cut(at),))
    with pytest.raises(RuntimeError, match="divisible"):
        captured(cut(3))


def write_one_of_two(x, y):
    x.add_(1)
    return y * 2


def read_two(x, y):
    return x + y


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_memory_that_inputs_share(backend):
    places = [(0, 4), (0, 6), (4, 0), (0, 100), (10, 12)]
    calls = [lambda pair=pair: cut_two(*pair) for pair in places]
    assert count(write_one_of_two, calls, backend) == len(places)
    assert count(read_two, calls, backend) == 1


def write_then_fail(x, index):
    x[2:4].mul_(3)
    return x.gather(0, index)


def test_a_graph_that_fails_at_another_offset():
    captured = Counted(write_then_fail, backend="eager")
    good, bad = torch.tensor([1]), torch.tensor([50])
    compare(write_then_fail, captured, lambda: (cut(0), good))
    for at in (3, 64):
        mine, eagers = cut(at), cut(at)
        for function, x in ((captured, mine), (write_then_fail, eagers)):
            with pytest.raises((RuntimeError, IndexError)):
                function(x, bad)
        assert torch.equal(mine._base, eagers._base)
    assert captured.graphs == 1
