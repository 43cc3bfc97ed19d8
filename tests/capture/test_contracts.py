"""What C functions look at has guards: after any change a call gives what eager execution gives."""

import collections
import copy
import functools
import itertools
import math
import operator
import re
import types

import pytest
import torch

from capture.agreement import Captured

pytestmark = pytest.mark.capture

X = torch.ones(2)


class Thing:
    def __init__(self, **values):
        self.__dict__.update(values)


Point = collections.namedtuple("Point", "a b")


def nested():
    return [[3, 1], [2], [2, 5]]


def pairs():
    return [("a", [1]), ("b", [2, 3])]


def things():
    return [Thing(v=[1, 2], n=2), Thing(v=[3], n=1)]


# Expressions over `a` (and `b`), and what makes those. Each is tried as it is, and after each change of each part.
CALLS = [
    ("sum(map(len, a))", nested),
    ("list(map(sum, a))", nested),
    ("list(map(list, a))", nested),
    ("max(a, key=len)", nested),
    ("min(a)", nested),
    ("max(a, default=3)", nested),
    ("max(*a)", nested),
    ("max(map(tuple, a))", nested),
    ("sorted(a)", nested),
    ("sorted(a, key=len, reverse=True)", nested),
    ("sorted(a, key=lambda v: v)", nested),
    ("sorted(zip(a, a))", nested),
    ("sorted(enumerate(a), key=operator.itemgetter(1))", nested),
    ("sum(a, [])", nested),
    ("any(a)", lambda: [[], [], [1]]),
    ("all(v for v in a)", nested),
    ("any(itertools.chain(a, a))", lambda: [[], [0]]),
    ("list(filter(None, a))", lambda: [[], [1], 0, 3]),
    ("list(filter(lambda v: v, a))", lambda: [[], [1], 0, 3]),
    ("list(filter(len, a))", lambda: [[], [1]]),
    ("list(itertools.filterfalse(None, a))", lambda: [[], [1], 0, 3]),
    ("list(itertools.takewhile(len, a))", lambda: [[1], [], [2]]),
    ("list(itertools.dropwhile(lambda v: v, a))", lambda: [[1], [], [2]]),
    ("list(itertools.starmap(operator.add, a))", lambda: [(1, 2), (3, 4)]),
    ("list(itertools.starmap(getattr, [(t, 'n') for t in a]))", things),
    ("list(itertools.accumulate(a))", nested),
    ("list(itertools.accumulate(a, operator.add))", nested),
    ("functools.reduce(operator.add, a)", nested),
    ("functools.reduce(lambda p, q: p + q, a, [])", nested),
    ("functools.reduce(getattr, ['real', 'imag'], a)", lambda: 3),
    ("[t.v for t in sorted(a, key=operator.attrgetter('n'))]", things),
    ("[t.n for t in sorted(a, key=operator.attrgetter('v'))]", things),
    ("len(set(map(tuple, a)))", nested),
    ("len(set(a))", lambda: [(1, (2, 3)), (1, (2, 4))]),
    ("len(frozenset(tuple(v) for v in a))", nested),
    ("len({*a})", lambda: [(1, (2, 3)), (1, (2, 4))]),
    ("dict(a)", pairs),
    ("dict(map(tuple, a))", pairs),
    ("dict((k, len(v)) for k, v in a)", pairs),
    ("dict([[1, 2], [3, 4]] + a)", lambda: [[5, 6]]),
    ("{**dict(zip(a, a))}", lambda: [(1, 2), (3, 4)]),
    ("list(dict.fromkeys(map(tuple, a)))", nested),
    ("a.index([2, 5])", nested),
    ("a.count([2])", nested),
    ("[2] in a", nested),
    ("a == [[3, 1], [2], [2, 5]]", nested),
    ("operator.eq(a, [[3, 1], [2], [2, 5]])", nested),
    ("operator.contains(a, [2])", nested),
    ("operator.concat(a, a)", nested),
    ("operator.getitem(a, 1)", nested),
    ("operator.truth(a)", list),
    ("bool(a)", nested),
    ("not a", nested),
    ("operator.not_(a[1])", nested),
    ("hash(a)", lambda: (1, (2, "x"))),
    ("{(1, (2, 'x')): 1}.get(a)", lambda: (1, (2, "x"))),
    ("{(1, (2, 'x')): 1, (1, (3, 'x')): 2}[a]", lambda: (1, (2, "x"))),
    ("a[0][a[1]]", lambda: ({(1, 2): 3, (1, 3): 4, (2, 2): 5}, (1, 2))),
    ("a[1] in a[0]", lambda: ({(1, 2), (1, 3)}, (1, 2))),
    ("str(a)", nested),
    ("repr(a)", nested),
    ("f'{a}'", nested),
    ("f'{a!r:>40}'", nested),
    ("'%s %d' % (a, len(a))", nested),
    ("'%s' % a", nested),
    ("'{} {}'.format(a, 1)", nested),
    ("format(a[0], '4d')", lambda: [3]),
    ("'-'.join(a)", lambda: ["x", "y"]),
    ("'-'.join(str(v) for v in a)", nested),
    ("'-'.join(map(str, a))", nested),
    ("len(collections.Counter(a))", lambda: ["x", "y", "x"]),
    ("collections.OrderedDict(a)", pairs),
    ("collections.deque(a, 2)", nested),
    ("list(collections.ChainMap(*a))", lambda: [{"p": 1}, {"q": 2}]),
    ("list(itertools.chain(*a))", nested),
    ("list(itertools.chain.from_iterable(a))", nested),
    ("list(itertools.product(*a))", nested),
    ("list(itertools.combinations(a, 2))", nested),
    ("list(itertools.permutations(a[0]))", nested),
    ("list(itertools.zip_longest(*a, fillvalue=0))", nested),
    ("list(itertools.islice(a, 1, None))", nested),
    ("list(itertools.compress(a, [1, 0, 1]))", nested),
    ("list(itertools.compress('abc', a))", nested),
    ("list(itertools.pairwise(a))", nested),
    ("[(k, [*g]) for k, g in itertools.groupby(a, len)]", nested),
    ("[(k, [*g]) for k, g in itertools.groupby(sorted(a[0]))]", nested),
    ("list(zip(*a))", lambda: [(1, 2), (3, 4)]),
    ("list(reversed(a))", nested),
    ("list(enumerate(a, a[0][1]))", nested),
    ("a[::-1]", nested),
    ("a[a[0][1]:]", nested),
    ("a * 2", nested),
    ("a + a", nested),
    ("[*a, *a[0]]", nested),
    ("{**a, 'z': 1}", lambda: {"p": [1], "q": 2}),
    ("a | {'z': 1}", lambda: {"p": [1], "q": 2}),
    ("{k: len(v) for k, v in a.items()}", lambda: {"p": [1], "q": [2]}),
    ("sorted(a.items())", lambda: {"p": [1], "q": [2]}),
    ("max(a, key=a.get)", lambda: {"p": 1, "q": 2}),
    ("list(map(a.get, ['p', 'q', 'r']))", lambda: {"p": 1, "q": 2}),
    ("sum(a.values())", lambda: {"p": 1, "q": 2}),
    ("list(a.keys() & {'p', 'z'})", lambda: {"p": 1, "q": 2}),
    ("a.keys() == {'p', 'q'}", lambda: {"p": 1, "q": 2}),
    ("len(a & {1, 2})", lambda: {1, 3}),
    ("sorted(a - {1, 2})", lambda: {1, 3}),
    ("sorted(a.union([9], {8}))", lambda: {1, 3}),
    ("a.issubset(range(4))", lambda: {1, 3}),
    ("a <= {1, 3, 4}", lambda: {1, 3}),
    ("(a.a, a._replace(b=[1]), a._asdict())", lambda: Point(1, [2])),
    ("a < Point(1, [3])", lambda: Point(1, [2])),
    ("math.prod(a)", lambda: [2, 3]),
    ("math.fsum(a)", lambda: [2.0, 3.0]),
    ("math.hypot(*a)", lambda: [3.0, 4.0]),
    ("math.gcd(*a)", lambda: [4, 6]),
    ("divmod(*a)", lambda: [7, 2]),
    ("pow(*a)", lambda: [2, 3, 5]),
    ("round(a[0], a[1])", lambda: [2.345, 1]),
    ("int(a[0], a[1])", lambda: ["11", 2]),
    ("a[0].replace(*a[1])", lambda: ["abab", ["a", "c"]]),
    ("a[0].startswith(tuple(a[1]))", lambda: ["abab", ["a", "c"]]),
    ("a[0].startswith(a[1])", lambda: ["abab", ("a", "c")]),
    ("a[0].translate(a[1])", lambda: ["abab", {97: "x"}]),
    ("isinstance(a[0], a[1])", lambda: [1, (int, str)]),
    ("isinstance(a[0], a[1])", lambda: [1, ((float, (str, int)), bytes)]),
    ("issubclass(type(a[0]), (int, float))", lambda: [1]),
    ("getattr(a[0], a[1], 7)", lambda: [Thing(v=1), "v"]),
    ("hasattr(a[0], 'v')", lambda: [Thing(v=1)]),
    ("vars(a[0])", lambda: [Thing(v=1)]),
    ("[k for k in a[0].__dict__]", lambda: [Thing(v=1)]),
    ("re.sub('a+', '-', a)", lambda: "caat"),
    ("re.sub('a+', lambda m: m.group().upper(), a)", lambda: "caat"),
    ("re.match(r'(\\w)(\\d)?', a).groups()", lambda: "c3"),
    ("re.findall('a', a)", lambda: "caat"),
    ("functools.partial(max, *a)()", nested),
    ("functools.partial(sorted, key=len)(a)", nested),
    ("operator.itemgetter(0, 1)(a)", nested),
    ("operator.methodcaller('count', [2])(a)", nested),
    ("next(iter(a))", nested),
    ("next(filter(None, a), 3)", lambda: [[], [0]]),
    ("list(iter(a.pop, []))", lambda: [[], [1], [2]]),
    ("copy.copy(a)", nested),
    ("range(*a)[a[0]]", lambda: [1, 7, 2]),
    ("len(range(*a))", lambda: [1, 7, 2]),
    ("slice(*a).indices(5)", lambda: [1, 7, 2]),
    ("bytes(a)", lambda: [1, 2]),
    ("types.SimpleNamespace(**a).p", lambda: {"p": [1]}),
    ("torch.Size(a).numel()", lambda: [2, 3]),
    ("tuple(torch.Size(a))", lambda: [2, 3]),
    ("divmod(a[0], a[1])", lambda: [7.5, 2]),
    ("abs(a[0]) + a[1].real", lambda: [-3, 2 + 1j]),
    ("a.__getitem__(0)", nested),
    ("a.__len__()", nested),
    ("a.__contains__([2])", nested),
    ("list.__eq__(a, [[3, 1], [2], [2, 5]])", nested),
    ("repr(collections.OrderedDict(a)), str(collections.OrderedDict(a))", lambda: {"p": [1], "q": 2}),
    ("collections.OrderedDict(a).__ior__({'z': 1})", lambda: {"p": [1], "q": 2}),
    ("collections.OrderedDict(z=0).__ior__(a)", pairs),
    ("dict.__ior__({'z': 0}, a)", pairs),
    (
        "collections.OrderedDict(a).__eq__(a), collections.OrderedDict(a) != {'p': [1], 'q': 2}",
        lambda: {"p": [1], "q": 2},
    ),
    ("collections.OrderedDict.fromkeys(a, 1), collections.OrderedDict.fromkeys(iter(a))", lambda: {"p": [1], "q": 2}),
    ("a.__add__([[1]])", nested),
    ("a.__mul__(2), a.__rmul__(2), list(a.__reversed__())", nested),
    ("(a.__imul__(2), a.__delitem__(0), a)", nested),
    ("tuple(a).__add__((1,)), tuple(a).__mul__(2), tuple(a).__getitem__(1)", nested),
    ("a.__or__({'z': 1}), dict.__ror__(a, {'p': 4}), list(reversed(a))", lambda: {"p": [1], "q": 2}),
    ("collections.OrderedDict(a).__or__({'z': 1})", lambda: {"p": [1], "q": 2}),
    (
        "sorted(a.__or__({9})), sorted(a.__and__({1})), sorted(a.__sub__({1})), sorted(a.__xor__({1, 9}))",
        lambda: {1, 3},
    ),
    ("sorted(frozenset(a).__or__({9})), frozenset(a).copy() == a, frozenset(a).isdisjoint({1})", lambda: {1, 3}),
    ("sorted(a.symmetric_difference({1, 9})), sorted(a.copy())", lambda: {1, 3}),
    ("(a.__iand__({1, 9}), a.__ixor__({7}), a.__isub__({1}), sorted(a))", lambda: {1, 3}),
    ("collections.deque(a).copy(), collections.deque(a).__add__(collections.deque([1]))", nested),
    ("collections.deque(a).__getitem__(1), collections.deque(a).__contains__([2])", nested),
    ("list(a.__iter__().__iter__()), next(a.__iter__()), a.__iter__().__next__()", nested),
    ("list(enumerate(a).__iter__()), list(zip(a, a).__iter__()), list(map(len, a).__iter__())", nested),
    ("list(a.keys().__iter__()), list(a.values().__iter__()), list(a.items().__iter__())", lambda: {"p": [1], "q": 2}),
    ("sorted(a.__iter__()), sorted(frozenset(a).__iter__())", lambda: {1, 3}),
    ("list((v for v in a).__iter__()), list(reversed(a).__iter__())", nested),
    ("type(a)(a)", nested),
]

