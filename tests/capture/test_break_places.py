"""Breaks in code that no call of the program leads to, in recursion, generators, handlers; iterators from outside."""

import asyncio
import collections
import functools
import gc
import itertools
import sys
import weakref

import pytest
import torch

import alternator
from capture.agreement import Captured
from capture.breaking import Programs, X, places_of, stop

pytestmark = pytest.mark.capture

programs = Programs()


# ---- Code that C code or the interpreter calls ---------------------------------------------------------------------


class Thing:
    def __init__(self, t):
        self.t = t

    @property
    def loud(self):
        self.t = self.t + 1
        stop()
        return self.t * 2

    def __getattr__(self, name):
        if name != "missing":
            raise AttributeError(name)
        t = self.t * 3
        stop()
        return t + 1

    def __len__(self):
        stop()
        return 2

    def __getitem__(self, index):
        t = self.t * index
        stop()
        return t

    def __contains__(self, item):
        stop()
        return item == 1

    def __add__(self, other):
        t = self.t + other
        stop()
        return Thing(t)

    def __bool__(self):
        stop()
        return True


@programs.add(2)
def in_a_property(x):
    return Thing(x + 1).loud * 2


@programs.add(2)
def in_getattr(x):
    return Thing(x + 1).missing * 2


@programs.add(2)
def in_len(x):
    x = x + 1
    return x * len(Thing(x))


@programs.add(2)
def in_getitem(x):
    return Thing(x + 1)[3] * 2


@programs.add(2)
def in_contains(x):
    x = x + 1
    return x * 2 if 1 in Thing(x) else x


@programs.add(2)
def in_an_operator(x):
    return (Thing(x + 1) + 2).t * 3


@programs.add(2)
def in_bool(x):
    thing = Thing(x + 1)
    return thing.t * 2 if thing else thing.t


class Equal:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        stop()
        return self.n == other.n


@programs.add(2)
def in_eq_of_an_index(x):
    x = x + 1
    return x * [Equal(1), Equal(2)].index(Equal(2))


class Meta(type):
    def __call__(cls, *args):
        stop()
        return super().__call__(*args)


class OfMeta(metaclass=Meta):
    def __init__(self, t):
        self.t = t * 2


@programs.add(2)
def in_a_metaclass(x):
    x = x + 1
    return OfMeta(x).t * 3


class Descriptor:
    def __get__(self, owner, cls):
        t = owner.t * 2
        stop()
        return t + 1

    def __set__(self, owner, value):
        owner.t = value * 2
        stop()


class Described:
    field = Descriptor()

    def __init__(self, t):
        self.t = t + 1


@programs.add(2)
def in_a_descriptor(x):
    return Described(x).field * 2


@programs.add(2)
def in_a_descriptor_that_is_set(x):
    described = Described(x)
    described.field = x * 4
    return described.t * 2


def loudly(value):
    stop()
    return value


@programs.add(2)
def in_a_sort_key(x):
    x = x + 1
    order = [3, 1, 2]
    order.sort(key=loudly)
    return x * order[0]


@programs.add(2)
def in_a_map(x):
    x = x + 1
    return x * list(map(loudly, [2, 1]))[0]


@programs.add(2)
def in_a_map_that_is_gone_through(x):
    for n in map(loudly, [1, 2]):
        x = x + n
    return x


@programs.add(2)
def in_a_filter(x):
    x = x + 1
    return x * next(filter(loudly, [2, 1]))


@programs.add(2)
def in_a_reduce(x):
    x = x + 1
    return x * functools.reduce(lambda a, b: loudly(a + b), [1, 2, 3])


@programs.add(2)
def in_a_default_factory(x):
    x = x + 1
    return x * collections.defaultdict(lambda: loudly(5))["a"]


@programs.add(2)
def in_a_default_argument(x):
    def inner(a, b=loudly(x + 1)):
        return a * b

    return inner(x) * 2


