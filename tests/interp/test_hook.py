"""The frame-evaluation hook: installed while needed, per thread, and polite to other hooks."""

import shutil
import subprocess
import sysconfig
import threading
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader

import pytest

import alternator
from alternator import _C

OTHER_HOOK = r"""
// A hook of somebody else: counts the frames that it sees and calls on.
#include <Python.h>

static _PyFrameEvalFunction previous;
static long seen;

static PyObject *hook(PyThreadState *ts, struct _PyInterpreterFrame *frame, int throwflag) {
  ++seen;
  return previous(ts, frame, throwflag);
}
static PyObject *install(PyObject *self, PyObject *unused) {
  PyInterpreterState *interp = PyInterpreterState_Get();
  previous = _PyInterpreterState_GetEvalFrameFunc(interp);
  _PyInterpreterState_SetEvalFrameFunc(interp, hook);
  Py_RETURN_NONE;
}
static PyObject *uninstall(PyObject *self, PyObject *unused) {
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), previous);
  Py_RETURN_NONE;
}
static PyObject *take_count(PyObject *self, PyObject *unused) {
  long count = seen;
  seen = 0;
  return PyLong_FromLong(count);
}
static PyObject *is_installed(PyObject *self, PyObject *unused) {
  return PyBool_FromLong(_PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == hook);
}
static PyObject *is_any_installed(PyObject *self, PyObject *unused) {
  return PyBool_FromLong(_PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) != _PyEval_EvalFrameDefault);
}
static PyMethodDef methods[] = {
    {"install", install, METH_NOARGS},       {"uninstall", uninstall, METH_NOARGS},
    {"take_count", take_count, METH_NOARGS}, {"is_installed", is_installed, METH_NOARGS},
    {"is_any_installed", is_any_installed, METH_NOARGS}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "other_hook", 0, -1, methods};
PyMODINIT_FUNC PyInit_other_hook(void) { return PyModule_Create(&module); }
"""


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    folder = tmp_path_factory.mktemp("other_hook")
    source = folder / "other_hook.c"
    source.write_text(OTHER_HOOK)
    target = folder / f"other_hook{EXTENSION_SUFFIXES[0]}"
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    include = sysconfig.get_path("include")
    subprocess.run([compiler, "-shared", "-fPIC", "-w", f"-I{include}", str(source), "-o", str(target)], check=True)
    loader = ExtensionFileLoader("other_hook", str(target))
    module = module_from_spec(spec_from_loader("other_hook", loader))
    loader.exec_module(module)
    if module.is_any_installed():
        pytest.skip("a hook stayed from earlier tests: TorchDynamo leaves its own after an error")
    return module


def inner(n):
    return n + 1


def outer(n):
    return inner(n) + sum(map(inner, range(n)))


def frames_interpreted():
    return _C.statistics()["frames_interpreted"]


def test_hook_is_gone_when_nobody_needs_it(other):
    assert not other.is_any_installed()
    seen = []
    alternator.interpret(lambda: seen.append(other.is_any_installed()))()
    assert seen == [True]
    assert not other.is_any_installed()


def test_hook_is_gone_after_an_exception(other):
    @alternator.interpret
    def fails():
        raise KeyError("x")

    with pytest.raises(KeyError):
        fails()
    assert not other.is_any_installed()
    assert not alternator.is_interpreting()


def test_a_hook_that_was_there_before_is_called_and_restored(other):
    other.install()
    try:
        other.take_count()
        assert outer(3) == 10
        assert other.take_count() == 5  # outer, inner, and three from map
        _C.set_idle_hook(True)  # ours on top, taking nothing: each frame is called on
        try:
            assert outer(3) == 10
            assert other.take_count() == 5
        finally:
            _C.set_idle_hook(False)
        before = frames_interpreted()
        assert alternator.interpret(outer)(3) == 10
        assert frames_interpreted() > before
        assert other.is_installed()
        other.take_count()
        outer(3)
        assert other.take_count() == 5
    finally:
        other.uninstall()
    assert not other.is_any_installed()


def test_a_hook_that_came_later_sees_every_frame(other):
    """Frames that our loop could enter by itself must pass by a hook on top of ours."""

    @alternator.interpret
    def program():
        other.install()
        try:
            other.take_count()
            result = outer(3)
            return result, other.take_count()
        finally:
            other.uninstall()

    assert program() == (10, 5)
    assert not other.is_any_installed()


def test_a_hook_that_came_later_and_stays(other):
    @alternator.interpret
    def program():
        other.install()

    program()
    try:
        # Ours is still below it, and idle.
        assert other.is_installed()
        before = frames_interpreted()
        other.take_count()
        assert outer(2) == 6
        assert other.take_count() == 4
        assert frames_interpreted() == before
        # It goes on top again where it is needed, and below in the end.
        assert alternator.interpret(outer)(2) == 6
        assert frames_interpreted() == before + 3  # and one that its loop entered
        assert other.is_installed()
        other.take_count()
        assert outer(2) == 6
        assert other.take_count() == 4
    finally:
        other.uninstall()
        # What it restored is ours, which nobody needs any more: the next use takes it away.
        alternator.interpret(inner)(1)
    assert not other.is_any_installed()


def test_other_threads_are_left_alone():
    inside, leave = threading.Event(), threading.Event()
    result = []

    @alternator.interpret
    def waiting():
        inside.set()
        leave.wait(60)
        result.append(alternator.is_interpreting())

    thread = threading.Thread(target=waiting)
    thread.start()
    inside.wait(60)
    before = frames_interpreted()
    assert not alternator.is_interpreting()
    assert outer(50) == 51 + sum(range(1, 51))
    assert frames_interpreted() == before
    leave.set()
    thread.join()
    assert result == [True]


def test_nested_use():
    @alternator.interpret
    def level(n):
        assert alternator.is_interpreting()
        return n if n == 0 else alternator.interpret(level)(n - 1) + 1

    assert level(20) == 20
    assert not alternator.is_interpreting()


def test_interpreted_is_a_good_wrapper():
    class Thing:
        @alternator.interpret
        def method(self, x, *, y=2):
            """Adds."""
            return self, x + y, alternator.is_interpreting()

    thing = Thing()
    assert thing.method(1) == (thing, 3, True)
    assert Thing.method(thing, 1, y=5) == (thing, 6, True)
    assert Thing.method.__name__ == "method"
    assert Thing.method.__doc__ == "Adds."
    assert Thing.method.__wrapped__.__code__.co_name == "method"
    with pytest.raises(TypeError, match="takes a callable, not int"):
        alternator.interpret(3)


def test_alongside_torchdynamo():
    torch = pytest.importorskip("torch")

    def program(x):
        return torch.relu(x) + inner(1)

    compiled = torch.compile(program, backend="eager")
    # TorchDynamo patches Module for good: tests of capture in the same process must not see it.
    init = torch.nn.Module.__init__
    try:
        x = torch.tensor([-1.0, 2.0])
        expected = program(x)
        assert torch.equal(compiled(x), expected)
        assert torch.equal(alternator.interpret(compiled)(x), expected)
        assert torch.equal(alternator.interpret(program)(x), expected)
        assert torch.equal(compiled(x), expected)
    finally:
        torch.nn.Module.__init__ = init
