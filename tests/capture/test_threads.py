"""Threads: one at a time compiles, others wait or run eagerly, warm calls do neither; and nothing waits for ever."""

import contextlib
import faulthandler
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import pytest
import torch

import alternator
from alternator import compiling, turns

X = torch.arange(4.0)
THREADS = 8


@pytest.fixture(autouse=True)
def switch_often():
    """Make threads take turns as often as they can, and show where they are if they wait for ever."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    faulthandler.dump_traceback_later(100, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
    sys.setswitchinterval(before)
    alternator.set_threads("wait")
    assert not torch.compiler.is_compiling() and gc.isenabled()
    assert turns.lock.acquire(blocking=False) and turns.tracing.acquire(blocking=False)
    turns.lock.release()
    turns.tracing.release()


def run_threads(work, count=THREADS):
    """Run work(number) in so many threads; return the exceptions that they raised."""
    failed = []

    def run(number):
        try:
            work(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert not any(thread.is_alive() for thread in threads)
    return failed


class Blocking:
    """A backend that does not return before it is told to."""

    def __init__(self):
        self.entered, self.go_on = threading.Event(), threading.Event()
        self.graphs = 0

    def __call__(self, module, examples):
        self.graphs += 1
        self.entered.set()
        assert self.go_on.wait(60)
        return module.forward

    @contextlib.contextmanager
    def busy(self, compiled, *args):
        """Have another thread compile meanwhile."""
        thread = threading.Thread(target=compiled, args=args, daemon=True)
        thread.start()
        assert self.entered.wait(60)
        try:
            yield thread
        finally:
            self.go_on.set()
            thread.join(60)
        assert not thread.is_alive()


# ---- Stress --------------------------------------------------------------------------------------------------------


class Block(torch.nn.Module):
    """Writes to itself, breaks, and has parameters."""

    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(4, width)
        self.calls = 0
        self.seen = []

    def forward(self, x, n):
        self.calls += 1
        y = torch.relu(self.linear(x)) * n
        print(end="")
        self.seen.append(len(self.seen))
        return y.sum() + self.calls


def grow(x, n):
    for i in range(n):
        x = x * 1.5 + i
    return x


def broken(x, n):
    parts = []
    for i in range(n):
        parts.append(x + i)
        print(end="")
    return torch.stack(parts).sum(0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_many_threads(backend):
    """Own modules and shared functions, changing sizes and numbers, breaks, gradients, and resets in between."""
    shared = [(function, alternator.compile(function, backend=backend)) for function in (grow, broken)]
    torch.manual_seed(0)

    def work(number):
        own = Block(number + 1)
        twin = Block(number + 1)
        twin.load_state_dict(own.state_dict())
        compiled = alternator.compile(own, backend=backend)
        for i in range(4):
            x = torch.randn(2 + (i + number) % 3, 4)
            got, expected = compiled(x, i), twin(x, i)
            got.backward()
            expected.backward()
            assert torch.equal(got, expected) and torch.equal(own.linear.weight.grad, twin.linear.weight.grad)
            assert (own.calls, own.seen) == (twin.calls, twin.seen)
            function, captured = shared[(i + number) % 2]
            n = 1 + (i + number) % 4
            assert torch.equal(captured(x, n), function(x, n))
            if number == 0 and i % 2:
                alternator.reset()

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*recompile_limit")
        assert run_threads(work) == []


def test_many_threads_with_inductor():
    module = torch.nn.Linear(4, 3)

    def program(x):
        return torch.relu(module(x)).sum()

    compiled = alternator.compile(program, backend="inductor")

    def work(number):
        for i in range(3):
            x = (X * (number + i)).requires_grad_()
            y = X.clone().mul_(number + i).requires_grad_()
            got, expected = compiled(x), program(y)
            got.backward()
            expected.backward()
            assert torch.allclose(got, expected) and torch.allclose(x.grad, y.grad)

    assert run_threads(work) == []
    assert len(compiled.regions()) == 1


FIRST_CALLS = """
import faulthandler, sys, threading, torch, alternator
faulthandler.dump_traceback_later(80, exit=True)
sys.setswitchinterval(1e-5)
failed = []

def work(number):
    try:
        module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, number + 1))
        def program(x, n):
            total = []
            for i in range(n):
                print(end="")
                total.append(module(x) * i)
            return sum(total)
        for backend in ("eager", "aot_eager"):
            compiled = alternator.compile(program, backend=backend)
            for n in (2, 3):
                x = torch.randn(n, 4)
                if not torch.equal(compiled(x, n), program(x, n)):
                    failed.append("another result")
    except BaseException as error:
        failed.append(repr(error))

threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(failed)
"""


def test_first_calls_of_a_process():
    """What is made at its first use is made in the middle of traces, in several threads."""
    run = subprocess.run([sys.executable, "-P", "-c", FIRST_CALLS], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout.strip()) == (0, "[]"), run.stderr


# ---- Turns ---------------------------------------------------------------------------------------------------------


def test_one_thread_at_a_time_compiles():
    """Also functions that have nothing to do with one another. What another thread compiled is used."""
    inside, most, graphs = [], [], []

    def backend(module, examples):
        inside.append(module)
        graphs.append(module)
        time.sleep(0.01)
        most.append(len(inside))
        inside.pop()
        return module.forward

    compiled = alternator.compile(grow, backend=backend)
    here = threading.Barrier(THREADS, timeout=60)

    def work(number):
        own = alternator.compile(lambda x: x + number, backend=backend)
        here.wait()
        assert torch.equal(compiled(X, 2), grow(X, 2))
        assert torch.equal(own(X), X + number)

    assert run_threads(work) == []
    assert max(most) == 1
    assert len(graphs) == 1 + THREADS and len(compiled.regions()) == 1


def test_a_point_that_another_thread_gave_up_is_left_alone():
    """The function breaks at its first instruction, or computes nothing: who waited sees that it was tried."""
    backend = Blocking()
    busy = alternator.compile(lambda x: x + 1, backend=backend)
    compiled = alternator.compile(lambda: print(end=""), backend="eager")
    with backend.busy(busy, X):
        waiting = [threading.Thread(target=compiled) for _ in range(3)]
        for thread in waiting:
            thread.start()
    for thread in waiting:
        thread.join(60)
    assert compiled.regions() == [] and compiled() is None


def test_warm_calls_take_no_lock():
    warm = alternator.compile(broken, backend="eager")
    expected = broken(X, 3)
    assert torch.equal(warm(X, 3), expected)
    backend = Blocking()
    with backend.busy(alternator.compile(grow, backend=backend), X, 2) as thread:
        assert torch.equal(warm(X, 3), expected)
        assert thread.is_alive()


def test_waiting_threads_may_run_eagerly():
    backend = Blocking()
    compiled = alternator.compile(grow, backend=backend)
    other = alternator.compile(broken, backend="eager")
    alternator.set_threads("eager")
    with backend.busy(compiled, X, 2) as thread:
        assert torch.equal(compiled(X, 2), grow(X, 2))
        assert torch.equal(other(X, 2), broken(X, 2))
        assert thread.is_alive() and other.regions() == [] and backend.graphs == 1
    assert len(compiled.regions()) == 1
    assert torch.equal(compiled(X, 2), grow(X, 2)) and backend.graphs == 1
    other(X, 2)
    assert len(other.regions()) > 0


def test_the_option_is_checked(monkeypatch):
    with pytest.raises(ValueError, match="'wait' or 'eager', not 'now'"):
        alternator.set_threads("now")
    monkeypatch.setenv("ALTERNATOR_THREADS", "never")
    with pytest.warns(UserWarning, match="ALTERNATOR_THREADS=never"):
        turns.start()


def test_a_backend_may_compile_and_call():
    inner = alternator.compile(lambda x: x * 3, backend="eager")

    def backend(module, examples):
        assert torch.equal(inner(X), X * 3)
        assert torch.equal(alternator.compile(broken, backend="eager")(X, 2), broken(X, 2))
        return module.forward

    assert torch.equal(alternator.compile(grow, backend=backend)(X, 2), grow(X, 2))


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_exceptions_end_a_turn(error):
    raised = []

    def backend(module, examples):
        if not raised:
            raised.append(True)
            raise error("in the backend")
        return module.forward

    compiled = alternator.compile(grow, backend=backend)
    with pytest.raises((error, torch._dynamo.exc.BackendCompilerFailed)):
        compiled(X, 2)
    assert not turns.lock._is_owned()

    def work(number):
        assert torch.equal(compiled(X, 2), grow(X, 2))

    assert run_threads(work, 1) == []


def test_who_waits_can_be_interrupted():
    backend = Blocking()
    compiled = alternator.compile(grow, backend="eager")
    with backend.busy(alternator.compile(lambda x: x + 1, backend=backend), X) as thread:
        timer = threading.Timer(0.1, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            compiled(X, 2)
        timer.join()
        assert thread.is_alive() and not turns.lock._is_owned()
    assert torch.equal(compiled(X, 2), grow(X, 2)) and len(compiled.regions()) == 1


def test_torch_has_the_same_lock():
    """Inductor compiles backward passes later on, TorchDynamo what it is given: not at the same time either."""
    import torch._dynamo.convert_frame as convert_frame

    alternator.compile(grow, backend="eager")(X, 2)
    assert convert_frame.compile_lock is turns.lock


def test_preparations_are_made_once():
    made = []

    @turns.run_once
    def prepare():
        time.sleep(0.01)
        made.append(threading.get_ident())

    def work(number):
        prepare()
        assert len(made) == 1

    assert run_threads(work) == []
    assert compiling.prepare() is None


# ---- Processes -----------------------------------------------------------------------------------------------------


def in_child(work):
    """Fork, and tell whether work() returned True there in time."""
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        os._exit(0 if work() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_child_inherits_no_lock():
    backend = Blocking()
    compiled = alternator.compile(broken, backend="eager")
    with backend.busy(alternator.compile(grow, backend=backend), X, 2):
        assert in_child(lambda: torch.equal(compiled(X, 2), broken(X, 2)) and len(compiled.regions()) > 0)


def test_the_thread_that_compiles_may_fork():
    found = []

    def backend(module, examples):
        found.append(in_child(lambda: turns.lock._is_owned() and torch.equal(compiled(X, 2), broken(X, 2))))
        return module.forward

    compiled = alternator.compile(broken, backend="eager")
    assert torch.equal(alternator.compile(grow, backend=backend)(X, 3), grow(X, 3))
    assert found == [True]


class Box:
    value = 0


def test_no_process_is_forked_in_the_middle_of_a_trace():
    """A trace writes to the program's objects, and puts everything back."""
    box, done = Box(), threading.Event()

    def program(x):
        box.value = 1
        x = grow(x, 20)
        box.value = 0
        return x

    def keep_tracing():
        compiled = alternator.compile(program, backend="eager")
        while not done.is_set():
            compiled(X)
            compiled.reset()

    thread = threading.Thread(target=keep_tracing, daemon=True)
    thread.start()
    try:
        for _ in range(15):
            assert in_child(lambda: box.value == 0 and gc.isenabled() and not torch.compiler.is_compiling())
    finally:
        done.set()
        thread.join(60)