@programs.add(3)
def in_a_dict_comprehension(x):
    return {i: (stop(), x * i)[1] for i in range(3)}


@programs.add(3)
def in_a_generator_expression(x):
    total = x
    for value in (x * i if not stop() else 0 for i in range(3)):
        total = total + value
    return total


@programs.add(2)
def in_a_call_with_stars(x):
    def inner(*args, **named):
        stop()
        return sum(args) + named["z"]

    return inner(*[x + 1, x + 2], **{"z": x * 3}) * 2


# ---- Recursion -----------------------------------------------------------------------------------------------------


def descend(x, n):
    if n == 0:
        return x * 2
    y = x + n
    stop()
    return descend(y, n - 1) * 2


@programs.add(7)
def on_the_way_down(x):
    return descend(x, 6)


def ascend(x, n):
    if n == 0:
        return x * 2
    result = ascend(x + n, n - 1)
    stop()
    return result * 2


@programs.add(7)
def on_the_way_up(x):
    return ascend(x, 6)


@programs.add(2)
def loop_over_a_tensor_condition(x):
    while (x < 20).any():
        x = x * 2 + 1
    return x


# ---- Exceptions ----------------------------------------------------------------------------------------------------


def fail(x):
    y = x * 2
    stop()
    raise KeyError(y.shape[0])


@programs.add(2)
def raised_behind_a_break_and_caught_in_front(x):
    try:
        x = x + 1
        fail(x)
    except KeyError as error:
        return x * 5, error.args, places_of(error)


@programs.add(2)
def raised_again_behind_a_break(x):
    def inner(x):
        try:
            raise ValueError("q")
        except ValueError:
            x = x + 1
            stop()
            x = x * 2
            raise

    try:
        inner(x)
    except ValueError as error:
        return x * 3, places_of(error)


@programs.add(2)
def raised_by_name_behind_a_break(x):
    def inner(x):
        try:
            raise ValueError("q")
        except ValueError as error:
            x = x + 1
            stop()
            raise error

    try:
        inner(x)
    except ValueError as error:
        return x * 3, places_of(error)


@programs.add(2)
def raised_while_another_is_handled(x):
    def inner(x):
        try:
            raise ValueError(1)
        except ValueError as error:
            x = x + 1
            stop()
            kept = error
            try:
                raise KeyError(2)
            except KeyError:
                raise kept  # noqa: B904

    try:
        inner(x)
    except ValueError as error:
        context = error.__context__
        return x * 2, places_of(error), repr(context), places_of(context), repr(context.__context__)


@programs.add(3)
def two_handlers_deep(x):
    try:
        try:
            x = x + 1
            raise ValueError("a")
        except ValueError as error:
            stop()
            x = x * 2
            raise KeyError("b") from error
    except KeyError as error:
        stop()
        return x * 3, repr(error.__cause__), places_of(error), places_of(error.__cause__)


@programs.add(2)
def exception_through_a_finally(x):
    def inner(x):
        try:
            x = x + 1
            raise ValueError("a")
        finally:
            x = x * 2
            stop()
            x = x * 3

    try:
        inner(x)
    except ValueError as error:
        return x + 1, places_of(error)


@programs.add(3)
def finally_behind_a_return(x):
    def inner(x):
        try:
            x = x + 1
            stop()
            return x
        finally:
            x = x * 2
            stop()

    return inner(x) * 3


class Swallowing:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        stop()
        return True


@programs.add(3)
def exit_that_swallows(x):
    with Swallowing() as manager:
        x = x + 1
        stop()
        x = x * 3
        raise ValueError
    return x * 2, manager is not None


@programs.add(2)
def exception_that_is_current(x):
    try:
        raise ValueError("z")
    except ValueError:
        y = x + 1
        stop()
        return y * 2, sys.exc_info()[0]


