"""Regions keep nothing of the program alive, go with what they watch, and neither captures nor calls leak."""

import gc
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest
import torch

import alternator
from capture.agreement import Captured

X = torch.arange(3.0)
pytestmark = [pytest.mark.capture, pytest.mark.usefixtures("collect_quickly")]

# What a user's module may hold. It is run anew for each test, and must be gone afterwards.
WORLD = """
import collections, dataclasses, enum, functools
import torch

class Mode(enum.Enum):
    FAST = 1

class Base(torch.nn.Module):
    table = [1, 2]
    names = ("a", "b")
    def double(self, x):
        return x * 2

class Model(Base):
    scale = 2
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.register_buffer("mean", torch.zeros(3))
        self.settings = {"shift": 3, "mode": Mode.FAST}
    @property
    def width(self):
        return len(self.names)
    @staticmethod
    def halve(x):
        return x / 2
    @classmethod
    def shift(cls, x, by=1, *, more=[2]):
        return x + by * cls.scale + more[0] + cls.table[0]
    def forward(self, x):
        x = self.shift(self.halve(super().double(self.linear(x))))
        return x + self.settings["shift"] * self.width - self.mean

class Point:
    __slots__ = ("x", "y", "__weakref__")
    def __init__(self, x, y):
        self.x, self.y = x, y

@dataclasses.dataclass
class Result:
    value: object
    kind: object = None

Pair = collections.namedtuple("Pair", "left right")

class Failure(Exception):
    pass

OFFSET = torch.ones(3)

def add_offset(x):
    return x + OFFSET

def make_closure():
    bias = torch.ones(3)
    def add(x, factor=2, *, extra={"more": 1}):
        return x + bias * factor + extra["more"]
    return add

class Counter:
    def __init__(self):
        self.count = 0
        self.seen = []
"""

WATCHED = (
    *("Mode", "Base", "Model", "Point", "Result", "Pair", "Failure", "OFFSET", "add_offset"),
    *("model", "closure", "counter", "weight", "bias", "point"),
)


class World:
    """The objects of WORLD; `refs` watches them."""

    def __init__(self):
        space = {"__name__": "a_world_of_its_own"}
        exec(compile(WORLD, "world.py", "exec"), space)
        self.__dict__.update({name: space[name] for name in WATCHED if name in space})
        self.model = self.Model()
        self.weight = self.model.linear.weight
        self.closure = space["make_closure"]()
        self.bias = self.closure.__closure__[0].cell_contents
        self.counter = space["Counter"]()
        self.point = self.Point(2, torch.ones(3))
        self.refs = {name: weakref.ref(getattr(self, name)) for name in WATCHED}


def call_all(world, x):
    return world.add_offset(world.closure(world.model(x)))


def break_twice(world, x):
    x = world.model(x)
    total = x.sum().item()
    x = world.closure(x) * 2 + total
    print(end="")
    return world.add_offset(x)


def make_objects(world, x):
    results = {world.Model: world.Result(world.model(x), world.Mode.FAST)}
    return results, world.Pair(x + 1, world.closure), world.Point(x, world.add_offset), [world.Model, world.model.shift]


def carry_over_break(world, x):
    fn, cls, point = world.closure, world.Model, world.Point(1, x * 2)
    apply = lambda value: fn(value) * point.x  # noqa: E731
    print(end="")
    return apply(x) + cls.scale + cls.table[1] + point.y


def write_outside(world, x):
    world.counter.count += 1
    world.counter.seen.append(x + world.point.y)
    world.Model.scale = 2
    world.counter.last = world.Result(x * world.point.x)
    return x + world.point.x


def raise_and_catch(world, x):
    try:
        raise world.Failure(world.model(x))
    except world.Failure as failure:
        print(end="")
        return failure.args[0] + 1


def look_up(world, x):
    rules = {world.Model: 2, world.Mode.FAST: 3, (world.Mode, "a"): 4}
    kinds = {world.Model, world.Base}
    if type(world.model) in kinds and isinstance(world.model, world.Base):
        x = x * rules[world.Model] * rules[world.Mode.FAST]
    return x


def walk_parameters(world, x):
    for name, parameter in world.model.named_parameters():
        x = x + parameter.sum() * len(name)
        print(end="")
    return x


def make_generator(world, x):
    values = (fn(x) for fn in (world.closure, world.add_offset))
    x = next(values)
    print(end="")
    return x + next(values)


PROGRAMS = [
    *(call_all, break_twice, make_objects, carry_over_break, write_outside, raise_and_catch, look_up),
    *(walk_parameters, make_generator),
]


def find_alive(refs):
    gc.collect()
    return [name for name, ref in refs.items() if ref() is not None]