MODULES = (collections, copy, functools, itertools, math, operator, re, types, torch)
SPACE = {module.__name__: module for module in MODULES}
SPACE["Point"] = Point


def list_changes(value, change, depth=0):
    """Yield functions that make a changed copy of a value: one part of it is another one."""
    yield change(value)
    if isinstance(value, (list, tuple)):
        make = (lambda items: value._make(items)) if hasattr(value, "_make") else type(value)
        for i, item in enumerate(value):
            for other in list_changes(item, change, depth + 1):
                yield make([*value[:i], other, *value[i + 1 :]])
        if not hasattr(value, "_make"):
            yield make([*value, *value[:1]])
            yield make(value[:-1])
    elif isinstance(value, dict):
        for key, item in value.items():
            for other in list_changes(item, change, depth + 1):
                yield {**value, key: other}
        yield {**value, "new": 1}
        yield dict(list(value.items())[1:])
    elif isinstance(value, set):
        yield value | {4}
        yield set(list(value)[1:])
    elif isinstance(value, Thing):
        for other in list_changes(vars(value), change, depth + 1):
            yield Thing(**other) if isinstance(other, dict) else value


def change_leaf(value):
    match value:
        case bool():
            return not value
        case int() | float() | complex():
            return value + 1
        case str():
            return value + "a"
        case _:
            return value


