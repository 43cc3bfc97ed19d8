"""Guards of regions that begin at a break: what the code that runs for real changes, or gives, is noticed behind it."""

import contextlib

import pytest
import torch

from capture.agreement import Captured, same
from capture.breaking import X

pytestmark = pytest.mark.capture

SCALE = 2


class Base:
    factor = 3

    def grow(self, t, by=2):
        return t * by * self.factor


class Thing(Base):
    def __init__(self):
        self.n = 1
        self.t = torch.ones(2, 3)
        self.items = [1, 2]
        self.table = {"a": 1, "b": 2}
        self.point = Point(1)


class Point:
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x


class Other(Thing):
    factor = 4


def scaled(t, by=2):
    return t * by * SCALE


def rescaled(t, by=5):
    return t - by


class World:
    """What the break can get at; `poke` is the break."""

    def __init__(self):
        self.thing = Thing()
        self.result = 1
        self.iterator = iter([1, 2, 3, 4])
        self.pairs = enumerate([X, X + 1, X + 2])
        self.listed = [X, X * 2]
        self.change = None

    @torch.compiler.disable
    def poke(self, *seen):
        if self.change is not None:
            self.change(self, *seen)
        return self.result


def inner(x, world, n):
    n = n + 1
    x = x * n
    first = next(world.iterator)
    add = lambda t: t + n + first  # noqa: E731
    got = world.poke(add, x)
    x = add(x) + world.thing.n
    for number, t in world.pairs:
        x = x + t * number
    if isinstance(got, int):
        x = x * got
    elif isinstance(got, torch.Tensor):
        x = x + got
    elif isinstance(got, (tuple, list)):
        x = x + len(got) + sum(got)
    elif got is None or isinstance(got, str):
        x = x - len(got or "")
    else:
        x = got.grow(x)
    return x * n, got is world.thing.items, x is got


def program(x, world, n):
    kept = world.listed
    results = []
    for index, t in enumerate(kept):
        result = inner(x + t, world, n)
        results.append((index, *result))
        if index == 0:
            x = x + 1
    thing = world.thing
    x = scaled(thing.grow(x)) + thing.t + sum(thing.items) + thing.point.x
    x = x * thing.table["a"] if "b" in thing.table else x
    return x, results, list(thing.table), next(world.iterator, None), torch.is_grad_enabled(), x.requires_grad


CHANGES = {}


def change(fn):
    CHANGES[fn.__name__] = fn
    return fn


def gives(name, value):
    CHANGES[f"gives_{name}"] = lambda world, *_: setattr(world, "result", value)


gives("another_number", 7)
gives("a_truth", True)
gives("text", "abc")
gives("other_text", "abcd")
gives("none", None)
gives("a_tensor", torch.ones(2, 3))
gives("a_tensor_of_another_shape", torch.ones(3))
gives("a_tensor_of_another_type", torch.ones(2, 3, dtype=torch.float64))
gives("a_tensor_with_gradient", torch.ones(2, 3, requires_grad=True))
gives("a_tuple", (1, 2))
gives("a_longer_tuple", (1, 2, 3))
gives("a_list", [1, 2])
gives("an_object", Thing())
gives("an_object_of_another_class", Other())


@change
def gives_the_list_itself(world, *_):
    world.result = world.thing.items


@change
def gives_the_tensor_itself(world, add, x):
    world.result = x


@change
def sets_an_attribute(world, *_):
    world.thing.n += 3


@change
def sets_an_attribute_to_another_type(world, *_):
    world.thing.n = 2.5


@change
def replaces_a_tensor(world, *_):
    world.thing.t = torch.ones(1, 3, dtype=torch.float64)


@change
def changes_a_tensor_in_place(world, *_):
    world.thing.t.add_(1)


@change
def appends(world, *_):
    world.thing.items.append(5)


@change
def removes(world, *_):
    world.thing.items.pop()


@change
def deletes_a_key(world, *_):
    world.thing.table.pop("b", None)


@change
def moves_a_key(world, *_):
    world.thing.table["a"] = world.thing.table.pop("a")


@change
def sets_a_slot(world, *_):
    world.thing.point.x = 9


@change
def replaces_the_object(world, *_):
    world.thing = Other()


@change
def changes_the_class_of_an_object(world, *_):
    world.thing.__class__ = Other


@change
def hides_a_method(world, *_):
    world.thing.grow = lambda t: t - 1


@change
def changes_a_cell(world, add, x):
    add.__closure__[1].cell_contents = 4 if isinstance(add.__closure__[1].cell_contents, int) else 0


@change
def changes_the_code_of_a_function(world, add, x):
    scaled.__code__ = rescaled.__code__


@change
def changes_a_default(world, *_):
    scaled.__defaults__ = (3,)


@change
def changes_a_default_of_a_method(world, *_):
    Base.grow.__defaults__ = (5,)


@change
def changes_a_class(world, *_):
    Base.factor = 6


@change
def changes_a_global(world, *_):
    global SCALE
    SCALE = 5


@change
def advances_an_iterator(world, *_):
    next(world.iterator, None)


@change
def advances_an_enumerate(world, *_):
    next(world.pairs, None)


@change
def replaces_an_iterator(world, *_):
    world.iterator = iter((5, 6, 7, 8))


@change
def lengthens_the_list_in_the_loop(world, *_):
    if len(world.listed) < 3:
        world.listed.append(X * 3)


@change
def empties_the_list_in_the_loop(world, *_):
    world.listed.clear()


@change
def switches_gradients_off(world, *_):
    torch.set_grad_enabled(False)


@contextlib.contextmanager
def everything_put_back():
    global SCALE
    code, defaults, methods = scaled.__code__, scaled.__defaults__, Base.grow.__defaults__
    try:
        yield
    finally:
        SCALE, Base.factor = 2, 3
        scaled.__code__, scaled.__defaults__, Base.grow.__defaults__ = code, defaults, methods
        torch.set_grad_enabled(True)


def call(fn, what, x, n):
    with everything_put_back():
        world = World()
        world.change = CHANGES.get(what)
        try:
            result = fn(x.clone(), world, n)
        except Exception as error:
            result = type(error).__name__, str(error)
        left = {**vars(world.thing), "point": world.thing.point.x, "grow": None}
        return result, left, list(world.iterator), list(world.pairs)


@pytest.mark.parametrize("what", CHANGES)
def test_changes_are_noticed(what):
    compiled = Captured(program)
    counts = []
    for now in (None, what, None, what, None):
        expected, found = call(program, now, X, 2), call(compiled, now, X, 2)
        assert same(found, expected), f"{now}\n compiled: {found}\n eager:    {expected}"
        counts.append(len(compiled.graphs))
    assert counts[0] >= 3  # in front of the breaks, between them, behind them
    assert counts[1] == counts[4], f"what was captured fits again: {counts}"


def test_all_changes_in_turn():
    compiled = Captured(program)
    for what in CHANGES:
        for now in (what, None):
            assert same(call(compiled, now, X, 2), call(program, now, X, 2)), now