def flatten(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return flatten(list(value.values()))
    if isinstance(value, list | tuple):
        return [one for part in value for one in flatten(part)]
    return flatten([getattr(value, name, None) for name in ("value", "x")]) if hasattr(value, "__slots__") else []


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_nothing_is_kept_alive(program):
    compiled = alternator.compile(program, backend="eager")
    before = 0
    for _ in range(3):
        world = World()
        for _ in range(2):
            result = compiled(world, X)
        for found, expected in zip(flatten(result), flatten(program(world, X)), strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=0)
        assert compiled.regions()
        del result, found, expected
        refs = world.refs
        del world
        assert find_alive(refs) == []
        regions = len(compiled.regions())
        assert before in (0, regions)  # what is left does not depend on the objects that are gone
        before = regions


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.full)])
def test_nothing_is_kept_alive_by_compiled_graphs(backend):
    compiled = alternator.compile(call_all, backend=backend)
    world = World()
    torch.testing.assert_close(compiled(world, X), call_all(world, X))
    compiled(world, X).sum().backward()
    refs = world.refs
    del world
    assert find_alive(refs) == []
    assert compiled.regions() == []


def test_compiled_modules_die():
    world = World()
    compiled = alternator.compile(world.model, backend="eager")
    compiled(X)
    captured = weakref.ref(compiled._captured_call)
    refs = world.refs
    del world, compiled
    assert find_alive(refs) == []
    assert captured() is None


@pytest.mark.parametrize("program", [call_all, break_twice], ids=lambda program: program.__name__)
def test_a_captured_function_dies_with_its_function(program):
    source = WORLD + "\nmodel, closure = Model(), make_closure()\nfrom types import SimpleNamespace\n"
    space = {"__name__": "another_world"}
    exec(source, space)
    body = "break_twice" if program is break_twice else "call_all"
    exec(
        "def call_all(x):\n    return add_offset(closure(model(x)))\n"
        "def break_twice(x):\n    x = model(x)\n    print(end='')\n    return add_offset(closure(x) * 2)\n",
        space,
    )
    space["compiled"] = alternator.compile(space[body], backend="eager")
    for _ in range(2):
        torch.testing.assert_close(space["compiled"](X), space[body](X), rtol=0, atol=0)
    refs = {name: weakref.ref(space[name]) for name in (body, "compiled", "model", "Model", "closure", "OFFSET")}
    del space
    assert find_alive(refs) == []


def test_regions_go_with_what_they_watch():
    def program(cls, x):
        return x * cls.scale

    compiled = alternator.compile(program, backend="eager")
    classes = [type("Local", (), {"scale": i}) for i in range(4)]
    for cls in classes:
        assert torch.equal(compiled(cls, X), X * cls.scale)
    assert len(compiled.regions()) == 4
    del cls
    del classes[1:3]
    gc.collect()
    assert len(compiled.regions()) == 2
    for cls in classes:
        assert torch.equal(compiled(cls, X), X * cls.scale)
    assert len(compiled.regions()) == 2


def test_regions_go_while_other_threads_run():
    def program(cls, x):
        x = x * cls.scale
        print(end="")
        return x + cls.scale

    compiled = alternator.compile(program, backend="eager")
    wrong = []

    def work():
        for i in range(25):
            cls = type("Local", (), {"scale": i})
            for _ in range(2):
                if not torch.equal(compiled(cls, X), X * i + i):
                    wrong.append(i)
            del cls
            gc.collect()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert wrong == []
    assert compiled.regions() == []


# What may stay for each repetition: blocks of memory, kilobytes per 1000. The allocator's own habits are in the second.
GROWTH = {"captures": (3, 12000), "functions": (3, 12000), "threads": (6, 30000), "calls": (0.01, 40)}
SHARES = {"captures": 5, "functions": 1, "threads": 2, "calls": 10}


@pytest.mark.no_asan  # memory is not CPython's then
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.full)])
@pytest.mark.parametrize("measurement", GROWTH)
def test_nothing_grows(measurement, whole):
    """In a process of its own (leaks.py): what other tests left to be collected would count here."""
    share = 1 if whole else SHARES[measurement]
    command = [sys.executable, "-P", Path(__file__).with_name("leaks.py"), measurement, str(share)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    for line in run.stdout.splitlines():
        _, blocks, kilobytes = line.split()
        assert float(blocks) < GROWTH[measurement][0], line
        assert float(kilobytes) < GROWTH[measurement][1], line


class Pointed:
    def __init__(self, scale):
        self.scale = scale


def test_a_weak_reference_is_followed():
    def program(x, reference):
        found = reference()
        return x * (1 if found is None else found.scale), found

    compiled = Captured(program)
    first, second = Pointed(2), Pointed(3)
    references = [weakref.ref(first), weakref.ref(second), weakref.ref(first)]
    for reference in references:
        assert torch.equal(compiled(torch.ones(2), reference)[0], program(torch.ones(2), reference)[0])
        assert compiled(torch.ones(2), reference)[1] is reference()
    assert len(compiled.graphs) == 2
    dead = weakref.ref(first)
    del first
    assert dead() is None, "a region keeps it alive"
    for reference in (dead, references[1], dead):
        assert torch.equal(compiled(torch.ones(2), reference)[0], program(torch.ones(2), reference)[0])
