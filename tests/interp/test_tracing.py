"""sys.settrace and sys.setprofile see the same events in interpreted code as natively."""

import sys
import types

import pytest

import alternator

from .outcome import ADDRESS

pytestmark = pytest.mark.semantics


def list_codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from list_codes(constant)


class Recorder:
    """A trace or profile function that notes the events of one function and of what is defined in it."""

    def __init__(self, body, opcodes=False, lines=True):
        self.codes = set(list_codes(body.__code__))
        self.events = []
        self.opcodes, self.lines = opcodes, lines

    def __call__(self, frame, event, argument):
        if frame.f_code not in self.codes:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = self.opcodes, self.lines
        self.events.append((event, frame.f_code.co_name, frame.f_lineno, self.describe(event, argument)))
        return self

    def describe(self, event, argument):
        if event == "exception":
            kind, value, traceback = argument
            return kind.__name__, str(value), traceback.tb_lineno
        if event.startswith("c_"):
            return argument.__name__
        if event == "return":
            return ADDRESS.sub("0x?", repr(argument))
        return None


def run_natively(body, *args):
    return body(*args)


def run_interpreted(body, *args):
    return alternator.interpret(body)(*args)


def observe(run, body, recorder, install=sys.settrace):
    """Run a body with the recorder installed from before; return the events and the outcome."""
    before = sys.gettrace() if install is sys.settrace else sys.getprofile()
    install(recorder)
    try:
        outcome = run(body)
    except Exception as error:
        outcome = repr(error)
    finally:
        install(before)
    return recorder.events, outcome


# ---- what is traced


def plain():
    total = 0
    for i in range(3):
        if i % 2:
            total += i
        else:
            total -= 1
    while total < 3:
        total += 2
    return total


def calls():
    def add(a, b=1):
        return a + b

    class Thing:
        def __init__(self, x):
            self.x = x

        @property
        def double(self):
            return add(self.x, self.x)

        def __call__(self):
            return self.double

    things = [Thing(i) for i in range(2)]
    return sorted(things, key=lambda t: -t.x)[0](), add(*[1, 2]), len("abc"), max(1, 2)


def exceptions():
    def fail(n):
        if n == 0:
            raise ValueError("bottom")
        try:
            fail(n - 1)
        finally:
            n += 1

    try:
        fail(2)
    except KeyError:
        pass
    except ValueError as error:
        text = str(error)
    try:
        {}["missing"]
    except KeyError:
        text += "!"
    return text


def uncaught():
    def inner():
        return 1 // 0

    for _ in range(2):
        inner()


def generators():
    def gen(n):
        try:
            for i in range(n):
                got = yield i
        except ValueError:
            yield "caught"
        finally:
            n = 0

    def outer():
        result = yield from gen(2)
        return result

    out = list(outer())
    g = gen(3)
    next(g)
    g.send("x")
    out.append(g.throw(ValueError))
    g.close()
    out.append(sum(x for x in range(3)))
    return out


def coroutines():
    class Wait:
        def __await__(self):
            yield 1

    async def agen():
        yield 1
        await Wait()

    async def main():
        async for x in agen():
            await Wait()
        return x

    c = main()
    out = []
    try:
        while True:
            out.append(c.send(None))
    except StopIteration as stop:
        out.append(stop.value)
    return out


def managers():
    class Manager:
        def __enter__(self):
            return self

        def __exit__(self, *failure):
            return failure[0] is KeyError

    with Manager(), Manager() as m:
        x = 1
    with m:
        raise KeyError
    with m:
        pass
    return x


def matching_and_comprehensions():
    def what(value):
        match value:
            case [x, *_] if x > 1:
                return x
            case {"k": y}:
                return y
            case _:
                return None

    return [what(v) for v in ([2], [1], {"k": 3})], {k: v for k, v in zip("ab", [1, 2])}


