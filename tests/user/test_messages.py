"""What users read of breaks and mistakes: what happened, where, why, and what to do."""

import contextlib
import copy
import functools
import logging
import operator
import pathlib
import random
import re
import sys
import threading
import time
import warnings

import pytest
import torch

import alternator
from alternator import events, messages

pytestmark = pytest.mark.capture
ROOT = pathlib.Path(__file__).resolve().parents[2]
X = torch.ones(3)


# ---- Programs, each with the line that breaks ----------------------------------------------------------------------
# First those of the documents that people come from: TorchDynamo's pages on breaks, on fullgraph=True, on functions
# that it skips.


def misspelled(x):
    y = torch.sin(x, x)  # HERE
    return y


def branch(x):
    y = x.sum()
    if y > 0:  # HERE
        return x + 1
    return x - 1


def item(x):
    return x - x.sum().item()  # HERE


def prints(x):
    x = x + 1
    print("log!")  # HERE
    return torch.sin(x)


def logs(x):
    x = x + 1
    logging.getLogger("test").debug("hm")  # HERE
    return x


def warns(x):
    x = x + 1
    warnings.warn("hm", stacklevel=2)  # HERE
    return x


def next_of_iterator(x):
    return x + next(ITERATOR)  # HERE


def breaks(x):
    y = x.sin()
    torch._dynamo.graph_break("my own reason")  # HERE
    return y.sin()


def in_a_loop(x):
    for _ in range(2):
        x = x + 1
        torch._dynamo.graph_break()  # HERE
    return x


def in_a_context(x):
    with torch.no_grad():
        x = x + 1
        torch._dynamo.graph_break()  # HERE
    return x


def in_a_try_block(x):
    try:
        x = x + 1
        torch._dynamo.graph_break()  # HERE
    except ValueError:
        pass
    return x


def extension(x):
    import zlib

    return x + zlib.crc32(b"x")  # HERE


def saves(x):
    y = x**2
    torch.save(y, "/dev/null")  # HERE
    return y


def skips(x):
    x = x + 1
    torch._dynamo.skip_frame("leave me alone")  # HERE
    return x


@torch.compiler.disable(reason="it is old")
def disabled(x):
    return x + 1


def calls_disabled(x):
    return disabled(x * 2)  # HERE


def steps(x):
    x = x + 1
    torch._dynamo.step_unsupported()  # HERE
    return x


def imports(x):
    import this_is_only_for_tests  # HERE

    return x + this_is_only_for_tests.VALUE


GROUP = ExceptionGroup("several", [ValueError()])


def takes_apart(x):
    x = x + 1
    try:
        raise GROUP
    except* ValueError:  # HERE
        x = x * 2
    return x


class Truth:
    def __init__(self, value):
        self.value = value

    def __bool__(self):
        return bool(self.value.sum() > 0)  # HERE


def branch_by_a_method(x):
    return x + 1 if Truth(x * 2) else x - 1


def keeps_a_hook(x):
    global HANDLE
    y = x * W
    HANDLE = y.register_hook(print)  # HERE
    return y


# .. and others.


def selects(x):
    return x[x > 0]  # HERE


def number(x):
    return x + float(x.sum())  # HERE


def lists(x):
    return (x + 1).tolist()  # HERE


def draws(x):
    return x + random.random()  # HERE


def asks_for_time(x):
    return x + time.time()  # HERE


def defines_a_class(x):
    class Local(metaclass=lambda *made_of: type(*made_of)):  # HERE
        pass

    return x + 1


def locks(x):
    x = x + 1
    with LOCK:  # HERE
        return x * 2


def compares(x):
    return x if torch.equal(x, x + 1) else x * 2  # HERE


@functools.lru_cache
def remember(key):
    return 1


def remembers(x):
    return x + remember(KEY)  # HERE


class Marked:
    @torch.compiler.disable
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)


def disabled_method(x):
    y = x + 1
    Marked().attribute = y  # HERE
    return y * 2


def address(x):
    return x + id(x)  # HERE


def sets_an_attribute(x):
    x = x + 1
    x.grad = X  # HERE
    return x


def change_of_autograd(x):
    x = x + torch.nn.Parameter(torch.ones(()))
    x.retain_grad()  # HERE
    return x


def texts(x):
    return str(x + 1)  # HERE


def copies(x):
    return copy.deepcopy(x + 1)  # HERE


