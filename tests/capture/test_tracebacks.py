"""The exceptions of a program are eager execution's, with the whole traceback and the whole chain."""

import contextlib
import traceback

import pytest
import torch

import alternator
from capture.agreement import Captured

pytestmark = pytest.mark.capture

X = torch.linspace(0, 1, 4)
KEPT = ValueError("kept by the module")


class Custom(Exception):
    def __init__(self, code, *, more):
        super().__init__(code)
        self.more = more


class Closing:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        error[1].add_note(f"closed after {error[0].__name__}")


@contextlib.contextmanager
def renaming():
    try:
        yield
    except ValueError as error:
        raise Custom(3, more=[1]) from error


def check(x, n):
    y = torch.relu(x)
    if n > 1:
        raise ValueError(f"too many: {n}")
    return y


def plain(x, n):
    return check(x * 2, n)


def behind_a_break(x, n):
    x = x + 1
    print(end="")
    return check(x * 2, n) + 1


def in_the_middle_of_calls(x, n):
    def inner(y):
        return [check(y, k) for k in range(n + 1)]

    return inner(x + 1)


def from_c(x, n):
    return sorted([3, n, 1], key=lambda k: len(check(x * k, k)))


def from_a_generator(x, n):
    def parts():
        for k in range(3):
            yield check(x + k, k)

    return sum(parts())


def with_a_cause(x, n):
    try:
        return check(x, n)
    except ValueError as error:
        raise Custom(n, more={"n": n}) from error


def with_a_context(x, n):
    try:
        return check(x, n)
    except ValueError:
        return {}[n]


def context_hidden(x, n):
    try:
        return check(x, n)
    except ValueError:
        raise Custom(n, more=()) from None


def noted(x, n):
    with Closing():
        return check(x + 1, n)


def renamed(x, n):
    with renaming():
        return check(x + 1, n)


def in_finally(x, n):
    try:
        x = check(x, n)
    finally:
        x = x * 2
        assert n < 2, "in finally"
    return x


def raised_again(x, n):
    try:
        check(x, n)
    except ValueError as error:
        x = x + 1
        raise
    return x


def kept(x, n):
    x = x * 3
    raise KEPT


def of_torch(x, n):
    return torch.sin(x) @ torch.ones(n + 5, 2)


def of_python(x, n):
    y = x * 2
    return y + [1, 2][n]


def missing(x, n):
    return x.sin() + n.nothing


def grouped(x, n):
    errors = []
    for k in range(3):
        try:
            check(x, n + k)
        except ValueError as error:
            errors.append(error)
    raise ExceptionGroup("all", errors)


def interrupt(x, n):
    x = x + 1
    raise KeyboardInterrupt("by the program")


PROGRAMS = [
    *(plain, behind_a_break, in_the_middle_of_calls, from_c, from_a_generator, with_a_cause, with_a_context),
    *(context_hidden, noted, renamed, in_finally, raised_again, kept, of_torch, of_python, missing, grouped, interrupt),
]


def describe(error, seen=()):
    """Everything that can be seen of an exception, in plain values."""
    if error is None or id(error) in seen:
        return error and "again"
    seen = (*seen, id(error))
    frames = [
        (frame.filename, frame.name, frame.lineno, frame.end_lineno, frame.colno, frame.end_colno)
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.name != "catch"
    ]  # not which instruction: CPython's loop has several for a call
    chain = [describe(other, seen) for other in (error.__cause__, error.__context__)]
    chain += [describe(other, seen) for other in getattr(error, "exceptions", ())]
    own = {name: value for name, value in vars(error).items() if isinstance(value, (str, int, list, dict, tuple))}
    return [type(error), str(error), own, error.__suppress_context__, frames, chain]


def catch(fn, *args):
    """Return the exception, and its description; the one that is kept loses its traceback."""
    KEPT.__traceback__ = None
    try:
        fn(*args)
    except BaseException as error:
        return error, describe(error)
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_it_is_eagers(program):
    expected, description = catch(program, X, 2)
    compiled = alternator.compile(program, backend="eager")
    for call in range(3):
        found, found_description = catch(compiled, X, 2)
        assert found_description == description, f"call {call}"
        assert (found is KEPT) == (expected is KEPT)


def test_it_is_eagers_after_calls_that_were_captured():
    captured = Captured(plain)
    captured(X, 1)
    for n in (2, 1, 3, 2):
        if n > 1:
            assert catch(captured.fn, X, n)[1] == catch(plain, X, n)[1]
        else:
            assert torch.equal(captured(X, n), plain(X, n))
    assert captured.graphs


def test_of_a_module():
    class Model(torch.nn.Module):
        def forward(self, x, n):
            return check(x, n)

    model = Model()
    compiled = alternator.compile(model, backend="eager")
    frames = [(frame[0], frame[1], frame[2]) for frame in catch(model, X, 2)[1][4]]
    found = [(frame[0], frame[1], frame[2]) for frame in catch(compiled, X, 2)[1][4]]
    assert found[-len(frames) :] == frames