@programs.add(2)
def exception_that_leaves(x):
    y = x + 1
    stop()
    z = y * 2
    raise RuntimeError(z.shape)


# ---- Other constructs ----------------------------------------------------------------------------------------------


@programs.add(3)
def break_right_behind_a_return(x):
    def inner(x):
        x = x + 1
        stop()
        return x.sum() > 0

    return x * 2 if inner(x) else x * 3


@programs.add(2)
def one_name_in_two_frames(x):
    def inner(x):
        x = x + 1
        stop()
        return x * 2

    y = inner(x * 3)
    return x + y


@programs.add(2)
def function_without_globals(x):
    def inner(v):  # nothing of the module is read in front of the break
        return v.sum().item()

    return x * 2 + inner(x + 1)


@programs.add(2)
def match_statement(x):
    y = x + 1
    match {"a": 1, "b": [1, 2]}:
        case {"a": n, "b": [_, m]}:
            stop()
            return y * n * m


@programs.add(2)
def formatted(x):
    y = x + 1
    return f"{y.shape} {y.sum()}", repr(y), y * 2


@programs.add(2)
def deleted_local(x):
    y = x + 1
    z = y * 2
    del y
    stop()
    try:
        return y  # noqa: F821
    except UnboundLocalError as error:
        return z + 1, str(error)


@programs.add(0)  # coroutines are left alone
def coroutines(x):
    async def inner(x):
        y = x + 1
        stop()
        await asyncio.sleep(0)
        return y * 2

    async def numbers(x):
        for i in range(3):
            yield x + i

    async def outer(x):
        total = await inner(x) + await inner(x * 2)
        async for number in numbers(x):
            total = total + number
        return total

    return asyncio.run(outer(x))


@programs.add(1)
def coroutine_that_is_sent_to(x):
    async def inner(x):
        y = x + 1
        stop()
        return y * 2

    coroutine = inner(x)
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value * 2


# ---- Iterators that came in: one graph, and used up as eagerly -----------------------------------------------------

ITEMS = [torch.full((2, 3), float(i)) for i in (1, 2, 3)]


class Counting:
    def __init__(self):
        self.n = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.n += 1
        if self.n > 3:
            raise StopIteration
        return ITEMS[self.n - 1]


def generate():
    for item in ITEMS:
        yield item * 2


TENSORS = {
    "list": lambda: iter(ITEMS),
    "tuple": lambda: iter(tuple(ITEMS)),
    "reversed": lambda: reversed(ITEMS),
    "map": lambda: map(lambda t: t * 2, ITEMS),
    "map_of_torch": lambda: map(torch.neg, ITEMS),
    "generator": generate,
    "class": Counting,
    "values": lambda: iter(dict(enumerate(ITEMS)).values()),
    "range": lambda: iter(range(1, 4)),
}
PAIRS = {
    "enumerate": lambda: enumerate(ITEMS),
    "enumerate_from": lambda: enumerate(iter(ITEMS), 5),
    "zip": lambda: zip([1, 2, 3], ITEMS, strict=False),
    "zip_strict": lambda: zip([1, 2, 3], ITEMS, strict=True),
    "zip_uneven": lambda: zip([1, 2], ITEMS, strict=False),
    "items": lambda: iter(dict(enumerate(ITEMS)).items()),
    "map_of_two": lambda: map(lambda n, t: (n, t * 2), [1, 2, 3], ITEMS),
}


def go_through(x, items):
    for item in items:
        x = x + item
    return x


@programs.add(3)
def list_that_a_loop_goes_over_is_filled_in_the_region(x):
    items, seen = [], []
    stop()
    for value in (x + 1, x * 2):
        items.append(value)
    for i, item in enumerate(items):
        seen.append((i, item))
        stop()
        x = x + item * i
    return x, seen


@programs.add(3)
def list_that_is_gone_through_backwards_is_filled_in_the_region(x):
    items = []
    stop()
    items.extend([x + 1, x * 2])
    for item in reversed(items):
        x = x + item
        stop()
        x = x * 2
    return x


