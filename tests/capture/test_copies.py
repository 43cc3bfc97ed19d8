"""copy.copy and copy.deepcopy, addresses as keys, and calls with * of an iterator: one graph, eager's results."""

import collections
import copy
import enum
import inspect
import types

import pytest
import torch
from torch import nn

from capture.agreement import Captured, check_calls

pytestmark = pytest.mark.capture

X = torch.ones(2)


class Plain:
    def __init__(self):
        self.values = [1, [2]]
        self.table = {"a": (1, [2]), "b": "text"}
        self.own = self

    def __eq__(self, other):
        mine, theirs = ({**vars(one), "own": one.own is one} for one in (self, other))
        return type(self) is type(other) and mine == theirs


class Slotted:
    __slots__ = ("left", "right", "empty")

    def __init__(self):
        self.left, self.right = [1], 2

    def __eq__(self, other):
        return (self.left, self.right, hasattr(self, "empty")) == (other.left, other.right, hasattr(other, "empty"))


class Items(list):
    pass


class Told:
    def __init__(self):
        self.value = 3

    def __getstate__(self):
        return {"value": self.value + 1}

    def __setstate__(self, state):
        self.value = state["value"] * 10

    def __eq__(self, other):
        return self.value == other.value


class Own:
    def __init__(self):
        self.values = [1]

    def __deepcopy__(self, memo):
        made = Own()
        made.values = copy.deepcopy(self.values, memo) + [2]
        return made

    def __eq__(self, other):
        return self.values == other.values


class Colour(enum.Enum):
    RED = 1


Point = collections.namedtuple("Point", "a b")


def make_items():
    made = Items([1, [2]])
    made.name = [5]
    return made


MADE = {
    "list": lambda: [1, [2, (3, [4])]],
    "plain": Plain,
    "slotted": Slotted,
    "items": make_items,
    "told": Told,
    "own": Own,
    "enum": lambda: [Colour.RED],
    "point": lambda: Point([1], 2),
    "set": lambda: {1, 2},
    "frozenset": lambda: frozenset([(1, 2)]),
    "deque": lambda: collections.deque([1, [2]], 5),
    "defaultdict": lambda: collections.defaultdict(list, a=[1]),
    "OrderedDict": lambda: collections.OrderedDict(a=[1]),
    "torch": lambda: [torch.float32, torch.device("cpu"), X.shape],
}


def deep(x, thing):
    return x + 1, copy.deepcopy(thing)


def shallow(x, thing):
    return x + 1, copy.copy(thing)


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("function", [deep, shallow])
def test_copies_are_part_of_the_graph(function, name):
    thing = MADE[name]()
    expected = function(X, thing)[1]
    captured = Captured(function)
    for _ in range(2):
        found = captured(X, thing)[1]
        assert type(found) is type(expected)
        assert found == expected
        assert (found is thing) == (expected is thing)
        assert getattr(found, "__dict__", {}).keys() == getattr(expected, "__dict__", {}).keys()
    assert (len(captured.graphs), captured.breaks, captured.said) == (1, [], [])


def test_what_is_shared_is_guarded():
    def shares(x, pair):
        one, other = copy.deepcopy(pair)
        return x + (1 if one is other else 2)

    part = [1]
    check_calls(shares, [(X, [part, part]), (X, [part, [1]]), (X, [part, part])], graphs=2)


def test_changes_are_seen():
    check_calls(deep, [(X, [1, [2]]), (X, [1, [3]]), (X, [1, [2, 2]]), (X, [1, (2,)])])


def test_a_module_is_copied_with_parameters_of_its_own():
    def run(module, x):
        copied = copy.deepcopy(module)
        return copied(x).sum(), copied

    module = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    captured = Captured(run)
    for _ in range(2):
        (total, copied), (expected, _) = captured(module, X), run(module, X)
        assert torch.equal(total, expected)
        assert copied[0].weight is not module[0].weight
        assert torch.equal(copied[0].weight, module[0].weight)
        total.backward()
        assert module[0].weight.grad is None
        assert copied[0].weight.grad is not None
    assert len(captured.graphs) == 1


