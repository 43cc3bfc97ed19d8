"""Markers that programs carry for TorchDynamo mean the same here."""

import functools
import operator
import subprocess
import sys

import pytest
import torch
from torch._dynamo.testing import CompileCounter, EagerAndRecordGraphs
from torch.utils import _pytree as pytree

pytestmark = [pytest.mark.capture, pytest.mark.usefixtures("take_over")]
X = torch.arange(6.0).reshape(2, 3)


def captured(fn, *args, **options):
    """Call a compiled function; its result, and the graphs."""
    graphs = EagerAndRecordGraphs()
    result = torch.compile(fn, backend=graphs, **options)(*args)
    return result, graphs.graphs


def targets(graph):
    return [node.target for node in graph.graph.nodes if "call" in node.op]


def test_allow_in_graph():
    @torch.compiler.allow_in_graph
    def opaque(x, factor):
        return (x * factor).sin()

    def program(x):
        return opaque(x + 1, 3) + 1

    result, (graph,) = captured(program, X, fullgraph=True)
    assert torch.equal(result, program(X))
    assert targets(graph)[1] is opaque
    assert len(targets(graph)) == 3


def test_marks_are_not_copied():
    @torch.compiler.allow_in_graph
    def opaque(x):
        return x.sin()

    @functools.wraps(opaque)
    def other(x):
        return opaque(x).cos()

    _, (graph,) = captured(lambda x: other(x), X, fullgraph=True)
    assert targets(graph) == [opaque, "cos"]


def test_nonstrict_trace():
    @torch._dynamo.nonstrict_trace
    def opaque(x, y):
        return x @ y

    def program(x):
        return opaque(x, x.T) * 2

    result, (graph,) = captured(program, X, fullgraph=True)
    assert torch.equal(result, program(X))
    assert [getattr(target, "__name__", target) for target in targets(graph)] == ["getattr", "opaque", "getitem", "mul"]


class Pair:
    def __init__(self, x, y, mark=None):
        self.x, self.y, self.mark = x, y, mark


pytree.register_pytree_node(Pair, lambda pair: ((pair.x, pair.y), pair.mark), lambda xy, mark: Pair(*xy, mark))


def test_nonstrict_trace_of_trees():
    @torch._dynamo.nonstrict_trace
    def opaque(pair, options, n=2):
        torch._dynamo.graph_break()
        return {"pair": Pair(pair.x * n, options["y"]), "mark": pair.mark, "size": pair.x.shape[0]}

    def program(x, mark, n):
        made = opaque(Pair(x + 1, x, mark), {"y": x.cos()}, n=n)
        return made["pair"].x.sin() + made["pair"].y, made["mark"], made["size"]

    graphs = EagerAndRecordGraphs()
    compiled = torch.compile(program, backend=graphs, fullgraph=True)
    for args in [(X, "a", 2), (X, "a", 2), (X, "b", 2), (X, "a", 3), (X[:1], "a", 3)]:
        result, expected = compiled(*args), program(*args)
        assert torch.equal(result[0], expected[0])
        assert result[1:] == expected[1:]
    assert len(graphs.graphs) == 4
    assert torch.equal(torch.compile(program, backend="aot_eager", fullgraph=True)(X, "a", 2)[0], program(X, "a", 2)[0])


def test_nonstrict_trace_of_other_objects():
    """Objects that pytree does not take apart could be others the next time."""

    @torch._dynamo.nonstrict_trace
    def opaque(x, holder):
        return x * getattr(holder, "mark", holder).factor

    class Holder:
        factor = 3

    with pytest.raises(torch._dynamo.exc.Unsupported, match="class Holder"):
        captured(lambda x: opaque(x, Holder()), X, fullgraph=True)
    holder = Holder()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="not one of its leaves"):
        captured(lambda x: opaque(x, Pair(x, x, holder)), X, fullgraph=True)
    compiled = torch.compile(lambda x, holder: opaque(x + 1, Pair(x, x, holder)), backend="eager")
    assert torch.equal(compiled(X, holder), (X + 1) * 3)
    other = Holder()
    other.factor = 4
    assert torch.equal(compiled(X, other), (X + 1) * 4)


