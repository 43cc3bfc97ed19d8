"""A trace that is given up, anywhere, leaves the world as it was, and the call then does what eager execution does."""

import gc
import random
import sys
import warnings

import pytest
import torch

import alternator
from alternator.testing import Fault
from capture.agreement import outcome
from capture.loading import Program
from capture.models import MODELS, make_model
from capture.world import ATOMS, C_CALLABLES, Picture, changes, differences

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
        self.fault = Fault(at, begins=self.begin, rolled_back=self.look, **fault)
        with self.fault:
            self.after = call(self.run, compiled)

    def begin(self):
        self.before = self.run.look()
        self.counted = count_references(self.before)

    def look(self):
        """Tell what the trace changed, and which objects have more references than before."""
        counts = count_references(self.before)
        # Fewer may be right: a frame object gives up its variables when its frame is traced.
        kept = [
            f"{path}: {n - self.counted[path]:+} references" for path, n in counts.items() if n > self.counted[path]
        ]
        if self.fault.error is not None:
            kept = []  # the fault's own exception holds frames
        self.changes.append(kept + changes(self.before, self.run.look()))


def count_references(picture):
    """Count the references to each object that belongs to this run alone."""
    gc.collect(1)  # an exception, its traceback and its frame hold each other
    shared = (*ATOMS, *C_CALLABLES, type)
    own = [
        node
        for node in picture.nodes.values()
        if type(node.object) not in shared and node.path[0] in "xw" and node.object != ()
    ]
    return {node.path: sys.getrefcount(node.object) for node in own}


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


@pytest.mark.parametrize("places", [16, pytest.param(100_000, marks=pytest.mark.full)])
@pytest.mark.parametrize("program", PROGRAMS, ids=repr)
def test_given_up_at_every_instruction(program, places):
    eager = run_eagerly(program)
    for at in spread(count_instructions(program), places):
        check(Attempt(program, at), eager, at)


@pytest.mark.parametrize("error", [MemoryError, RecursionError])
@pytest.mark.parametrize("program", PROGRAMS, ids=repr)
def test_resources_run_out(program, error):
    """The program cannot catch the exception: eager execution might not raise it at all."""
    eager = run_eagerly(program)
    for at in spread(count_instructions(program), 6):
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
    model, inputs = make_model(name)
    model.eval()
    module = {"model": model, "inputs": inputs}
    seen = []
    with torch.no_grad():
        expected = model(**inputs)

        def attempt(at):
            compiled = alternator.compile(model, backend="eager")
            before = []
            with Fault(
                at,
                begins=lambda: before.append(Picture(module)),
                rolled_back=lambda: seen.append(changes(before[-1], Picture(module))),
            ) as fault:
                found = compiled(**inputs)
            assert differences(Picture({"result": expected}), Picture({"result": found})) == [], at
            return fault

        count = attempt(-1).instructions
        for at in spread(count, places):
            assert attempt(at).fired
            assert not any(seen), (at, seen)
    assert count > 500
    assert len(seen) >= min(places, count)