def test_a_tensor_is_copied_for_real_in_one_break():
    def run(x):
        y = x * 2
        return y + copy.deepcopy([x])[0]

    captured = check_calls(run, [(X,), (X,)], graphs=2)
    assert len(captured.breaks) == 1


def test_the_limit_of_a_deque_is_guarded():
    def run(x, deque):
        return x + 1, deque.copy(), deque.maxlen

    captured = Captured(run)
    for limit in (None, 3, 2, None):
        _, copied, told = captured(X, collections.deque([1, 2], limit))
        assert (copied.maxlen, told) == (limit, limit)
    assert captured.breaks == []


# ---- Addresses -----------------------------------------------------------------------------------------------------


def test_addresses_tell_which_objects_are_the_same():
    def count(x, things):
        seen, kept = set(), {}
        for thing in things:
            seen.add(id(thing))
            kept[id(thing)] = thing
        return x + len(kept), id(things[0]) == id(things[1]), id(things[0]) in seen

    a, b = [1], [1]
    captured = Captured(count)
    for things in ([a, a, b], [a, b, b], [a, a, a], [a, b, b]):
        assert captured(X, things)[1:] == count(X, things)[1:]
        assert torch.equal(captured(X, things)[0], count(X, things)[0])
    assert captured.breaks == []


@pytest.mark.parametrize(
    "use",
    [
        lambda x, a: (x + 1, id(a)),
        lambda x, a: (x + 1, {id(a): 1}),
        lambda x, a: (x + 1, str(id(a))),
        lambda x, a: (x + 1, id(a) + 1),
        lambda x, a: (x + 1, [*{id(a)}][0]),
        lambda x, a: (x + 1, list(map(id, [a]))),
        lambda x, a: (x + 1, hash(id(a))),
        lambda x, a: (x + 1, sorted([id(a), id(x)])),
        lambda x, a: (x + 1, id(a) in [id(a)], id(a) > 0),
    ],
)
def test_an_address_that_is_used_otherwise_is_eager(use):
    captured = Captured(use)
    for thing in ([1], [1], (2,)):
        assert captured(X, thing)[1:] == use(X, thing)[1:]


def test_an_address_across_a_break():
    def run(x, a):
        kept = {id(a): 1}
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2, kept[id(a)], kept

    captured = Captured(run)
    for thing in ([1], [1]):
        assert captured(X, thing)[1:] == run(X, thing)[1:]


def test_signatures():
    def run(x, function):
        return x + len(inspect.signature(function).parameters)

    captured = check_calls(run, [(X, run), (X, deep), (X, make_items), (X, run)])
    assert captured.breaks == []


# ---- Calls with *, views, slices -----------------------------------------------------------------------------------


def star(x, n):
    def last(*values, scale=1):
        return values[-1] * scale

    numbers = max(*(i for i in range(n)))
    return last(*map(lambda i: x + i, range(n)), scale=2), numbers, dict(zip(*map(list, [(1, 2), (3, n)]), strict=True))


def star_of_a_generator_that_breaks(x, n):
    def give():
        for i in range(n):
            torch._dynamo.graph_break()
            yield x + i

    return torch.stack([*map(lambda *values: sum(values), give())])


def test_star_of_an_iterator():
    check_calls(star, [(X, 3), (X, 3)], graphs=1)
    check_calls(star, [(X, 3), (X, 4), (X, 2)])
    check_calls(star_of_a_generator_that_breaks, [(X, 3), (X, 2)])


