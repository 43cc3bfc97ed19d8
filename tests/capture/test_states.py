"""The state of torch (modes, scopes, defaults): what a function sets, reads and leaves, in a graph and at a break."""

import warnings

import pytest
import torch
import torch.nn.functional as F

import alternator
from alternator.compiling import find_backend
from capture.agreement import (
    Captured,
    capture_with_torchdynamo,
    check,
    check_break,
    check_calls,
    list_operations,
    outcome,
    same,
)

pytestmark = pytest.mark.capture

X = torch.linspace(-1, 1, 16).reshape(4, 4)
W = torch.linspace(0, 1, 16).reshape(4, 4).requires_grad_()
I = torch.tensor([2, 0, 1])


@torch.no_grad()
def without_grad(x):
    return x * 2


@torch.autocast("cpu", dtype=torch.bfloat16)
def with_autocast(x):
    return x @ x


def grad_modes(x):
    with torch.no_grad():
        a = x + 1
        with torch.enable_grad():
            b = x * 2
        c = x - 1
    torch.set_grad_enabled(False)
    d = x * 3
    torch.set_grad_enabled(True)
    with torch.set_grad_enabled(False):
        e = x * 4
    return a, b, c, d, e, without_grad(x), x * 5, torch.is_grad_enabled()


def inference_mode(x):
    with torch.inference_mode():
        y = x + 1
        inside = torch.is_inference_mode_enabled()
    return y.sum(), inside, torch.is_inference_mode_enabled()


def autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
        with torch.autocast("cpu", enabled=False):
            z = y.float() @ x
        u = x @ z
        inside = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    return y, z, u, x @ x, with_autocast(x), inside, torch.is_autocast_enabled("cpu")


def deterministic(x):
    torch.use_deterministic_algorithms(True)
    y = x + 1
    inside = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(False)
    return y, inside


STATES = [(grad_modes, W), (inference_mode, X), (autocast, X), (deterministic, X)]


