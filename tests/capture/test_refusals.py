"""What the tracer refuses, mistakes of the program, and what backends are told of nodes."""

import copy
import re
import warnings

import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint

import alternator
from alternator.compiling import find_backend
from capture.agreement import Captured, capture_with_torchdynamo, check_break, check_calls
from capture.test_recording import W, X, Y

pytestmark = pytest.mark.capture


def runs_backward(x):
    y = x.detach().clone()
    (z,) = torch.autograd.grad((y.requires_grad_() * 2).sum(), y)
    return z


def makes_a_parameter_of_a_part(x):
    return x[0, :2] @ torch.nn.Parameter(torch.ones(4, 4)[1:3])


def uses_replaced_data(x):
    y = x.clone()
    y.data = x * 2
    return y * 2


def sets_grad(x):
    y = x.clone()
    y.grad = x * 2
    return y.grad


def differentiates_an_lstm(x):
    return LSTM(x)[0] * 2


LSTM = torch.nn.LSTM(4, 4)

REFUSED = [
    *((runs_backward, "autograd"), (makes_a_parameter_of_a_part, "part of another tensor's memory")),
    *((uses_replaced_data, "data were replaced"), (sets_grad, "attribute grad of a tensor")),
    (differentiates_an_lstm, "lstm"),
]


@pytest.mark.parametrize("fn, reason", REFUSED, ids=[fn.__name__ for fn, _ in REFUSED])
def test_what_graphs_cannot_do_is_a_break(fn, reason):
    check_break(fn, X, reason=reason)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_out_gets_another_size(backend):
    def program(x, out):
        own = torch.empty(0)
        torch.sin(x, out=own)
        torch.cos(x, out=out)
        return own + out

    compiled = alternator.compile(program, backend=backend)
    for _ in range(2):
        for size in (0, (4, 4)):
            out, expected = torch.empty(size), torch.empty(size)
            assert torch.equal(compiled(X, out), program(X, expected))
            assert torch.equal(out, expected)


# ---- What needs data, other classes, mistakes ----------------------------------------------------------------------


def asks_for_a_number(x):
    return x.sum().item()


def branches(x):
    return x + 1 if x.sum() > 0 else x - 1


def selects(x):
    return x[x > 0]


def lists(x):
    return x.tolist()


READING = {
    asks_for_a_number: "TensorItem",
    branches: "DataDependentBranch",
    selects: "DynamicShape",
    lists: "TensorValues",
}


@pytest.mark.parametrize("fn", READING)
def test_what_needs_data_is_a_break(fn):
    check_break(fn, X, reason=READING[fn])


def test_numpy_is_refused():
    numpy = pytest.importorskip("numpy")
    two = numpy.float32(2)

    def scalar(x):
        return x * two

    def array(x):
        return x + torch.from_numpy(numpy.ones(4, dtype="float32"))

    def converts(x):
        return x.numpy() + 1

    check_calls(scalar, [(X,)] * 2, graphs=0)
    check_calls(array, [(X,)] * 2)
    captured = Captured(converts)
    for _ in range(2):
        assert (captured(X) == converts(X)).all()
    assert len(captured.graphs) == 0


class Logged(torch.Tensor):
    """A subclass with its own idea of torch's functions."""

    calls = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def test_subclasses_see_their_calls():
    def program(x):
        return x.sin() + 1

    compiled = Captured(program)
    compiled(X)
    x = X.as_subclass(Logged)
    Logged.calls.clear()
    found = compiled(x)
    assert type(found) is Logged
    assert Logged.calls == ["sin", "add"]
    assert torch.equal(found.as_subclass(torch.Tensor), program(X))


class Metres:
    """An operand with Python code of its own."""

    seen = []

    def __init__(self, value):
        self.value = value

    def __add__(self, other):
        Metres.seen.append("add")
        return other + self.value

    def __radd__(self, other):
        return other + self.value

    def __getitem__(self, index):
        return index * self.value


def test_operands_with_python_code_are_watched():
    def left(x, m):
        return m[x] + m.__radd__(x)

    m = Metres(2.0)
    captured = Captured(left)
    assert torch.equal(captured(X, m), left(X, m))
    m.value = 5.0
    assert torch.equal(captured(X, m), left(X, m))

    def writes(x, m):
        return m + x

    Metres.seen.clear()
    captured = Captured(writes)
    assert torch.equal(captured(X, m), X + 5.0)
    assert Metres.seen == ["add"]


