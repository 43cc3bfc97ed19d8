"""What a captured call writes to objects from outside, and what it leaves behind: as eager execution does."""

import collections
import copy
import dataclasses
import enum
import functools
import itertools

import pytest
import torch

from capture.agreement import Captured, check_calls

pytestmark = pytest.mark.capture

X = torch.arange(6.0).reshape(2, 3)

CHANGES = {}  # name -> (function, argument)


def changes(make):
    """Register a function (x, argument) that changes its argument; `make` makes the argument."""

    def register(fn):
        CHANGES[fn.__name__] = (fn, make)
        return fn

    return register


@changes(lambda: [1, 2])
def list_append(x, a):
    a.append(3)
    return x * len(a)


@changes(lambda: [1, 2])
def list_append_tensor_and_read(x, a):
    a.append(x + 1)
    return a[-1] * a[0]


@changes(lambda: [1, 2, 3])
def list_changes(x, a):
    a[0] = 5
    a.insert(1, 9)
    b = a.pop()
    a += [x, b]
    del a[2]
    a.reverse()
    return x + a[-1]


@changes(lambda: [3, 1, 2])
def list_sorts(x, a):
    a.sort(key=lambda i: -i)
    return x * a[0]


@changes(lambda: [3, 1, 2])
def list_slices(x, a):
    a[1:] = [x, x]
    return a[1] + 1


@changes(lambda: [1, 2])
def list_holds_itself(x, a):
    a.append(a)
    return x + len(a)


@changes(lambda: {"a": 1, "b": 2})
def dict_sets(x, a):
    a["c"] = x
    a["a"] = 5
    return x * a["a"]


@changes(lambda: {"a": 1, "b": 2})
def dict_deletes_and_sets_again(x, a):
    v = a.pop("a")
    a["a"] = v + 1
    a.setdefault("z", []).append(x)
    return x * len(a)


@changes(lambda: {"a": 1, "b": 2})
def dict_updates(x, a):
    a.update({"b": 3, "d": 4}, e=5)
    a.popitem()
    return [x * v for v in a.values()]


@changes(lambda: {1: "a", (2, "b"): 3})
def dict_other_keys(x, a):
    a[7] = x
    a.pop(1, None)
    return x + a[2, "b"]


@changes(lambda: {1, 2, 3})
def set_changes(x, a):
    a.add(9)
    a.discard(1)
    a |= {4}
    return x * len(a)


@changes(lambda: collections.deque([1, 2, 3], maxlen=3))
def deque_rolls(x, a):
    a.append(x)
    return x + a[0]


@changes(lambda: collections.deque([1, 2, 3]))
def deque_queue(x, a):
    first = a.popleft()
    a.extend([first, x])
    return x * first


@changes(lambda: collections.OrderedDict(a=1, b=2, c=3))
def ordered_dict_moves(x, a):
    a.move_to_end("a")
    a["d"] = x
    return [x * i for i, _ in enumerate(a)]


@changes(lambda: collections.defaultdict(list))
def default_dict(x, a):
    a["k"].append(x)
    a["k"].append(2)
    return x * len(a["k"])


class Plain:
    def __init__(self):
        self.a = 1
        self.b = [1]

    @property
    def double(self):
        return self.a * 2

    @double.setter
    def double(self, value):
        self.a = value // 2


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a = 1


@changes(Plain)
def attributes(x, a):
    a.a = a.a + 1
    a.new = x
    a.b.append(a.a)
    a.double = 8
    return x * a.a


@changes(Plain)
def attribute_deleted_and_set_again(x, a):
    del a.a
    a.c = 1
    a.a = x
    return a.a + 1


@changes(Plain)
def attributes_by_dict(x, a):
    a.__dict__["z"] = x
    vars(a)["a"] = 4
    return x * a.a


@changes(Slotted)
def slots(x, a):
    a.b = x
    a.a += 1
    return x * a.a


@changes(Slotted)
def slot_deleted(x, a):
    a.a = 1
    del a.a
    return x * hasattr(a, "a")


@changes(lambda: [Plain(), Plain()])
def objects_moved(x, a):
    a[0].other, a[1] = a[1], a[0]
    a.append(Plain())
    return x + a[0].a