def read_state():
    return (
        *(torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype()),
        *(torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()),
        *(torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
        torch._inductor.config.deterministic,
    )


@pytest.fixture
def clean_state():
    yield
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("fn, x", STATES, ids=[fn.__name__ for fn, _ in STATES])
def test_state(fn, x, clean_state):
    before = read_state()
    check(fn, x, like_torchdynamo=fn is not inference_mode)  # TorchDynamo breaks where the mode is asked for
    assert read_state() == before
    # At another state it is another graph.
    captured = Captured(fn)
    captured(x)
    with torch.no_grad():
        expected = outcome(fn, (x,))
        torch.set_grad_enabled(False)
        assert same(outcome(captured, (x,))[0], expected[0])
    assert len(captured.graphs) == 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_a_function_leaves_of_the_state(backend, clean_state):
    def program(x):
        torch.set_grad_enabled(False)
        torch.use_deterministic_algorithms(True, warn_only=True)
        return x + torch.ones(4)

    before = read_state()
    expected = program(X)
    after = read_state()
    assert after != before
    compiled = alternator.compile(program, backend=backend)
    for _ in range(3):
        torch.set_grad_enabled(True)
        torch.use_deterministic_algorithms(False)
        assert read_state() == before
        assert same(compiled(X), expected)
        assert read_state() == after


SCOPES = {
    "no_grad": torch.no_grad,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "inference_mode": torch.inference_mode,
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", SCOPES)
def test_a_break_in_a_scope(name, backend, clean_state):
    scope = SCOPES[name]

    def program(x):
        with scope():
            y = x @ x
            y.sum().item()
            z = y @ x
            inside = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.is_inference_mode_enabled()
        return y, z, x @ x, inside

    before = read_state()
    graphs = []

    def compile(module, examples):
        graphs.append(module)
        return find_backend(backend)(module, examples)

    compiled = alternator.compile(program, backend=compile)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            assert same(compiled(W), program(W))
            assert read_state() == before
    # What inference mode holds cannot be taken away and put back: it is entered and left for real.
    assert len(graphs) == (3 if name == "inference_mode" else 2)


def test_a_break_between_setters(clean_state):
    def program(x):
        torch.use_deterministic_algorithms(True)
        y = x + 1
        y.sum().item()
        inside = torch.are_deterministic_algorithms_enabled()
        z = y * 2
        torch.use_deterministic_algorithms(False)
        return y, z, inside

    before = read_state()
    check_break(program, X, reason="item")
    assert read_state() == before


@pytest.fixture
def default_device():
    yield torch.set_default_device
    torch.set_default_device(None)


def test_the_default_device(default_device):
    def program(x):
        return torch.ones(4), torch.tensor([1.0]), torch.zeros_like(x), torch.arange(3, device="cpu"), F.relu(x)

    captured = Captured(program)
    for device in (None, "cpu", "meta", "meta", "cpu"):
        default_device(device)
        found, expected = captured(X), program(X)
        default_device(None)  # comparing makes tensors
        assert [t.device for t in found] == [t.device for t in expected]
        assert all(a.is_meta or same(a, b) for a, b in zip(found, expected, strict=True))
    assert captured.said == []
    assert len(captured.graphs) == 3
    default_device("meta")
    (theirs,) = capture_with_torchdynamo(program, (X,))
    assert list_operations(captured.graphs[2]) == list_operations(theirs)


def test_a_scope_with_a_default_device():
    def program(x):
        with torch.device("meta"):
            y = torch.ones(4)
            z = x * 2
        return y.device, z + torch.ones(4)

    check_calls(program, [(X,)] * 3)


def test_a_graph_that_fails_leaves_the_state_as_with_does():
    def program(table, index):
        with torch.no_grad(), torch.autocast("cpu"):
            return F.embedding(index, table)

    before = read_state()
    compiled = Captured(program)
    compiled(X, I)
    with pytest.raises(IndexError):
        compiled(X, I + 100)
    assert read_state() == before
    assert len(compiled.graphs) == 1


def sets_the_default_dtype(x):
    torch.set_default_dtype(torch.float64)
    y = torch.ones(2), torch.arange(3) / 2, torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    return y


def leaves_the_default_dtype(x):
    torch.set_default_dtype(torch.float64)
    return torch.ones(2), torch.tensor([1.5]) * 2, I * 1.5, torch.nn.Parameter(torch.rand(2))


def sets_the_default_dtype_at_the_end(x):
    y = torch.arange(3) / 2
    torch.set_default_dtype(torch.float64)
    return y


def sets_the_default_dtype_between(x):
    y = torch.ones(2)
    torch.set_default_dtype(torch.float64)
    z = torch.ones(2), torch.arange(3) / 2
    torch.set_default_dtype(torch.float16)
    return y, z, torch.sin(torch.arange(3))


DTYPES = [
    *((sets_the_default_dtype, 1), (leaves_the_default_dtype, 1), (sets_the_default_dtype_at_the_end, 1)),
    (sets_the_default_dtype_between, 3),
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn, count", DTYPES, ids=[fn.__name__ for fn, _ in DTYPES])
def test_a_graph_has_one_default_dtype(fn, count, backend, clean_state):
    graphs = []

    def compile(module, examples):
        graphs.append(module)
        return find_backend(backend)(module, examples)

    compiled = alternator.compile(fn, backend=compile)
    for dtype in (torch.float32, torch.float32, torch.float64):
        seen = []
        for call in (fn, compiled):
            torch.set_default_dtype(dtype)
            torch.manual_seed(3)
            seen.append((call(X), read_state()))
        assert same(*seen)
    assert len(graphs) == 2 * count if count == 1 else len(graphs) >= count


def test_a_graph_that_fails_with_another_default_dtype(clean_state):
    def program(table, index):
        torch.set_default_dtype(torch.float64)
        y = F.embedding(index, table) * torch.ones(1)
        torch.set_default_dtype(torch.float32)
        return y

    compiled = Captured(program)
    assert same(compiled(X, I), program(X, I))
    for call in (compiled, program):
        with pytest.raises(IndexError):
            call(X, I + 100)
        assert torch.get_default_dtype() is torch.float64  # the program left it like that
        torch.set_default_dtype(torch.float32)


def test_the_debug_mode_of_determinism(clean_state):
    def program(x):
        torch.set_deterministic_debug_mode("warn")
        y = x + 1
        torch.set_deterministic_debug_mode(0)
        return y, torch.get_deterministic_debug_mode()

    before = read_state()
    check_calls(program, [(X,)] * 3, graphs=1)
    assert read_state() == before


def test_setters_in_other_ways_are_refused():
    def program(x):
        torch.set_autocast_enabled("cpu", True)
        y = x @ x
        torch.set_autocast_enabled("cpu", False)
        return y

    check_break(program, X, reason="set_autocast_enabled")


def test_a_mode_of_the_user_sees_every_call():
    class Count(torch.overrides.TorchFunctionMode):
        calls = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.calls += 1
            return func(*args, **(kwargs or {}))

    def program(x):
        return x.sin() + 1

    compiled = Captured(program)
    compiled(X)
    with Count() as count:
        assert torch.equal(compiled(X), program(X))
    assert count.calls == 5  # two for each, and torch.equal
    with torch.device("meta"):
        assert Captured(lambda x: torch.ones(2))(X).device.type == "meta"
