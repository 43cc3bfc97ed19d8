"""The stream of events: what is told while functions are captured, and that nothing is while nobody listens."""

import cProfile
import itertools
import sys
import threading

import pytest
import torch

import alternator
from alternator import events

pytestmark = pytest.mark.capture
X = torch.ones(3)
HERE = __file__


def helper(x):
    torch._dynamo.graph_break()
    return x * 2


def fn(x, n, log):
    y = x.sin() + n
    y = helper(
        y,
    )
    log.append(y)
    return y.cos()


def line_of(function, offset):
    return function.__code__.co_firstlineno + offset


def hear(fn, *calls, backend="eager", **options):
    """Compile and call a function; return its events."""
    heard = []
    compiled = alternator.compile(fn, backend=backend)
    with events.listen(heard.append, **options):
        for args in calls:
            compiled(*args)
    return heard


def pick(heard, kind):
    return [event for event in heard if isinstance(event, kind)]


def test_a_capture_with_a_break():
    heard = hear(fn, (X, 3, []))
    order = [type(event).__name__ for event in heard]
    one = ["CaptureBegan", "Break", "BackendBegan", "BackendEnded", "CaptureEnded"]
    assert order == one + [name for name in one if name != "Break"]
    first, second = pick(heard, events.CaptureBegan)
    assert (first.start.file, first.start.line, first.start.function) == (HERE, fn.__code__.co_firstlineno, "fn")
    assert (first.after_break, first.depth, second.after_break, second.depth) == (False, 0, True, 1)
    assert (second.start.function, second.start.line) == ("helper", line_of(helper, 1))
    assert {event.capture for event in heard[:5]} == {first.capture} != {second.capture}
    assert first.function == events.Function("fn", HERE, fn.__code__.co_firstlineno)


def test_breaks_have_frames_with_columns():
    (stop,) = pick(hear(fn, (X, 3, [])), events.Break)
    outer, inner = stop.frames
    assert (outer.function, outer.line, outer.end_line) == ("fn", line_of(fn, 2), line_of(fn, 4))
    assert (inner.function, inner.line) == ("helper", line_of(helper, 1))
    assert inner.source[inner.column : inner.end_column] == "torch._dynamo.graph_break()"
    assert stop.user_frames == stop.frames
    assert stop.library_frames == ()
    assert stop.place == inner
    assert "graph_break" in stop.detail
    assert stop.what
    assert not stop.idle


def test_ends_have_graphs_lines_guards_and_effects():
    first, second = pick(hear(fn, (X, 3, [])), events.CaptureEnded)
    assert first.operations == ("sin", "operator.add")
    assert second.operations == ("operator.mul", "cos")
    assert first.lines == {HERE: (line_of(fn, 1),)}
    assert second.lines == {HERE: (line_of(helper, 2), line_of(fn, 6))}
    assert isinstance(first.graph, torch.fx.GraphModule)
    assert first.end.place.function == "helper"
    assert second.end is None
    assert [frame.function for frame in first.resumes] == ["fn", "helper"]
    assert first.resumes[-1].line == line_of(helper, 1)
    assert second.resumes == ()
    assert first.effects == ()
    assert second.effects == ("appends 1 to log",)
    assert 0 < first.seconds < 10
    assert 0 <= first.backend_seconds < 10
    guards = {guard.source: guard for guard in first.guards}
    assert guards["L['n']"].text == "L['n'] == 3"
    assert guards["L['n']"].frame.line == line_of(fn, 1)
    facts = next(guard for guard in first.guards if guard.kind == "TensorFacts")
    assert "[3]" in facts.text
    assert first.guards[facts.parent].text == "type(L['x']) is Tensor"


def test_recompilations_and_limits():
    heard = hear(fn, *((X, n, []) for n in range(3)))
    assert [event.reason for event in pick(heard, events.Recompiled)] == ["`n` was 0, is now 1", "`n` was 1, is now 2"]
    assert pick(heard, events.Recompiled)[0].guard == "n"
    with pytest.warns(UserWarning, match="recompile_limit"):
        with torch._dynamo.config.patch(specialize_float=True):
            heard = hear(fn, *((X, n + 0.5, []) for n in range(10)))
    (limit,) = pick(heard, events.LimitReached)
    assert (limit.limit, limit.value) == ("recompile_limit", 8)


def test_what_runs_eagerly():
    def fail(module, examples):
        raise RuntimeError("no such graph")

    with torch._dynamo.config.patch(suppress_errors=True), pytest.warns(UserWarning, match="no such graph"):
        heard = hear(fn, (X, 3, []), backend=fail)
    (fallback,) = pick(heard, events.FellBack)
    assert fallback.why.reason == "BackendFailed"
    assert "no such graph" in fallback.why.detail
    assert "no such graph" in pick(heard, events.BackendEnded)[0].error


def test_calls_and_steps_are_told_on_demand():
    heard = hear(fn, (X, 3, []), (X, 3, []), calls=True, steps=True)
    first, second = pick(heard, events.CaptureEnded)
    assert [event.capture for event in pick(heard, events.GraphCalled)] == [first.capture, second.capture] * 2
    assert all(event.seconds > 0 for event in pick(heard, events.GraphCalled))
    assert [step.frames[-1].line for step in pick(heard, events.Stepped)] == [line_of(helper, 1)] * 2


