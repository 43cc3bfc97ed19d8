"""What the tracer refuses, mistakes of the program, and what backends are told of nodes."""

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F

import alternator
from capture.agreement import Captured, check_calls
from capture.test_recording import W, X, Y, capture_with_torchdynamo, check_break

pytestmark = pytest.mark.capture


def sets_requires_grad(x):
    return (x + 1).requires_grad_()


def makes_a_leaf(x):
    return x + 1, torch.ones(2, requires_grad=True)


def detaches_in_place(x):
    y = x * 2
    y.detach_()
    return y


def runs_backward(x):
    y = x.detach().clone()
    (z,) = torch.autograd.grad((y.requires_grad_() * 2).sum(), y)
    return z


def makes_a_parameter(x):
    return x @ torch.nn.Parameter(torch.ones(4, 4))


def makes_a_module(x):
    return torch.nn.Identity()(x) + torch.nn.Linear(4, 4, bias=False)(x) * 0


def sets_data(x):
    y = x.clone()
    y.data = x * 2
    return y


REFUSED = [
    *((sets_requires_grad, "autograd"), (makes_a_leaf, "requires grad"), (detaches_in_place, "autograd")),
    *((runs_backward, "autograd"), (makes_a_parameter, "_make_subclass"), (sets_data, "attribute of a tensor is set")),
]


@pytest.mark.parametrize("fn, reason", REFUSED, ids=[fn.__name__ for fn, _ in REFUSED])
def test_what_changes_autograd_is_a_break(fn, reason):
    check_break(fn, X, reason=reason)


def test_modules_made_while_tracing():
    captured = Captured(makes_a_module)
    assert torch.equal(captured(X), makes_a_module(X))


# ---- What needs data, other classes, mistakes ----------------------------------------------------------------------


def asks_for_a_number(x):
    return x.sum().item()


def branches(x):
    return x + 1 if x.sum() > 0 else x - 1


def selects(x):
    return x[x > 0]


def lists(x):
    return x.tolist()


@pytest.mark.parametrize("fn", [asks_for_a_number, branches, selects, lists])
def test_what_needs_data_is_a_break(fn):
    check_break(fn, X, reason="MustRun" if fn in (asks_for_a_number, lists) else "DataDependent")


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
