"""The caches of AOTAutograd and Inductor: what one process compiled, the next finds, for every kind of graph."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
import torch

import alternator
from alternator.backend_calls import StaticContext, static_context

pytestmark = pytest.mark.capture
X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))

# Each program gives what its function returned, and how often the caches were asked.
PROGRAM = """
import json, sys
import torch, alternator
from torch._dynamo.utils import counters

torch.manual_seed(0)
linear = torch.nn.Linear(4, 5)
x = torch.randn(3, 4)
results = []

def run(function, *inputs):
    # The stack of callers is that of every program.
    eager, compiled = function(*inputs), alternator.compile(function)(*inputs)
    torch.testing.assert_close(compiled, eager)
    results.append(torch.as_tensor(compiled).double().sum().item())

{body}

kinds = [(name, key) for name in ("inductor", "aot_autograd") for key in counters[name] if "cache_" in key]
print(json.dumps([results, {{key: counters[name][key] for name, key in kinds}}]))
"""

STATIC = """
with torch.no_grad():
    run(lambda x: linear(x).relu(), x)
"""

TRAINING = """
def step(x):
    return linear(x).relu().sum()

compiled = alternator.compile(step)
compiled(x).backward()
found = linear.weight.grad.clone()
linear.zero_grad()
step(x).backward()
torch.testing.assert_close(found, linear.weight.grad)
results.append(found.sum().item())
"""

SIZES = """
def scale(x):
    return x.sum(1) * x.size(0)

compiled = alternator.compile(scale)
for size in (3, 5, 7):
    given = torch.ones(size, 4)
    torch.testing.assert_close(compiled(given), scale(given))
    results.append(compiled(given).sum().item())
"""

BREAKS = """
def broken(x):
    y = x.sin()
    print(end="")
    return y * linear(y).sum()

with torch.no_grad():  # a graph whose backward is never called is not kept
    run(broken, x)
"""

# Programs, how many graphs of each AOTAutograd is asked for, and Inductor.
PROGRAMS = [(STATIC, 1, 1), (TRAINING, 1, 2), (SIZES, 2, 2), (BREAKS, 2, 2)]


def start(program, folder, **variables):
    text = PROGRAM.format(body=textwrap.dedent(program))
    env = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(folder), "PYTHONHASHSEED": "random"} | variables
    done = subprocess.run([sys.executable, "-P", "-c", text], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_next_process_finds_what_one_compiled(tmp_path):
    programs, graphs, parts = zip(*PROGRAMS, strict=True)
    program, graphs, parts = "".join(programs), sum(graphs), sum(parts)
    expected, first = start(program, tmp_path)
    assert first["autograd_cache_miss"] == graphs and first["fxgraph_cache_miss"] == parts
    assert not any("hit" in key or "bypass" in key for key in first), first  # each graph is compiled once
    found, second = start(program, tmp_path)
    assert second == {"autograd_cache_hit": graphs, "fxgraph_cache_hit": parts}
    assert found == expected


SAVE = """
with torch.no_grad():
    run(lambda x: linear(x).relu(), x)
artifacts, info = torch.compiler.save_cache_artifacts()
assert info.aot_autograd_artifacts and info.inductor_artifacts
open({path!r}, "wb").write(artifacts)
"""

LOAD = """
torch.compiler.load_cache_artifacts(open({path!r}, "rb").read())
with torch.no_grad():
    run(lambda x: linear(x).relu(), x)
"""


def test_artifacts_are_saved_and_loaded(tmp_path):
    path = str(tmp_path / "artifacts")
    expected, _ = start(SAVE.format(path=path), tmp_path / "one")
    found, counts = start(LOAD.format(path=path), tmp_path / "other")
    assert counts["autograd_cache_hit"] == counts["fxgraph_cache_hit"] == 1
    assert found == expected


def test_within_a_process(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    counters = torch._dynamo.utils.counters["aot_autograd"]
    compiled = alternator.compile(lambda x: (x * 2).cos())
    found = []
    for _ in range(2):
        before = counters["autograd_cache_miss"], counters["autograd_cache_hit"]
        compiled(X)
        found.append((counters["autograd_cache_miss"] - before[0], counters["autograd_cache_hit"] - before[1]))
        alternator.reset()
    assert found == [(1, 0), (0, 1)]


def test_a_key_depends_on_what_the_graph_is_compiled_for(tmp_path, monkeypatch):
    """What is no part of the graph's text, but of what it computes: nothing is found that was made for another."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))

    def function(x):
        return x + torch.ones(3, 1)

    for dtype in (torch.float32, torch.float64):
        for given in (X, X.double(), X.t().contiguous().t(), X[:, ::2]):
            before = torch.get_default_dtype()
            torch.set_default_dtype(dtype)
            try:
                result, expected = alternator.compile(function)(given), function(given)
            finally:
                torch.set_default_dtype(before)
            torch.testing.assert_close(result, expected)
            assert result.stride() == expected.stride()


# ---- What backends are told ----------------------------------------------------------------------------------------


def test_backends_find_a_mode_that_knows_the_inputs():
    seen = []

    def backend(module, examples):
        mode = torch._guards.detect_fake_mode(examples)
        assert mode is torch._guards.TracingContext.get().fake_mode and mode.shape_env is not None
        fakes = [mode.from_tensor(example) for example in examples]
        seen.append([(tuple(fake.shape), fake.stride(), fake.requires_grad) for fake in fakes])
        assert not any(fake._has_symbolic_sizes_strides for fake in fakes)
        return module

    weight = torch.ones(4, requires_grad=True)
    alternator.compile(lambda x: x * weight, backend=backend)(X)
    assert sorted(seen[0]) == sorted([((3, 4), (4, 1), False), ((4,), (1,), True)])
    assert torch._guards.TracingContext.try_get() is None


def test_a_mode_is_made_for_who_asks_alone():
    contexts = []

    def backend(module, examples):
        contexts.append(torch._guards.TracingContext.get())
        return module

    alternator.compile(lambda x: x + 1, backend=backend)(X)
    (context,) = contexts
    assert type(context) is StaticContext and context.mode is None and context.fake_mode is None


def test_a_context_that_is_kept_keeps_no_tensor():
    tensor = torch.ones(2)
    with static_context([tensor]):
        context = torch._guards.TracingContext.get()
        assert context.fake_mode is not None
        shown = torch.utils.weak.WeakIdRef(tensor)
    assert context.fake_mode is not None and context.examples is None
    del tensor
    assert shown() is None


def test_the_limit_of_recursion_is_the_programs(monkeypatch):
    limit = sys.getrecursionlimit()

    def backend(module, examples):
        sys.setrecursionlimit(limit + 100)  # as Inductor does
        return module

    graphs = []

    def function(x):
        return x * sys.getrecursionlimit()

    compiled = alternator.compile(function, backend=lambda *a: graphs.append(a) or backend(*a))
    assert torch.equal(compiled(X), function(X))
    assert sys.getrecursionlimit() == limit and len(graphs) == 1
