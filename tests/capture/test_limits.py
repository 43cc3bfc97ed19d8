"""How many regions a point may have: TorchDynamo's two limits, and what happens at them."""

import gc
import warnings

import pytest
import torch
import torch._dynamo.config as dynamo_config
from torch._dynamo.exc import FailOnRecompileLimitHit

import alternator

X = torch.arange(3.0)
pytestmark = [pytest.mark.capture, pytest.mark.usefixtures("collect_quickly")]


def multiply(x, n):
    return x * n


def multiply_and_print(x, n):
    x = x + 1
    print(end="")
    return x * n


def multiply_by_class(x, cls):
    return x * cls.n


def collect_warnings(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in caught if "alternator" in str(warning.message)]


def call_with(compiled, numbers):
    for n in numbers:
        assert torch.equal(compiled(X, n), X * n)


def test_at_the_limit_a_function_runs_eagerly_with_one_warning():
    compiled = alternator.compile(multiply, backend="eager", dynamic=False)
    assert collect_warnings(lambda: call_with(compiled, range(8))) == []
    assert len(compiled.regions()) == 8
    (text,) = collect_warnings(lambda: call_with(compiled, range(20)))
    assert "recompile_limit (8)" in text
    assert "multiply (" in text
    assert "`n` was 7, is now 8" in text
    assert len(compiled.regions()) == 8
    before = alternator.frames_translated()
    call_with(compiled, range(20))  # those that are there still serve
    assert alternator.frames_translated() == before
    compiled.reset()
    assert collect_warnings(lambda: call_with(compiled, range(8))) == []


def test_the_limit_is_read_when_it_is_used():
    compiled = alternator.compile(multiply, backend="eager", dynamic=False)
    with dynamo_config.patch(recompile_limit=2):
        (text,) = collect_warnings(lambda: call_with(compiled, range(5)))
    assert "recompile_limit (2)" in text
    assert len(compiled.regions()) == 2


def test_each_point_has_its_own_limit(capsys):
    compiled = alternator.compile(multiply_and_print, backend="eager")
    with dynamo_config.patch(recompile_limit=2, specialize_float=True):
        (text,) = collect_warnings(lambda: [compiled(X, n) for n in (1.5, 2.5, 3.5, 4.5)])
    assert "recompile_limit (2)" in text
    for n in (1.5, 2.5, 3.5, 4.5):
        assert torch.equal(compiled(X, n), (X + 1) * n)


def make_class(n):
    return type("Local", (), {"n": n})


def test_regions_of_dead_objects_do_not_count():
    compiled = alternator.compile(multiply_by_class, backend="eager")
    for n in range(20):
        assert torch.equal(compiled(X, make_class(n)), X * n)
        gc.collect()
    assert compiled.regions() == []
    with dynamo_config.patch(accumulated_recompile_limit=22):
        (text,) = collect_warnings(lambda: [compiled(X, make_class(n)) for n in range(20) if gc.collect() >= 0])
    assert "accumulated_recompile_limit (22)" in text


@pytest.mark.parametrize("fullgraph", [False, True])
def test_failing_at_the_limit(fullgraph):
    compiled = alternator.compile(multiply, backend="eager", fullgraph=fullgraph, dynamic=False)
    with dynamo_config.patch(fail_on_recompile_limit_hit=not fullgraph, recompile_limit=2):
        call_with(compiled, [1, 2])
        for _ in range(2):
            with pytest.raises(FailOnRecompileLimitHit, match="fullgraph=True" if fullgraph else "fail_on_recompile"):
                compiled(X, 3)
        call_with(compiled, [1, 2])
    call_with(compiled, [3])
