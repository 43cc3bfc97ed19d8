"""alternator.explain: graphs, breaks, operations, guards and times of a call, as data and as text."""

import json

import pytest
import torch

import alternator
from alternator import events

pytestmark = pytest.mark.capture
X = torch.ones(3)
FIELDS = ["Graph Count: 2", "Graph Break Count: 1", "Op Count: 7", "Break Reasons:", "  Break Reason 1:"]
FIELDS += ["    Reason: Data-dependent branching", "    User Stack:", "Ops per Graph:", "Out Guards:", "  Guard 1:"]


def bar(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


@pytest.fixture
def explanation():
    return alternator.explain(bar)(X, -X)


def test_text(explanation):
    text = str(explanation)
    lines = text.splitlines()
    positions = [lines.index(field) for field in FIELDS]
    assert positions == sorted(positions)
    first = bar.__code__.co_firstlineno
    assert f'      File "{__file__}", line {first + 2}, in bar' in lines
    assert "        if b.sum() < 0:\n           ^^^^^^^^^^^" in text
    assert f"  Ops 1: ({__file__}:{first + 1}-{first + 2})\n    torch.abs\n    operator.add\n" in text
    for field in ("Name", "Source", "Create Function", "Guard Types", "Code List", "User Line"):
        assert f"    {field}: " in text
    assert """    Name: "L['a']"\n    Source: local\n""" in text
    assert "Compile Times: " in text
    assert "Code List" not in repr(explanation)
    assert "Graph Count: 2" in repr(explanation)


def test_attributes(explanation):
    assert (explanation.graph_count, explanation.graph_break_count, explanation.op_count) == (2, 1, 7)
    assert [len(graph.graph.nodes) for graph in explanation.graphs] == [8, 5]
    assert explanation.ops_per_graph[1] == ("operator.mul", "operator.mul")
    (stop,) = explanation.break_reasons
    assert stop.reason == "DataDependentBranch"
    assert stop.place.line == bar.__code__.co_firstlineno + 2
    assert any(guard.source == "L['a']" for guard in explanation.out_guards)
    assert all(tracing > 0 <= backend for _, tracing, backend in explanation.compile_times)
    assert events.listeners == ()


def test_data(explanation):
    data = json.loads(json.dumps(explanation.to_dict()))
    assert data["graph_count"] == 2
    assert data["function"]["name"] == "bar"
    assert data["break_reasons"][0]["what"] == "Data-dependent branching"
    assert data["break_reasons"][0]["user_stack"][0]["function"] == "bar"
    assert data["graphs"][0]["ends_with"] == "Data-dependent branching"
    assert data["graphs"][1]["ends_with"] == "return"
    assert "def forward" in data["graphs"][0]["code"]


def test_notebooks(explanation):
    page = explanation._repr_html_()
    assert page.count("<details") == page.count("</details>") == 6
    assert "b.sum() &lt; 0" in page
    assert "2 graphs, 1 breaks, 7 operations" in page


def test_modules_and_compiled_functions():
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    found = alternator.explain(module)(X)
    assert (found.graph_count, found.graph_break_count) == (1, 0)
    assert found.function.name == "Sequential"
    again = alternator.explain(alternator.compile(module, backend="eager"))(X)
    assert again.graph_count == 1
    assert alternator.explain(alternator.compile(bar, backend="eager"))(X, -X).graph_count == 2


def test_what_was_compiled_stays():
    compiled = alternator.compile(bar, backend="eager")
    compiled(X, X)
    regions = compiled.regions()
    alternator.explain(compiled)(X, -X)
    assert compiled.regions() == regions


@pytest.mark.usefixtures("take_over")
def test_in_the_place_of_torchs():
    found = torch._dynamo.explain(bar)(X, -X)
    assert (found.graph_count, found.graph_break_count, len(found.break_reasons)) == (2, 1, 1)
    assert found.break_reasons[0].reason.startswith("Data-dependent branching")
    assert found.break_reasons[0].user_stack[-1].lineno == bar.__code__.co_firstlineno + 2
    assert found.op_count == 6  # what torch counts: no methods
    assert "Out Guards:" in str(found)
    assert "Compile Times:" in str(found)
    assert found.explanation.op_count == 7
