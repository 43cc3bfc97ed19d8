"""Several threads interpret at once, next to threads that run natively, and each gets its own right results."""

import sys
import threading

import pytest

import alternator
from alternator.testing import Replay

from .outcome import describe_difference, record
from .programs import collect_programs

pytestmark = pytest.mark.semantics
# Programs that change the process, that collect (and so run other threads' finalisers), or that warn, belong to one
# thread.
PROCESS_WIDE = {name for name, program in collect_programs().items() if getattr(program, "process_wide", False)}
ALONE = PROCESS_WIDE | {
    "callbacks.finaliser_in_cycle",
    "generators.finalised_by_collector",
    "lifetime.class_namespace_dies",
    "coroutines.asyncio_program",
    # With any evaluation hook installed, CPython's own loop makes no inlined calls: arguments live until the callee
    # returns, and f_lasti stands at the call itself. So native threads see these two differently while another thread
    # interprets.
    "lifetime.argument_deleted_in_callee",
    "tracebacks.current_line_seen_from_below",
}
PROGRAMS = {
    name: program
    for name, program in collect_programs().items()
    # Modules under fixed names in sys.modules, and globals of the family, are shared by the threads.
    if name not in ALONE and not name.startswith(("imports.", "names.global", "caches.global"))
}
ROUNDS = 3


@pytest.fixture(autouse=True)
def switch_often(monkeypatch):
    """Make threads take turns as often as they can; ignored exceptions of programs would be reported by pytest."""
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def run_threads(*targets):
    """Run the targets at once; return their results, or raise the first one's exception."""
    results, errors = [None] * len(targets), []
    barrier = threading.Barrier(len(targets))

    def run(index, target):
        try:
            barrier.wait(timeout=60)
            results[index] = target()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(targets)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def run_interpreted(fn, *args):
    return alternator.interpret(fn)(*args)


def run_replayed(fn, *args):
    return Replay(start=0, every=13).run(fn, *args)


def run_natively(fn, *args):
    assert not alternator.is_interpreting()
    return fn(*args)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "runs",
    [[run_interpreted] * 4, [run_interpreted] * 4 + [run_natively] * 2, [run_replayed] * 2 + [run_interpreted] * 2],
)
def test_programs_at_once(runs, capsys):
    expected = {name: record(program, capture=False) for name, program in PROGRAMS.items()}

    def make_target(index, run):
        # Each thread goes through the programs from another place on.
        names = [*PROGRAMS][index * 37 :] + [*PROGRAMS][: index * 37]
        return lambda: [(n, record(PROGRAMS[n], run=run, capture=False)) for _ in range(ROUNDS) for n in names]

    for outcomes in run_threads(*[make_target(index, run) for index, run in enumerate(runs)]):
        assert len(outcomes) == ROUNDS * len(PROGRAMS)
        for name, outcome in outcomes:
            assert outcome == expected[name], f"{name}:\n" + describe_difference(
                expected[name], outcome, ("alone", "at once")
            )


def spin(n):
    total = 0
    for i in range(n):
        total = (total * 31 + i) % 1000003
    return total


def test_same_function_at_once():
    """One code object, its caches and its globals, in six frames."""
    results = run_threads(*[lambda: alternator.interpret(spin)(40_000)] * 4, *[lambda: spin(40_000)] * 2)
    assert results == [spin(40_000)] * 6


def test_interpreting_is_per_thread():
    running, asked = threading.Event(), threading.Event()

    def interpreted():
        running.set()
        asked.wait(60)
        return alternator.is_interpreting()

    def native():
        running.wait(60)
        seen = [alternator.is_interpreting()]
        sorted([1], key=lambda _: seen.append(alternator.is_interpreting()))
        asked.set()
        return seen

    assert run_threads(alternator.interpret(interpreted), native) == [True, [False, False]]


def test_thread_started_by_interpreted_code():
    """Interpretation belongs to the thread that called interpret: a new thread starts natively."""

    def parent():
        seen = []

        def child():
            seen.append(alternator.is_interpreting())
            seen.append(alternator.interpret(alternator.is_interpreting)())
            seen.append(alternator.interpret(lambda: alternator.is_interpreting())())
            seen.append(alternator.is_interpreting())

        thread = threading.Thread(target=child)
        thread.start()
        thread.join()
        return seen, alternator.is_interpreting()

    seen, parents = alternator.interpret(parent)()
    assert seen[0] is False
    assert seen[2] is True
    assert seen[3] is False
    assert parents is True
    assert not alternator.is_interpreting()


def test_generator_moves_between_threads():
    """A frame suspended in one engine may be resumed in the other, and in another thread."""

    def count(n):
        for i in range(n):
            try:
                yield i, alternator.is_interpreting()
            finally:
                pass

    generator = alternator.interpret(lambda: count(6))()
    seen = [alternator.interpret(next)(generator), next(generator)]
    seen += run_threads(lambda: alternator.interpret(lambda: next(generator))())
    seen += run_threads(lambda: next(generator))
    seen += run_threads(lambda: alternator.interpret(lambda: generator.send(None))())
    assert [value for value, _ in seen] == [0, 1, 2, 3, 4]
    assert [engine for _, engine in seen][1:] == [False, True, False, True]
    assert next(generator) == (5, False)
    assert next(generator, None) is None


def test_locks_and_conditions_in_interpreted_threads():
    lock, total = threading.Lock(), [0]

    def add():
        for _ in range(300):
            with lock:
                value = total[0]
                for _ in range(3):
                    pass
                total[0] = value + 1

    run_threads(*[alternator.interpret(add)] * 4)
    assert total == [1200]


def test_exceptions_stay_in_their_thread():
    def fail(number):
        caught = []
        for i in range(200):
            try:
                try:
                    raise ValueError(number, i)
                except ValueError as error:
                    raise KeyError(number, i) from error
            except KeyError as error:
                caught.append((error.args, error.__cause__.args, sys.exc_info()[1] is error))
        return caught

    for number, caught in enumerate(run_threads(*[lambda n=n: alternator.interpret(fail)(n) for n in range(4)])):
        assert caught == [((number, i), (number, i), True) for i in range(200)]


def test_thread_locals_and_context():
    import contextvars

    local, variable = threading.local(), contextvars.ContextVar("variable", default="default")

    def work(number):
        before = getattr(local, "value", "unset"), variable.get()
        local.value = number
        variable.set(number)
        for _ in range(500):
            assert local.value == number == variable.get()
        return before

    assert run_threads(*[lambda n=n: alternator.interpret(work)(n) for n in range(4)]) == [("unset", "default")] * 4
