"""Programs captured whole: eager and compiled agree in all that can be seen; or they run eagerly and say so."""

import collections
import contextlib
import dataclasses
import enum
import functools
import math
import sys

import pytest
import torch
import torch.nn.functional as F

from capture.agreement import Captured, check_calls, outcome, same

pytestmark = pytest.mark.capture

torch.manual_seed(0)
X = torch.randn(4, 4)
Y = torch.randn(4, 4)
CONFIG = {"scale": 2.0, "nested": {"bias": 1}}


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Pair:
    first: object
    second: object = None


Point = collections.namedtuple("Point", "x y")

CAPTURED = {}  # name -> (function, calls, graphs)


def captured(*calls, graphs=1):
    def register(fn):
        CAPTURED[fn.__name__] = (fn, calls, graphs)
        return fn

    return register


@captured((X, 1), (X, 3), (X, 1), (Y, 3), graphs=2)
def branch_on_a_number(x, n):
    return x.relu() if n > 2 else x + n


@captured(
    (X, torch.FloatTensor), (X.double(), torch.FloatTensor), (X, torch.LongTensor), (Y, torch.FloatTensor), graphs=3
)
def classes_that_tell_of_dtypes(x, kind):
    return isinstance(x, kind), isinstance(x + 1, (int, kind)), isinstance(x * 2, (kind, torch.Tensor))


@captured((X,), (Y,))
def an_argument_with_the_name_of_a_keyword(x):
    return x.clone().uniform_(**{"from": 1, "to": 1}), x.clone().random_(**{"from": 3, "to": 4})


class Labelled(tuple):
    pass


class Version(collections.namedtuple("Numbers", "major minor")):
    def raised(self):
        return self._replace(minor=self.minor + 1)


class Tags(frozenset):
    pass


@captured((X,), (Y,))
def instances_of_immutable_classes(x):
    pair = Labelled((x + 1, 2))
    pair.label, pair.itself = x * 2, pair
    tags = Tags({1, 2})
    tags.note = [x - 1]
    version = Version(x, 3).raised()
    return pair, pair.label, pair.itself is pair, tags, tags.note, version, vars(version)


@captured((X,), (Y,))
def the_exception_that_is_handled(x):
    before = sys.exc_info()
    try:
        raise KeyError("a")
    except KeyError as error:
        inside = sys.exc_info()[1] is error, sys.exception() is error, sys.exc_info()[0]
    return x + 1, before, inside, sys.exception()


@captured((X,), (Y,))
def a_stack_of_contexts(x):
    log = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.callback(log.append, 1)
        y = x * 2
    try:
        with contextlib.ExitStack() as stack:
            stack.callback(log.append, 2)
            raise ValueError(y.shape)
    except ValueError:
        log.append(3)
    return y, log


@captured((X, {}), (X, {X.shape: Y}), (Y, {(4, 4): X}), (X[0], {X.shape: Y}), graphs=3)
def items_by_shape(x, cache):
    if x.shape not in cache:
        cache[x.shape] = x + 1
    return cache[x.shape] * 2


@captured((X,), (Y,))
def loop(x):
    for i in range(3):
        x = x * 2 + i
    return x


@captured(([X, Y],), ([Y, X],), ([X],), graphs=2)
def list_of_tensors(xs):
    total = 0
    for i, x in enumerate(xs):
        total = total + x * (i + 1)
    return total, [x.sum() for x in xs], len(xs)


@captured(({"a": X, "b": Y},), ({"b": Y, "a": X},), graphs=2)
def dict_of_tensors(tensors):
    return {name + "!": tensor.abs() for name, tensor in tensors.items()}


@captured((X,))
def globals_and_math(x):
    return x * CONFIG["scale"] + math.sqrt(CONFIG["nested"]["bias"])


@captured((X,))
def results_of_many_kinds(x):
    return Pair(x + 1, [x.shape, x.dtype]), Point(x * 2, "text"), {"k": (1, 2.5, None)}, Color.RED, slice(1, None)


@captured((X,))
def sharing_in_the_result(x):
    inner = [x + 1]
    return inner, inner, {"again": inner}


@captured((X,))
def inputs_in_the_result(x):
    return x, [x, x + 1]


@captured((X,))
def grad_modes(x):
    with torch.no_grad():
        y = x * 2
    with torch.enable_grad():
        z = y + x
    return y, z


@captured((X,))
def exceptions_inside(x):
    try:
        {}["missing"]
    except KeyError as error:
        x = x + len(error.args)
    finally:
        x = x * 2
    return x


@captured((X,))
def generators_and_comprehensions(x):
    def parts():
        for i in range(3):
            yield x + i

    return sum(parts()), torch.stack([x[i] * i for i in range(x.shape[0])])