def sparse(x):
    return (x + 1).to_sparse()  # HERE


def backward(x):
    y = (x * W).sum()
    y.backward()  # HERE
    return y


def profiles(x):
    with torch.profiler.profile():  # HERE
        return x + 1


def clears_gradients(x):
    y = (x * W).sum()
    OPTIMIZER.zero_grad()  # HERE
    return y


def wrong_shapes(x):
    return x @ torch.ones(5, 5)  # HERE


LOCK = threading.Lock()
KEY = pathlib.PurePath("key")
ITERATOR = (number for number in [1.0] * 100)
W = torch.ones(3, requires_grad=True)
OPTIMIZER = torch.optim.SGD([W])
# program -> (reason, what, words of why, words of a hint)
SAID = {
    branch: ("DataDependentBranch", "Data-dependent branching", "A tensor's value decides", "torch.cond"),
    branch_by_a_method: (
        "TensorScalar",
        "Data dependent operator: a tensor's value as a Python number",
        "`bool(x)`",
        "the tensor itself",
    ),
    keeps_a_hook: ("AutogradState", "Unsupported change of autograd state", "an autograd hook", "outside"),
    item: ("TensorItem", "Unsupported Tensor.item() call", "Python number", "capture_scalar_outputs"),
    prints: ("Print", "Failed to trace builtin operator `print`", "side effect", "reorderable_logging"),
    logs: ("Output", "Output or logging: `logging.getLogger`", "logging", "reorderable_logging"),
    warns: ("OutputByC", "Output or logging: `warnings.warn`", "a warning", "reorderable_logging"),
    compares: ("TensorsCompared", "Data dependent operator: tensors are compared", "Python bool", "(x == y).all()"),
    remembers: ("CachedCall", "Call of a function with a cache", "lru_cache", "__wrapped__"),
    disabled_method: ("DisabledCall", "Skip calling `torch.compiler.disable()`d", "Marked.__setattr__", "Remove the"),
    next_of_iterator: ("IteratorOutside", "Iterator from outside the function", "generator", "Pass the container"),
    breaks: ("GraphBreakCall", "Call to `torch._dynamo.graph_break()`", "Message: my own reason", "Remove the"),
    in_a_loop: ("GraphBreakCall", "Call to `torch._dynamo.graph_break()`", "Message: None", "Remove the"),
    in_a_context: ("GraphBreakCall", "Call to `torch._dynamo.graph_break()`", "Message: None", "Remove the"),
    in_a_try_block: ("GraphBreakCall", "Call to `torch._dynamo.graph_break()`", "Message: None", "Remove the"),
    extension: ("UnknownCall", "Unknown C function: `zlib.crc32`", "side effects", "custom_op"),
    saves: ("Files", "File access: `torch.save`", "writes a file", "before or after"),
    copies: ("TensorDeepCopy", "Attempted to copy.deepcopy a tensor", "the graph does not know", "clone"),
    sparse: ("TensorKind", "Unsupported tensor layout", "has the layout Sparse", "outside the compiled"),
    skips: ("SkippedFrame", "Call to `torch._dynamo.skip_frame()`", "asks not to be captured", "Remove the"),
    calls_disabled: ("DisabledCall", "Skip calling `torch.compiler.disable()`d", "reason: it is old", "Remove the"),
    steps: ("StepUnsupportedCall", "Call to `torch._dynamo.step_unsupported()`", "step_unsupported", "Remove the"),
    imports: ("ImportInside", "Unsupported import", "for the first time", "top of the file"),
    takes_apart: ("Construct", "Unsupported Python construct: `except*`", "cannot capture", "Write it differently"),
    selects: ("DynamicShape", "Dynamic shape operator", "size of the result", "torch.where"),
    number: ("TensorScalar", "Data dependent operator: a tensor's value", "float(x)", "capture_scalar_outputs"),
    lists: ("TensorValues", "Tensor data is read: `Tensor.tolist`", "values", "Use tensors"),
    draws: ("RandomNumber", "Python random number: `random.random`", "random number", "torch.rand"),
    asks_for_time: ("Time", "Clock or sleep: `time.time`", "reads the clock", "before or after"),
    defines_a_class: ("ClassDefinition", "Unsupported class definition", "runs code", "Move the class"),
    locks: ("ContextManager", "Unsupported context manager", "_thread.lock", "Move the `with`"),
    address: ("AddressKept", "The address of an object", "differs in each run", "with `is`"),
    sets_an_attribute: (
        "TensorAttribute",
        "Unsupported attribute of a tensor",
        "attribute grad of a",
        "in an object or a dict",
    ),
    change_of_autograd: ("AutogradState", "Unsupported change of autograd state", "autograd", "outside"),
    texts: ("TensorPrinted", "Tensor data is read", "string form", "Print it before"),
    profiles: ("Profiler", "Unsupported context manager", "see the program run", "outside"),
    clears_gradients: ("DisabledTorchCall", "Skip calling", "`torch.optim.Optimizer.zero_grad`", "before or after"),
    backward: ("Autograd", "Autograd runs inside", "backward pass", "outside"),
}


