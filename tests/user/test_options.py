"""Options, hooks, stances and settings that serving and training stacks use: honoured, or said once."""

import warnings

import pytest
import torch
from torch._dynamo.aot_compile import ModelInput
from torch._dynamo.decorators import mark_unbacked
from torch._dynamo.eval_frame import OptimizedModule
from torch._dynamo.testing import CompileCounter, EagerAndRecordGraphs

from alternator import options

pytestmark = [pytest.mark.capture, pytest.mark.usefixtures("take_over")]
X = torch.arange(6.0).reshape(2, 3)


def increment(x):
    return x + 1


class Double(torch.nn.Module):
    def forward(self, x):
        return x * 2


@pytest.fixture
def said(monkeypatch):
    """Collect what is said once, as if nothing had been said before."""
    monkeypatch.setattr(options, "_said", set())
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


# ---- Compiling ahead of time ---------------------------------------------------------------------------------------


def test_a_function_ahead_of_time(tmp_path):
    compiled = torch.compile(lambda x: x.sin() + 1, fullgraph=True, backend="aot_eager")
    ahead = compiled.aot_compile(((X,), {}))
    assert torch.equal(ahead(X), X.sin() + 1)
    with pytest.raises(RuntimeError, match="fullgraph=True"):
        torch.compile(increment, backend="aot_eager").aot_compile(((X,), {}))


def test_what_was_saved_is_loaded(tmp_path):
    path = tmp_path / "function"
    ahead = torch.compile(increment, fullgraph=True).aot_compile(((X,), {}))
    ahead.save_compiled_function(str(path))
    with path.open("rb") as file:
        loaded = torch.compiler.load_compiled_function(file)
    assert torch.equal(loaded(X), X + 1)


def test_a_module_ahead_of_time():
    compiled = torch.compile(Double(), fullgraph=True, backend="aot_eager")
    compiled._aot_compile([ModelInput(args=(X,), kwargs={}, contexts=[])])
    assert torch.equal(compiled(X), X * 2)


# ---- Caches, hooks, stances ----------------------------------------------------------------------------------------


def test_removed_from_the_cache():
    counter, other = CompileCounter(), CompileCounter()
    model = Double()
    compiled, kept = torch.compile(increment, backend=counter), torch.compile(model, backend=other)
    for graphs, what in enumerate((None, increment, increment.__code__, compiled), 1):
        if what is not None:
            torch._dynamo.eval_frame.remove_from_cache(what)
        compiled(X), compiled(X), kept(X)
        assert counter.frame_count == graphs and other.frame_count == 1


def test_bytecode_hooks(said):
    seen = []

    def hook(code, new_code):
        seen.append((code, new_code))

    handle = torch._dynamo.convert_frame.register_bytecode_hook(hook)
    compiled = torch.compile(increment, backend="eager")
    compiled(X), compiled(X)
    assert seen == [(increment.__code__, increment.__code__)]
    handle.remove()
    handle = torch._dynamo.convert_frame.register_bytecode_hook(lambda code, _: said_by_hook.__code__)
    assert torch.equal(compiled(X.double()), X.double() + 1)
    handle.remove()
    assert ["bytecode hook" in str(each.message) for each in said] == [True]
    compiled(X.int())
    assert len(seen) == 1


def said_by_hook(x):
    return x


def test_a_stance_without_recompiles():
    compiled = torch.compile(increment, backend="eager")
    compiled(X)
    with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
        assert torch.equal(compiled(X * 2), X * 2 + 1)
        with pytest.raises(RuntimeError, match="skip_guard_eval_unsafe"):
            compiled(X.double())
    assert torch.equal(compiled(X.double()), X.double() + 1)


def test_the_context_of_a_module():
    compiled = torch.compile(Double(), backend="eager")
    assert isinstance(compiled, OptimizedModule)
    assert torch.equal(compiled.dynamo_ctx(increment)(X), X + 1)


def test_guards_are_exported():
    seen = []
    torch._dynamo.optimize("eager", guard_export_fn=seen.append)(increment)(X)
    (guards,) = seen
    assert "L['x']" in {guard.name for guard in guards}


# ---- Limits --------------------------------------------------------------------------------------------------------


def choose(x, name):
    return x + 1 if name == "one" else x + len(name)


@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_limit_of_its_own(fullgraph):
    counter = CompileCounter()
    compiled = torch.compile(choose, backend=counter, recompile_limit=2, fullgraph=fullgraph)
    for name in ("a", "bb"):
        compiled(X, name)
    if fullgraph:
        with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
            compiled(X, "ccc")
    else:
        with pytest.warns(UserWarning, match=r"recompile_limit \(2\)"):
            assert torch.equal(compiled(X, "ccc"), X + 3)
    assert counter.frame_count == 2


def test_graphs_of_its_own():
    counter = CompileCounter()
    for isolated in (False, False, True, True):
        torch.compile(increment, backend=counter, isolate_recompiles=isolated)(X)
    assert counter.frame_count == 3


# ---- Marks on tensors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("guard", [False, True])
def test_static_addresses(guard):
    backend = EagerAndRecordGraphs()
    x = X.clone()
    torch._dynamo.mark_static_address(x, guard=guard)
    assert torch.equal(torch.compile(increment, backend=backend)(x), x + 1)
    (node,) = backend.graphs[0].graph.find_nodes(op="placeholder")
    assert node.meta["tensor_dict"] == {"_dynamo_static_input_type": "unguarded"}


def test_unbacked_sizes(said):
    counter = CompileCounter()
    compiled = torch.compile(lambda x: x.sin() + x.shape[0], backend=counter)
    for size in (4, 7, 9):
        x = torch.ones(size, 3)
        mark_unbacked(x, 0, shape_id="batch", hint_override=8)
        assert torch.equal(compiled(x), x.sin() + size)
    assert counter.frame_count == 1
    assert ["mark_unbacked" in str(each.message) for each in said] == [True]
    x = torch.ones(1, 3)
    mark_unbacked(x, 0, strict=True)
    assert torch.equal(compiled(x), x.sin() + 1)


def test_strict_unbacked_sizes():
    x = torch.ones(5, 3)
    mark_unbacked(x, 0, strict=True)
    with pytest.raises(torch.fx.experimental.symbolic_shapes.ConstraintViolationError):
        torch.compile(lambda x: x + 1 if x.shape[0] == 5 else x, backend="eager")(x)


# ---- Settings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", options.UNUSED_SETTINGS)
def test_settings_that_are_not_used_are_said(name, said):
    value = getattr(torch._dynamo.config, name)
    other = "unbacked" if name.endswith("mark_as") else "warn" if name.endswith("policy") else not value
    with torch._dynamo.config.patch(name, other):
        for _ in range(2):
            torch.compile(increment, backend="eager")
    assert [f"config.{name} is not used" in str(each.message) for each in said] == [True]


def test_defaults_are_not_mentioned(said):
    torch.compile(increment, backend="eager")(X)
    with torch._dynamo.config.patch(suppress_errors=True, recompile_limit=3, accumulated_recompile_limit=9):
        torch.compile(increment, backend="eager")(X)
    assert not said


def test_sizes_that_are_equal_by_chance():
    counter = CompileCounter()
    with torch.fx.experimental._config.patch(use_duck_shape=False):
        compiled = torch.compile(lambda x, y: (x + 1, y + 1), backend=counter, dynamic=True)
        for sizes in ((4, 4), (5, 5), (5, 6)):
            x, y = map(torch.ones, sizes)
            compiled(x, y)
    assert counter.frame_count == 1