def picture(value, seen=None):
    """Return the structure of a value with identity: equal pictures mean equal values and equal sharing."""
    seen = {} if seen is None else seen
    if isinstance(value, (int, float, str, type(None), type, enum.Enum)):
        return value
    if id(value) in seen:
        return ("seen", seen[id(value)])
    seen[id(value)] = len(seen)
    seen[("keep", id(value))] = value
    if isinstance(value, torch.Tensor):
        return ("tensor", value.tolist(), value.dtype)
    if isinstance(value, dict):
        return (type(value), [(picture(k, seen), picture(v, seen)) for k, v in value.items()])
    if isinstance(value, (list, tuple, collections.deque)):
        return (type(value), [picture(v, seen) for v in value])
    if isinstance(value, (set, frozenset)):
        return (type(value), sorted(value, key=repr))
    slotted = [(name, picture(getattr(value, name, None), seen)) for name in getattr(type(value), "__slots__", ())]
    return (type(value), slotted, picture(getattr(value, "__dict__", None), seen))


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_changes(name):
    fn, make = CHANGES[name]
    compiled = Captured(fn)
    for _ in range(3):
        # The same argument twice: what the first call left is what the second finds.
        mine, theirs = make(), make()
        for x in (X, X + 1):
            expected = fn(x, theirs)
            found = compiled(x, mine)
            assert picture((found, mine)) == picture((expected, theirs))
    assert compiled.graphs, compiled.said
    assert not compiled.said


COUNTER = 0
REGISTRY = []


class Counting:
    total = 0


def test_globals_and_classes():
    def program(x):
        global COUNTER
        COUNTER += 1
        REGISTRY.append(COUNTER)
        Counting.total += 2
        return x * Counting.total

    global COUNTER
    compiled = Captured(program)
    for i in range(1, 4):
        assert torch.equal(compiled(X), X * 2 * i)
        assert (COUNTER, REGISTRY, Counting.total) == (i, list(range(1, i + 1)), 2 * i)
    assert compiled.graphs
    assert not compiled.said
    COUNTER, Counting.total = 0, 0
    REGISTRY.clear()


# ---- What a call returns -------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Data:
    a: torch.Tensor
    b: list = dataclasses.field(default_factory=list)


Named = collections.namedtuple("Named", "a b")


class Color(enum.Enum):
    RED = 1


class MyList(list):
    pass


class MyDict(dict):
    def __init__(self, *args):
        super().__init__(*args)
        self.extra = 1


RESULTS = {
    "data": lambda x: Data(x + 1, [x]),
    "named": lambda x: Named(x + 1, Color.RED),
    "set": lambda x: ({1, 2}, frozenset([3]), x * 2),
    "deque": lambda x: collections.deque([x + 1, 1], maxlen=4),
    "ordered": lambda x: collections.OrderedDict(a=x + 1, b=1),
    "default": lambda x: collections.defaultdict(list, {"a": [x + 1]}),
    "sharing": lambda x: (lambda a: [a, a, (a, {"a": a})])([x + 1]),
    "cycle": lambda x: (lambda a: a.append(a) or (a, x + 1))([]),
    "cycle through a tuple": lambda x: (lambda a: a.append((a, x + 1)) or a)([]),
    "list class": lambda x: MyList([x + 1, 2]),
    "dict class": lambda x: MyDict({"a": x + 1}),
    "slotted": lambda x: (Slotted(), x + 1),
    "exception": lambda x: (ValueError("a", 1), x + 1),
    "slice": lambda x: (slice(1, 2), x + 1),
    "range": lambda x: (range(4), x + 1),
    "nested": lambda x: [[[x + 1], {"k": (x, [Data(x * 2)])}]],
}


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_results(name):
    compiled = Captured(RESULTS[name])
    for x in (X, X + 1, X):
        expected, found = RESULTS[name](x), compiled(x)
        if name == "exception":
            assert (type(found[0]), found[0].args) == (type(expected[0]), expected[0].args)
        else:
            assert picture(found) == picture(expected)
    assert len(compiled.graphs) == 1, compiled.said


