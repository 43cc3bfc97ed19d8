"""The runtime around the interpreter: signals, asynchronous exceptions, recursion, C callers, fork, shutdown.

A scenario is run natively and interpreted and must give the same; what that is is asserted as well where it is short.
"""

import contextvars
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import alternator

from .outcome import describe_difference, list_traceback, record

pytestmark = pytest.mark.semantics
# A loop that waits for something asynchronous gives up after this long, and the test fails by what it then sees.
PATIENCE = 60


def check_both(scenario, *args):
    """Assert that a scenario gives the same natively and interpreted; return what."""
    native = scenario(*args)
    assert alternator.interpret(scenario)(*args) == native
    return native


def run_script(text, *args):
    """Run a script in a process of its own, since it may take its process down."""
    return subprocess.run([sys.executable, "-P", "-c", text, *args], capture_output=True, text=True, timeout=300)


# ---- signals


@pytest.fixture
def restored_signals():
    numbers = (signal.SIGALRM, signal.SIGINT, signal.SIGUSR1)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("restored_signals")
@pytest.mark.parametrize("shape", ["while", "for", "calls", "generator"])
def test_timer_interrupts_a_loop(shape):
    """The handler runs in the middle of a busy loop and gets the frame that was interrupted."""

    def scenario():
        seen, end = [], time.monotonic() + PATIENCE

        def handle(number, frame):
            seen.append((number, frame.f_code.co_name in ("busy", "step", "steps"), frame.f_back is not None))

        def step():
            return not seen

        def steps():
            while True:
                yield 1

        def busy():
            marker = 0
            if shape == "while":
                while not seen and time.monotonic() < end:
                    marker += 1
            elif shape == "for":
                for _ in iter(int, 1):
                    if seen or time.monotonic() > end:
                        break
            elif shape == "calls":
                while step() and time.monotonic() < end:
                    pass
            else:
                for _ in steps():
                    if seen or time.monotonic() > end:
                        break

        signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        busy()
        return seen

    assert check_both(scenario) == [(signal.SIGALRM, True, True)]


@pytest.mark.usefixtures("restored_signals")
def test_handler_sees_the_interrupted_frame():
    def scenario():
        seen = []

        def handle(number, frame):
            seen.append(
                (frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno, dict(frame.f_locals).get("local"))
            )

        def interrupted():
            local = "here"
            os.kill(os.getpid(), signal.SIGUSR1)
            local = "later"
            return local

        signal.signal(signal.SIGUSR1, handle)
        return interrupted(), seen

    assert check_both(scenario) == ("later", [("interrupted", 2, "here")])


@pytest.mark.usefixtures("restored_signals")
@pytest.mark.parametrize(
    "send",
    [lambda: signal.raise_signal(signal.SIGINT), lambda: os.kill(os.getpid(), signal.SIGINT)],
    ids=["raise_signal", "kill"],
)
def test_keyboard_interrupt(send):
    def scenario():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        log = []

        def loop():
            for i in range(1000):
                try:
                    if i == 5:
                        send()
                    log.append(i)
                finally:
                    log[-1] = log[-1] * 10

        try:
            loop()
        except KeyboardInterrupt as error:
            return log[-2:], [name for name, _, _ in list_traceback(error)][:2], len(log) <= 6
        return None

    assert check_both(scenario)[2]


@pytest.mark.usefixtures("restored_signals")
def test_keyboard_interrupt_leaves_an_endless_loop():
    def scenario():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGALRM, lambda number, frame: signal.raise_signal(signal.SIGINT))
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        end = time.monotonic() + PATIENCE
        try:
            while time.monotonic() < end:
                pass
        except KeyboardInterrupt:
            return "interrupted"
        return "never"

    assert check_both(scenario) == "interrupted"


@pytest.mark.usefixtures("restored_signals")
def test_handler_that_raises():
    class Stop(Exception):
        pass

    def scenario():
        log = []

        def handle(number, frame):
            log.append("handler")
            raise Stop(number)

        def interrupted():
            try:
                os.kill(os.getpid(), signal.SIGUSR1)
                log.append("unreached")
            except Stop as error:
                log.append([(name, line) for name, line, _ in list_traceback(error)])
                raise
            finally:
                log.append("finally")

        signal.signal(signal.SIGUSR1, handle)
        for _ in range(3):
            try:
                interrupted()
            except Stop as error:
                log.append(error.args)
        return log

    assert "unreached" not in check_both(scenario)


@pytest.mark.usefixtures("restored_signals")
def test_many_signals_in_a_row():
    """Each is handled once, between two instructions of the user's code."""

    def scenario():
        seen = []
        signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
        for _ in range(200):
            os.kill(os.getpid(), signal.SIGUSR1)
        return len(seen)

    assert check_both(scenario) == 200