@pytest.mark.parametrize("recursive", [True, False])
def test_disable(recursive):
    @torch.compiler.disable(recursive=recursive, reason="it is a test")
    def outside(x):
        return x.cos()

    def program(x):
        return outside(x.sin()).tan()

    result, graphs = captured(program, X)
    assert torch.equal(result, program(X))
    assert [targets(graph) for graph in graphs] == [["sin"], ["tan"]]


def test_questions():
    def program(x):
        if torch.compiler.is_compiling() and torch.compiler.is_dynamo_compiling() and torch._dynamo.is_compiling():
            return x + 1
        return x - 1

    result, graphs = captured(program, X, fullgraph=True)
    assert torch.equal(result, X + 1)
    assert torch.equal(program(X), X - 1)
    assert len(graphs) == 1


def test_assume_constant_result():
    calls = []

    @torch._dynamo.assume_constant_result
    def number():
        calls.append(1)
        return 3 + len(calls)

    compiled = torch.compile(lambda x: x + number(), backend="eager", fullgraph=True)
    first = compiled(X)
    assert torch.equal(first, compiled(X))
    assert torch.equal(first, X + 3 + len(calls))


def test_substitute_in_graph():
    import zlib

    @torch._dynamo.substitute_in_graph(zlib.adler32, skip_signature_check=True)
    def add_up(data, /):
        return sum(data)

    def program(x):
        return x + zlib.adler32(b"\x01\x02")

    result, _ = captured(program, X, fullgraph=True)
    assert torch.equal(result, X + 3)
    assert torch.equal(program(X), X + zlib.adler32(b"\x01\x02"))


def test_stance_with_a_backend():
    counters = CompileCounter(), CompileCounter()
    compiled = torch.compile(lambda x: x + 1, backend=counters[0])
    with torch.compiler.set_stance("default", force_backend=counters[1]):
        compiled(X)
    compiled(X[:1])
    assert [counter.frame_count for counter in counters] == [1, 1]
    with torch.compiler.set_stance("default", force_backend="eager"):
        assert torch.equal(compiled(X[0]), X[0] + 1)


