"""Higher-order operators of torch, which compile themselves: eagerly, and in compiled functions."""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend, EagerAndRecordGraphs
from torch._higher_order_ops import associative_scan, scan
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.strict_mode import strict_mode
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils._pytree import tree_leaves

import alternator

pytestmark = [
    pytest.mark.capture,
    pytest.mark.usefixtures("take_over"),
    pytest.mark.filterwarnings("ignore:flex_attention called without"),
]
torch.manual_seed(0)
X = torch.randn(5, 8)
Q = torch.randn(1, 2, 128, 16)
BIAS = torch.randn(128)
WEIGHT = torch.randn(8)


def causal(batch, head, query, key):
    return query >= key


MASK = create_block_mask(causal, None, None, 128, 128, device="cpu")


def run_cond(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin() * WEIGHT, lambda x: x.cos() + WEIGHT, (x,)) + 1


def run_while(x):
    y = x * 2
    return torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x.sin() * WEIGHT), (torch.tensor(0), y))


def run_while_with_number(x):
    return torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x.sin()), (0, x * 2))


def run_scan(x):
    return scan(lambda carry, y: (carry + y * WEIGHT, carry * 1.0), torch.zeros(8), x * 2)


def run_associative_scan(x):
    def combine(a, b):
        return {"product": a["product"] * b["product"], "sum": a["sum"] + b["sum"]}

    return associative_scan(combine, {"product": x, "sum": x * 2}, 0, combine_mode="generic")


def run_map(x):
    return map_rows(lambda row: row.sin() * 2, x) + 1


def run_strict_mode(x):
    return strict_mode(lambda x: x.sin() + 1, (x * 2,)) + 1


def run_flex(q):
    return flex_attention(q, q * 2, q + 1) * 2


def run_flex_with_mask(q):
    return flex_attention(q, q * 2, q + 1, block_mask=MASK) * 2


def run_flex_with_scores(q):
    return flex_attention(q, q * 2, q + 1, score_mod=lambda score, b, h, i, j: score + BIAS[i], return_lse=True)


def run_flex_with_new_mask(q):
    mask = create_block_mask(causal, None, None, 128, 128, device="cpu")
    return flex_attention(q, q * 2, q + 1, block_mask=mask) * 2


PROGRAMS = {
    **{fn.__name__: (fn, X) for fn in (run_cond, run_while, run_while_with_number, run_scan, run_associative_scan)},
    **{fn.__name__: (fn, X) for fn in (run_map, run_strict_mode)},
    **{fn.__name__: (fn, Q) for fn in (run_flex, run_flex_with_mask, run_flex_with_scores, run_flex_with_new_mask)},
}


def check(actual, expected):
    actual, expected = tree_leaves(actual), tree_leaves(expected)
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other)


def run_without_alternator(fn, *args):
    alternator.uninstall()
    try:
        return fn(*args)
    finally:
        alternator.install()


@pytest.mark.parametrize("name", PROGRAMS)
def test_eagerly(name):
    fn, x = PROGRAMS[name]
    check(fn(x), run_without_alternator(fn, x))


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled(name):
    fn, x = PROGRAMS[name]
    compiled = torch.compile(fn, backend="eager")
    for each in (x, x + 1, -x):
        check(compiled(each), fn(each))


@pytest.mark.parametrize("fn", [run_cond, run_scan, run_associative_scan, run_map])
def test_gradients(fn):
    compiled = torch.compile(fn, backend="aot_eager")

    def differentiate(call):
        x = X.clone().requires_grad_()
        results = [each for each in tree_leaves(call(x)) if each.requires_grad]
        return torch.autograd.grad(sum(each.sum() for each in results), x)

    for _ in range(2):
        check(differentiate(compiled), differentiate(fn))


def test_the_function_itself():
    compiled = torch.compile(flex_attention, backend="eager")
    check(compiled(Q, Q + 1, Q * 2, block_mask=MASK), flex_attention(Q, Q + 1, Q * 2, block_mask=MASK))


