"""Breaks: what cannot be captured runs for real, wherever it is, and capture goes on right behind it."""

import contextlib
import logging
import warnings

import pytest
import torch

from capture.agreement import Captured, same

pytestmark = pytest.mark.capture

X = torch.arange(6.0).reshape(2, 3)

PROGRAMS = {}  # name -> (function, graphs, other arguments)


def program(graphs, *args):
    """Register a function (x, *args) and the number of graphs that it makes."""

    def register(fn):
        PROGRAMS[fn.__name__] = (fn, graphs, args)
        return fn

    return register


def stop():
    """Be a break: the output is an effect."""
    print("stop")


@program(2)
def in_a_function(x):
    x = x + 1
    stop()
    return x * 2


@program(1)
def at_the_start(x):
    stop()
    return x * 2


@program(1)
def at_the_end(x):
    x = x * 2
    stop()
    return x


@program(2)
def in_a_for(x):
    for i in range(3):
        x = x + 1
        if i == 1:
            stop()
        x = x * 2
    return x


@program(2)
def in_a_while(x):
    n = 0
    while n < 3:
        x = x + 1
        if n == 1:
            stop()
        n += 1
        x = x * 2
    return x


@program(3)
def in_every_iteration(x):
    for _ in range(4):
        x = x + 1
        stop()
        x = x * 2
    return x


class Context:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")
        return 2

    def __exit__(self, *args):
        self.log.append(args[0])
        return True


@program(2)
def in_a_with(x):
    log = []
    with Context(log) as n:
        x = x + n
        stop()
        x = x * 2
    return x, log


@program(2)
def in_no_grad(x):
    with torch.no_grad():
        x = x + 1
        stop()
        y = x * 2
    return y, torch.is_grad_enabled()


@contextlib.contextmanager
def managed(log):
    log.append("in")
    try:
        yield 3
    finally:
        log.append("out")


@program(2)
def in_nested_withs(x):
    log = []
    with Context(log), managed(log) as n, torch.no_grad():
        x = x + n
        stop()
        x = x * 2
    return x, log


@program(2)
def in_a_try(x):
    try:
        x = x + 1
        stop()
        x = x * 2
        raise ValueError("no")
    except ValueError as error:
        return x, str(error)


@program(2)
def in_an_except(x):
    try:
        x = x + 1
        raise ValueError("yes")
    except ValueError as error:
        x = x * 2
        stop()
        return x * 3, str(error), error.__traceback__.tb_lineno


@program(2)
def in_a_finally(x):
    try:
        x = x + 1
    finally:
        x = x * 2
        stop()
        x = x + 3
    return x


@program(2)
def in_a_generator(x):
    def generate(x):
        for i in range(3):
            x = x + i
            if i == 1:
                stop()
            yield x * 2

    total = x
    for value in generate(x):
        total = total + value
    return total


@program(2)
def in_the_consumer_of_a_generator(x):
    def generate(x):
        for i in range(3):
            x = x + i
            yield x * 2

    total = x
    for i, value in enumerate(generate(x)):
        total = total + value
        if i == 1:
            stop()
    return total


@program(2)
def in_a_comprehension(x):
    return [x + i if i != 1 else (stop(), x * 2)[1] for i in range(3)]


@program(6)
def in_a_closure_that_is_called_five_times(x):
    def inner(i):
        nonlocal x
        x = x + i
        stop()
        return x * 2

    return [inner(i) for i in range(5)]


class Layer:
    def __init__(self, inner):
        self.inner = inner
        self.calls = 0

    def run(self, x):
        self.calls += 1
        y = x + self.calls
        return self.inner.run(y) * 2 if self.inner else self.last(y)

    def last(self, y):
        y = y * 3
        stop()
        return y + 1


@program(2)
def three_calls_deep(x):
    return Layer(Layer(Layer(None))).run(x) * 5


class Stopping(torch.nn.Module):
    def forward(self, x):
        x = x + 1
        stop()
        return x * 2


SEQUENTIAL = torch.nn.Sequential(torch.nn.Linear(3, 3), Stopping(), torch.nn.Linear(3, 3))


@program(2)
def in_a_forward_in_a_sequential(x):
    return SEQUENTIAL(x)


@program(2)
def data_dependent_branch(x):
    x = x + 1
    if x.sum() > 3:
        return x * 2
    return x * 3


@program(2)
def data_dependent_loop(x):
    while x.sum() < 100:
        x = x * 2 + 1
    return x


@program(2)
def item(x):
    n = x.sum().item()
    y = x * 2
    return y, n


@program(3)  # for each number another one
def item_that_is_used(x):
    n = int(x.sum())
    return x * n


@program(2)
def numbers_of_a_tensor(x):
    values = (x * 2).tolist()
    return x + 1, values, (x + 1).numpy().shape


@program(2)
def nonzero(x):
    rows = (x + 1).nonzero()
    return rows * 2


@program(2)
def explicit(x):
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2


@program(2)
def logs(x):
    x = x + 1
    logging.getLogger("capture").warning("value %s", x.shape)
    return x * 2


@program(2)
def warns(x):
    x = x + 1
    warnings.warn("careful", stacklevel=1)
    return x * 2


@torch.compiler.disable
def disabled(x):
    return x * 7


@program(2)
def calls_a_disabled_function(x):
    return disabled(x + 1) * 2


@program(2)
def in_a_sort_key(x):
    x = x + 1
    order = sorted([3, 1, 2], key=lambda i: (stop(), i)[1])
    return x * order[0]


@program(2)
def backward(x):
    w = torch.ones(3, requires_grad=True)
    loss = (x * w).sum()
    loss.backward()
    return w.grad * 2


@program(2)
def many_kinds_of_values(x):
    y = x + 1
    things = {"a": [y, (y, {"b": y})], 3: {1, 2}, "f": lambda z: z * y}
    gen = (i * y for i in range(3))
    first = next(gen)
    it = iter([1, 2, 3])
    next(it)
    zipped = zip(it, "abc", strict=False)
    stop()
    return things["a"][1][1]["b"] is y, things["f"](2), first, list(gen), list(zipped), things[3]


@program(2)
def unbound_locals(x):
    x = x + 1
    stop()
    try:
        return never + x  # noqa: F821
    except NameError as error:
        return str(error), x * 2


def outcomes(run, args, capsys):
    capsys.readouterr()
    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x in (X, X, X + 1):
            torch.manual_seed(0)
            results.append(run(x, *args))
    return results, capsys.readouterr().out


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_programs(name, capsys):
    fn, graphs, args = PROGRAMS[name]
    expected = outcomes(fn, args, capsys)
    compiled = Captured(fn)
    found = outcomes(compiled.fn, args, capsys)
    assert same(found[0], expected[0])
    assert found[1] == expected[1]
    assert len(compiled.graphs) == graphs, [graph.code for graph in compiled.graphs]


def test_exceptions_after_a_break():
    def inner(x, n):
        y = x + n
        stop()
        if n > 1:
            raise ValueError(f"n is {n}")
        return y * 2

    def outer(x, n):
        try:
            return inner(x, n)
        except KeyError:
            return None

    def lines(run, n):
        try:
            return run(X, n)
        except ValueError as error:
            tb, found = error.__traceback__, []
            while tb:
                found.append((tb.tb_frame.f_code.co_name, tb.tb_lineno))
                tb = tb.tb_next
            return str(error), [entry for entry in found if entry[0] in ("inner", "outer")]

    compiled = Captured(outer)
    for n in (1, 2, 1, 3):
        assert same(lines(compiled.fn, n), lines(outer, n))
