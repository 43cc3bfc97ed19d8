"""A trace leaves nothing behind: given up anywhere, repeated."""

import re
import signal
import subprocess
import sys

import pytest
import torch

import alternator
from capture.agreement import Captured, outcome, same

pytestmark = pytest.mark.capture

X = torch.linspace(0, 1, 8)
STATE = {"n": 0}


class Box:
    def __init__(self):
        self.n = 0
        self.items = {"a": 1}


def busy(x, box, stop):
    """Writes here and there, and does something that cannot be captured at step `stop`."""
    for step in range(6):
        box.n = box.n + 1
        box.items["a"] = box.n
        STATE["n"] = box.n
        x = x * 2
        if step == stop:
            print(end="")
    return x, box.n


@pytest.mark.parametrize("stop", range(7))
def test_a_trace_that_is_given_up_leaves_the_world_as_it_was(stop):
    STATE["n"] = 0
    eager, compiled = Box(), Box()
    expected = [busy(X, eager, stop) for _ in range(3)]
    state = STATE["n"]
    STATE["n"] = 0
    run = Captured(busy)
    found = [run(X, compiled, stop) for _ in range(3)]
    assert same(found, expected)
    assert same(vars(compiled), vars(eager))
    assert STATE["n"] == state
    assert run.graphs


def test_the_order_of_new_attributes():
    def program(x, box):
        box.second = x + 1
        box.first = 1
        box.n = 5
        return x

    eager, compiled = Box(), Box()
    program(X, eager)
    Captured(program)(X, compiled)
    assert list(vars(compiled)) == list(vars(eager))


def test_finalisers_of_a_trace_do_not_run():
    log = []

    class Noisy:
        def __del__(self):
            log.append("dead")

    def program(x):
        Noisy()
        return x + 1

    compiled = Captured(program)
    for count in (1, 2, 3):
        assert torch.equal(compiled(X), X + 1)
        assert log == ["dead"] * count


def test_a_generator_that_the_program_drops_is_closed_there():
    def numbers(log):
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    def program(x, log):
        for n in numbers(log):
            x = x + n
            break
        log.append("after")
        return x

    compiled = Captured(program)
    for _ in range(3):
        log = []
        assert torch.equal(compiled(X, log), X + 1)
        assert log == ["closed", "after"]


def test_the_backend_may_fail():
    def backend(module, examples):
        raise ZeroDivisionError("in the backend")

    compiled = alternator.compile(lambda x: x + 1, backend=backend)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="in the backend") as raised:
        compiled(X)
    assert isinstance(raised.value.inner_exception, ZeroDivisionError)
    assert raised.traceback[-1].name == "backend"
    with torch._dynamo.config.patch(suppress_errors=True), pytest.warns(UserWarning, match="in the backend"):
        assert torch.equal(compiled(X), X + 1)


def test_decorator_and_bad_arguments():
    @alternator.compile(backend="eager")
    def program(x):
        return x - 1

    assert torch.equal(program(X), X - 1)
    assert program.__name__ == "program"
    assert alternator.compile(program.__wrapped__, disable=True) is program.__wrapped__
    with pytest.raises(TypeError, match="not int"):
        alternator.compile(3)
    with pytest.raises(RuntimeError, match="mode or options"):
        alternator.compile(program.__wrapped__, mode="default", options={})


STARVED = """
import functools, _testcapi, torch, alternator
from alternator.testing import Fault

class Box:
    pass

def program(x, box):
    del box.a
    box.f = 6
    return x + 1

box = Box()
for name in "abcde":
    setattr(box, name, 1)
vars(box)  # a dict that is full
compiled = alternator.compile(program, backend="eager")
with Fault(rolling_back=functools.partial(_testcapi.set_nomemory, 0)):
    compiled(torch.ones(2), box)
"""


def test_a_roll_back_that_fails_ends_the_process():
    """There is nothing to go on with: an object of the program is not as it was."""
    run = subprocess.run([sys.executable, "-P", "-c", STARVED], capture_output=True, text=True, check=False)
    assert run.returncode == -signal.SIGABRT
    assert re.search("alternator: cannot put back .* of an object of type Box after a trace", run.stderr)


DAEMONS = {
    # Its frames pass through our hook.
    "started inside": """
def nap():
    while True:
        time.sleep(0.001)

def program(x):
    x = x + 1
    threading.Thread(target=nap, daemon=True).start()
    return x * 2

alternator.compile(program, backend="eager")(torch.ones(2))
""",
    # .. are run by us. (A thread that is inside torch then aborts the process without us as well.)
    "running": """
def program(x):
    n = 0
    while True:
        n = n + 1
        time.sleep(0.001)

threading.Thread(target=alternator.compile(program, backend="eager"), args=(torch.ones(2),), daemon=True).start()
time.sleep(0.5)
""",
    # .. waits for its turn to compile.
    "waiting": """
def backend(module, examples):
    entered.set()
    time.sleep(100)

entered = threading.Event()
for number in range(2):
    compiled = alternator.compile(lambda x: x + 1, backend=backend)
    threading.Thread(target=compiled, args=(torch.ones(2),), daemon=True).start()
    entered.wait()
time.sleep(0.5)
""",
}


