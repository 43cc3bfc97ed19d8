"""Warm calls bind their arguments without a frame: as CPython does, in every way of calling."""

import gc
import weakref

import pytest
import torch

import alternator
from capture.agreement import Captured, same

pytestmark = pytest.mark.capture

X = torch.arange(4.0)
Y = torch.ones(4)


def plain(x, y):
    return x - y


def defaults(x, y=Y, n=2):
    return x - y * n


def only_positions(x, y=Y, /, n=2):
    return x - y * n


def only_keywords(x, *, y=Y, n):
    return x - y * n


def collects(x, *rest, n=1, **named):
    return x * n, rest, named, [key for key in named], len(rest)


def collects_a_name_of_its_own(x, /, **named):
    return x + len(named), named


class Holder:
    def method(self, x, n=1):
        return x * n, self

    def collects(self, *args, **kwargs):
        return args[0] + 1, args, kwargs

    @classmethod
    def of_class(cls, x):
        return x + 1, cls

    def collects_itself(*args):
        return args[1] + 1


class Name(str):
    pass


HOLDER = Holder()
FUNCTIONS = (
    *(plain, defaults, only_positions, only_keywords, collects, collects_a_name_of_its_own),
    *(HOLDER.method, HOLDER.collects, HOLDER.of_class, HOLDER.collects_itself),
)
CALLS = [
    ((X, Y), {}),
    ((X,), {}),
    ((), {}),
    ((X, Y, 3), {}),
    ((X, Y, 3, 4), {}),
    ((X,), {"y": Y}),
    ((X,), {"n": 3}),
    ((), {"y": Y, "x": X}),
    ((), {"n": 4, "x": X}),
    ((X, Y), {"y": Y}),
    ((X,), {"x": Y}),
    ((X,), {"z": 1, "a": Y}),
    ((X,), {"a": Y, "z": 1}),
    ((X,), {"self": 1}),
    ((X,), {Name("n"): 3}),
    ((X,), {Name("w"): 3}),
    ((X,), {"é": 3}),
]


def call(fn, args, kwargs):
    try:
        return fn(*args, **kwargs)
    except (TypeError, IndexError) as error:
        return str(error)


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_every_way_of_calling(fn):
    compiled = Captured(fn)
    for args, kwargs in CALLS * 3:
        with torch._dynamo.config.patch(recompile_limit=len(CALLS)):
            assert same(call(compiled.fn, args, kwargs), call(fn, args, kwargs))


def test_a_call_that_breaks_keeps_what_it_collected():
    def breaks(x, *rest, **named):
        y = x + len(rest)
        torch._dynamo.graph_break()
        return y * named["n"], rest, named

    compiled = Captured(breaks)
    for n in (2, 2, 2, 3, 3, 2):
        gc.collect()
        assert same(compiled(X, 1, Y, n=n), breaks(X, 1, Y, n=n))
    assert len(compiled.graphs) <= 5


def test_a_call_that_breaks_for_some_arguments():
    def sometimes(x, *rest):
        y = x + len(rest)
        if rest and rest[0]:
            torch._dynamo.graph_break()
        return y * 2, rest

    compiled = Captured(sometimes)
    for flag in (False, True, False, False, True, True, False, True):
        gc.collect()
        assert same(compiled(X, flag, [1]), sometimes(X, flag, [1]))


def test_defaults_that_the_call_replaces():
    class Thing:
        pass

    def returns_default(x, thing=Thing()):  # noqa: B008
        return x + 1, thing

    def backend(module, examples):
        def run(*inputs):
            if replace:
                returns_default.__defaults__ = (Thing(),)
                gc.collect()
            return module.forward(*inputs)

        return run

    replace = False
    compiled = alternator.compile(returns_default, backend=backend)
    first = weakref.ref(returns_default.__defaults__[0])
    compiled(X)
    replace = True
    assert compiled(X)[1] is first() is not None


def test_new_defaults_are_noticed():
    def adds(x, n=1, *, m=2):
        return x + n * m

    compiled = Captured(adds)
    for n, m in ((1, 2), (3, 2), (3, 5), (1, 2)):
        adds.__defaults__ = (n,)
        adds.__kwdefaults__ = {"m": m}
        assert torch.equal(compiled(X), X + n * m)
    adds.__kwdefaults__ = None
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'm'"):
        compiled(X)
