"""Errors that users see: wrong arguments at once and with the choices, tracebacks without our frames."""

import pathlib
import subprocess
import sys
import textwrap
import traceback

import pytest
import torch

import alternator
from alternator import events

pytestmark = pytest.mark.capture
PACKAGE = pathlib.Path(events.__file__).parent
X = torch.ones(4)


def returns_nothing(module, inputs):
    return None


def fails(module, inputs):
    raise ValueError("no good")


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        ({"backend": 3}, TypeError, "`backend` must be a name or a callable, not 3.*eager.*inductor"),
        ({"backend": "indctor"}, torch._dynamo.exc.InvalidBackend, "no backend 'indctor'.*mean 'inductor'.*aot_eager"),
        ({"mode": "fast"}, RuntimeError, "mode='fast'.*default.*reduce-overhead"),
        ({"mode": "max-autotun"}, RuntimeError, "mean 'max-autotune'"),
        ({"mode": 3}, TypeError, "`mode`.*not 3"),
        ({"options": {"max_autotun": 1}}, RuntimeError, "'max_autotun'.*mean 'max_autotune'.*list_options"),
        ({"options": [1]}, TypeError, r"`options` must be a dict, not \[1\]"),
        ({"backend": fails, "options": {"a": 1}}, TypeError, "`fails` does not take `options`"),
        ({"backend": fails, "mode": "fast"}, TypeError, "`fails` does not take `mode`"),
        ({"dynamic": "yes"}, TypeError, "`dynamic` must be None, True or False, not 'yes'"),
        ({"fullgraph": "no"}, TypeError, "`fullgraph` must be True or False, not 'no'"),
        ({"mode": "default", "options": {}}, RuntimeError, "Either mode or options"),
    ],
    ids=map(str, range(12)),
)
def test_arguments_are_checked_at_once(arguments, error, words):
    with pytest.raises(error, match=words) as raised:
        alternator.compile(lambda x: x, **arguments)
    assert raised.value.__cause__ is None and (raised.value.__context__ is None or raised.value.__suppress_context__)


def test_decorators_check_where_they_are_made():
    with pytest.raises(TypeError, match="`dynamic`"):
        alternator.compile(dynamic="no")


def test_a_backend_gets_its_mode_and_options():
    given = []

    def backend(module, inputs, **options):
        given.append(options)
        return module

    alternator.compile(lambda x: x + 1, backend=backend, mode="fast")(X)
    alternator.compile(lambda x: x + 1, backend=backend, options={"a": 1})(X)
    alternator.compile(lambda x: x + 1, backend=backend, mode="default")(X)
    assert given == [{"mode": "fast"}, {"options": {"a": 1}}, {}]


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_backend_that_returns_no_callable(dynamic):
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="(?s)returns_nothing.*returned None.*callable"):
        alternator.compile(lambda x: x + 1, backend=returns_nothing, dynamic=dynamic)(X)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="returned an object of class str"):
        alternator.compile(lambda x: x + 1, backend=lambda module, inputs: "text", dynamic=dynamic)(X)


def is_four(n):
    return n == 4  # HERE


def branches(x):
    return x + 1 if is_four(x.shape[0]) else x


def adds(x):
    return x + torch.ones(4)  # HERE


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("fn, place", [(branches, is_four), (adds, adds)], ids=["branches", "adds"])
def test_a_broken_promise_names_the_line(fn, place, fullgraph):
    x = torch.ones(4)
    torch._dynamo.mark_dynamic(x, 0)
    with pytest.raises(torch.fx.experimental.symbolic_shapes.ConstraintViolationError) as raised:
        alternator.compile(fn, backend="eager", fullgraph=fullgraph)(x)
    text = str(raised.value)
    assert "You marked L['x'].size()[0] as dynamic" in text
    assert f'File "{__file__}", line {place.__code__.co_firstlineno + 1}, in {place.__name__}' in text
    assert text.count("# HERE") == 1
    assert len(find_own_frames(raised.value)) == 1


def find_own_frames(error):
    found = traceback.extract_tb(error.__traceback__)
    return [frame for frame in found if pathlib.Path(frame.filename).parent == PACKAGE]


def inner(x):
    return x * x.sum().item()


def outer(x):
    return inner(x + 1)


class Model(torch.nn.Module):
    def forward(self, x):
        return outer(x)


@pytest.mark.parametrize("installed", [False, True])
@pytest.mark.parametrize("fn", [outer, Model()], ids=["function", "module"])
def test_one_frame_of_ours(fn, installed):
    torch._dynamo.reset()
    with alternator.installed():
        compile = torch.compile if installed else alternator.compile
        with pytest.raises(alternator.Unsupported) as raised:
            compile(fn, backend="eager", fullgraph=True)(X)
    assert len(find_own_frames(raised.value)) == 1
    frames = traceback.extract_tb(raised.value.__traceback__)
    theirs = {pathlib.Path(frame.filename) for frame in frames if "torch" in pathlib.Path(frame.filename).parts}
    assert not theirs or (installed and fn is not outer)  # torch.compile's own class of modules


def test_a_backend_that_fails_shows_its_own_frames():
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="no good") as raised:
        alternator.compile(lambda x: x + 1, backend=fails)(X)
    assert traceback.extract_tb(raised.value.__traceback__)[-1].name == "fails"
    assert len(find_own_frames(raised.value)) <= 2


PROGRAM = """
import alternator, torch

def fn(x):
    return x * x.sum().item()

def test_it():
    alternator.compile(fn, backend="eager", fullgraph=True)(torch.ones(2))
"""


def test_pytest_shows_the_users_frames(tmp_path):
    (tmp_path / "test_program.py").write_text(textwrap.dedent(PROGRAM))
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert "test_program.py:8" in done.stdout
    assert "with_traceback" not in done.stdout
    assert "TensorItem" in done.stdout