def take_two(x, items):
    return x + next(items) * 2 + next(items)


def take_more_than_there_is(x, items):
    return x + next(items), [next(items, None) is None for _ in range(4)]


def leave_early(x, items):
    for item in items:
        x = x + item
        if x is not None:
            break
    return x


def go_through_pairs(x, pairs):
    for n, item in pairs:
        x = x + item * n
    return x


CASES = [
    *itertools.product([go_through, take_two, take_more_than_there_is, leave_early], TENSORS.items()),
    *itertools.product([go_through_pairs], PAIRS.items()),
]


@pytest.mark.parametrize(("fn", "kind"), CASES, ids=[f"{fn.__name__}-{kind[0]}" for fn, kind in CASES])
def test_iterators_that_came_in(fn, kind):
    compiled = Programs({"it": (fn, 1, lambda: (kind[1](),))}).check("it")
    assert compiled.breaks == [] or kind[0] == "generator"


@pytest.mark.parametrize("name", programs)
def test_programs(name):
    programs.check(name)


def test_iterators_that_differ_in_length_and_kind():
    compiled = Programs({"it": (go_through, 1, lambda: (iter(ITEMS),))}).check("it")
    for items in (ITEMS[:1], [], ITEMS + ITEMS, [X, X, X]):
        for make in (iter, reversed, lambda items: iter(tuple(items))):
            assert torch.equal(compiled(X, make(items)), go_through(X, make(items)))


def test_numbers_of_one_name_in_two_frames():
    def inner(x, n):
        x = x + 1
        stop()
        return x * n

    def outer(x, n, m):
        return inner(x, m) + n

    compiled = Captured(outer)
    for n, m in itertools.product((2, 3), (2, 3, 4)):
        assert torch.equal(compiled(X, n, m), outer(X, n, m))


LITTER = """
gc.disable()
node = Node()
node.me = node
watches.append(weakref.ref(node, lambda _: seen.append(one + one)))
del node
gc.enable()
"""


def test_finalisers_between_regions():
    """Code that the garbage collector runs while frames are put back is none of theirs."""
    seen = []
    space = {
        "gc": gc,
        "weakref": weakref,
        "Node": type("Node", (), {}),
        "seen": seen,
        "watches": [],
        "one": torch.ones(1),
    }

    def program(x):
        x = x + 1
        exec(LITTER, space)
        exec(LITTER, space)  # right behind the other: the first thing that is allocated is a frame's
        return x * 2

    compiled = Captured(program)
    thresholds = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(5):
            assert torch.equal(compiled.fn(X), program(X))
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()
    assert seen


def test_a_recursion_that_breaks_at_each_level():
    """Deep down it runs for real; the captures do not grow with the square of its depth."""
    calls = []

    def descend(x, left):
        if left == 0:
            return x
        x = x * 2 - 1
        calls.append(left)
        stop()
        return descend(x + 1, left - 1) * 0.5

    compiled = Captured(descend)
    for _ in range(2):
        found = compiled.fn(X, 450)
        seen, calls = calls, []
        expected = descend(X, 450)
        assert torch.equal(found, expected)
        assert seen == calls
        calls = []
    graphs = len(compiled.graphs)
    assert 100 < graphs < 450
    with pytest.raises(RecursionError):
        compiled.fn(X, -1)
    assert len(compiled.graphs) <= 2 * graphs


def test_tensors_of_one_name_in_several_frames():
    """Backends tell inputs apart by their sources."""

    def program(x, depth):
        y = x * depth
        if depth > 0:
            x = x + program(y, depth - 1)
        else:
            stop()
        return x + y

    compiled = alternator.compile(program, backend="aot_eager")
    for x in (X, X + 1, X.clone().requires_grad_()):
        assert torch.equal(compiled(x, 2), program(x, 2))
