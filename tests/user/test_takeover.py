"""torch.compile and torch._dynamo's entry points run on Alternator while it is installed."""

import contextlib
import copy
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap
import venv
import weakref

import pytest
import torch
from torch._dynamo.testing import CompileCounter, CompileCounterWithBackend, EagerAndRecordGraphs, normalize_gm
from torch._dynamo.utils import counters

import alternator

pytestmark = [pytest.mark.capture, pytest.mark.usefixtures("take_over")]
ROOT = pathlib.Path(__file__).resolve().parents[2]
X = torch.arange(6.0).reshape(2, 3)


@contextlib.contextmanager
def counting_graphs(expected):
    before = alternator.frames_translated()
    yield
    assert alternator.frames_translated() - before == expected


def sine(x):
    return x.sin() + 1


def broken(x):
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos() + 1


@pytest.mark.parametrize("how", ["decorator", "called", "optimize", "optimize_assert", "builtin", "object"])
def test_ways_to_compile(how):
    class Adder:
        def __call__(self, x):
            return sine(x)

    ways = {
        "decorator": lambda: torch.compile(backend="eager")(sine),
        "called": lambda: torch.compile(sine, backend="eager", fullgraph=True),
        "optimize": lambda: torch._dynamo.optimize("eager")(sine),
        "optimize_assert": lambda: torch._dynamo.optimize_assert("eager")(sine),
        "builtin": lambda: torch.compile(torch.sin, backend="eager"),
        "object": lambda: torch.compile(Adder(), backend="eager"),
    }
    compiled = ways[how]()
    expected = X.sin() if how == "builtin" else sine(X)
    with counting_graphs(1):
        assert torch.equal(compiled(X), expected)
        assert torch.equal(compiled(X), expected)


def test_modules():
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    assert isinstance(compiled, torch._dynamo.OptimizedModule)
    with counting_graphs(1):
        assert torch.equal(compiled(X), module(X))
    assert list(compiled.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    assert torch.equal(copy.deepcopy(compiled)(X), module(X))
    in_place = torch.nn.Linear(3, 3)
    in_place.compile(backend="eager")
    with counting_graphs(1):
        assert in_place(X).shape == (2, 3)


def test_testing_backends_and_counters():
    counter = CompileCounter()
    assert torch.equal(torch.compile(broken, backend=counter)(X), broken(X))
    assert (counter.frame_count, counter.op_count) == (2, 3)
    assert counters["frames"] == {"total": 2, "ok": 2}
    assert counters["stats"] == {"unique_graphs": 2, "calls_captured": 3}
    assert sum(counters["graph_break"].values()) == 1
    graphs = EagerAndRecordGraphs()
    torch.compile(sine, backend=graphs, fullgraph=True)(X)
    text = normalize_gm(graphs.graphs[0].print_readable(print_output=False))
    assert 'def forward(self, L_x_: "f32[2, 3]"):' in text
    assert ': "f32[2, 3]" = l_x_.sin();' in text
    counter = CompileCounterWithBackend("aot_eager")
    torch.compile(sine, backend=counter)(X)
    assert len(counter.graphs) == 1


def test_one_function_compiled_twice_has_its_graphs_once():
    counter = CompileCounter()
    torch.compile(sine, backend=counter)(X)
    torch.compile(sine, backend=counter)(X)
    assert counter.frame_count == 1
    torch._dynamo.reset()
    torch.compile(sine, backend=counter)(X)
    assert counter.frame_count == 2


def test_a_break_under_fullgraph():
    compiled = torch.compile(broken, backend="eager", fullgraph=True)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="graph_break"):
        compiled(X)
    with pytest.raises(alternator.Unsupported, match=r"test_takeover\.py"):
        compiled(X)


def test_explain():
    output = torch._dynamo.explain(broken)(X)
    assert (output.graph_count, output.graph_break_count, output.op_count) == (2, 1, 1)
    assert "graph_break" in output.break_reasons[0].reason
    assert output.break_reasons[0].user_stack[0].name == "broken"
    assert "Graph Break Count: 1" in str(output)


@pytest.mark.parametrize("aten_graph", [False, True])
def test_export(aten_graph):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x, *, more):
            return {"sum": self.linear(x) + more[0], "same": x, "number": 3}

    model = Model()
    more = [torch.ones(3)]
    exported, guards = torch._dynamo.export(model, aten_graph=aten_graph)(X, more=more)
    result = exported(X, more=more)
    assert torch.equal(result["sum"], model(X, more=more)["sum"])
    assert result["same"] is X
    assert result["number"] == 3
    assert any("linear" in str(guard) for guard in guards)
    assert (torch.ops.aten.addmm.default in [node.target for node in exported.graph.nodes]) == aten_graph
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch._dynamo.export(broken)(X)


def test_dynamic_is_accepted():
    compiled = torch.compile(sine, backend="eager", dynamic=True)
    assert torch.equal(compiled(X), sine(X))
    assert torch.equal(compiled(X[:1]), sine(X[:1]))


def test_hooks():
    failures = []
    compiled = torch._dynamo.optimize("eager", guard_fail_fn=failures.append)(sine)
    compiled(X)
    compiled(X[:1])
    assert len(failures) == 1
    assert "had sizes [2, 3], has now [1, 3]" in failures[0].reason
    assert failures[0].reason.startswith("tensor 'x' size mismatch at index 0. expected 2, actual 1")
    assert failures[0].orig_code is sine.__code__