def test_brief_listeners_get_no_guards():
    ends = pick(hear(fn, (X, 3, []), brief=True), events.CaptureEnded)
    assert [(end.guards, end.lines) for end in ends] == [((), {})] * 2


def test_warm_calls_and_closed_listeners_hear_nothing():
    heard = []
    compiled = alternator.compile(fn, backend="eager")
    with events.listen(heard.append):
        compiled(X, 3, [])
        count = len(heard)
        compiled(X, 3, [])
    assert len(heard) == count
    compiled(X, 4, [])
    assert len(heard) == count
    assert events.listeners == ()


def test_listeners_that_fail_change_nothing():
    def fail(event):
        raise ValueError("not today")

    compiled = alternator.compile(fn, backend="eager")
    with events.listen(fail), pytest.warns(UserWarning, match="not today"):
        assert torch.equal(compiled(X, 3, []), fn(X, 3, []))


def test_a_listener_that_goes_in_the_middle_of_a_capture():
    heard = []

    def close(module, examples):
        listener.close()
        return module.forward

    listener = events.listen(heard.append)
    alternator.compile(fn, backend=close)(X, 3, [])
    assert pick(heard, events.CaptureEnded) == []
    (began, *_), numbers = hear(fn, (X, 3, [])), {event.capture for event in heard}
    assert began.capture not in numbers
    assert events.current_capture() is None


def test_listeners_that_change_what_the_program_has():
    box = [torch.ones(3)]

    def meddle(event):
        if isinstance(event, events.CaptureEnded):
            kept.append(box[0])
            box[0] = torch.zeros(2)

    kept = []
    compiled = alternator.compile(lambda box: box[0] + 1, backend="eager")
    with events.listen(meddle):
        assert torch.equal(compiled(box), torch.ones(2))


def test_libraries_are_told_apart():
    class Broken(torch.nn.Module):
        def forward(self, x):
            torch._dynamo.graph_break()
            return x + 1

    model = torch.nn.Sequential(Broken())

    def fn(x):
        return model(x)

    (stop, *_) = pick(hear(fn, (X,)), events.Break)
    assert {frame.library for frame in stop.frames} == {None, "torch"}
    assert [frame.function.split(".")[-1] for frame in stop.user_frames] == ["fn", "forward"]
    assert events.find_library(threading.__file__) == "python"
    assert events.find_library(events.__file__) == "alternator"
    assert events.find_library(HERE) is None


def test_threads_have_captures_of_their_own():
    heard = []

    def work(n):
        alternator.compile(fn, backend="eager")(X, n, [])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    with events.listen(heard.append):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for end in pick(heard, events.CaptureEnded):
        (began,) = [event for event in pick(heard, events.CaptureBegan) if event.capture == end.capture]
        assert began.thread == end.thread
    assert len(pick(heard, events.CaptureEnded)) == 6


def ignore(frame, what, argument):
    """Profile, or trace, nothing."""


PROFILERS = {
    "profiled": lambda event: cProfile.Profile().runcall(len, "a"),
    "profiler": lambda event, turn=itertools.cycle([ignore, None]): sys.setprofile(next(turn)),
    "tracer": lambda event, turn=itertools.cycle([ignore, None]): sys.settrace(next(turn)),
    "profiler on": lambda event: sys.setprofile(ignore),
}


@pytest.mark.parametrize("name", PROFILERS)
@pytest.mark.parametrize("steps", [False, True])
def test_listener_switches_a_profiler(name, steps):
    """It is switched in the middle of everything that the core does; the program runs as ever."""

    def inner(x, log):
        y = x + 1
        log.append(print(end=""))
        return y * 2

    def program(x, log):
        for _ in range(2):
            x = inner(x, log)
        for item in (x + i for i in range(2)):
            print(end="")
            x = x + item
        return x

    expected = program(X, [])
    compiled = alternator.compile(program, backend="eager")
    spied = []
    try:
        with events.listen(PROFILERS[name], calls=True, steps=steps, spy=lambda *what: spied.append(what)):
            for _ in range(3):
                log = []
                assert torch.equal(compiled(X, log), expected)
                assert log == [None, None]
    finally:
        sys.setprofile(None)
        sys.settrace(None)


def test_spy_switches_a_profiler():
    turns = itertools.cycle([None] * 20 + [ignore])
    compiled = alternator.compile(lambda x: [x + i for i in range(4)], backend="eager")
    try:
        with events.listen(lambda event: None, spy=lambda *what: sys.setprofile(next(turns))):
            assert [y.tolist() for y in compiled(X)] == [(X + i).tolist() for i in range(4)]
    finally:
        sys.setprofile(None)


def test_program_switches_a_profiler():
    def program(x, log):
        y = x + 1
        sys.setprofile(lambda frame, what, argument: log.append(what))
        y = helper(y)
        sys.setprofile(None)
        return y * 3

    def helper(x):
        return x * 2

    compiled = alternator.compile(program, backend="eager")
    for _ in range(2):
        log = []
        assert torch.equal(compiled(X, log), program(X, []))
        assert log.count("call") == 1
