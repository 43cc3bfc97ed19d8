"""What the tracer records of torch: each use gives eager's values, and the graph that TorchDynamo makes of it."""

import functools
import operator

import pytest
import torch
import torch.nn.functional as F

import alternator
from capture.agreement import (
    Captured,
    capture_with_torchdynamo,
    check,
    check_calls,
    list_operations,
    same,
)

pytestmark = pytest.mark.capture

X = torch.linspace(-1, 1, 16).reshape(4, 4)
Y = torch.linspace(2, 3, 16).reshape(4, 4)
W = torch.linspace(0, 1, 16).reshape(4, 4).requires_grad_()
I = torch.tensor([2, 0, 1])
B = X > 0


# ---- Functions, methods, operators, attributes ---------------------------------------------------------------------


def operators(x, y):
    b = x > 0
    return (
        -x,
        +x,
        ~b,
        x + y,
        x - y,
        x * y,
        x / y,
        x // y,
        x % y,
        x**2,
        x @ y,
        x == y,
        x != y,
        x < y,
        b & b,
        b | b,
        b ^ b,
    )


def reflected_operators(x):
    return 2 + x, 2 - x, 2 * x, 2 / x, 2 // x, 2 % x, 2**x


def in_place_operators(x):
    y = x.clone()
    y += 1
    y -= x
    y *= 2
    y /= 2
    y **= 2
    y //= 1
    y %= 3
    b = x > 0
    b &= b
    b |= b
    b ^= b
    n = 0
    n += x
    return y, b, n


def subscripts(x, i):
    y = x.clone()
    y[0] = 1
    y[1:, 2] = x[0, 1:]
    y[..., -1] += 2
    return y, x[0], x[:, None], x[..., 1:], x[i], x[[0, 1]], x[0, 1], x[-1, ::2], x[None], x[(0, slice(None))]


def methods(x):
    return (
        *(
            x.sum(),
            x.sum(dim=1, keepdim=True),
            x.mean(-1),
            x.view(2, 8),
            x.permute(1, 0),
            x.transpose(0, 1).contiguous(),
        ),
        *(x.expand(2, 4, 4), x.repeat(2, 1), x.flatten(), x.squeeze(), x.unsqueeze(0), x.masked_fill(x > 0, 0.0)),
        *(x.clamp(min=0), x.norm(), x.std(), x.split(2)[0], x.matmul(x), x.addmm(x, x), x.cumsum(dim=0), x.tril()),
        *(x.to(torch.float64), x.double(), x.long(), x.type(torch.float64), x.to("cpu"), x.type_as(x.int())),
    )


def functions(x, y):
    return (
        *(torch.sin(x), torch.where(x > 0, x, 0.0), torch.cat((x, y)), torch.stack([x, y], dim=1), torch.matmul(x, y)),
        *(torch.einsum("ij,jk->ik", x, y), torch.einsum("ij,ij", [x, y]), torch.norm(x), torch.tensordot(x, y, 1)),
        *(torch.cdist(x, y), torch.broadcast_tensors(x[:1], y[:, :1]), torch.meshgrid(x[0], y[0], indexing="ij")),
        *(torch.add(x, y, alpha=2), torch.clamp(input=x, min=0), torch.linalg.norm(x), torch.fft.fft(x).real),
    )


def functional(x):
    return (
        *(F.relu(x), F.softmax(x, -1), F.gelu(x), F.layer_norm(x, (4,)), F.linear(x, x), F.interpolate(x[None], 8)),
        *(
            F.cross_entropy(x, torch.arange(4)),
            F.normalize(x),
            F.embedding(torch.arange(3), x),
            F.dropout(x, 0.5, False),
        ),
        F.scaled_dot_product_attention(x[None], x[None], x[None]),
    )


def attributes(x):
    return x.T, x.mT, x.H, x.real, (x + 1j * x).imag


def several_results(x):
    values, indices = x.max(dim=0)
    ordered = torch.sort(x)
    a, b = x.chunk(2)
    rows = x.unbind(0)
    return (
        values,
        indices,
        ordered.values,
        ordered[1],
        x.topk(2).indices,
        torch.stack(list(rows[:2])),
        torch.cat([a, b]),
    )


def rows(x):
    a, b, *rest = x
    return [row * 2 for row in x], a + b, rest


def lists_that_change(x):
    many = [x, x + 1]
    a = torch.stack(many)
    many.append(x + 2)
    return a, torch.stack(many)


def factories(x):
    return (
        *(torch.zeros(2), torch.ones_like(x), torch.arange(4), torch.full((2,), 1.5), torch.eye(3)),
        *(torch.linspace(0, 1, 3), torch.zeros(x.shape, device=x.device, dtype=x.dtype), torch.empty(2, 3).fill_(1)),
        *(x.new_zeros(2), x.new_ones((2, 2)), x.new_full((2,), 3.0), x.new_tensor([1.0, 2.0]), torch.empty_like(x) * 0),
    )