def multi_line():
    def f(*args, **kwargs):
        return args

    value = f(
        1,
        *[
            2,
            3,
        ],
        k=f(
            4,
        ),
    )
    return value + (1,)


BODIES = [plain, calls, exceptions, uncaught, generators, coroutines, managers, matching_and_comprehensions, multi_line]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(
    "options", [{}, {"lines": False}, {"opcodes": True}, {"opcodes": True, "lines": False}], ids=str
)
def test_trace_set_before(body, options):
    native = observe(run_natively, body, Recorder(body, **options))
    assert len(native[0]) >= 2
    assert observe(run_interpreted, body, Recorder(body, **options)) == native


@pytest.mark.parametrize("body", BODIES)
def test_profile_set_before(body):
    native = observe(run_natively, body, Recorder(body), sys.setprofile)
    assert len(native[0]) >= 2
    assert observe(run_interpreted, body, Recorder(body), sys.setprofile) == native


def switch_in_the_middle(recorder, install):
    """Events begin and end inside of interpreted code, in frames that have been running for a while."""

    def inner(n):
        for i in range(2):
            n += i
        return n

    def middle(n):
        n = inner(n)
        install(recorder)
        n = inner(n)
        n += 1
        install(None)
        n += 1
        return inner(n)

    def turn_on():
        install(recorder)
        return 5

    total = middle(1)
    for i in range(2):
        total += inner(i)
    total += turn_on()
    total += inner(1)
    for i in range(3):
        if i == 1:
            install(None)
        total += inner(i)
    install(recorder)
    total += sum(inner(i) for i in range(2))
    try:
        inner("text")
    except TypeError:
        total += 1
    install(None)
    return total


@pytest.mark.parametrize("install", [sys.settrace, sys.setprofile])
def test_switched_in_the_middle(install):
    def observe_run(run):
        recorder = Recorder(switch_in_the_middle)
        try:
            return run(switch_in_the_middle, recorder, install), recorder.events
        finally:
            install(None)

    native = observe_run(run_natively)
    assert len(native[1]) > 20
    assert observe_run(run_interpreted) == native


def trace_callers_like_a_debugger(recorder):
    """What pdb.set_trace does: f_trace on all callers, then settrace."""

    def set_trace():
        frame = sys._getframe(1)
        while frame is not None and frame.f_code in recorder.codes:
            frame.f_trace = recorder
            frame = frame.f_back
        sys.settrace(recorder)

    def inner(n):
        n += 1
        set_trace()
        n += 2
        return n

    def outer():
        value = [inner(1), 5]
        value.append(6)
        return value

    out = outer()
    for i in range(2):
        out.append(i)
    sys.settrace(None)
    out.append("untraced")
    return out


def trace_only_a_caller(recorder):
    """The frame that switches tracing on is not traced itself; its caller is, from its next line on."""

    def switch():
        sys._getframe(1).f_trace = recorder
        sys.settrace(lambda *event: None)

    a = 1
    switch()
    b = a + 1
    c = b + 1
    sys.settrace(None)
    return c


def trace_function_changes_its_mind(recorder):
    """A local trace function that returns another one, or None, or that is deleted."""
    calls = []

    def first(frame, event, argument):
        calls.append(("first", event, frame.f_lineno))
        return second

    def second(frame, event, argument):
        calls.append(("second", event, frame.f_lineno))
        if len(calls) > 4:
            frame.f_trace = None
        return None if len(calls) > 3 else second

    def body():
        x = 1
        x += 1
        x += 1
        x += 1
        x += 1
        return x

    sys.settrace(lambda frame, event, arg: first(frame, event, arg) if frame.f_code is body.__code__ else None)
    body()
    sys.settrace(None)
    return calls


@pytest.mark.parametrize("body", [trace_callers_like_a_debugger, trace_only_a_caller, trace_function_changes_its_mind])
def test_frames_traced_by_hand(body):
    def observe_run(run):
        recorder = Recorder(body)
        try:
            return run(body, recorder), recorder.events
        finally:
            sys.settrace(None)

    native = observe_run(run_natively)
    assert native[0]
    assert observe_run(run_interpreted) == native


