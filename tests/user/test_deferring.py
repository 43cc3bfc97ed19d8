"""torch._dynamo.config.reorderable_logging_functions and ignore_logging_functions."""

import logging
import warnings

import pytest
import torch
from torch._dynamo.testing import EagerAndRecordGraphs

pytestmark = [pytest.mark.capture, pytest.mark.usefixtures("take_over")]
X = torch.arange(3.0)
logger = logging.getLogger("alternator.tests.deferring")
other_logger = logging.getLogger("alternator.tests.other")


def run(program, *args, defer=(), ignore=(), graphs=1, **options):
    """Call a compiled function twice with the settings; it must have so many graphs."""
    recorded = EagerAndRecordGraphs()
    with torch._dynamo.config.patch(reorderable_logging_functions=set(defer), ignore_logging_functions=set(ignore)):
        compiled = torch.compile(program, backend=recorded, **options)
        compiled(*args)
        result = compiled(*args)
    assert len(recorded.graphs) == graphs
    return result


def agree(capsys, program, **options):
    """Compare what is printed, in two calls, with eager execution."""
    expected = program(X.clone())
    eager = capsys.readouterr().out
    assert torch.equal(run(program, X.clone(), defer=[print], **options), expected)
    assert capsys.readouterr().out == eager * 2


def test_calls_are_made_in_order_behind_the_graph(capsys):
    def program(x):
        print("begin", 1, None, end=";\n")
        y = x + 1
        print(y, x, [y.sum(), (2, {"k": y})], y.shape)
        print()
        return y * 2

    agree(capsys, program, fullgraph=True)


def test_texts_of_tensors(capsys):
    def program(x):
        y = x.sum()
        print(f"loss {y:.3f} of {x}, {x.shape} {y}", f"{2 * y:{'.1f'}}", "plain")
        return y

    agree(capsys, program, fullgraph=True)


def test_values_are_those_at_the_call(capsys):
    def program(x):
        y = x + 1
        print(y, f"{y}")
        y += 10
        view = y[1:]
        print(view)
        y.mul_(2)
        print(y)
        y.data.add_(1)
        return y.sin()

    agree(capsys, program, fullgraph=True)


def test_break_in_the_middle_of_the_arguments(capsys):
    def program(x):
        y = x + 1
        print(f"{y}", y.sum().item(), f"{y * 2}")
        return y * 2

    agree(capsys, program, graphs=3)  # the text, the sum, the rest


def test_text_that_goes_elsewhere(capsys):
    def program(x):
        text = f"{x + 1}"
        print(text, len(f"{x}"), f"{x!r}", (f"{x}", "a"))
        return x * 2

    expected = program(X)
    eager = capsys.readouterr().out
    with torch._dynamo.config.patch(reorderable_logging_functions={print}):
        assert torch.equal(torch.compile(program, backend="eager")(X), expected)
    assert capsys.readouterr().out == eager


def test_argument_that_is_an_object(capsys):
    class Thing:
        def __repr__(self):
            return "a thing"

    thing = Thing()

    def program(x):
        y = x + 1
        print(thing)
        return y.sin()

    agree(capsys, program, graphs=2)


def test_warnings():
    def program(x):
        y = x + 1
        warnings.warn(f"sum is {y.sum()}", stacklevel=1)
        return y * 2

    with pytest.warns(UserWarning, match="sum is 6.0"):
        run(program, X, defer=[warnings.warn], fullgraph=True)


def test_functions_and_methods():
    said = []

    class Book:
        def note(self, *what):
            said.append((self, *what))

    book, other = Book(), Book()

    def note(what, more=0):
        said.append((what, more))

    def program(x, book):
        note("a", more=1)
        book.note("b")
        return x + 1

    run(program, X, book, defer=[note, book.note], fullgraph=True)
    assert said == [("a", 1), (book, "b")] * 2
    said.clear()
    run(program, X, book, ignore=[note, Book.note], fullgraph=True)
    assert said == []
    with torch._dynamo.config.patch(reorderable_logging_functions={note}, ignore_logging_functions={book.note}):
        compiled = torch.compile(program, backend="eager")
        compiled(X, book)
        assert said == [("a", 1)]
        compiled(X, other)  # another object's method is not meant
    assert said[1:] == [("a", 1), (other, "b")]


def test_loggers(caplog):
    def program(x, log):
        y = x + 1
        log.info("sum %s", y.sum())
        return y * 2

    with caplog.at_level(logging.INFO):
        run(program, X, logger, defer=[logger.info], fullgraph=True)
        assert caplog.messages == ["sum tensor(6.)"] * 2
        caplog.clear()
        run(program, X, logger, ignore=[logger.info], fullgraph=True)
        run(program, X, logger, ignore=[logging.Logger.info], fullgraph=True)
        assert caplog.messages == []
        run(program, X, other_logger, ignore=[logger.info], graphs=2)
        assert caplog.messages == ["sum tensor(6.)"] * 2


def test_ignored_calls_give_nothing():
    def ask(x):
        raise AssertionError

    assert run(lambda x: (x + 1, ask(x)), X, ignore=[ask], fullgraph=True)[1] is None


def test_exception_of_a_call(capsys):
    def fail():
        raise ValueError("no")

    def program(x):
        y = x.sin()
        print("once")
        fail()
        return y

    with torch._dynamo.config.patch(reorderable_logging_functions={print, fail}), pytest.raises(ValueError, match="no"):
        torch.compile(program, backend="eager", fullgraph=True)(X)
    assert capsys.readouterr().out == "once\n"


def test_settings_are_taken_back():
    def program(x):
        print(end="")
        return x.sin()

    run(program, X, defer=[print], fullgraph=True)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="print"):
        run(lambda x: program(x), X, fullgraph=True)