def test_logs(caplog):
    torch._logging.set_logs(graph_breaks=True, recompiles=True)
    try:
        loggers = [torch._logging.getArtifactLogger(*names) for names in LOGS]
        for logger in loggers:
            logger.addHandler(caplog.handler)
        compiled = torch.compile(broken, backend="eager")
        compiled(X)
        compiled(X[:1])
    finally:
        for logger in loggers:
            logger.removeHandler(caplog.handler)
        torch._logging.set_logs()
    messages = [record.getMessage() for record in caplog.records]
    assert any("Graph break in user code at" in text and "in broken" in text for text in messages), messages
    assert any("Recompiling function broken" in text and "had sizes [2, 3]" in text for text in messages), messages


LOGS = [("torch._dynamo.symbolic_convert", "graph_breaks"), ("torch._dynamo.guards", "recompiles")]


def test_install_and_uninstall():
    ours = torch._dynamo.optimize
    assert torch._dynamo.testing.optimize_assert is torch._dynamo.optimize_assert
    alternator.install()  # already
    alternator.uninstall()
    try:
        assert torch._dynamo.optimize is not ours
        assert torch._dynamo.optimize.__module__ == "torch._dynamo.eval_frame"
        assert torch._dynamo.testing.optimize_assert is torch._dynamo.optimize_assert
        with counting_graphs(0):
            assert torch.equal(torch.compile(sine, backend="eager")(X), sine(X))
    finally:
        alternator.install()
    assert torch._dynamo.optimize is ours


PROGRAM = """
import sys, torch
@torch.compile(backend="eager")
def double(x):
    return x * 2
print(double(torch.ones(2)).tolist(), sys.argv[1:])
alternator = sys.modules.get("alternator")
print(alternator.frames_translated() if alternator else "none", __name__)
"""


def test_programs_run_without_an_edit(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    command = [sys.executable, "-P", "-m", "alternator", "run", str(script), "a", "b"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "[2.0, 2.0] ['a', 'b']\n1 __main__\n", done.stderr


def test_nothing_is_kept_alive():
    """Neither tensors nor modules that a call is given: they are gone at once."""
    model = torch.nn.Linear(3, 3)
    x = torch.ones(2, 3)
    refs = [weakref.ref(x), weakref.ref(model), weakref.ref(model.weight)]
    compiled = torch.compile(lambda model, x: model(x), backend=CompileCounter())
    assert compiled(model, x).shape == (2, 3)
    del x, model
    assert [ref() for ref in refs] == [None] * 3


def run_by_variable(python, script, **environment):
    """Run a script with ALTERNATOR=1; return what it prints."""
    done = subprocess.run(
        [python, str(script)], capture_output=True, text=True, env=os.environ | {"ALTERNATOR": "1"} | environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_variable_and_an_installed_package(tmp_path):
    """An environment of its own, that finds torch where this one has it, and the package in its site-packages."""
    venv.create(tmp_path / "venv", with_pip=False)
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    package = pathlib.Path(sys.modules["alternator"].__file__).parent
    (site / "alternator").symlink_to(package)
    shutil.copy(ROOT / "alternator.pth", site)
    (site / "torch.pth").write_text(f"{pathlib.Path(torch.__file__).parents[1]}\n")
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    python = tmp_path / "venv" / "bin" / "python"
    assert run_by_variable(python, script, PYTHONPATH="").endswith("\n1 __main__\n")
    assert run_by_variable(python, script, PYTHONPATH="", ALTERNATOR="0").endswith("\nnone __main__\n")


def test_the_variable_and_a_path(tmp_path):
    """And another sitecustomize, which is behind ours on the path, has its turn."""
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "sitecustomize.py").write_text("print('another')")
    built = pathlib.Path(sys.modules["alternator"].__file__).parents[1]
    printed = run_by_variable(sys.executable, script, PYTHONPATH=f"{built}:{tmp_path / 'other'}")
    assert printed.startswith("another\n") and printed.endswith("\n1 __main__\n")


def test_programs_may_install_it_themselves(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("import alternator\nalternator.install()\n" + textwrap.dedent(PROGRAM))
    # As the command `alternator` of an installed package does.
    start = "import sys; from alternator.cli import run_command; sys.exit(run_command())"
    command = [sys.executable, "-c", start, "run", script.name, "a"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "[2.0, 2.0] ['a']\n1 __main__\n", done.stderr


@pytest.mark.parametrize("value, imported", [("", False), ("0", False), ("1", True)])
def test_the_pth_file_asks_the_environment(value, imported):
    path = os.path.join(os.path.dirname(__file__), "..", "..", "alternator.pth")
    with open(path) as file:
        line = file.read()
    code = f"import sys; exec({line!r}); print('alternator.startup' in sys.modules, 'torch' in sys.modules)"
    environment = os.environ | {"ALTERNATOR": value}
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout == f"{imported} False\n", done.stderr


def test_parameters_are_made_in_graphs():
    """TorchDynamo's own stand-in for what makes them is not ours."""
    with alternator.installed():
        graphs = []

        def keep(graph, examples):
            graphs.append(graph)
            return graph

        run = torch.compile(lambda x: torch.nn.Parameter(x * 2) + 1, backend=keep, fullgraph=True)
        assert torch.equal(run(torch.ones(2)), torch.full((2,), 3.0))
        assert len(graphs) == 1