def make_program(expression):
    space = dict(SPACE)
    exec(f"def program(x, a):\n    y = x + 1\n    value = {expression}\n    return y, value", space)
    return space["program"]


def plain(value):
    """Make a value comparable: objects of a class without equality are their attributes."""
    if isinstance(value, Thing):
        return vars(value)
    if isinstance(value, (list, tuple)):
        return [type(value), *map(plain, value)]
    return value


@pytest.mark.parametrize(("expression", "make"), CALLS, ids=[expression for expression, _ in CALLS])
def test_a_change_of_what_is_looked_at_is_noticed(expression, make):
    fn = make_program(expression)
    for changed in list_changes(make(), change_leaf):
        captured = Captured(fn)
        for argument in (make(), changed, make()):
            got, expected = (call(f, argument) for f in (captured, fn))
            assert got == expected, changed


def call(fn, argument):
    argument = copy.deepcopy(argument)
    try:
        y, value = fn(X, argument)
    except Exception as error:
        return type(error), str(error)
    return y.tolist(), type(value), plain(value), plain(argument)


# What a method caller was given cannot be seen.
@pytest.mark.parametrize(
    ("expression", "make"),
    [row for row in CALLS if "methodcaller" not in row[0]],
    ids=[expression for expression, _ in CALLS if "methodcaller" not in expression],
)
def test_captured_whole(expression, make):
    fn = make_program(expression)
    fn(X, make())  # what `re` compiles it keeps
    captured = Captured(fn)
    captured(X, make())
    assert captured.breaks == []
    assert len(captured.graphs) == 1
