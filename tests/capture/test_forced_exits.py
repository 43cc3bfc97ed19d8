"""Guards that fail, exits and graphs that raise, memory that runs out: at every place, in warm calls and while tracing.

Nothing is lost: the call does what eager execution does, or raises the exception that was put there, and the calls
after it are right in any case.
"""

import random
import warnings

import pytest
import torch

import alternator
from alternator.testing import FailingMemory, Spoiled
from capture import test_break_documents, test_break_generators, test_break_places
from capture.agreement import outcome, same
from capture.breaking import Programs, X, run, stop
from capture.loading import Program
from capture.models import MODELS, make_model
from capture.test_abort import quiet, spread, warm  # noqa: F401
from capture.world import differences

pytestmark = pytest.mark.capture

ALL = 100_000
STATE = Program.find("state")
BREAKS = {**test_break_places.programs, **test_break_documents.programs, **test_break_generators.programs}
effects = Programs()


class Thing:
    def __init__(self):
        self.t, self.n, self.items, self.table = None, 0, [1, 2], {}


class Noting:
    """A context manager whose end is seen."""

    def __init__(self, thing):
        self.thing = thing

    def __enter__(self):
        self.thing.n += 1

    def __exit__(self, *error):
        self.thing.n += 10


@effects.add(1, lambda: (Thing(),))
def writes_attributes_and_items(x, thing):
    thing.t = x + 1
    thing.items += [x * 2, thing.t]
    thing.table["a"] = [x, x * 3]
    thing.n += 1
    return {"all": (thing.t, thing.items)}


@effects.add(2, lambda: (Thing(),))
def writes_around_a_break(x, thing):
    thing.t = x + 1
    thing.items.append(x * 2)
    made = [thing.t, {"k": x}]
    stop()
    thing.table["a"] = made
    thing.n += 1
    return made[0] * 2


@effects.add(3, lambda: (Thing(),))
def breaks_inside_a_manager(x, thing):
    with Noting(thing):
        x = x + 1
        stop()
        x = x * 2
        stop()
        thing.items.append(x + 1)
    return x


@effects.add(1, lambda: (Thing(),))
def writes_to_its_argument(x, thing):
    x.add_(1)
    thing.t = x * 2
    return x


@effects.add(2, lambda: (iter([1, 2, 3, 4]),))
def advances_an_iterator(x, numbers):
    x = x * next(numbers)
    y = (x + next(numbers), [x])
    stop()
    return y[0] * next(numbers), y


PROGRAMS = {**effects, **BREAKS}


class Compiled:
    """A program of PROGRAMS, compiled and warm. Each call has arguments of its own."""

    def __init__(self, name, calls=2, backend="eager"):
        self.plain, _, self.make = PROGRAMS[name]
        self.fn = alternator.compile(self.plain, backend=backend)
        for _ in range(calls):
            self.call()

    def call(self, fn=None):
        """Return what the call did to everything that it was given, and the exception that it raised, if any."""
        args = self.make()
        found = run(fn or self.fn, X.clone(), args)
        return (*found, [vars(arg) for arg in args if isinstance(arg, Thing)])

    def call_eagerly(self):
        return self.call(self.plain)


def list_parts(compiled, kinds, places):
    """Choose parts of the regions of a compiled function: (kind, region, index)."""
    parts = [
        (kind, region, index)
        for kind in kinds
        for region, count in enumerate(Spoiled.count(compiled, kind))
        for index in range(count)
    ]
    return [parts[i] for i in spread(len(parts), places)] if len(parts) > places else parts


def raised(found, error):
    return isinstance(found[0], tuple) and found[0][:2] == (type(error).__name__, str(error))


# ---- Guards --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("places", [3, pytest.param(ALL, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_guard_fails(name, places):
    """Another region is made, or the call runs eagerly."""
    expected = Compiled(name).call_eagerly()
    for part in list_parts(Compiled(name).fn, ["guard"], places):
        compiled = Compiled(name)
        with Spoiled(compiled.fn, *part):
            found = compiled.call()
        assert same(found, expected), (part, found, expected)
        assert same(compiled.call(), expected), part