# ---- exceptions from another thread


def raise_in_thread(thread_id, kind):
    return ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(kind))


def test_asynchronous_exception():
    class Cancelled(BaseException):
        pass

    def scenario():
        log, running = [], threading.Event()

        def spin():
            end = time.monotonic() + PATIENCE
            try:
                running.set()
                while time.monotonic() < end:
                    pass
                log.append("never")
            except Cancelled as error:
                log.append([name for name, _, _ in list_traceback(error)])
            finally:
                log.append("finally")

        thread = threading.Thread(target=alternator.interpret(spin) if alternator.is_interpreting() else spin)
        thread.start()
        running.wait(PATIENCE)
        log.append(raise_in_thread(thread.ident, Cancelled))
        thread.join()
        return sorted(log, key=repr)

    native = check_both(scenario)
    assert "never" not in native
    assert len(native) == 3


def test_asynchronous_exception_in_own_thread():
    def scenario():
        try:
            raise_in_thread(threading.get_ident(), KeyError)
            for _ in range(100):
                pass
            return "never"
        except KeyError as error:
            return error.args, repr(error.__context__)

    assert check_both(scenario) == ((), "None")


def test_asynchronous_exception_while_handling_another():
    def scenario():
        try:
            try:
                raise ValueError("first")
            except ValueError:
                raise_in_thread(threading.get_ident(), KeyError)
                for _ in range(100):
                    pass
        except KeyError as error:
            return repr(error.__context__)

    check_both(scenario)


# ---- recursion


def recurse_plainly(n=0):
    try:
        return recurse_plainly(n + 1)
    except RecursionError:
        return n


def recurse_with_keywords(*args, n=0, **more):
    try:
        return recurse_with_keywords(*args, n=n + 1, **more)
    except RecursionError:
        return n


class Recursing:
    def method(self, n):
        try:
            return self.method(n + 1)
        except RecursionError:
            return n

    def __call__(self, n=0):
        try:
            return self(n + 1)
        except RecursionError:
            return n

    def __getattr__(self, name):
        try:
            return getattr(self, name + "x")
        except RecursionError:
            return len(name)

    def __init__(self, n=None):
        if n is not None:
            try:
                self.depth = Recursing(n + 1).depth
            except RecursionError:
                self.depth = n


def recurse_in_generators(n=0):
    try:
        yield from recurse_in_generators(n + 1)
    except RecursionError:
        yield n


def recurse_through_sorted(n=0):
    try:
        return sorted([n], key=lambda x: recurse_through_sorted(n + 1))
    except RecursionError:
        raise KeyError(n) from None


def measure_sorted():
    try:
        recurse_through_sorted()
    except KeyError as error:
        return error.args[0]


RECURSIONS = {
    "function": recurse_plainly,
    "keywords": lambda: recurse_with_keywords(1, 2, k=3),
    "method": lambda: Recursing().method(0),
    "call": lambda: Recursing()(0),
    "getattr": lambda: Recursing().a,
    "init": lambda: Recursing(0).depth,
    "generator": lambda: next(recurse_in_generators()),
    "sorted": measure_sorted,
}


@pytest.mark.parametrize("name", RECURSIONS)
@pytest.mark.parametrize("limit", [300, 900])
def test_recursion_limit(name, limit):
    """RecursionError comes at the native depth, give or take a few frames, and again and again."""
    measure = RECURSIONS[name]
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        measure()  # The first time CPython itself may get a few frames less far.
        native = [measure() for _ in range(3)]
        interpreted = [alternator.interpret(measure)() for _ in range(3)]
        again = measure()
    finally:
        sys.setrecursionlimit(before)
    assert native[0] > 20
    assert max(abs(depth - native[0]) for depth in (*native, *interpreted, again)) <= 4


def test_recursion_error_is_ordinary():
    def scenario():
        def forever(n):
            return forever(n + 1)

        seen = []
        for _ in range(3):
            try:
                forever(0)
            except RecursionError as error:
                tb = list_traceback(error)
                seen.append((str(error), tb[-1], len({entry for entry in tb if entry[0].endswith("forever")})))
        return seen

    before = sys.getrecursionlimit()
    sys.setrecursionlimit(400)
    try:
        check_both(scenario)
    finally:
        sys.setrecursionlimit(before)


def test_exceptions_use_up_no_recursion_depth():
    """A frame left by an exception must give its place back, or a loop of errors ends in a RecursionError."""

    def fail(n):
        if n:
            return fail(n - 1)
        raise ValueError

    def scenario():
        for _ in range(500):
            try:
                fail(3)
            except ValueError:
                pass
            generator = (fail(0) for _ in range(1))
            try:
                next(generator)
            except ValueError:
                pass
        return recurse_plainly()

    before = sys.getrecursionlimit()
    sys.setrecursionlimit(300)
    try:
        native, interpreted = scenario(), alternator.interpret(scenario)()
    finally:
        sys.setrecursionlimit(before)
    assert abs(native - interpreted) <= 4


