"""Every program of `programs/` has the same outcome natively and interpreted, on cold and on specialised code."""

import pytest

import alternator

from .outcome import describe_difference, record
from .programs import collect_programs

pytestmark = pytest.mark.semantics
PROGRAMS = collect_programs()
# After this many native runs CPython has specialised the instructions of a function that is called once a run.
WARM_UP = 20


def run_interpreted(fn, *args):
    return alternator.interpret(fn)(*args)


def test_there_are_enough_programs():
    families = {name.split(".")[0] for name in PROGRAMS}
    assert len(PROGRAMS) >= 150
    assert len(families) >= 20


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_is_interpreted_as_natively(name):
    program = PROGRAMS[name]
    # Interpreted first: the code is still cold then, unless another test has run it.
    interpreted = [record(program, run=run_interpreted) for _ in range(2)]
    native = [record(program) for _ in range(2)]
    assert native[0] == native[1], "not deterministic:\n" + describe_difference(*native, ("first", "second"))
    for outcome in interpreted:
        assert outcome == native[0], describe_difference(native[0], outcome)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if not name.startswith("coroutines.asyncio")])
def test_program_is_interpreted_as_natively_once_specialised(name):
    program = PROGRAMS[name]
    for _ in range(WARM_UP):
        native = record(program)
    interpreted = record(program, run=run_interpreted)
    assert interpreted == native, describe_difference(native, interpreted)
    afterwards = record(program)
    assert afterwards == native, describe_difference(
        native, afterwards, ("native before", "native after an interpreted run")
    )


def test_frames_are_interpreted():
    """Guards the tests above against comparing native execution with itself."""

    def ask(log):
        log.append(alternator.is_interpreting())
        log.extend(sorted([alternator.is_interpreting()], key=lambda _: log.append(alternator.is_interpreting())))

    assert record(ask).arguments == record(ask, run=lambda fn, log: fn(log)).arguments
    assert record(ask) != record(ask, run=run_interpreted)
    log = []
    alternator.interpret(ask)(log)
    assert log == [True, True, True]
    assert not alternator.is_interpreting()


def test_interpret_passes_arguments_and_results():
    def f(a, /, b, *rest, c=3, **more):
        return a, b, rest, c, more

    wrapped = alternator.interpret(f)
    assert wrapped(1, 2, 4, c=5, d=6) == (1, 2, (4,), 5, {"d": 6})
    with pytest.raises(TypeError, match=r"f\(\) missing 1 required positional argument: 'b'"):
        wrapped(1)


def test_interpret_nests():
    def inner(n):
        return alternator.interpret(inner)(n - 1) + 1 if n else int(alternator.is_interpreting())

    assert alternator.interpret(inner)(5) == 6
    assert not alternator.is_interpreting()


@pytest.mark.parametrize(
    "target",
    [
        len,
        str.upper,
        "abc".count,
        int,
        type("K", (), {"__call__": lambda self, x: x})(),
        type("M", (), {"m": lambda self, x: x})().m,
    ],
    ids=["builtin", "descriptor", "bound builtin", "type", "instance", "bound method"],
)
def test_interpret_wraps_any_callable(target):
    assert alternator.interpret(target)("1") == target("1")