def test_stance_with_a_backend_and_graphs_that_are_there():
    """They belong to the backend that compiled them; each has its own, also behind a break."""

    def program(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    own, forced = CompileCounter(), CompileCounter()
    compiled = torch.compile(program, backend=own)
    compiled(X)
    assert own.frame_count == 2
    with torch.compiler.set_stance("default", force_backend=forced):
        for _ in range(2):
            assert torch.equal(compiled(X), (X + 1) * 2)
    assert (own.frame_count, forced.frame_count) == (2, 2)
    compiled(X)
    with torch.compiler.set_stance("default", force_backend=forced):
        compiled(X)
    assert (own.frame_count, forced.frame_count) == (2, 2)


@pytest.mark.parametrize("stance", ["default", "force_eager", "eager_on_recompile", "fail_on_recompile"])
def test_stances(stance):
    counter = CompileCounter()
    compiled = torch.compile(lambda x: x.sin(), backend=counter)
    compiled(X)
    before = counter.frame_count
    with torch.compiler.set_stance(stance):
        assert torch.equal(compiled(X), X.sin())
        if stance == "fail_on_recompile":
            with pytest.raises(RuntimeError, match=r"fail_on_recompile(.|\n)*had sizes \[2, 3\], has now \[1, 3\]"):
                compiled(X[:1])
        else:
            assert torch.equal(compiled(X[:1]), X[:1].sin())
    assert counter.frame_count == before + (stance == "default")
    compiled(X[:1])
    assert counter.frame_count == 2


def test_run():
    counter = CompileCounter()
    compiled = torch.compile(lambda x: x.sin(), backend=counter)
    compiled(X)
    only = torch._dynamo.run(compiled)
    assert torch.equal(only(X[:1]), X[:1].sin())
    assert counter.frame_count == 1


def test_compiled_functions_call_each_other():
    inner = torch.compile(lambda x: x.sin(), backend="eager")
    result, (graph,) = captured(lambda x: inner(x).cos(), X, fullgraph=True)
    assert torch.equal(result, X.sin().cos())
    assert targets(graph) == ["sin", "cos"]


def test_shape_markers_are_accepted():
    x = X.clone()
    torch._dynamo.mark_dynamic(x, 0)
    torch._dynamo.maybe_mark_dynamic(x, 1)
    torch._dynamo.mark_static(x)
    assert torch.equal(torch.compile(torch.sin, backend="eager")(x), X.sin())


def test_custom_operators():
    @torch.library.custom_op("alternator_tests::scale", mutates_args=())
    def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
        return x * factor

    @scale.register_fake
    def _(x, factor):
        return torch.empty_like(x)

    result, (graph,) = captured(lambda x: scale(x, 2.0) + 1, X, fullgraph=True)
    assert torch.equal(result, X * 2 + 1)
    assert len(targets(graph)) == 2


def test_error_on_graph_break():
    def program(x, wanted):
        y = x.sin()
        with torch._dynamo.error_on_graph_break(wanted):
            torch._dynamo.graph_break()
        return y.cos()

    assert torch.equal(captured(program, X, False)[0], program(X, False))
    with pytest.raises(torch._dynamo.exc.Unsupported, match="graph_break"):
        captured(program, X, True)

    @torch._dynamo.error_on_graph_break(False)
    def tolerant(x):
        torch._dynamo.graph_break()
        return x + 1

    strict = torch._dynamo.optimize("eager", error_on_graph_break=True)
    assert torch.equal(strict(lambda x: tolerant(x.sin()))(X), X.sin() + 1)
    with pytest.raises(torch._dynamo.exc.Unsupported):
        strict(lambda x: program(x, True))(X)
    assert not torch._dynamo.utils._get_error_on_graph_break()


def test_settings_for_a_part_of_the_program():
    @torch._dynamo.dont_skip_tracing
    def inner(x):
        return x.cos()

    def program(x):
        with torch._dynamo.patch_dynamo_config(verbose=True):
            y = x.sin()
        return inner(y)

    result, (graph,) = captured(program, X, fullgraph=True)
    assert torch.equal(result, X.sin().cos())
    assert targets(graph) == ["sin", "cos"]


def test_comptime(capsys):
    from torch._dynamo.comptime import comptime

    def program(x):
        y = x.sin()
        comptime.print_graph()
        comptime(lambda context: print("nodes", len(context.graph())))
        return y.cos()

    compiled = torch.compile(program, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X), X.sin().cos())
    printed = capsys.readouterr().out
    assert "call_method[target=sin]" in printed
    assert "nodes 2\n" in printed
    compiled(X)
    assert capsys.readouterr().out == ""


def first(x):
    return x.sin()


def second(x):
    return x.cos()


def skips_itself(x):
    y = first(x).tan()
    torch._dynamo.skip_frame("not worth it")
    return second(y).exp()


def test_skip_frame():
    """The function runs for real; those that it calls are captured, each on its own."""
    recorded = EagerAndRecordGraphs()
    compiled = torch.compile(skips_itself, backend=recorded)
    for _ in range(3):
        assert torch.equal(compiled(X), X.sin().tan().cos().exp())
    assert [targets(graph) for graph in recorded.graphs] == [["sin"], ["cos"]]


def test_skip_frame_behind_a_break():
    """What comes behind the break runs for real."""

    def program(x):
        y = x.sin()
        torch._dynamo.graph_break()
        y = y.tan()
        torch._dynamo.skip_frame()
        return y.exp()

    recorded = EagerAndRecordGraphs()
    compiled = torch.compile(program, backend=recorded)
    for _ in range(3):
        assert torch.equal(compiled(X), X.sin().tan().exp())
    assert [targets(graph) for graph in recorded.graphs] == [["sin"]]


def test_skip_frame_further_inside():
    def program(x):
        return skips_itself(x + 1) * 2

    recorded = EagerAndRecordGraphs()
    compiled = torch.compile(program, backend=recorded)
    for _ in range(2):
        assert torch.equal(compiled(X), program(X))
    assert [targets(graph) for graph in recorded.graphs] == [[operator.add], ["sin"], ["cos"], [operator.mul]]


@torch.compiler.disable(recursive=False)
def only_itself(x):
    assert not torch.compiler.is_compiling()
    return second(first(x).tan())