OTHERS = {locks: "ContextExit"}  # what breaks besides
PLACES = {branch_by_a_method: Truth.__bool__}  # where, if not in the program itself


def find_line(fn):
    """Find the line that is marked, and its text without the mark."""
    source = pathlib.Path(__file__).read_text().splitlines()
    for number in range(fn.__code__.co_firstlineno, len(source)):
        if source[number].endswith("# HERE"):
            return number + 1, source[number].removesuffix("# HERE").strip()
    raise AssertionError("no line is marked")


def hear(fn, *args, **options):
    """Call a compiled function; return its breaks."""
    heard = []
    with events.listen(heard.append), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alternator.compile(fn, backend="eager", **options)(*args)
    return [event for event in heard if isinstance(event, events.Break)]


@pytest.mark.parametrize("fn", SAID, ids=lambda fn: fn.__name__)
def test_breaks(fn, capsys, tmp_path, monkeypatch):
    (tmp_path / "this_is_only_for_tests.py").write_text("VALUE = 3")
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("this_is_only_for_tests", None)
    reason, what, why, hint = SAID[fn]
    stops = hear(fn, X)
    assert {stop.reason for stop in stops} <= {reason, OTHERS.get(fn)}
    assert stops[0].reason == reason
    stop = stops[0]
    assert what in stop.what
    assert why in stop.why
    assert any(hint in text for text in stop.hints)
    function = PLACES.get(fn, fn)
    number, text = find_line(function)
    assert (stop.place.file, stop.place.line, stop.place.function) == (__file__, number, function.__qualname__)
    said = messages.write(stop)
    underlined = re.search(rf", line {number}, in .*\n    (.*)\n    ( *)(\^+)$", said, re.MULTILINE)
    assert underlined[1].startswith(text)
    expression = underlined[1][len(underlined[2]) : len(underlined[2]) + len(underlined[3])]
    assert expression
    assert expression.removesuffix("  # HERE") in text


JARGON = re.compile(
    r"aten::|\b(?!ALTERNATOR|TORCH)[A-Z]{3,}_[A-Z_]+\b|TensorBase|_dynamo\.decorators"
    r"|for real|of Python's|\bfake\b|inside of|outside of"
)


@pytest.mark.parametrize("fn", SAID, ids=lambda fn: fn.__name__)
def test_messages_are_in_the_users_words(fn, capsys):
    stop = hear(fn, X)[0] if fn is not imports else None
    assert stop is None or not JARGON.search(messages.describe(stop)), messages.describe(stop)


def test_rows_have_no_jargon():
    for row in messages.ROWS:
        for text in (row.what, row.why, *row.hints):
            found = JARGON.search(text)
            assert found is None or row.id in ("NoFake", "Mistake"), (row.id, found[0])


def test_names_as_users_write_them():
    names = {
        "TensorBase.item": "Tensor.item",
        "torch._tensor.Tensor.backward": "Tensor.backward",
        "torch.optim.optimizer.Optimizer.zero_grad": "torch.optim.Optimizer.zero_grad",
        "Random.random": "random.random",
        "_random.Random.seed": "random.seed",
        "posix.getpid": "os.getpid",
        "__main__.helper": "helper",
        "time.sleep": "time.sleep",
    }
    assert {name: messages.user_name(name) for name in names} == names


def test_numbers_of_the_graph():
    text = messages.explain("DataDependentOperator", "the value of a number that the graph computes")
    assert text["reason"] == "GraphNumber"
    assert "number that the graph computes" in text["why"]