def tensors_of_numbers(x):
    return x + torch.tensor(2.0), torch.tensor([1, 2, 3]), torch.tensor([[1.0, 2.0]], dtype=torch.float64)


def tensors_of_tensors(x):
    return torch.tensor([x.sum(), 2.0]), torch.as_tensor(x), torch.as_tensor([1.0, 2.0])


def types_as_arguments(x):
    return torch.zeros(2, dtype=float), x.to(int), x.sum(dtype=complex), x.to(torch.device("cpu"), bool)


def sizes(x):
    s = x.shape
    x = x.unflatten(0, (-1, 1)).flatten(0, 1)
    return x.view(s[0] * s[1]), x.reshape(s + (1,)), x.reshape((1, *s)), x.new_zeros(s), x.reshape(s.numel())


def operators_of_the_dispatcher(x):
    a, b = torch.ops.aten.max.dim(x, 0)
    return torch.ops.aten.sin(x), torch.ops.aten.add.Tensor(x, x), torch.ops.aten.relu.default(x), a, b


def called_in_roundabout_ways(x, y):
    double = functools.partial(torch.mul, 2.0)
    method = x.add
    keywords = {"dim": 0}
    return double(x), method(y), torch.sum(x, **keywords), torch.cat(*[(x, y)]), list(map(torch.relu, (x, y)))


PLAIN = [
    *((operators, X, Y), (reflected_operators, Y), (in_place_operators, X), (subscripts, X, I), (methods, X)),
    *((functions, X, Y), (functional, X), (attributes, X), (several_results, X), (rows, X), (lists_that_change, X)),
    *((factories, X), (tensors_of_numbers, X), (sizes, X), (operators_of_the_dispatcher, X)),
]


@pytest.mark.parametrize("fn, args", [(row[0], row[1:]) for row in PLAIN], ids=[row[0].__name__ for row in PLAIN])
def test_torchs_api(fn, args):
    check(fn, *args)


def test_operations_that_torchdynamo_writes_in_another_way():
    check(tensors_of_tensors, X, like_torchdynamo=False)  # TorchDynamo has no node for as_tensor(x)
    check(called_in_roundabout_ways, X, Y, like_torchdynamo=False)

    def builtins(x):
        return sum([x, x]), abs(x), len(x), pow(x, 2), [*map(operator.neg, x)], 0 < x, 1 == x

    check(builtins, X, like_torchdynamo=False)
    check(types_as_arguments, X, like_torchdynamo=False)
    check(lambda x: x.type(torch.DoubleTensor), X, like_torchdynamo=False)


def test_names_are_torchdynamos():
    def program(x, y):
        a = x + y
        b = a.relu()
        a = b * a
        first, second = a.chunk(2)
        return first + second, {"b": b}

    graph = check(program, X, Y)
    (theirs,) = capture_with_torchdynamo(program, (X, Y))
    assert [node.name for node in graph.graph.nodes] == [node.name for node in theirs.graph.nodes]


def test_metadata_is_no_node():
    def program(x, y):
        facts = (
            *(x.shape, x.dtype, x.device, x.ndim, x.layout, x.requires_grad, x.is_leaf, x.size(), x.size(0), x.dim()),
            *(
                x.stride(),
                x.numel(),
                len(x),
                x.is_contiguous(),
                torch.is_floating_point(x),
                torch.is_tensor(x),
                x.type(),
            ),
            *(
                torch.result_type(x, y),
                torch.numel(x),
                x.element_size(),
                x.is_complex(),
                x.get_device(),
                x.shape.numel(),
            ),
            *(f"{x.shape} {x.size()!r} {x.shape!s}", str(x.shape), repr([x.shape])),
            *(x.nbytes, torch.finfo(x.dtype).max, torch.iinfo(torch.int8).min, x.storage_offset(), getattr(x, "shape")),
        )
        return facts

    captured = check_calls(program, [(X, I)] * 2, graphs=0)
    assert captured.said == []
    captured(X, I.double())
    assert captured.said == []
    assert captured.fn.last_miss() == "`y` had dtype Long, has now Double"


def test_a_tensor_of_which_only_metadata_are_used_is_no_input():
    def program(x, y):
        return y.reshape(x.shape)

    graph = check(program, X, Y.flatten())
    assert [node.target for node in graph.graph.find_nodes(op="placeholder")] == ["L_y_"]


def test_identity_of_results():
    def program(x):
        same = x.to("cpu")
        y = x + 1
        z = y.contiguous()
        return same is x, z is y, y, z, same

    captured = check_calls(program, [(X,)] * 2, graphs=1)
    x = X.clone()
    _, _, y, z, itself = captured(x)
    assert itself is x
    assert y is z


# ---- Custom operators ----------------------------------------------------------------------------------------------


