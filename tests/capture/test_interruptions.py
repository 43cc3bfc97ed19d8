"""What comes from outside in the middle of a trace: signals, no more stack, no more memory. Everything is put back.

What a program can see after an interruption is what it might see in eager execution: the first of its writes.
"""

import signal
import sys
import warnings

import pytest
import torch

import alternator
from alternator import recording
from capture.agreement import Captured, same
from capture.world import Picture, changes

pytestmark = pytest.mark.capture

X = torch.linspace(0, 1, 4)
INTERRUPT = {"how": None}


@torch.library.custom_op("alternator_tests::interrupted", mutates_args=())
def interrupted(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@interrupted.register_fake
def run_in_the_trace(x):
    if INTERRUPT["how"] is not None:
        INTERRUPT["how"]()
    return torch.empty_like(x)


def raise_interrupt():
    raise KeyboardInterrupt


WAYS = {
    "raised": raise_interrupt,
    "signal": lambda: signal.raise_signal(signal.SIGINT),
    "exit": lambda: sys.exit(3),
}


@pytest.fixture(scope="module", autouse=True)
def warm():
    """The first trace with such an operator imports this and that."""
    alternator.compile(interrupted, backend="eager")(X)
    alternator.compile(lambda x: interrupted(x), backend="eager")(X)


class Box:
    def __init__(self):
        self.n = 0
        self.log = []
        self.table = {"a": X.clone()}


def write_and_call(x, box):
    box.n += 1
    box.log.append(x + 1)
    box.table["a"].add_(1)
    with torch.no_grad():
        try:
            x = interrupted(x * 3)
            box.table["b"] = x
        except BaseException:
            box.log.append("caught")
            raise
        finally:
            box.n += 10
    return x


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_interrupted_in_the_middle_of_a_trace(way, broken, capsys):
    """The handlers of the program do not run: it has not even begun."""

    def program(x, box):
        if broken:
            print(end="")
        return write_and_call(x, box)

    box, eager = Box(), Box()
    compiled = alternator.compile(program, backend="eager")
    before = Picture({"box": box, "x": X})
    INTERRUPT["how"] = WAYS[way]
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in jobs in the background
    try:
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            compiled(X, box)
    finally:
        signal.signal(signal.SIGINT, handler)
        INTERRUPT["how"] = None
    after = Picture({"box": box, "x": X})
    before.state.pop("handled exception")
    assert changes(before, after) == []
    for _ in range(3):
        assert same(compiled(X, box), program(X, eager))
        assert same(vars(box), vars(eager))
    assert compiled.regions()


def count_up(x, box):
    for i in range(12):
        box.n = i + 1
        box.log.append(i)
        x = torch.sin(x) + box.n
        box.table[i] = x
    return x


def test_interrupted_at_any_time():
    """A timer's signal comes while it traces, compiles, runs or writes the results."""

    def interrupt(*_):
        raise KeyboardInterrupt

    interruptions = 0
    old = signal.signal(signal.SIGALRM, interrupt)
    try:
        for number in range(150):
            box = Box()
            compiled = alternator.compile(count_up, backend="eager")
            compiling = torch.compiler._is_compiling_flag
            modes = torch._C._len_torch_function_stack()
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-5 + number * 4e-5)
                compiled(X, box)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interruptions += 1
            # Each of the three is as far as the others, or a step in front.
            assert box.log == list(range(len(box.log)))
            assert box.n in (len(box.log), len(box.log) + 1)
            assert [key for key in box.table if key != "a"] == list(range(len(box.table) - 1))
            assert len(box.table) - 1 in (len(box.log), len(box.log) - 1)
            assert torch.compiler._is_compiling_flag is compiling is False
            assert torch._C._len_torch_function_stack() == modes
            other, eager = Box(), Box()
            assert same(compiled(X, other), count_up(X, eager))
            assert same(vars(other), vars(eager))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert interruptions > 5


def descend(depth, fn, *args):
    return descend(depth - 1, fn, *args) if depth else fn(*args)


def nest(x, box, depth):
    box.log.append(depth)
    return nest(x + depth, box, depth - 1) * 2 if depth else x


def find_room(fn):
    """Find how deep a function can be called without a RecursionError."""
    depth = sys.getrecursionlimit()
    while True:
        try:
            descend(depth, fn, X, Box(), 6)
            return depth
        except RecursionError:
            depth -= 1


def test_the_stack_runs_out():
    """A trace needs more stack than eager execution, a call does not: it fails where that fails, at the same depth."""
    room = find_room(nest)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for spare in [*range(-8, 30), 60, 100, 150]:
            box, eager = Box(), Box()
            compiled = alternator.compile(nest, backend="eager")
            try:
                expected = descend(room - spare, nest, X, eager, 6)
            except RecursionError:
                expected = None
            try:
                found = descend(room - spare, compiled, X, box, 6)
            except RecursionError:
                found = None
            assert same(found, expected), f"{spare} frames are left"
            assert box.log == eager.log
            compiled(X, box, 6)
            assert compiled.regions()  # it is not given up for good


def test_a_program_that_handles_the_lack():
    def program(x, box):
        try:
            box.log.append("huge")
            x = x + len([0] * sys.maxsize)
        except MemoryError:
            box.log.append("no")
        return x * 2

    def endless(n):
        return endless(n + 1)

    def recursive(x, box):
        try:
            endless(0)
        except RecursionError:
            box.n += 1
        return x * 2

    for fn in (program, recursive):
        captured, box, eager = Captured(fn), Box(), Box()
        for _ in range(3):
            assert same(captured(X, box), fn(X, eager))
        assert same(vars(box), vars(eager))


def check_like_eager(captured, fn=write_and_call):
    box, eager = Box(), Box()
    assert same(captured(X, box), fn(X, eager))
    assert same(vars(box), vars(eager))
    assert torch.compiler._is_compiling_flag is False
    assert torch._C._len_torch_function_stack() == 0


METHODS = ["__init__", "begin", "record", "has_operations", "end", "make_graph"]


@pytest.mark.parametrize("error", [MemoryError, RecursionError])
@pytest.mark.parametrize("method", METHODS)
def test_the_tracer_runs_out_of_resources(method, error, monkeypatch):
    """Eager execution may have enough: it is not the program's failure, and not for good."""
    captured = Captured(write_and_call)
    real, times = getattr(recording.Tracer, method, None), []

    def fail(self, *args):
        result = real(self, *args)
        times.append(method)
        raise error("a fault")

    with monkeypatch.context() as patch:
        patch.setattr(recording.Tracer, method, fail)
        for _ in range(2):
            check_like_eager(captured)
    assert times and not captured.graphs
    for _ in range(2):
        check_like_eager(captured)
    assert captured.graphs and captured.said == []


@pytest.mark.parametrize("fullgraph", [False, True])
def test_the_tracer_fails(fullgraph, monkeypatch):
    def fail(self):
        raise IndexError("a bug")

    monkeypatch.setattr(recording.Tracer, "make_graph", fail)
    captured = Captured(write_and_call, fullgraph=fullgraph)
    if fullgraph:
        box = Box()
        with pytest.raises(RuntimeError, match="a bug"):
            captured(X, box)
        assert same(vars(box), vars(Box()))
        return
    for _ in range(3):
        check_like_eager(captured)
    (said,) = captured.said
    assert "Alternator itself failed" in said and "a bug" in said
