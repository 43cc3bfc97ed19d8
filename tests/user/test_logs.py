"""Logs: each topic says what it promises, leads to a user's line, and costs nothing when off."""

import logging
import os
import subprocess
import sys
import textwrap

import pytest
import torch

import alternator
from alternator import events, logs

pytestmark = pytest.mark.capture
X = torch.ones(3)


def helper(x):
    torch._dynamo.graph_break()
    return x * 2


def fn(x, n, log):
    y = x.sin() + n
    y = helper(y)
    log.append(y)
    return y.cos()


def place(function, offset):
    return f"{__file__}:{function.__code__.co_firstlineno + offset} in {function.__qualname__}"


@pytest.fixture
def said(caplog):
    """Switch logs on and get what they say, by topic."""
    logs.start()

    def run(*names, calls=((X, 3),), **switches):
        caplog.clear()
        alternator.set_logs(*names, **switches)
        compiled = alternator.compile(fn, backend="eager")
        for x, n in calls:
            compiled(x, n, [])
        found = {}
        for record in caplog.records:
            if record.name == "torch.__trace":  # torch's own, which nobody sees
                continue
            found.setdefault(record.name.removeprefix("alternator."), []).append(record.getMessage())
        return found

    yield run
    alternator.set_logs()
    assert events.listeners == ()


def test_breaks(said):
    found = said("graph_breaks", calls=[(X, 3), (X, 4)])
    assert list(found) == ["graph_breaks"]
    (text,) = found["graph_breaks"]  # once, although it is met again
    assert text.startswith(f"Graph break in user code at {place(helper, 1)}\nGraph Break Reason: Call to `torch._dyn")
    for part in (
        "Explanation: ",
        "Hint: Remove",
        "User code traceback:",
        "in fn\n    y = helper(y)\n        ^^^^^^^^^",
    ):
        assert part in text


def test_recompiles(said):
    (text,) = said(recompiles=True, guards=False, calls=[(X, 3), (X, 4)])["recompiles"]
    where = f"{__file__}:{fn.__code__.co_firstlineno}"
    assert text.splitlines() == [
        f"Recompiling function fn in {where}",
        "    triggered by the following guard failure(s):",
        "    - `n` was 3, is now 4",
    ]


def test_limits(said):
    with pytest.warns(UserWarning, match="recompile_limit"):
        with torch._dynamo.config.patch(specialize_float=True):
            found = said("recompiles", calls=[(X, n + 0.5) for n in range(10)])
    assert "recompile_limit (8) reached in fn" in found["recompiles"][-1]


def test_guards(said):
    first, second = said("guards")["guards"]
    lines = first.splitlines()
    assert f"+- Local: L['n'] == 3  # y = x.sin() + n  # {place(fn, 1)}" in lines
    child = f"|  +- TensorFacts: L['x']: Tensor float32[3] strides [1] cpu  # y = x.sin() + n  # {place(fn, 1)}"
    assert (
        lines.index(child) == lines.index(f"+- Local: type(L['x']) is Tensor  # y = x.sin() + n  # {place(fn, 1)}") + 1
    )
    assert f"# log.append(y)  # {place(fn, 3)}" in second


def test_graphs(said):
    found = said("graph_code", "graph")
    code, table = found["graph_code"][0], found["graph"][0]
    assert 'def forward(self, L_x_: "f32[3][1]cpu"):' in code
    assert f"# File: {__file__}:{fn.__code__.co_firstlineno + 1} in fn, code: y = x.sin() + n" in code
    assert "sin()" in code
    rows = [line.split() for line in table.splitlines()]
    assert rows[1] == ["opcode", "name", "target", "args", "kwargs"]
    assert ["call_function", "y", "operator.add", "(sin,", "3)", "{}"] in rows
    for text in (code, table):
        assert f"of fn ({__file__}:{fn.__code__.co_firstlineno})" in text


def test_bytecode(said):
    first, second = said("bytecode")["bytecode"]
    assert first.startswith(f"ORIGINAL BYTECODE fn {__file__} line {fn.__code__.co_firstlineno}")
    assert "-->       0 RESUME" in first
    assert "ORIGINAL BYTECODE helper" in second
    assert "-->      60 POP_TOP" in second


def test_traces(said):
    found = said("trace_source", "trace_bytecode")
    assert found["trace_source"][1] == f"TRACE starts_line {place(fn, 1)}\n        y = x.sin() + n"
    assert (
        f"TRACE starts_line {place(helper, 1)} (inline depth: 1)\n        torch._dynamo.graph_break()"
        in found["trace_source"]
    )
    assert "TRACE BINARY_OP + [Tensor, int]" in found["trace_bytecode"]


def test_exits_and_steps(said):
    found = said("exits", "steps")
    first, second = found["exits"]
    assert f"before {place(helper, 1)}: Call to" in first
    assert f"goes on at {place(helper, 1)}" in first
    assert second.splitlines()[1:] == ["    appends 1 to log"]
    assert found["steps"] == [f"runs for real: {place(helper, 1)}\n    torch._dynamo.graph_break()"]


def test_everything(said):
    found = said("+dynamo", calls=[(X, 3), (X, 4)])
    assert set(found) == set(logs.TOPICS)
    steps = [text.split(" at ")[0] for text in found["dynamo"][:4]]
    assert steps[0] == "Step 1: start tracing fn"
    assert steps[1] == f"Step 2: calling compiler function eager for fn ({__file__}:{fn.__code__.co_firstlineno})"
    assert steps[2].startswith("Step 2: compiler function eager done")
    assert steps[3] == "Step 1: done tracing fn"
    assert "guards" not in said("+dynamo", "-guards")


def test_unknown_names():
    with pytest.raises(ValueError, match="no log 'gaurds'. The logs are: graph_breaks, recompiles, guards"):
        alternator.set_logs("gaurds")


def test_off_costs_nothing(said):
    said("guards")
    alternator.set_logs()
    assert events.listeners == ()


def test_loggers_of_torch(caplog):
    logs.start()
    torch._logging.set_logs(graph_breaks=True, guards=True)
    logger = logging.getLogger("torch")
    logger.addHandler(caplog.handler)
    try:
        alternator.compile(fn, backend="eager")(X, 3, [])
    finally:
        torch._logging.set_logs()
        logger.removeHandler(caplog.handler)
    heard = {record.name.rpartition(".")[2] for record in caplog.records}
    assert heard == {"__graph_breaks", "__guards"}
    assert events.listeners == ()


PROGRAM = """
    import torch, alternator

    def fn(x):
        y = x.sum()
        return x * y.item()

    alternator.compile(fn, backend="eager")(torch.ones(3))
"""


def run(tmp_path, **environment):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(PROGRAM))
    run = subprocess.run([sys.executable, "-P", script], env=os.environ | environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout == ""
    return run.stderr


def test_the_environment(tmp_path):
    found = run(tmp_path, ALTERNATOR_LOGS="graph_breaks, exits,nonsense", TORCH_LOGS="guards")
    assert f"[alternator.graph_breaks] Graph break in user code at {tmp_path}/script.py:6 in fn" in found
    assert "[alternator.exits] EXIT: " in found
    assert "ALTERNATOR_LOGS: there is no log nonsense. The logs are: graph_breaks, " in found
    assert "[__guards] GUARDS: capture 1 of fn" in found