def test_results_that_do_something():
    def program(x, n):
        y = x * n

        def closure(z=n, *, k=y):
            """Add."""
            nonlocal y
            y = y + z
            return y + k

        closure.mark = n

        def generate():
            for i in range(3):
                yield y + i

        it = generate()
        next(it)
        numbers = iter([1, 2, 3])
        next(numbers)
        return closure, functools.partial(torch.add, y, alpha=2), it, numbers, enumerate([y, y]), zip((1, 2), (y, n))

    def use(made):
        closure, partial, it, numbers, pairs, zipped = made
        values = [closure(), closure(1), partial(torch.ones(2, 3)), *it, *numbers, *itertools.chain(*pairs)]
        values += [closure.mark, closure.__name__, closure.__doc__, closure.__defaults__, *itertools.chain(*zipped)]
        return picture(values)

    compiled = Captured(program)
    for _ in range(3):
        assert use(compiled(X, 2)) == use(program(X, 2))
    assert len(compiled.graphs) == 1, compiled.said


def test_aliases_of_an_argument():
    def program(x, a, b):
        a.append(1)
        b.append(2)
        return x * len(a)

    shared = [0]
    calls = [(X, [0], [0]), (X, shared, shared), (X, [0], [0])]
    captured = check_calls(program, calls)
    assert not captured.said
    assert copy.copy(shared) == [0]  # the comparison works on copies


number = 1


def test_functions_that_a_region_makes_see_the_modules_variables():
    def program(x):
        y = x * 2
        return y, lambda: number

    def make(x):
        def generate():
            yield 0
            yield number

        iterator = generate()
        next(iterator)
        return x * 2, iterator.__next__

    global number
    for fn in (program, make):
        compiled = Captured(fn)
        for value in (2, 3):
            _, read = compiled(X)
            number = value
            assert read() == value
        assert len(compiled.graphs) == 1, compiled.said


@pytest.mark.parametrize("leave", ["next", "throw", "send", "close"])
def test_generators_that_die_with_the_function(leave):
    done = []

    def steps():
        try:
            try:
                yield 1
            except ValueError:
                yield 2
            finally:
                done.append("inner")
            yield 3
        finally:
            done.append("outer")

    def program(x):
        generator = steps()
        next(generator)
        if leave == "throw":
            generator.throw(ValueError)
        elif leave == "send":
            generator.send(None)
        elif leave == "close":
            generator.close()
        return x.sin()

    program(torch.ones(2))
    expected = done[:]
    compiled = Captured(program, fullgraph=True)
    for _ in range(2):
        done.clear()
        compiled(torch.ones(2))
        assert done == expected


def test_a_descriptor_that_writes_to_the_dict_itself():
    class Field:
        def __set__(self, owner, value):
            owner.__dict__["field"] += value * 2

    class Owner:
        field = Field()

        def __init__(self):
            self.__dict__["field"] = 0

    def program(x, owner):
        owner.field = 10
        return x + owner.field

    compiled, eager = Owner(), Owner()
    captured = Captured(program)
    for _ in range(3):
        assert torch.equal(captured(X, compiled), program(X, eager))
        assert vars(compiled) == vars(eager)


def test_properties_in_c():
    """Properties of classes that C++ code made, whose getters are no Python functions."""
    Info = torch._C._dynamo.guards.GuardDebugInfo

    def program(x, info):
        return x.cos() if info.result else x.sin()

    captured = Captured(program)
    for result in (True, False, True):
        info = Info(result, ["a"], 0)
        assert torch.equal(captured(X, info), program(X, info))


@pytest.mark.parametrize("name", ["isdisjoint", "issuperset", "issubset", "union"])
def test_how_much_of_a_generator_sets_take(name):
    taken = []

    def items():
        for i in (2, 1, 3, 4):
            taken.append(i)
            yield i

    def program(x):
        return x + len(taken), getattr({2, 3, 4}, name)(items())

    captured = Captured(program)
    for _ in range(2):
        taken.clear()
        expected = program(X)[1], taken[:]
        taken.clear()
        assert (captured(X)[1], taken) == expected