@pytest.mark.parametrize("places", [2, pytest.param(ALL, marks=pytest.mark.full)])
@pytest.mark.parametrize("program", STATE, ids=repr)
def test_a_guard_fails_in_programs_with_state(program, places):
    """Four calls in one world, the third with a guard that fails."""

    def call(run, fn):
        (kind, *rest), _ = outcome(fn, run.args)
        return run.look(outcome=[kind, *rest])

    def start():
        world = program.load()
        torch.default_generator.manual_seed(11)
        random.seed(11)
        return world

    eager = start()
    expected = [call(eager, eager.fn) for _ in range(4)]
    number, misses = 0, 0
    while number < places:
        world = start()
        compiled = alternator.compile(world.fn, backend="eager")
        call(world, compiled)
        call(world, compiled)
        parts = list_parts(compiled, ["guard"], places)
        if number >= len(parts):
            break
        with Spoiled(compiled, *parts[number]):
            third = call(world, compiled)
        fourth = call(world, compiled)
        misses += 1
        number += 1
        del third  # the world has gone on since
        assert differences(expected[3], fourth) == [], parts[number - 1]
    assert misses > 0 or not parts


def test_a_failing_guard_is_noticed():
    """The hook of the tests above does something: another region is made."""
    compiled = Compiled("writes_around_a_break")
    assert len(Spoiled.count(compiled.fn, "guard")) == 2
    with Spoiled(compiled.fn, "guard", 0, 0):
        compiled.call()
    assert len(Spoiled.count(compiled.fn, "guard")) == 3


# ---- Exits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("places", [6, pytest.param(ALL, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_exit_raises(name, places):
    """The exception leaves the call, or the call does what eager execution does; the next call is right."""
    expected = Compiled(name).call_eagerly()
    compiled = Compiled(name)
    for part in list_parts(compiled.fn, ["step", "effect", "position"], places):
        error = MemoryError("a fault")
        with Spoiled(compiled.fn, *part, error):
            found = compiled.call()
        assert raised(found, error) or same(found, expected), (part, found)
        assert same(compiled.call(), expected), part


def test_an_exit_raises_before_anything_is_done():
    """Values are made before anything is written: the program then runs eagerly, and its managers see their end."""
    expected = Compiled("breaks_inside_a_manager").call_eagerly()
    compiled = Compiled("breaks_inside_a_manager")
    parts = list_parts(compiled.fn, ["step"], ALL)
    assert len(parts) > 6
    for part in parts:
        with Spoiled(compiled.fn, *part, MemoryError("a fault")):
            assert same(compiled.call(), expected), part


# ---- Graphs --------------------------------------------------------------------------------------------------------


class Failing:
    """A backend whose graphs raise an exception at the chosen run, before they compute anything or afterwards."""

    def __init__(self, error, afterwards):
        self.error, self.afterwards = error, afterwards
        self.left = None
        self.runs = 0

    def __call__(self, module, examples):
        def graph(*inputs):
            self.runs += 1
            if self.left is None:
                return module.forward(*inputs)
            self.left -= 1
            result = module.forward(*inputs) if self.left != 0 or self.afterwards else None
            if self.left == 0:
                raise self.error
            return result

        return graph