@torch.library.custom_op("alternator_tests::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() * by)


@scaled.register_fake
def _(x, by):
    return torch.empty_like(x)


@torch.library.custom_op("alternator_tests::fill", mutates_args={"x"})
def fill(x: torch.Tensor, value: float) -> None:
    x.fill_(value)


def test_custom_operators():
    def program(x):
        return (
            scaled(x, 2.0)
            + torch.ops.alternator_tests.scaled(x, 3.0)
            + torch.ops.alternator_tests.scaled.default(x, 4.0)
        )

    graph = check(program, X)
    assert sum("scaled" in str(node.target) for node in graph.graph.nodes) == 3

    def writes(x):
        y = x + 0
        torch.ops.alternator_tests.fill(y, 2.0)
        return y

    check(writes, X)


# ---- Random numbers ------------------------------------------------------------------------------------------------


def test_random_numbers_are_drawn_in_order_and_only_by_the_graph():
    def program(x):
        y = F.dropout(x, 0.5)
        z = torch.rand_like(x) + torch.randn(4) + torch.randint(0, 5, (4,))
        return y, z, torch.randperm(4), x.clone().normal_(), torch.bernoulli(torch.full((4,), 0.5)), torch.rand(2)

    compiled = Captured(program)
    for seed in range(3):
        results = []
        for fn in (program, compiled):
            torch.manual_seed(seed)
            results.append((fn(X), torch.get_rng_state()))
        assert same(*results)
    assert len(compiled.graphs) == 1
    (theirs,) = capture_with_torchdynamo(program, (X,))
    assert list_operations(compiled.graphs[0]) == list_operations(theirs)


def test_seeds_are_not_set_by_graphs():
    def program(x):
        torch.manual_seed(3)
        return x + torch.rand(4)

    state = torch.get_rng_state()
    compiled = Captured(program)
    assert torch.equal(compiled(X), program(X))
    torch.set_rng_state(state)


# ---- Writes, views, aliases ----------------------------------------------------------------------------------------


def writes_to_an_input(x):
    x.add_(1)
    x += 2
    x[0] = 3
    x[1:].mul_(2)
    view = x[0]
    view.sub_(x[1])
    return x, view * 2


def writes_by_out(x, y):
    fresh = torch.empty(4, 4)
    torch.add(x, y, out=fresh)
    result = torch.mul(x, x, out=y)
    return fresh, result is y, y


def changes_metadata(x):
    y = x + 1
    shape = y.shape
    y.unsqueeze_(0)
    y.transpose_(0, 1)
    return y, shape, y.shape


def reads_data(w):
    return w.data * 2, w.detach() * w, w.data.requires_grad


@pytest.mark.parametrize("fn, args", [(writes_to_an_input, (X,)), (writes_by_out, (X, Y)), (reads_data, (W,))])
def test_writes(fn, args):
    check(fn, *args, like_torchdynamo=fn is reads_data)


def test_changed_metadata():
    graph = check(changes_metadata, X, like_torchdynamo=False)
    shapes = [tuple(node.meta["example_value"].shape) for node in graph.graph.nodes if node.op.startswith("call")]
    assert shapes == [(4, 4), (1, 4, 4), (4, 1, 4)]  # as they were, not as they became


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("data", [False, True])
def test_inputs_that_share_memory(data, backend):
    def program(x, y):
        (x.data if data else x).add_(1)
        return y * 2

    compiled = alternator.compile(program, backend=backend)
    before = alternator.frames_translated()
    for _ in range(2):
        for make in (lambda b: (b[:2], b[2:]), lambda b: (b[:3], b[1:]), lambda b: (b[0], b[0]), lambda b: (b[0], b)):
            results = []
            for fn in (program, compiled):
                base = X.clone()
                results.append((fn(*make(base)), base))
            assert same(*results)
    assert alternator.frames_translated() == before + 4


def test_the_same_tensor_twice():
    def program(x, y):
        x.add_(1)
        return x + y, x is y

    captured = Captured(program)
    for _ in range(2):
        for twice in (True, False):
            x = X.clone()
            y = x if twice else X.clone()
            assert torch.equal(captured(x, y)[0], X + 1 + (X + 1 if twice else X))
    assert len(captured.graphs) == 2


# ---- Autograd ------------------------------------------------------------------------------------------------------


def test_gradients_are_read_as_they_are():
    def program(w):
        return w.sum() if w.grad is None else (w * w.grad).sum()

    captured = Captured(program)
    w = W.detach().clone().requires_grad_()
    assert torch.equal(captured(w), program(w))
    w.sum().backward()
    assert torch.equal(captured(w), program(w))
    w.grad = w.grad * 3
    assert torch.equal(captured(w), program(w))
    w.grad = None
    assert torch.equal(captured(w), program(w))
    assert captured.said == []
    assert len(captured.graphs) == 2