@torch.compiler.disable
def everything(x):
    return second(first(x).tan())


def asks_for_both(x):
    torch._dynamo.skip_frame()
    return only_itself(x) + everything(x)


def test_what_skipped_functions_call():
    for program in (lambda x: only_itself(x + 1), asks_for_both):
        recorded = EagerAndRecordGraphs()
        compiled = torch.compile(program, backend=recorded)
        for _ in range(2):
            assert torch.equal(compiled(X), program(X))
        assert [targets(graph) for graph in recorded.graphs][-2:] == [["sin"], ["cos"]]
        assert len(recorded.graphs) == (2 if program is asks_for_both else 3)


def test_skipped_functions_that_recur():
    def program(x, depth):
        if depth == 0:
            torch._dynamo.skip_frame()
            return first(x)
        return program(x + depth, depth - 1)

    compiled = torch.compile(program, backend=(counter := CompileCounter()))
    assert torch.equal(compiled(X, 3), program(X, 3))
    assert torch.equal(compiled(X, 0), program(X, 0))
    assert counter.frame_count > 0


def test_skipped_functions_that_raise():
    def fails(x):
        raise KeyError(x.shape)

    def program(x):
        torch._dynamo.skip_frame()
        try:
            fails(first(x))
        except KeyError:
            return second(x)

    compiled = torch.compile(program, backend=(counter := CompileCounter()))
    for _ in range(2):
        assert torch.equal(compiled(X), X.cos())
    assert counter.frame_count == 2


def test_disallow_in_graph():
    def program(x):
        return torch.hypot(x.sin(), x).cos()

    torch._dynamo.disallow_in_graph(torch.hypot)
    try:
        result, graphs = captured(program, X)
        assert torch.equal(result, program(X))
        assert len(graphs) == 2
    finally:
        torch._dynamo.allow_in_graph(torch.hypot)
    torch._dynamo.reset()
    assert len(captured(program, X)[1]) == 1


def test_eager_then_compile():
    counter = CompileCounter()
    compiled = torch.compile(lambda x: x.sin(), backend=counter)
    with torch.compiler.set_stance("eager_then_compile"):
        compiled(X)
        assert counter.frame_count == 0
        compiled(X)
        assert counter.frame_count == 1


WITHOUT_TAKING_OVER = """
import torch

def early(x):
    return x + 1

torch.compiler.allow_in_graph(early)

@torch.compiler.assume_constant_result
def three():
    return 3

import alternator

graphs = []

def backend(module, inputs):
    graphs.append(module)
    return module

def check(fn, targets):
    graphs.clear()
    x = torch.ones(2)
    assert torch.equal(alternator.compile(fn, backend=backend, fullgraph=True)(x), fn(x))
    found = [getattr(node.target, "__name__", node.target) for node in graphs[0].graph.nodes if "call" in node.op]
    assert found == targets, found

check(lambda x: early(x) * three(), ["early", "mul"])

@torch.compiler.allow_in_graph
def late(x):
    return x * 2

@torch._dynamo.nonstrict_trace
def nonstrict(x):
    return x * 2

check(lambda x: late(x), ["late"])
check(lambda x: x + int(torch.compiler.is_dynamo_compiling()) * 0, ["add"])
graphs.clear()
compiled = alternator.compile(lambda x: x + 1, backend=backend)
with torch.compiler.set_stance("eager_on_recompile"):
    compiled(torch.ones(2))
assert not graphs
with torch.compiler.set_stance("force_eager"):
    compiled(torch.ones(2))
assert not graphs
compiled(torch.ones(2))
assert len(graphs) == 1
with torch.compiler.set_stance("fail_on_recompile"):
    try:
        compiled(torch.ones(2, dtype=torch.float64))
    except RuntimeError as error:
        print("fails")
assert torch._dynamo.optimize.__module__ == "torch._dynamo.eval_frame"
alternator.install()
alternator.uninstall()
check(lambda x: late(x), ["late"])
"""


def test_markers_without_taking_over():
    run = subprocess.run([sys.executable, "-P", "-c", WITHOUT_TAKING_OVER], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "fails\n"), run.stderr
