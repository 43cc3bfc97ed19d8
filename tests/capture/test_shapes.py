"""Sizes and numbers that change: graphs with symbols, and what they rely on."""

import math
import weakref

import pytest
import torch
import torch._dynamo
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

import alternator
from capture.agreement import Captured, same
from capture.breaking import stop
from capture.models import make_model

pytestmark = pytest.mark.capture

ROWS = (2, 4, 5, 6, 7, 3, 9)
PROGRAMS = {}


def program(graphs):
    """`graphs`: one for the first size, one with symbols, and those that conditions on sizes ask for."""

    def register(function):
        PROGRAMS[function.__name__] = function, graphs
        return function

    return register


@program(2)
def sizes_are_given_out(x):
    return x + 1, tuple(x.shape), x.shape, list(x.size()), x.size(0), x.numel(), x.stride(), {"n": x.shape[0]}


@program(2)
def arithmetic(x):
    n = x.shape[0]
    return x * n, n + 1, n - 2, n * 3, n // 2, n % 4, n / 2, n**2, -n, 100 - n


@program(2)
def functions_of_numbers(x):
    n = x.shape[0]
    many = max(n, 30), min(n, 30), abs(-n), int(n), float(n), math.prod(x.shape), x.shape.numel()
    return x / math.sqrt(n), many, math.ceil(n / 4), math.floor(n / 4), sum(x.shape)


@program(2)
def shapes_are_compared(x):
    return x + 1 if x.shape == (x * 2).shape and x.shape != (99, 3) else x - 1


@program(None)
def views(x):
    n = x.shape[0]
    return x.view(n * 3), x.unsqueeze(1).expand(n, 4, 3), x.reshape(3, -1), x[: n - 1], x[1:n], x.t()


@program(2)
def factories(x):
    n = x.size(0)
    return torch.zeros(n, 2), torch.arange(n), x.new_full((n,), 2.0), torch.full((2,), n), torch.tensor(n), torch.eye(n)


@program(2)
def a_mask(x):
    mask = torch.triu(torch.ones(x.shape[0], x.shape[0]), 1).bool()
    return (x @ x.t()).masked_fill(mask, -1.0).softmax(-1)


@program(2)
def a_length(x):
    return x[: len(x) - 1] + len(x)


@program(2)
def written_to(x):
    x.add_(1)
    x[0].zero_()
    return x.sum() * x.shape[0]


@program(2)
def numbers_only(x):
    return x.shape[0] * 2 + 1


@program(2)
def changed_in_place(x):
    y = torch.zeros(3, 4)
    z = y.t() @ torch.ones(3, x.shape[0])
    y.t_()
    return z + y @ torch.ones(3, x.shape[0]), x.T * 2, x.T.shape


class Holder:
    pass


@program(2)
def through_functions_and_objects(x):
    def double(n):
        return n * 2

    holder = Holder()
    holder.n, holder.sizes = x.shape[0], [*x.shape]
    return x + double(holder.n), holder.sizes, (double(x.shape[0]),)


@program(2)
def truth(x):
    n = x.shape[0]
    return x + n if n and n is not None and isinstance(n, int) and not n == 1 else x


@program(3)
def two_ways(x):
    return x * 2 if x.shape[0] > 4 else x * 3


@program(None)
def one_way_computes_nothing(x):
    return x.view(2, x.shape[0] // 2, 3) if x.shape[0] % 2 == 0 else x


@program(len(ROWS))
def a_loop(x):
    y = x
    for i in range(x.shape[0]):
        y = y + i
    return y


@program(len(ROWS))
def rows(x):
    return torch.stack([row * 2 for row in x])


@program(len(ROWS))
def a_text(x):
    return x + 1, f"{x.shape}", str([x.shape[0]]), {x.shape[0]: 1}


@program(len(ROWS))
def looked_for(x):
    return x + 1 if x.shape[0] in (4, 5) else x - 1


@program(4)
def behind_breaks(x):
    n = x.shape[0]
    y = x * n
    stop()
    return y.view(n * 3) + n, n


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, backend):
    function, graphs = PROGRAMS[name]
    compiled = alternator.compile(function, backend=backend)
    before = alternator.frames_translated()
    for count in (*ROWS, *ROWS):
        x = torch.linspace(-1, 1, count * 3).reshape(count, 3)
        y = x.clone()
        assert same(compiled(y), function(x)), count
        assert torch.equal(x, y)
    if graphs is not None and graphs < len(ROWS):
        assert alternator.frames_translated() - before <= graphs


# ---- Numbers -------------------------------------------------------------------------------------------------------


def use_number(x, n):
    return x * n + n // 2, x[: n % 3 + 1], n + 1, x[0] if n > 4 else x[1], torch.zeros(n)