VIEWS = {
    "keys": (lambda table: table.keys(), lambda x, v: x + len(v) + sum(v) + (2 in v)),
    "values": (lambda table: table.values(), lambda x, v: x + len(v) + sum(v)),
    "items": (lambda table: table.items(), lambda x, v: x + sum(a * b for a, b in v)),
    "set": (lambda table: table.keys(), lambda x, v: x + len(v & {1, 2})),
    "proxy": (types.MappingProxyType, lambda x, v: x + v[1] + v.get(2, 7) + len(v) + (3 in v)),
    "whole proxy": (types.MappingProxyType, lambda x, v: x + sum(dict(v).values()) + sum(v)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_that_came_in(name):
    make, use = VIEWS[name]
    table = {1: 2, 3: 4}
    view = make(table)
    captured = Captured(use)
    for change in ({}, {}, {2: 5}, {1: 3}):
        table.update(change)
        assert torch.equal(captured(X, view), use(X, view))
    assert torch.equal(captured(X, make({1: 9})), use(X, make({1: 9})))
    del table[3]
    assert torch.equal(captured(X, view), use(X, view))
    assert captured.breaks == []


def test_slices_that_came_in():
    def run(x, where):
        return x[where] + where.start

    check_calls(run, [(X, slice(0, 1)), (X, slice(0, 1)), (X, slice(0, 2)), (X, slice(1, 2))])


def test_a_proxy_is_given_out():
    def run(x, table):
        table["n"] = 1
        return x + 1, types.MappingProxyType(table), types.MappingProxyType({"m": x})

    captured = Captured(run)
    table = {}
    _, proxy, other = captured(X, table)
    table["k"] = 2
    assert (dict(proxy), other["m"] is X) == ({"n": 1, "k": 2}, True)
    assert captured.breaks == []


# ---- What stood beside the tables ----------------------------------------------------------------------------------


def test_methods_of_builtin_classes():
    def run(x, data):
        return x + int.from_bytes(data, "big") + float.fromhex("0x1p3") + len(bytes.fromhex("ff")), bool.from_bytes(
            data
        )

    check_calls(run, [(X, b"\1"), (X, b"\2"), (X, b"\1")], graphs=2)


def test_results_of_torch_are_made_by_hand():
    def run(x):
        return torch.return_types.max((x + 1, x.long()))

    (value, index) = Captured(run)(X)
    assert torch.equal(value, X + 1)
    assert torch.equal(index, X.long())
    assert type(Captured(run)(X)) is torch.return_types.max


def test_operators_that_were_never_looked_for():
    with torch.library._scoped_library("alternator_copies", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        library.impl("twice", lambda x: torch.empty_like(x), "Meta")

        def run(x):
            return torch.ops.alternator_copies.twice.default(x) + torch.ops.alternator_copies.twice(x)

        captured = Captured(run)
        assert torch.equal(captured(X), X * 4)
        assert (len(captured.graphs), captured.breaks) == (1, [])


def test_the_class_of_a_tensor_is_changed_for_real():
    class Marked(nn.Parameter):
        pass

    def run(x, parameter):
        y = x * 2
        parameter.__class__ = nn.Parameter
        return y + parameter

    captured = Captured(run)
    for _ in range(2):
        parameter = Marked(torch.ones(2))
        assert torch.equal(captured(X, parameter), X * 3)
        assert type(parameter) is nn.Parameter


def test_lazy_modules():
    for _ in range(2):
        module = nn.Sequential(nn.LazyLinear(3))
        captured = Captured(lambda x, module=module: module(x) * 2)
        found = captured(X)
        assert torch.equal(found, module(X) * 2)
        assert torch.equal(captured(X), found)


def test_backward_hooks_of_modules():
    def train(compiled):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
        seen = []
        for part in module:
            part.register_full_backward_hook(lambda part, given, found: seen.append(found[0].clone()))
        run = Captured(module.forward) if compiled else module.forward
        for _ in range(2):
            run(X).sum().backward()
        return [*seen, *(parameter.grad for parameter in module.parameters())]

    assert all(map(torch.equal, train(True), train(False)))