DEEP = """
import sys, alternator
sys.setrecursionlimit(20000)
def down(n):
    return 0 if n == 0 else 1 + down(n - 1)
def build(n):
    return [] if n == 0 else [build(n - 1)]
class Node:
    def __init__(self, child):
        self.child = child
    def depth(self):
        return 1 + (self.child.depth() if self.child else 0)
def chain(n):
    node = None
    for _ in range(n):
        node = Node(node)
    return node.depth()
def everything():
    return down(15000), type(build(15000)).__name__, chain(15000), down(15000)
native, interpreted = everything(), alternator.interpret(everything)()
assert native == interpreted, (native, interpreted)
print(*interpreted)
"""


def test_deep_recursion():
    """15,000 levels of plain Python need no C stack natively; interpreted they must have enough of it."""
    result = run_script(DEEP)
    assert (result.returncode, result.stdout) == (0, "15000 list 15000 15000\n"), result.stderr[-2000:]


# ---- other ways into Python


def test_context_variables():
    variable = contextvars.ContextVar("variable", default=0)

    def scenario():
        def bump(n):
            variable.set(variable.get() + n)
            return variable.get()

        context = contextvars.copy_context()
        inside = context.run(bump, 5)
        return inside, variable.get(), context[variable], context.run(bump, 1), contextvars.Context().run(bump, 2)

    assert check_both(scenario) == (5, 0, 5, 6, 2)


def test_ctypes_callbacks():
    def scenario():
        log = []
        compare_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))

        def compare(a, b):
            log.append((a[0], b[0], sys._getframe(1).f_code.co_name))
            return a[0] - b[0]

        values = (ctypes.c_int * 4)(3, 1, 4, 2)
        ctypes.CDLL(None).qsort(values, 4, ctypes.sizeof(ctypes.c_int), compare_type(compare))
        return list(values), log

    assert check_both(scenario)[0] == [1, 2, 3, 4]


def test_ctypes_callback_that_raises():
    def scenario(log):
        def fail(n):
            log.append(n)
            return 1 // n

        # The result is whatever was in memory.
        ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(fail)(0)

    native = record(scenario)
    interpreted = record(scenario, run=lambda fn, log: alternator.interpret(fn)(log))
    assert len(native.ignored) == 1
    assert interpreted == native, describe_difference(native, interpreted)


def test_python_entered_from_c_with_new_globals():
    def scenario():
        ctypes.pythonapi.PyRun_String.restype = ctypes.py_object
        namespace = {}
        code = b"def f(x):\n    return [x, f(x - 1)] if x else 'end'\nresult = f(3)"
        ctypes.pythonapi.PyRun_String(code, 257, ctypes.py_object(namespace), ctypes.py_object(namespace))
        return namespace["result"]

    assert check_both(scenario) == [3, [2, [1, "end"]]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore")
def test_fork_in_interpreted_code():
    def scenario():
        def work(n):
            return sum(i * i for i in range(n))

        child = os.fork()
        if child == 0:
            os._exit(work(4) if alternator.is_interpreting() else 99)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), work(4)

    assert alternator.interpret(scenario)() == (14, 14)


def test_system_exit_and_exit_code():
    def scenario(log):
        try:
            sys.exit(3)
        finally:
            log.append("finally")

    native = record(scenario)
    assert record(scenario, run=lambda fn, log: alternator.interpret(fn)(log)) == native
    assert native.raised == "SystemExit"


AT_EXIT = """
import alternator, atexit, sys, threading, weakref
class Late:
    def __del__(self):
        print("del", len([x for x in range(3)]))
def gen():
    try:
        yield 1
    finally:
        print("generator closed")
def main():
    atexit.register(lambda: print("atexit", sorted([2, 1], key=lambda x: x)))
    global late, suspended
    late, suspended = Late(), gen()
    next(suspended)
    weakref.finalize(late, print, "finalize")
    print("main")
    threading.Thread(target=lambda: print("thread", sum(range(3)))).start()
sys.stdout.reconfigure(line_buffering=True)
(alternator.interpret(main) if len(sys.argv) > 1 else main)()
"""


def test_interpreter_shutdown():
    native, interpreted = run_script(AT_EXIT), run_script(AT_EXIT, "interpreted")
    assert "del 3" in native.stdout
    assert sorted(interpreted.stdout.splitlines()) == sorted(native.stdout.splitlines())
    assert (interpreted.returncode, interpreted.stderr) == (native.returncode, native.stderr) == (0, "")