@pytest.mark.parametrize("afterwards", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_graph_raises(name, afterwards):
    """A graph that has changed nothing is no loss: the program runs eagerly from there."""
    expected = Compiled(name).call_eagerly()
    backend = Failing(RuntimeError("a fault"), afterwards)
    compiled = Compiled(name, backend=backend)
    backend.runs = 0
    compiled.call()
    for number in range(1, min(backend.runs, 4) + 1):
        backend.left = number
        found = compiled.call()
        backend.left = None
        may_raise = afterwards or name == "custom_operator"  # which may have done anything
        assert same(found, expected) or (may_raise and raised(found, backend.error)), (number, found)
        assert same(compiled.call(), expected), number


def test_an_interruption_of_a_graph_leaves_the_call():
    backend = Failing(KeyboardInterrupt("a fault"), False)
    compiled = Compiled("writes_around_a_break", backend=backend)
    for number in (1, 2):
        backend.left = number
        with pytest.raises(KeyboardInterrupt, match="a fault"):
            compiled.call()
        backend.left = None
        assert same(compiled.call(), compiled.call_eagerly())


# ---- Memory --------------------------------------------------------------------------------------------------------


def call_with_failing_memory(compiled, at):
    memory = FailingMemory(at)
    with memory:
        found = compiled.call()
    return memory, found


def lacked_memory(found):
    return isinstance(found[0], tuple) and found[0][0] == "MemoryError"


@pytest.mark.parametrize("places", [2, pytest.param(ALL, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_runs_out_in_warm_calls(name, places):
    """The call does what eager execution does, or its effects lack memory, as the program would."""
    expected = Compiled(name).call_eagerly()
    compiled = Compiled(name)
    count = call_with_failing_memory(compiled, -1)[0].allocations
    for at in spread(count, min(places, count + 1)):
        memory, found = call_with_failing_memory(compiled, at)
        assert same(found, expected) or (memory.failed and lacked_memory(found)), (at, found)
        assert same(compiled.call(), expected), at


@pytest.mark.parametrize(
    ("name", "places"),
    [
        *((name, 8) for name in effects),
        *(pytest.param(name, ALL, marks=pytest.mark.full) for name in effects),
        *(pytest.param(name, 60, marks=pytest.mark.full) for name in BREAKS),
    ],
)
def test_memory_runs_out_while_capturing(name, places):
    """What is being captured is given up, and the call runs eagerly; another one is captured.

    Where something has been captured already, its exit may lack memory, as in warm calls.
    """
    expected = Compiled(name).call_eagerly()
    count = call_with_failing_memory(Compiled(name, calls=0), -1)[0].allocations
    for at in spread(count, min(places, count)):
        compiled = Compiled(name, calls=0)
        memory, found = call_with_failing_memory(compiled, at)
        may_raise = memory.failed and not memory.capturing
        assert same(found, expected) or (may_raise and lacked_memory(found)), (at, found, expected)
        assert same(compiled.call(), expected), at
        assert same(compiled.call(), expected), at


def test_memory_of_ours_is_counted():
    compiled = Compiled("writes_around_a_break", calls=0)
    first = call_with_failing_memory(compiled, -1)[0].allocations
    warm_call = call_with_failing_memory(compiled, -1)[0].allocations
    assert first > 500
    assert 2 < warm_call < 100


def test_memory_of_others_is_not_counted():
    """That of a backend, of the graph's function, and of the program where it runs eagerly."""

    def allocate():
        return [[str(i)] for i in range(1000, 3000)]

    def wasteful(module, examples):
        allocate()

        def graph(*inputs):
            allocate()
            return module.forward(*inputs)

        return graph

    def program(x):
        x = x + 1
        stop()
        allocate()
        return x * 2

    compiled = alternator.compile(program, backend=wasteful)
    for _ in range(3):
        with FailingMemory() as memory:
            assert torch.equal(compiled(X), program(X))
        assert memory.allocations < 1500


def test_a_backend_that_lacks_memory_says_so():
    def lacking(module, examples):
        raise MemoryError("in the backend")

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="in the backend"):
        alternator.compile(lambda x: x + 1, backend=lacking)(X)


# ---- Models --------------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(MODELS))
def test_models(name):
    """Guards that fail and exits that raise, at random places."""
    model, inputs = make_model(name)
    model.eval()
    numbers = random.Random(name)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = model(**inputs)[0]
        for kind in ("guard", "guard", "step", "effect"):
            compiled = alternator.compile(model, backend="eager")
            compiled(**inputs)
            captured = compiled.forward if isinstance(compiled, torch.nn.Module) else compiled
            parts = list_parts(captured, [kind], ALL)
            for part in numbers.sample(parts, min(len(parts), 3)):
                with Spoiled(captured, *part, None if kind == "guard" else MemoryError("a fault")):
                    try:
                        assert torch.equal(compiled(**inputs)[0], expected)
                    except MemoryError:
                        assert kind != "guard"
                assert torch.equal(compiled(**inputs)[0], expected)