@pytest.mark.parametrize(
    "change", [torch.Tensor.to_sparse, lambda x: torch.nested.nested_tensor([x, x])], ids=["sparse", "nested"]
)
def test_tensors_that_are_not_strided_run_for_real(change):
    def program(x):
        return x * 2

    for calls in ([X, change(X), X], [change(X), X]):
        captured = Captured(program)
        for x in calls:
            found, expected = captured(x), program(x)
            assert found.layout == expected.layout
            assert torch.equal(torch.stack([*found.to_dense().unbind()]), torch.stack([*expected.to_dense().unbind()]))
        assert len(captured.graphs) == (1 if calls[0] is X else 0)
        assert captured.said == []


class Doubled(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.sin else result


def switches_a_mode_on(x):
    with Doubled():
        y = torch.sin(x)
    return torch.sin(y) + x


def transforms(x):
    y = torch.func.grad(lambda t: (t**2).sum())(x)
    z = torch.vmap(lambda t: t.sum() * t)(x)
    return torch.sin(y) + z


def keeps_what_autograd_saves(x):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        y = x * x
    return torch.sin(y) + x


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [switches_a_mode_on, transforms, keeps_what_autograd_saves])
def test_what_is_to_see_every_call_sees_it(fn, backend):
    """What is behind it is captured again."""
    graphs = []

    def compile(module, examples):
        graphs.append(module)
        return find_backend(backend)(module, examples)

    compiled = alternator.compile(fn, backend=compile)
    for _ in range(3):
        found, expected = [], []
        for call, into in ((compiled, found), (fn, expected)):
            x = X.clone().requires_grad_()
            into.append(call(x))
            into[0].sum().backward()
            into.append(x.grad)
        assert all(map(torch.equal, found, expected))
    assert any("sin" in module.code for module in graphs)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(reentrant, backend):
    linear = torch.nn.Linear(4, 4)

    def program(x):
        y = torch.utils.checkpoint.checkpoint(lambda t: torch.sin(linear(t)) * t, x * 2, use_reentrant=reentrant)
        return torch.cos(y) + x

    compiled = alternator.compile(program, backend=backend)
    for _ in range(3):
        results = []
        for call in (compiled, program):
            linear.zero_grad()
            x = X.clone().requires_grad_()
            y = call(x)
            y.sum().backward()
            results.append([y, x.grad, linear.weight.grad.clone()])
        assert all(map(torch.equal, *results))


PATTERN = re.compile("y")


def makes_what_cannot_be_rebuilt(x):
    y = x + 1
    made = PATTERN.match("y")
    z = y * 2
    z.sum().item()
    return z * 3, made[0] == "y"


def returns_what_cannot_be_rebuilt(x):
    y = x + 1
    made = PATTERN.match("y")
    return y * 2, made


@pytest.mark.parametrize("fn, graphs", [(makes_what_cannot_be_rebuilt, 3), (returns_what_cannot_be_rebuilt, 2)])
def test_what_cannot_be_rebuilt_at_an_exit_is_made_for_real(fn, graphs):
    captured = Captured(fn)
    for _ in range(2):
        (found, made), (expected, other) = captured(X), fn(X)
        assert torch.equal(found, expected)
        assert type(made) is type(other)
        assert made[0] == "y" if graphs == 2 else made is True
    assert captured.said == []
    assert sum("Reconstruction failure" in text for text in captured.breaks) == 1
    assert len(captured.graphs) == graphs
    with pytest.raises(Exception, match="cannot be rebuilt"):
        alternator.compile(fn, backend="eager", fullgraph=True)(X)


def mistakes():
    return {
        "arguments": (lambda x: torch.sin(x, x), TypeError),
        "shapes": (lambda x: x @ torch.ones(3), RuntimeError),
        "dtype": (lambda x: F.embedding(x, x), RuntimeError),
        "index": (lambda x: x[7], IndexError),
        "in place on a leaf": (lambda x: W.add_(1), RuntimeError),
        "attribute": (lambda x: x.nonexistent, AttributeError),
    }