def test_numbers_that_change():
    compiled = alternator.compile(use_number, backend="eager")
    before = alternator.frames_translated()
    x = torch.randn(4, 3)
    for n in range(2, 14):
        assert same(compiled(x, n), use_number(x, n))
    assert alternator.frames_translated() - before <= 3
    for n in (0, 1, 5, 2**40):
        assert same(compiled(x, n)[0], x * n + n // 2) if n < 2**30 else True


def test_a_number_of_another_type():
    compiled = alternator.compile(lambda x, n: x * n, backend="eager")
    for n in (3, 4, 5, 2.5, True, 6, 7):
        assert same(compiled(torch.ones(2), n), torch.ones(2) * n)


def test_a_division_by_a_number_that_becomes_zero():
    compiled = alternator.compile(lambda x, n: x * (7 // n), backend="eager")
    for n in (3, 4, 5):
        assert same(compiled(torch.ones(2), n), torch.ones(2) * (7 // n))
    with pytest.raises(ZeroDivisionError):
        compiled(torch.ones(2), 0)


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = 0
        self.sizes = []

    def forward(self, x):
        self.seen = self.seen + x.shape[0]
        self.sizes.append(x.shape[0] * 2)
        return x * self.seen


def test_sizes_in_objects_from_outside():
    ours, theirs = Counting(), Counting()
    compiled = alternator.compile(ours, backend="eager")
    before = alternator.frames_translated()
    for rows in range(2, 12):
        x = torch.randn(rows, 3)
        assert torch.equal(compiled(x), theirs(x))
    assert alternator.frames_translated() - before <= 3
    assert (ours.seen, ours.sizes) == (theirs.seen, theirs.sizes)
    assert all(type(size) is int for size in [ours.seen, *ours.sizes])


# ---- What the user says --------------------------------------------------------------------------------------------


def count_graphs(function, inputs, **options):
    compiled = alternator.compile(function, backend="eager", **options)
    before = alternator.frames_translated()
    for x in inputs:
        assert same(compiled(x), function(x))
    return alternator.frames_translated() - before


def flatten(x):
    return x.view(x.shape[0] * 3) * 2


def mark(rows, how, *args, **options):
    x = torch.randn(rows, 3)
    how(x, 0, *args, **options)
    return x


@pytest.mark.parametrize(
    ("expected", "options"), [(1, {"dynamic": True}), (3, {"dynamic": False}), (2, {"dynamic": None})]
)
def test_dynamic(expected, options):
    assert count_graphs(flatten, [torch.randn(rows, 3) for rows in (5, 6, 7)], **options) == expected


@pytest.mark.parametrize(
    ("setting", "expected"), [("automatic_dynamic_shapes", 3), ("assume_static_by_default", 1), ("specialize_int", 2)]
)
def test_settings(setting, expected):
    value = setting == "specialize_int"
    with torch._dynamo.config.patch({setting: value}):
        assert count_graphs(flatten, [torch.randn(rows, 3) for rows in (5, 6, 7)]) == expected


def test_numbers_are_constants_on_request():
    with torch._dynamo.config.patch(specialize_int=True):
        compiled = alternator.compile(lambda x, n: x * n, backend="eager")
        before = alternator.frames_translated()
        for n in (2, 3, 4):
            compiled(torch.ones(2), n)
    assert alternator.frames_translated() - before == 3


def test_marks():
    dynamo = torch._dynamo
    assert count_graphs(flatten, [mark(rows, dynamo.mark_dynamic) for rows in (5, 6, 7)]) == 1
    assert count_graphs(flatten, [mark(rows, dynamo.mark_dynamic, min=2, max=9) for rows in (5, 6, 7)]) == 1
    assert count_graphs(flatten, [mark(rows, dynamo.maybe_mark_dynamic) for rows in (5, 6, 7)]) == 1
    assert count_graphs(flatten, [mark(rows, dynamo.mark_static) for rows in (5, 6, 7)]) == 3


def test_a_promise_that_is_not_kept():
    compiled = alternator.compile(lambda x: x * 2 if x.shape[0] == 5 else x, backend="eager")
    with pytest.raises(ConstraintViolationError, match=r"L\['x'\].size\(\)\[0\]"):
        compiled(mark(5, torch._dynamo.mark_dynamic))
    x = mark(5, torch._dynamo.maybe_mark_dynamic)
    assert torch.equal(compiled(x), x * 2)


def test_a_failed_condition_says_what_it_is():
    compiled = alternator.compile(two_ways, backend="eager", dynamic=True)
    reasons = []
    with alternator.events.listen(lambda event: reasons.append(getattr(event, "reason", None))):
        compiled(torch.randn(6, 3))
        compiled(torch.randn(3, 5))
        compiled(torch.randn(2, 5))
    assert any("5 <= x.size()[0]" in str(reason) for reason in reasons)


def test_conditions_are_shown_among_the_guards():
    compiled = alternator.compile(two_ways, backend="eager", dynamic=True)
    heard = []
    with alternator.events.listen(heard.append):
        compiled(torch.randn(6, 3))
    (ended,) = (event for event in heard if isinstance(event, alternator.events.CaptureEnded))
    assert "5 <= L['x'].size()[0]" in [guard.text for guard in ended.guards if guard.kind == "Condition"]


# ---- As TorchDynamo ------------------------------------------------------------------------------------------------

# What torch.compile makes of it, without comments.
GRAPH = """
def forward(self, s77: "Sym(s77)", L_x_: "f32[s77, 5]", L_n_: "Sym(s86)"):
    l_x_ = L_x_
    l_n_ = L_n_
    mul: "Sym(5*s77)" = s77 * 5
    view: "f32[5*s77]" = l_x_.view(mul);  l_x_ = mul = None
    y: "f32[s86]" = view[slice(None, l_n_, None)];  view = l_n_ = None
    y_1: "f32[s86]" = y + s77;  y = None
    sum_1: "f32[]" = y_1.sum();  y_1 = None
    truediv: "f32[]" = sum_1 / s77;  sum_1 = None
    zeros: "f32[s77, 2]" = torch.zeros(s77, 2)
    mul_1: "Sym(2*s77)" = s77 * 2;  s77 = None
    return (truediv, zeros, mul_1)
"""


def test_the_graph_is_torchdynamos():
    def function(x, n):
        b, c = x.shape
        y = x.view(b * c)[:n]
        if x.size(0) > 3:
            y = y + x.shape[0]
        return y.sum() / b, torch.zeros(b, 2), b * 2

    seen = []

    def backend(module, examples):
        text = module.print_readable(print_output=False)
        seen.append(([line.strip() for line in text.splitlines()], [type(example) for example in examples]))
        return module

    compiled = alternator.compile(function, backend=backend)
    compiled(torch.ones(4, 5), 3)
    compiled(torch.ones(6, 5), 4)
    lines, types = seen[1]
    found = [line for line in lines if line and not line.startswith(("#", "class"))]
    assert found == [line.strip() for line in GRAPH.strip().splitlines()]
    assert types == [torch.SymInt, torch.Tensor, torch.SymInt]


@pytest.mark.parametrize("name", ["bert", "llama", "resnet"])
def test_models(name):
    model, inputs = make_model(name)
    model.eval()
    compiled = alternator.compile(model, backend="eager")
    before = alternator.frames_translated()
    for count in (2, 3, 4, 5, 6):
        given = {
            key: each[:1].repeat(count, *[1] * (each.dim() - 1)) if isinstance(each, torch.Tensor) else each
            for key, each in inputs.items()
        }
        with torch.no_grad():
            assert torch.equal(compiled(**given)[0], model(**given)[0])
    assert alternator.frames_translated() - before == 2


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_training(backend):
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2)).double()
    compiled = alternator.compile(lambda x: layers(x).softmax(-1).pow(2).sum() / x.shape[0], backend=backend)
    before = alternator.frames_translated()
    for count in (4, 6, 7, 9):
        x = torch.randn(count, 3, dtype=torch.float64)
        layers.zero_grad()
        compiled(x).backward()
        found = [each.grad.clone() for each in layers.parameters()]
        layers.zero_grad()
        (layers(x).softmax(-1).pow(2).sum() / count).backward()
        torch.testing.assert_close(found, [each.grad for each in layers.parameters()])
    assert alternator.frames_translated() - before == 2


# ---- Memory --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_inputs_that_share_memory(backend):
    def function(x, y):
        y.add_(1)
        return x * 2 + y.shape[0]

    compiled = alternator.compile(function, backend=backend)
    for rows in range(3, 9):
        for ours, theirs in ((0, 0), (0, 1)):
            x = torch.randn(2 * rows, 3)
            y = x.clone()
            expected = function(x[ours : ours + rows], x[theirs : theirs + rows])
            assert torch.equal(compiled(y[ours : ours + rows], y[theirs : theirs + rows]), expected)
            assert torch.equal(x, y)


def test_strides_are_conditions():
    compiled = alternator.compile(lambda x: x.reshape(-1) if x.is_contiguous() else x + 1, backend="eager")
    for rows in (4, 5, 6, 7):
        for x in (
            torch.randn(rows, 3),
            torch.randn(3, rows).t(),
            torch.randn(rows, 6)[:, ::2],
            torch.randn(rows + 1, 3)[1:],
        ):
            assert same(compiled(x), x.reshape(-1) if x.is_contiguous() else x + 1)


# ---- Numbers out of tensors ----------------------------------------------------------------------------------------

SCALARS = {
    "computed with": (lambda x: torch.full((3,), x.item()) + x.item(), (3, 5, 0), 1),
    "given out": (lambda x: (x * 2, int(x) * 2, x.item() + 1), (3, 5, 0), 1),
    "a float": (lambda x: (x * 2).sum().item() + 1.5, (1.5, 2.5), 1),
    "a size": (lambda x: torch.arange(10)[: x.item()].sum(), (3, 5), 1),
    "it decides": (lambda x: torch.ones(3) * 2 if x.item() > 3 else torch.zeros(2) + 1, (3, 5, 3), None),
    "a text": (lambda x: (torch.ones(2) + 1, f"{x.item()}"), (3, 5), None),
    "a view": (lambda x: torch.ones(10).view(x.item(), -1) * x, (2, 5), None),
    "a bool": (lambda x: torch.ones(2) if (x > 3).item() else torch.zeros(2), (2, 5), None),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", SCALARS)
def test_numbers_out_of_tensors(name, backend):
    function, values, graphs = SCALARS[name]
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = alternator.compile(function, backend=backend)
        before = alternator.frames_translated()
        for value in values:
            x = torch.tensor(value)
            assert same(compiled(x), function(x))
    assert graphs in (None, alternator.frames_translated() - before)


def test_without_the_setting_they_are_breaks():
    compiled = alternator.compile(lambda x: torch.ones(3) * x.item(), backend="eager", fullgraph=True)
    with pytest.raises(alternator.Unsupported, match="item"):
        compiled(torch.tensor(3))


def test_an_input_that_is_turned_in_place():
    """Its sizes are others behind the graph than those that the conditions are about."""

    def turn(x):
        x.t_()
        x.unsqueeze_(0)
        x.squeeze_()
        return x.shape, x * 2

    captured = Captured(turn)
    for rows in (2, 4, 5, 6):
        x = torch.arange(rows * 3.0).reshape(rows, 3)
        shape, result = captured(x)
        assert torch.equal(result, torch.arange(rows * 3.0).reshape(rows, 3).t() * 2)
        assert shape == x.shape == (3, rows)
    assert len(captured.graphs) == 4  # none was thrown away


@pytest.mark.parametrize(
    "shapes",
    [
        [(2,), (3,), ()],
        [(2, 2), (3, 3), (3,), (4,), (4, 4)],
        [(2,), (3,), (3, 4), (3, 5), (5,)],
        [(2, 3), (4, 3), (2, 4, 3), (7,), ()],
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_tensor_that_gets_fewer_or_more_dimensions(shapes):
    """Dimensions that have changed are those of a tensor that had them."""

    def program(x):
        return x * 2, x.shape, x.stride()

    captured, expanded = Captured(program), Captured(program)
    for shape in (*shapes, *shapes):
        x = torch.randn(shape)
        assert same(captured(x), program(x))
        x = x.expand(2, *shape)
        assert same(expanded(x), program(x))


@pytest.mark.filterwarnings("error")
def test_a_tensor_in_the_place_of_a_number():
    captured = Captured(lambda x, y: x * y)
    x = torch.ones(2, 1)
    for y in (2, 3, torch.ones(2), torch.ones(3), 4, torch.tensor(5.0), 2.5, torch.ones(4, 2, 1), 7):
        assert same(captured(x, y), x * y)


@pytest.mark.filterwarnings("error")
def test_marks_of_dimensions_that_are_gone():
    def double(x):
        return x * 2

    for mark in (torch._dynamo.mark_dynamic, torch._dynamo.maybe_mark_dynamic, torch._dynamo.mark_static):
        x = torch.ones(4, 3)
        mark(x, 1)
        x.data = torch.ones(4)
        assert same(alternator.compile(double, backend="eager")(x), torch.ones(4) * 2)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_no_weak_references_to_tensors_stay(backend):
    """The program can see them: torch.utils.swap_tensors refuses a tensor that has any."""
    seen = []

    def function(x, y, z):
        seen.append(weakref.getweakrefcount(x))
        return x * 2, y.shape[0] + 1, z.sum().item()

    captured = alternator.compile(function, backend=backend, dynamic=True)
    tensors = torch.ones(3, 2), torch.ones(4), torch.ones(5)
    for _ in range(2):
        captured(*tensors)
        assert list(map(weakref.getweakrefcount, tensors)) == [0, 0, 0]
    assert seen == [0, 0]
    torch.utils.swap_tensors(tensors[0], tensors[1])