@pytest.mark.parametrize("fn", [branch, item, prints, extension, breaks, calls_disabled], ids=lambda fn: fn.__name__)
def test_full_graph(fn, capsys):
    reason, what, why, hint = SAID[fn]
    with pytest.raises(torch._dynamo.exc.Unsupported) as raised:
        alternator.compile(fn, backend="eager", fullgraph=True)(X)
    assert type(raised.value) is alternator.Unsupported
    text = str(raised.value)
    number, line = find_line(fn)
    for part in (
        what,
        why,
        hint,
        f'File "{__file__}", line {number}, in {fn.__name__}',
        line,
        "^^^^",
        "fullgraph=True",
    ):
        assert part in text
    assert raised.value.stop.reason == reason
    assert raised.value.real_stack[-1].lineno == number
    assert capsys.readouterr().out == ""


MISTAKES = [
    (misspelled, TypeError, "takes 1 positional argument"),
    (wrong_shapes, RuntimeError, "cannot be multiplied"),
]


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("fn, error, words", MISTAKES, ids=["misspelled", "wrong_shapes"])
def test_mistakes_of_the_program_read_as_such(fn, error, words, fullgraph):
    heard = []
    with events.listen(heard.append), pytest.raises(error, match=words) as raised:
        alternator.compile(fn, backend="eager", fullgraph=fullgraph)(X)
    assert raised.traceback[-1].lineno + 1 == find_line(fn)[0]
    (stop,) = [event for event in heard if isinstance(event, events.Break)]
    assert stop.reason == "Mistake"
    assert stop.what == f"{error.__name__} when making fake tensor call"
    assert words in stop.why
    assert "without compiling it" in stop.hints[0]
    assert stop.place.line == find_line(fn)[0]


def undefined(x):
    if x is None:
        y = 3
    return x + y


def raises_a_number(x):
    raise x.shape[0]


def catches_a_number(x):
    try:
        raise ValueError(x.shape)
    except 3:
        return x


def imports_what_is_not_there(x):
    import there_is_no_such_module

    return x + there_is_no_such_module.VALUE


def raises(x):
    raise KeyError("mine")


def misspelled_global(x):
    return x + there_is_no_such_name  # noqa: F821


def raises_from_a_number(x):
    raise ValueError("mine") from x.shape[0]


def stops(x):
    next(iter(()))
    return x


def delegates_to_what_stops(x):
    def inner():
        yield x
        raise StopIteration

    return list(inner())


def asserts(x):
    assert x.shape[0] == 17, "mine"
    return x


def calls_a_number(x):
    return (x + 1).shape[0](2)


ERRORS = {
    calls_a_number: TypeError,
    undefined: UnboundLocalError,
    raises_a_number: TypeError,
    catches_a_number: TypeError,
    imports_what_is_not_there: ModuleNotFoundError,
    raises: KeyError,
    misspelled_global: NameError,
    raises_from_a_number: TypeError,
    stops: StopIteration,
    delegates_to_what_stops: RuntimeError,
    asserts: AssertionError,
}


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("fn", ERRORS, ids=lambda fn: fn.__name__)
def test_errors_of_the_program_are_its_own(fn, fullgraph):
    if fullgraph and fn is imports_what_is_not_there:
        pytest.skip("an import is a break before it fails")
    with pytest.raises(Exception) as expected:
        fn(X)
    with pytest.raises(ERRORS[fn]) as raised:
        alternator.compile(fn, backend="eager", fullgraph=fullgraph)(X)
    assert str(raised.value) == str(expected.value)
    assert raised.traceback[-1].lineno == expected.traceback[-1].lineno


@contextlib.contextmanager
def scope():
    yield


def through_a_scope(x):
    with scope():
        y = x + 1
        raise KeyError(y.shape)  # HERE


def through_finally(x):
    try:
        y = x + 1
        return y, {}["a"]  # HERE
    finally:
        x = 1


def through_a_handler(x):
    try:
        y = x + 1
        raise KeyError(y.shape)  # HERE
    except KeyError:
        x = 1
        raise


@pytest.mark.parametrize("fn", [through_a_scope, through_finally, through_a_handler], ids=lambda fn: fn.__name__)
def test_exceptions_have_the_place_where_they_came_from(fn):
    """Not that of a handler that lets it pass."""
    heard = []
    with events.listen(heard.append), pytest.raises(KeyError):
        alternator.compile(fn, backend="eager")(X)
    places = [event.place for event in heard if isinstance(event, events.Break) and event.place is not None]
    assert places[0].line == find_line(fn)[0]
    with pytest.raises(KeyError):  # no error of ours
        alternator.compile(fn, backend="eager", fullgraph=True)(X)