def test_compiled_functions_inside():
    sine = torch.compile(lambda x: x.sin(), backend="eager")
    linear = torch.compile(torch.nn.Linear(8, 8), backend="eager")

    def run(x):
        return torch.cond(x.sum() > 0, lambda x: sine(x) + linear(x), lambda x: x.cos(), (x,))

    for x in (X.abs(), -X.abs()):
        check(run(x), x.sin() + linear(x) if x.sum() > 0 else x.cos())


def test_nested_regions():
    @torch.compiler.nested_compile_region
    def block(x):
        return x.sin() + 1

    @torch.compile(backend="eager", fullgraph=True)
    def run(x):
        return block(block(x))

    for x in (X, X + 1):
        check(run(x), (x.sin() + 1).sin() + 1)


def test_without_taking_over():
    alternator.uninstall()
    try:
        compiled = alternator.compile(run_while, backend="eager")
        check(compiled(X), run_while(X))
    finally:
        alternator.install()


# ---- Loops that are part of the graph ------------------------------------------------------------------------------

LIMIT = [3]


def run_two_loops(x):
    count, y = torch.while_loop(
        lambda i, x: (i < LIMIT[0]) & (x.sum() < 1e6), lambda i, x: (i + 1, x.abs() * WEIGHT), (torch.tensor(0), x * 2)
    )
    return torch.while_loop(lambda i, x: i > 0, lambda i, x: (i - 1, x + y), (count, x * 3))


def run_scan_of_containers(x):
    def combine(carry, rows):
        return {"sum": carry["sum"] + rows[0]}, (carry["sum"] * rows[1]).sum() + LIMIT[0]

    return scan(combine, {"sum": torch.zeros(8)}, (x * 2, x + 1), reverse=True)


def run_scan_of_columns(x):
    return scan(lambda carry, y: (carry + y, carry * y), torch.zeros(len(x)), x, dim=1)


def run_map_with_arguments(x):
    return map_rows(lambda rows, w: {"p": rows[0] * w, "q": rows[1].sum() + LIMIT[0]}, (x, x * 2), WEIGHT)


def run_map_with_draws(x):
    return map_rows(lambda row: row + torch.rand(8), x)


LOOPS = [run_while, run_two_loops, run_scan, run_scan_of_containers, run_scan_of_columns]
LOOPS += [run_map, run_map_with_arguments, run_map_with_draws]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", LOOPS)
def test_loops_are_one_graph(fn, backend, monkeypatch):
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(fn, backend=counter, fullgraph=True)

    def compare(x):
        torch.manual_seed(0)
        expected = fn(x)
        torch.manual_seed(0)
        check(compiled(x), expected)

    for x in (X, X + 1, -X):
        compare(x)
    assert counter.frame_count == 1
    monkeypatch.setitem(globals(), "WEIGHT", torch.randn(8))
    compare(X)
    assert counter.frame_count == 1
    monkeypatch.setitem(globals(), "LIMIT", [5])
    compare(X)
    compare(torch.randn(7, 8))
    assert counter.frame_count <= 4


def test_operators_in_the_graph():
    backend = EagerAndRecordGraphs()
    torch.compile(run_while, backend=backend, fullgraph=True)(X)
    (call,) = [node for node in backend.graphs[0].graph.nodes if node.target is torch.ops.higher_order.while_loop]
    condition, body, carried, lifted = call.args
    assert (condition.target, body.target, len(carried), len(lifted)) == ("cond_fn_0", "body_fn_0", 2, 1)


def test_loops_that_are_no_graph():
    seen = []

    def view(x):
        return map_rows(lambda row: row[:4], x)

    def number(x):
        return torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x.sin()), (0, x * 2))

    def differentiated(x):
        return scan(lambda carry, y: (carry + y, carry * 1.0), torch.zeros(8), x * WEIGHT.clone().requires_grad_())

    def append(x):
        return map_rows(lambda row: seen.append(1) or row.sin(), x)

    for fn in (view, number, differentiated, append):
        compiled = torch.compile(fn, backend="eager")
        try:
            expected = fn(X)
        except Exception as error:
            with pytest.raises(type(error)):
                compiled(X)
        else:
            check(compiled(X), expected)
        with pytest.raises(alternator.Unsupported):
            torch.compile(fn, backend="eager", fullgraph=True)(X)