def trace_function_raises(log):
    def body():
        x = 1
        for i in range(3):
            x += i
        return x

    for event_wanted in ("call", "line", "return", "exception"):

        def trace(frame, event, argument, wanted=event_wanted):
            if frame.f_code is not body.__code__:
                return None
            if event == wanted:
                raise KeyError(event)
            return trace

        sys.settrace(trace)
        try:
            log.append(body())
        except KeyError as error:
            log.append((error.args, sys.gettrace() is None, error.__traceback__.tb_next.tb_lineno))
        finally:
            sys.settrace(None)
    return log


def jump_by_line_number(log):
    """A debugger's jump: assigning f_lineno moves the frame."""

    def body():
        seen = []
        for i in range(2):
            seen.append("a")
            seen.append("skipped")
            seen.append("b")
        seen.append("end")
        return seen

    first = body.__code__.co_firstlineno
    jumped = []

    def trace(frame, event, argument):
        if frame.f_code is not body.__code__:
            return None
        if event == "line" and frame.f_lineno == first + 4 and len(jumped) < 2:
            jumped.append(frame.f_lineno)
            frame.f_lineno = first + 5
        elif event == "line" and frame.f_lineno == first + 6 and len(jumped) < 4:
            jumped.append("back")
            try:
                frame.f_lineno = first + 3
            except ValueError as error:
                log.append(str(error))
            frame.f_lineno = first + 2 if len(jumped) == 3 else frame.f_lineno
        return trace

    sys.settrace(trace)
    try:
        log.append(body())
    finally:
        sys.settrace(None)
    return log, jumped


def change_locals_in_trace(log):
    def body(x):
        y = x + 1
        z = y + x
        return z

    def trace(frame, event, argument):
        if frame.f_code is body.__code__ and event == "line":
            frame.f_locals["x"] = 100
            log.append(dict(frame.f_locals))
            return trace
        return trace if frame.f_code is body.__code__ else None

    sys.settrace(trace)
    try:
        return body(1), log
    finally:
        sys.settrace(None)


@pytest.mark.parametrize("body", [trace_function_raises, jump_by_line_number, change_locals_in_trace])
def test_trace_functions_that_interfere(body):
    native = body([])
    assert native
    assert run_interpreted(body, []) == native


def test_code_is_interpreted_after_tracing():
    """A frame that was handed over for tracing must not switch interpretation off for good."""

    def body():
        seen = [alternator.is_interpreting()]
        sys.settrace(lambda *event: None)
        (lambda: None)()
        sys.settrace(None)
        seen.append((lambda: alternator.is_interpreting())())
        return seen

    assert alternator.interpret(body)() == [True, True]


def test_pdb_session():
    """The real debugger, on interpreted code, sees the same lines."""
    import bdb
    import io
    import pdb

    def body():
        total = 0
        for i in range(3):
            total += helper(i)
        return total

    def helper(i):
        return i * 10

    def session(run):
        commands = io.StringIO("next\nnext\nstep\nstep\np i\nup\np total\nreturn\nargs\nclear 1\ncontinue\n")
        output = io.StringIO()
        debugger = pdb.Pdb(stdin=commands, stdout=output, nosigint=True, readrc=False)
        debugger.use_rawinput = False
        bdb.Breakpoint.clearBreakpoints()
        debugger.set_break(__file__, body.__code__.co_firstlineno + 3)

        def start():
            debugger.set_trace(sys._getframe())
            return body()

        try:
            value = run(start)
        finally:
            sys.settrace(None)
            debugger.clear_all_breaks()
        return value, output.getvalue().splitlines()

    native = session(run_natively)
    assert native[0] == 30
    assert any("--Call--" in line for line in native[1])
    assert session(run_interpreted) == native
