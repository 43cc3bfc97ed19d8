"""What the frames hold where a region ends, slot by slot, is what they hold in an interpreted run.

At each break of a program, and at breaks that are forced at every instruction, locals, cells, value stacks, current
exceptions, generators and the positions of iterators are compared, in the first call, which traces, and in a warm one.
"""

import contextlib
import functools
import io
import random
import warnings

import pytest
import torch

import alternator
from alternator.testing import Fault
from capture import break_grammar, test_break_documents, test_break_generators, test_break_places
from capture.breaking import X
from capture.frames import Followed, Taken
from capture.loading import Program
from capture.models import MODELS, make_model
from capture.test_abort import quiet, spread, warm  # noqa: F401

pytestmark = pytest.mark.capture

BREAKS = {**test_break_places.programs, **test_break_documents.programs, **test_break_generators.programs}
# torch.manual_seed(), of this one, goes through the whole stack: the two ways of running it are not the same to it.
STATE = [program for program in Program.find("state") if program.name != "draws_elsewhere"]
GENERATED = 12
# ---- Worlds: what a program is and what it is called with ----------------------------------------------------------


class World:
    """A function, what makes its arguments, and the namespaces that are its own."""

    def __init__(self, fn, make, spaces=()):
        self.fn, self.make, self.spaces = fn, make, spaces

    def call(self, runner, fn):
        """Call it; return the kind of outcome."""
        torch.default_generator.manual_seed(3)  # not by torch.manual_seed(), which takes milliseconds
        random.seed(3)
        args = self.make()
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                runner.run(fn, *args)
            except Exception as error:
                return type(error).__name__
        return "returned"


@functools.cache
def fill_caches(make_world, program):
    """Let others fill their caches in an interpreted run: asyncio, and linecache with the files of this very stack."""
    world = make_world(program)
    world.call(Followed(Taken()), world.fn)


def break_world(name):
    fn, _, make = BREAKS[name]
    return World(fn, lambda: (X.clone(), *make()))


def state_world(program):
    run = program.load()
    return World(run.fn, lambda: run.args, [run.space])


class GeneratedWorlds:
    codes = {}

    def __init__(self, seed):
        self.seed = seed

    def __call__(self):
        if self.seed not in self.codes:
            text = break_grammar.write(random.Random(self.seed).randint)[0]
            self.codes[self.seed] = compile(text, "<generated>", "exec")
        space = {"__name__": "generated"}
        exec(self.codes[self.seed], space)
        return World(space["program"], lambda: (torch.randn(2, 3), 2, space["Box"](torch.randn(2, 3))), [space])


# ---- The comparison ------------------------------------------------------------------------------------------------


def compare_calls(make_world, fault=None, calls=2):
    """Run two worlds, one compiled with the fault in its first call, and compare at every break. Return how many."""
    compiled_world, plain_world = make_world(), make_world()
    compiled = alternator.compile(compiled_world.fn, backend="eager")
    compared = 0
    for number in range(calls):
        taken = Taken(compiled_world.spaces)
        with fault if fault is not None and number == 0 else contextlib.nullcontext():
            ended = compiled_world.call(taken, compiled)
        followed = Followed(taken, plain_world.spaces)
        expected = plain_world.call(followed, plain_world.fn)
        assert not taken.errors, taken.errors
        assert not followed.errors, (number, followed.errors)
        assert not followed.differences, f"call {number}:\n" + "\n".join(followed.differences)
        assert (ended, followed.next) == (expected, len(taken.steps))
        assert followed.compared + followed.passed == taken.events
        compared += followed.compared
    return compared


def count_instructions(make_world):
    world = make_world()
    counting = Fault(-1)
    with counting:
        world.call(Taken(), alternator.compile(world.fn, backend="eager"))
    return counting.instructions


def compare_everywhere(make_world, places):
    """Force a break at each of so many instructions."""
    compared = compare_calls(make_world)
    for at in spread(count_instructions(make_world), places):
        try:
            compared += compare_calls(make_world, Fault(at))
        except AssertionError as error:
            raise AssertionError(f"with a break at instruction {at}: {error}") from None
    return compared


ALL = 100_000
FEW = [3, pytest.param(ALL, marks=pytest.mark.full)]


@pytest.mark.parametrize("places", FEW)
@pytest.mark.parametrize("name", BREAKS)
def test_programs_with_breaks(name, places):
    fill_caches(break_world, name)
    assert compare_everywhere(lambda: break_world(name), places) > 0


@pytest.mark.parametrize("places", FEW)
@pytest.mark.parametrize("program", STATE, ids=repr)
def test_programs_with_state(program, places):
    fill_caches(state_world, program)
    assert compare_everywhere(lambda: state_world(program), places) > 0


@pytest.mark.parametrize("seed", range(GENERATED))
def test_generated_programs(seed):
    compare_everywhere(GeneratedWorlds(seed), 3)


def test_arguments_that_inner_functions_use():
    """Breaks before and behind the instruction that puts an argument into its cell."""

    def inner(x, y):
        return (lambda: x * 2)() + y

    def program(x):
        z = x + 1
        print(end="")
        return inner(z * 3, z.sin())

    assert compare_everywhere(lambda: World(program, lambda: (X.clone(),)), 1000) > 0


@pytest.mark.full
@pytest.mark.parametrize("seed", range(GENERATED, 200))
def test_more_generated_programs(seed):
    compare_everywhere(GeneratedWorlds(seed), 12)


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(MODELS))
def test_models(name, monkeypatch):
    """Random places, with all weights and buffers compared. Models ask whether they are compiled: here, always."""
    monkeypatch.setattr(torch.compiler, "_is_compiling_flag", True)
    model, inputs = make_model(name)
    model.eval()
    keys = list(inputs)

    def call(*values):
        with torch.no_grad():
            return model(**dict(zip(keys, values, strict=True)))

    def make_world():
        return World(call, lambda: tuple(inputs.values()))

    count = count_instructions(make_world)
    numbers = random.Random(name)
    for _ in range(5):
        assert compare_calls(make_world, Fault(numbers.randrange(count))) > 0
