"""Switches of torch's that a function sets: nodes in its graph, and left as eager execution leaves them."""

import pytest
import torch
from torch._dynamo.testing import EagerAndRecordGraphs
from torch.nn.attention import SDPBackend, sdpa_kernel

import alternator

pytestmark = pytest.mark.capture
X = torch.ones(2, 2, 2, 2)
attend = torch.nn.functional.scaled_dot_product_attention
message = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message


def show():
    """Show the switches."""
    return torch.nn.attention._cur_sdpa_kernel_backends(), message()


def in_a_scope(x):
    with sdpa_kernel([SDPBackend.MATH]):
        return attend(x, x, x)


def twice(x):
    return in_a_scope(x) + attend(x, x, x)


def with_a_break(x):
    with sdpa_kernel(SDPBackend.MATH):
        y = attend(x, x, x)
        seen.append(print(end="") or show())
        y = attend(y, y, y)
    return y * 2


def left_on(x):
    torch.backends.cuda.enable_flash_sdp(False)
    return attend(x, x, x), torch.backends.cuda.flash_sdp_enabled()


def without_hooks(x):
    with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
        y = x.sin()
        if message() == "not here":
            y = y + 1
    return y.cos(), message()


seen = []


@pytest.fixture(autouse=True)
def put_back():
    """Leave the switches as they are."""
    before = torch.backends.cuda.flash_sdp_enabled()
    yield
    torch.backends.cuda.enable_flash_sdp(before)
    seen.clear()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [in_a_scope, twice, with_a_break, left_on, without_hooks])
def test_agree(program, backend):
    before = show()
    expected, after, saw = program(X), show(), list(seen)
    compiled = alternator.compile(program, backend=backend, fullgraph=program is not with_a_break)
    for _ in range(2):
        torch.backends.cuda.enable_flash_sdp(SDPBackend.FLASH_ATTENTION in before[0])
        seen.clear()
        result = compiled(X)
        pairs = zip(result, expected, strict=True) if isinstance(result, tuple) else [(result, expected)]
        assert all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in pairs)
        assert (show(), seen) == (after, saw)


def test_nodes():
    graphs = EagerAndRecordGraphs()
    alternator.compile(in_a_scope, backend=graphs, fullgraph=True)(X)
    (graph,) = graphs.graphs
    calls = [node.target for node in graph.graph.nodes if node.op == "call_function"]
    assert calls.count(torch._C._set_sdp_use_math) == 2
    middle = calls.index(attend)
    assert torch._C._set_sdp_use_flash in calls[:middle]
    assert torch._C._set_sdp_use_flash in calls[middle:]


def test_another_state_is_another_graph():
    graphs = EagerAndRecordGraphs()
    compiled = alternator.compile(left_on, backend=graphs, fullgraph=True)
    for _ in range(2):
        for on in (True, False):
            torch.backends.cuda.enable_flash_sdp(on)
            assert compiled(X)[1] is False
    assert len(graphs.graphs) == 2


def test_graph_that_fails():
    """It is left in the middle of the scope, which puts everything back."""

    def program(x, index):
        with sdpa_kernel([SDPBackend.MATH]), torch.autograd.graph.disable_saved_tensors_hooks("not here"):
            return attend(x, x, x).flatten()[index]

    before = show()
    compiled = alternator.compile(program, backend="eager", fullgraph=True)
    compiled(X, torch.tensor([3]))
    with pytest.raises(IndexError):
        compiled(X, torch.tensor([99]))
    assert show() == before