@captured((X, 3), (X, 2), graphs=2)
def shapes_and_slices(x, n):
    flat = F.softmax(x.view(2, -1), dim=-1).transpose(0, 1).reshape(-1)
    return flat[:n], x.size(), x.ndim, x.shape[0] * 2


@captured((X, Y))
def operators(a, b):
    return (a @ b) / 3 - b.T + (a > b).float() + 2**a + (-a) - (1 - b) * 2, a == b, a != b, abs(a), a // 2, a % 3


@captured((X,))
def functions_and_closures(x):
    scale = 3

    def inner(y, *, bias=1):
        return y * scale + bias

    return functools.partial(inner, bias=2)(x), (lambda v, w=2: v * w)(x), sorted([3, 1, 2], key=lambda v: -v)


@captured((X,))
def in_place_on_fresh_tensors(x):
    x = x.clone()
    x.add_(1)
    x[0] = 5
    x += 2
    return x


@captured((X,))
def in_place_on_an_argument(x):
    x.mul_(2)
    return x + 1


@captured((X,))
def several_results(x):
    values, indices = torch.max(x, dim=0)
    return values, indices, torch.split(x, 2), torch.topk(x, 2)


@captured((X,))
def factories(x):
    mask = torch.zeros(4, 4, dtype=x.dtype) + torch.arange(4)
    return torch.cat([x, mask], dim=1), torch.tensor([1.0, 2.0]), torch.ones_like(x), x.new_zeros(2)


class Counter:
    def __init__(self):
        self.count = 0
        self.last = None


@captured((X, Counter()), graphs=1)
def writes_to_an_argument(x, counter):
    counter.count += 1
    counter.last = x * 2
    counter.new = [x + 1]
    return counter.last + counter.count


@captured((X, {"n": 1}), (X, {"n": 2}), graphs=2)
def writes_to_a_dict(x, state):
    state["n"] = state["n"] + 1
    state["out"] = x * state["n"]
    return x


def test_nonlocal_and_global_writes():
    calls = 0

    def program(x):
        nonlocal calls
        calls += 1
        return x * 2

    compiled = Captured(program)
    for expected in (1, 2, 3):
        assert torch.equal(compiled(X), X * 2)
        assert calls == expected
    assert compiled.graphs


@pytest.mark.parametrize("name", sorted(CAPTURED))
def test_captured_programs_agree(name):
    fn, calls, graphs = CAPTURED[name]
    check_calls(fn, [*calls, calls[0]], graphs=graphs)


def branch_on_data(x):
    return x if x.sum() > 0 else -x


def test_full_graph_is_an_error():
    compiled = Captured(branch_on_data, fullgraph=True)
    with pytest.raises(RuntimeError, match="(?s)Data-dependent branching.*fullgraph=True"):
        compiled(X)


def test_user_exceptions_are_those_of_eager_execution():
    def program(x, n):
        y = x + 1
        if n > 1:
            raise ValueError(f"too many: {n}")
        return y @ torch.ones(n + 3, 2)

    compiled = check_calls(program, [(X, 1), (X, 2), (X, 1), (X, 0)])
    assert len(compiled.graphs) == 2  # to the end, and up to the exception that the program raises itself


def test_an_error_of_torch_is_that_of_eager_execution():
    def program(x):
        return x @ torch.ones(7, 2)

    found, expected = outcome(Captured(program), (X,)), outcome(program, (X,))
    assert found[0][1] == expected[0][1] == "RuntimeError"
    assert same(found[0][2], expected[0][2])


def test_recompile_limit():
    def program(x, n):
        return x + n

    compiled = Captured(program, dynamic=False)
    for n in range(12):
        assert torch.equal(compiled(X, n), X + n)
    assert len(compiled.graphs) == 8
    assert sum("recompile_limit" in text for text in compiled.said) == 1
    assert "was 7, is now 8" in compiled.said[-1]


def test_default_arguments_and_keywords():
    def program(x, *args, scale=2, **kwargs):
        return x * scale + sum(args) + sum(kwargs.values())

    compiled = Captured(program)
    for args, kwargs in [((), {}), ((1,), {}), ((1, 2), {"a": 3}), ((), {"scale": 5}), ((1,), {})]:
        assert torch.equal(compiled(X, *args, **kwargs), program(X, *args, **kwargs))
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        compiled()


def test_an_exception_that_the_caller_handles():
    def fn(x):
        return x + 1, sys.exc_info()[1]

    captured = Captured(fn)
    for _ in range(2):
        assert captured(X)[1] is None
        try:
            raise KeyError("mine")
        except KeyError as error:
            assert captured(X)[1] is error