@pytest.mark.parametrize("daemon", DAEMONS)
def test_daemon_threads_end_with_the_process(daemon):
    source = "import threading, time, torch, alternator\n" + DAEMONS[daemon]
    run = subprocess.run([sys.executable, "-P", "-c", source], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize("outputs", ["None", "()", "7", "[]"])
def test_a_backend_that_gives_something_else(outputs):
    given = eval(outputs)
    compiled = alternator.compile(lambda x: x + 1, backend=lambda module, examples: lambda *inputs: given)
    with pytest.raises(TypeError, match="the backend's function gave"):
        compiled(X)


def select_too_far(x, i, log):
    y = x + 1
    log.append("before")
    z = y[i]
    log.append("after")
    return z


def select_behind_a_break(x, i, log):
    y = x + 1
    print(end="")
    log.append("before")
    return y[i]


@pytest.mark.parametrize("program", [select_too_far, select_behind_a_break])
def test_a_graph_that_fails_leaves_what_the_program_does_before_the_exception(program):
    compiled = Captured(program)
    for index in (1, 7, 1):  # the values of tensors are not guarded
        logs = [], []
        found, expected = (
            outcome(fn, (torch.ones(3), torch.tensor([index]), log), __file__)[0]
            for fn, log in zip((compiled, program), logs)
        )
        assert same(found, expected)
        assert logs[0] == logs[1]
    assert compiled.said == []


def draw_and_select(x, i, log):
    y = x + torch.rand(3)
    log.append(y.shape)
    z = torch.randn(3)[:1] + y[i]  # normal numbers come in pairs: one is left over
    log.append("after")
    return z, torch.rand(1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_graph_that_fails_draws_its_random_numbers_once(backend):
    compiled = alternator.compile(draw_and_select, backend=backend)
    for seed, index in enumerate((1, 7, 1, 7)):
        logs, states = ([], []), []
        found, expected = [], []
        for fn, log, into in ((compiled, logs[0], found), (draw_and_select, logs[1], expected)):
            torch.manual_seed(seed)
            torch.randn(1)
            into.append(outcome(fn, (torch.ones(3), torch.tensor([index]), log), __file__)[0])
            states.append(torch.get_rng_state())
        assert same(found, expected)
        assert logs[0] == logs[1]
        assert torch.equal(*states)


@pytest.mark.parametrize("training", [False, True])
def test_a_graph_with_dropout_that_fails(training):
    def drops(x, i):
        y = torch.nn.functional.dropout(x, 0.5, training)
        q = torch.nn.functional.rrelu(y, training=training).reshape(1, 2, 4)
        z = torch.nn.functional.scaled_dot_product_attention(q, q, q, dropout_p=0.5 * training)
        return z[0, 0][i]

    compiled = Captured(drops)
    for seed, index in enumerate((1, 7, 1, 7, 2)):
        results = []
        for fn in (compiled, drops):
            torch.manual_seed(seed)
            results.append((outcome(fn, (torch.ones(8), torch.tensor([index])), __file__)[0], torch.get_rng_state()))
        assert same(*results)


@pytest.mark.parametrize("way", ["its tensor", "another tensor on its memory"])
def test_a_graph_that_fails_changes_an_input_once(way):
    def changes(x, i):
        (x if way == "its tensor" else x.data).add_(1)
        return x[i]

    compiled = Captured(changes)
    x = torch.zeros(2)
    compiled(x.clone(), torch.tensor([0]))
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([5]))
    assert torch.equal(x, torch.ones(2))


def read_then_write(x, i, log):
    log.append("before")
    y = x[i]
    log.append("after")
    x.add_(1)
    return y


def draw_then_write(x, i, log):
    log.append("before")
    y = torch.rand(2)[i]
    x.mul_(y)
    return y


def write_a_part_of_it(x, i, log):
    log.append("before")
    x.index_add_(0, i, torch.ones(2))
    return x * 2


@pytest.mark.parametrize("program", [read_then_write, draw_then_write])
def test_a_graph_that_fails_before_it_changes_an_input(program):
    compiled = Captured(program)
    for indices in ((0, 1), (0, 5), (1, 1), (5, 5)):
        results = []
        for fn in (compiled, program):
            torch.manual_seed(1)
            given = torch.ones(2), torch.tensor(indices), []
            results.append((outcome(fn, given, __file__), torch.get_rng_state()))
        assert same(*results)
    assert len(compiled.graphs) == 1


def test_a_graph_that_fails_while_it_changes_an_input():
    program = write_a_part_of_it
    compiled = Captured(program)
    for indices in ((0, 3), (0, 5), (2, 2)):  # the first one is added before the second one is refused
        given = [(torch.ones(4), torch.tensor(indices), []) for _ in range(2)]
        outcomes = [outcome(fn, args, __file__)[0] for fn, args in zip((compiled, program), given)]
        assert same(*outcomes)
        assert same(*given)
