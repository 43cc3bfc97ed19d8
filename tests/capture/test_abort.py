"""A trace that is given up, anywhere, leaves the world as it was, and the call then does what eager execution does."""

import random
import warnings

import pytest
import torch

import alternator
from alternator.testing import Fault
from capture.agreement import outcome
from capture.loading import Program
from capture.models import MODELS, make_model
from capture.world import Picture, changes, differences

pytestmark = pytest.mark.capture

PROGRAMS = Program.find("state")


@pytest.fixture(scope="module", autouse=True)
def warm():
    """The first trace of a process imports this and that."""
    alternator.compile(lambda x: x + 1, backend="eager")(torch.ones(1))


@pytest.fixture(autouse=True)
def quiet():
    """A function that is not captured is reported by a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def load(program):
    """Make a new world, with the same random numbers each time."""
    run = program.load()
    torch.manual_seed(11)
    random.seed(11)
    return run


def call(run, fn):
    """Return the picture of what a call left, result and all."""
    (kind, *rest), _ = outcome(fn, run.args)
    return run.look(outcome=[kind, *rest])


def run_eagerly(program):
    run = load(program)
    return call(run, run.fn)


class Attempt:
    """One call of a program that is compiled for the occasion, with a fault in its trace."""

    def __init__(self, program, at, **fault):
        self.run = load(program)
        self.changes = []
        compiled = alternator.compile(self.run.fn, backend="eager")
        with Fault(at, begins=self.begin, rolled_back=self.look, **fault) as self.fault:
            self.after = call(self.run, compiled)

    def begin(self):
        self.before = self.run.look()

    def look(self):
        """Tell what the trace changed."""
        self.changes.append(changes(self.before, self.run.look()))


def count_instructions(program):
    return Attempt(program, -1).fault.instructions


def spread(count, places):
    """Choose at most so many of the first `count` numbers, among them the first and the last."""
    return sorted({round(i * (count - 1) / (places - 1)) for i in range(places)}) if count else []


def check(attempt, eager, at):
    assert attempt.fault.fired
    assert attempt.changes, "nobody looked"
    assert not any(attempt.changes), f"after instruction {at}: {attempt.changes}"
    assert differences(eager, attempt.after) == [], f"after instruction {at}"


# Breaks in the middle of autocast's own __enter__ and __exit__, and inside the handler of an exception that goes on.
KNOWN = {
    "state-casts": "a break inside autocast.__enter__ loses it",
    "state-raises": "sys.exc_info() at a point",
}


@pytest.mark.parametrize("places", [60, pytest.param(100_000, marks=pytest.mark.full)])
@pytest.mark.parametrize("program", PROGRAMS, ids=repr)
def test_given_up_at_every_instruction(program, places):
    if repr(program) in KNOWN:
        pytest.xfail(KNOWN[repr(program)])
    eager = run_eagerly(program)
    for at in spread(count_instructions(program), places):
        check(Attempt(program, at), eager, at)


@pytest.mark.parametrize("error", [MemoryError, RecursionError])
@pytest.mark.parametrize("program", PROGRAMS, ids=repr)
def test_resources_run_out(program, error):
    """The program cannot catch the exception: eager execution might not raise it at all."""
    eager = run_eagerly(program)
    for at in spread(count_instructions(program), 12):
        check(Attempt(program, at, error=error("a fault")), eager, at)


@pytest.mark.parametrize("program", PROGRAMS, ids=repr)
def test_not_given_up(program):
    eager = run_eagerly(program)
    attempt = Attempt(program, -1)
    assert not any(attempt.changes)
    assert differences(eager, attempt.after) == []


def measure_depth():
    try:
        return 1 + measure_depth()
    except RecursionError:
        return 1


def test_the_depth_of_recursion_is_counted_right():
    """Frames that were left in the middle are left for CPython's counter as well."""
    depth = measure_depth()
    for program in PROGRAMS[::5]:
        for at in spread(count_instructions(program), 8):
            Attempt(program, at)
            Attempt(program, at, error=MemoryError())
    assert measure_depth() == depth


@pytest.mark.parametrize("places", [6, pytest.param(100, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_models_given_up(name, places):
    model, args, kwargs = make_model(name)
    module = {"model": model, "args": args}
    seen = []
    with torch.no_grad():
        expected = model(*args, **kwargs)

        def attempt(at):
            compiled = alternator.compile(model, backend="eager")
            before = []
            with Fault(
                at,
                begins=lambda: before.append(Picture(module)),
                rolled_back=lambda: seen.append(changes(before[-1], Picture(module))),
            ) as fault:
                found = compiled(*args, **kwargs)
            assert differences(Picture({"result": expected}), Picture({"result": found})) == [], at
            return fault

        count = attempt(-1).instructions
        for at in spread(count, places):
            assert attempt(at).fired
            assert not any(seen), (at, seen)
    assert count > 500
    assert len(seen) >= min(places, count)