@pytest.mark.parametrize("name", mistakes())
def test_a_mistake_raises_what_eager_execution_raises(name):
    program, kind = mistakes()[name]
    with pytest.raises(kind) as expected:
        program(X)
    captured = Captured(program)
    for _ in range(2):
        with pytest.raises(kind) as found:
            captured(X)
        assert str(found.value) == str(expected.value)
        assert found.traceback[-1].name == expected.traceback[-1].name
    assert captured.said == []


def test_a_mistake_does_not_stop_capture():
    def program(x, y):
        return x @ y

    captured = Captured(program, fullgraph=True)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        captured(X, torch.ones(3, 3))
    assert torch.equal(captured(X, Y), X @ Y)
    assert (len(captured.graphs), captured.said) == (1, [])


def test_warnings_of_torch_are_given_once():
    def program(x):
        return x[0].T + 1

    def count(fn):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fn(X[None])
        return len(caught)

    assert count(Captured(program)) <= count(program) + 1


# ---- Metadata of graphs --------------------------------------------------------------------------------------------


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.linear(x))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])
        self.register_buffer("shift", torch.ones(4))
        self.extra = {"k": torch.ones(4)}

    def forward(self, x, rows):
        for block in self.blocks:
            x = block(x)
        return self.blocks[0](x) + self.shift + rows[0]["z"] + self.extra["k"]


def sort_placeholders(graph):
    return sorted(graph.graph.find_nodes(op="placeholder"), key=lambda node: node.name)


def describe_metadata(graph):
    rows = []
    calls = [node for node in graph.graph.nodes if node.op.startswith("call")]
    for node in sort_placeholders(graph) + calls:
        example = node.meta["example_value"]
        modules = list(node.meta.get("nn_module_stack", {}).values())
        rows.append(
            (
                *(node.op, node.name, str(node.target), modules, example.shape, example.dtype, example.stride()),
                *(example.requires_grad, isinstance(example, torch.nn.Parameter)),
                node.meta.get("source_fn_stack"),
                # Which part of a line is underlined is not the same.
                [line for line in node.meta.get("stack_trace", "").splitlines() if set(line) - set(" ^~")],
            )
        )
    return rows


def test_metadata_of_nodes():
    model = Net()
    args = (X, [{"z": torch.ones(4)}])
    captured = Captured(model)
    captured(*args)
    (graph,) = captured.graphs
    (theirs,) = capture_with_torchdynamo(model, args)
    for row, expected in zip(describe_metadata(graph), describe_metadata(theirs), strict=True):
        assert row[:3] == expected[:3]
        assert row[4:9] == expected[4:9]
        if row[0] != "placeholder":
            assert row == expected
    for node, expected in zip(sort_placeholders(graph), sort_placeholders(theirs), strict=True):
        if node.target != "L_self_extra_k_":
            assert node.meta["tensor_dict"] == expected.meta["tensor_dict"]
        assert node._dynamo_source.name.startswith(("L['self']", "L['x']", "L['rows']"))
    keys = [list(node.meta["nn_module_stack"]) for node in graph.graph.nodes if "nn_module_stack" in node.meta]
    assert any("@1" in key for key in keys[-1])  # the block that is called a second time


def test_example_values():
    captured = Captured(lambda x: (x.double() + 1, x.max(0)))
    captured(X)
    (graph,) = captured.graphs
    double, add, pair, *_ = [node for node in graph.graph.nodes if node.op.startswith("call")]
    assert repr(double.meta["example_value"]) == "FakeTensor(..., size=(4, 4), dtype=torch.float64)"
    copied = copy.deepcopy(add.meta["example_value"])
    assert (copied.shape, copied.dtype, repr(copied)) == ((4, 4), torch.float64, repr(add.meta["example_value"]))
    assert [tuple(example.shape) for example in pair.meta["example_value"]] == [(4,), (4,)]
    assert torch.equal(copy.deepcopy(graph)(X)[0], X.double() + 1)
    with pytest.raises(RuntimeError, match="no data"):
        add.meta["example_value"].numpy()


def test_graph_modules_are_compiled_when_they_are_used():
    captured = Captured(lambda x: x + 1)
    captured.keep = None
    modules = []

    def backend(module, examples):
        modules.append(module)
        return lambda x: (x + 1,)

    alternator.compile(lambda x: x + 1, backend=backend)(X)
    (module,) = modules
    assert module._needs_recompile()
    assert "add" in module.code
    assert torch.equal(module(X)[0], X + 1)