def test_backend_that_cannot_compile_a_full_graph():
    """It is one of the errors that are a reason to run eagerly, otherwise."""

    def refuse(module, inputs):
        raise torch._subclasses.fake_tensor.UnsupportedFakeTensorException("not this one")

    with pytest.warns(UserWarning, match="not this one"):
        assert torch.equal(alternator.compile(lambda x: x + 1, backend=refuse)(X), X + 1)
    with pytest.raises(alternator.Unsupported, match="not this one"):
        alternator.compile(lambda x: x + 1, backend=refuse, fullgraph=True)(X)


def test_names_in_messages():
    """Functions of pybind11 go by their names, objects by their class."""
    (stop, *_) = hear(lambda x: (x + 1, torch._C._dispatch_keys(x)), X)
    assert "`torch._C._dispatch_keys`" in stop.why
    method = operator.methodcaller("upper")
    (stop, *_) = hear(lambda x: (x + 1, method("a")), X)
    assert "an object of class operator.methodcaller" in stop.why


def test_the_call_of_a_library_that_led_there():
    class Broken(torch.nn.Module):
        def forward(self, x):
            return x.sum().item()

    def through_torch(x):
        return torch.testing.assert_close(x + 1, x + 1)

    (stop, *_) = hear(torch.nn.Sequential(Broken()), X)
    assert [frame.function.split(".")[-1] for frame in stop.user_frames] == ["forward"]
    (stop, *_) = hear(through_torch, X)
    text = messages.quote_frames(stop)
    assert "which led, in torch, to:" in text
    assert text.count("File ") >= 2
    assert stop.library_frames[-1].library == "torch"
    assert stop.hints[-1].startswith("This happens inside torch: ")
    assert text.index("through_torch") < text.index("which led")


def test_columns_are_characters():
    def fn(x):
        return "äöü", x + len("äöü"), x.sum().item()

    (stop,) = hear(fn, X)
    line, marks = messages.quote_frame(stop.place).splitlines()[1:]
    assert line[marks.index("^") : marks.rindex("^") + 1] == "x.sum().item()"


def test_calls_with_keywords():
    def fn(x):
        print("a", end="")
        return x + 1

    (stop,) = hear(fn, X)
    line, marks = messages.quote_frame(stop.place).splitlines()[1:]
    assert marks.strip() == "^" * len(line.strip())


def test_expressions_of_several_lines():
    def fn(x):
        return torch.Tensor.tolist(
            x + 1,
        )

    (stop, *_) = hear(fn, X)
    line, marks = messages.quote_frame(stop.place).splitlines()[1:]
    assert line.strip() == "return torch.Tensor.tolist("
    assert marks.strip() == "^" * len("torch.Tensor.tolist(")


@pytest.mark.usefixtures("take_over")
def test_breaks_of_code_that_runs_while_tracing():
    from torch._dynamo.comptime import comptime

    def fn(x):
        x = x + 1
        comptime(lambda context: context.graph_break("not here"))
        return x + 1

    stop = hear(fn, X)[0]
    assert stop.reason == "ComptimeBreak"
    assert stop.why.endswith("Message: not here")
    assert stop.place.line == fn.__code__.co_firstlineno + 2


def test_the_table_covers_the_core():
    names = re.findall(r"^ABORT\((\w+)\)", (ROOT / "csrc/base/abort.def").read_text(), re.MULTILINE)
    assert len(names) > 20
    for name in names:
        assert any(row.core == name and not row.details for row in messages.ROWS), name
    assert {row.core for row in messages.ROWS} <= {*names, ""}
    assert len({row.id for row in messages.ROWS}) == len(messages.ROWS)


def test_rows_fill_their_texts():
    for row in messages.ROWS:
        texts = messages.explain(row.core, row.details[0].replace("*", "x") if row.details else "some.call('why')")
        assert texts["reason"] == row.id
        assert "{" not in "".join([texts["what"], texts["why"], *texts["hints"]])
        assert all(text.endswith(".") for text in texts["hints"])


def test_the_page_is_up_to_date():
    assert (ROOT / "docs/messages.md").read_text() == messages.write_page()
