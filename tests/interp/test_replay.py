"""Every program of `programs/` has its native outcome when its frames are abandoned and re-created in mid-run."""

import os
import re

import pytest

from alternator.testing import Replay

from .outcome import describe_difference, record
from .programs import collect_programs

pytestmark = pytest.mark.semantics
PROGRAMS = collect_programs()
# How many single points of re-creation are tried in each program. They are spread over its whole run.
POINTS = int(os.environ.get("ALTERNATOR_REPLAY_POINTS", "24"))


def run_replayed(replay):
    return lambda fn, *args: replay.run(fn, *args)


def choose_points(instructions, count):
    """At most `count` instruction numbers, evenly spread: first and last included."""
    if instructions <= count:
        return list(range(instructions))
    return sorted({round(i * (instructions - 1) / (count - 1)) for i in range(count)})


@pytest.mark.parametrize("name", PROGRAMS)
def test_recreated_at_every_instruction(name):
    program = PROGRAMS[name]
    native = record(program)
    replay = Replay(start=0, every=1)
    replayed = record(program, run=run_replayed(replay))
    assert replayed == native, describe_difference(native, replayed, ("native", "replayed"))
    assert replay.instructions > 0
    assert replay.recreated > 0, f"never re-created: {replay.refused[:5]}"
    assert all(isinstance(reason, str) and reason for reason in replay.refused)


@pytest.mark.parametrize("name", PROGRAMS)
def test_recreated_once(name):
    program = PROGRAMS[name]
    native = record(program)
    counting = Replay(start=2**62, every=0)
    assert record(program, run=run_replayed(counting)) == native
    assert counting.recreated == 0
    assert counting.refused == []
    for point in choose_points(counting.instructions, POINTS):
        replay = Replay(start=point, every=0)
        replayed = record(program, run=run_replayed(replay))
        assert replayed == native, f"at {point}:\n" + describe_difference(native, replayed, ("native", "replayed"))
        if replay.instructions <= point:
            continue  # modules that load lazily take fewer instructions to look at the next time
        assert replay.recreated + len(replay.refused) == 1, (
            f"at {point}: {replay.recreated} re-creations, refused {replay.refused}"
        )


@pytest.mark.parametrize("every", [2, 7])
@pytest.mark.parametrize("family", sorted({name.split(".")[0] for name in PROGRAMS}))
def test_recreated_now_and_then(family, every):
    """Runs of undisturbed instructions between two re-creations, at changing offsets."""
    for name, program in PROGRAMS.items():
        if name.startswith(family + "."):
            native = record(program)
            for start in range(0, every, 3):
                replayed = record(program, run=run_replayed(Replay(start=start, every=every)))
                assert replayed == native, f"{name}:\n" + describe_difference(native, replayed, ("native", "replayed"))


def count_to(n):
    total = 0
    for i in range(n):
        total += i
    return total


def test_counts_are_repeatable():
    runs = [Replay(start=2**62, every=0) for _ in range(2)]
    assert [run.run(count_to, 10) for run in runs] == [45, 45]
    assert runs[0].instructions == runs[1].instructions > 40
    longer = Replay(start=2**62, every=0)
    longer.run(count_to, 20)
    assert longer.instructions > runs[0].instructions


def test_plain_python_is_never_refused():
    replay = Replay(start=0, every=1)
    assert replay.run(count_to, 10) == 45
    assert replay.refused == []
    assert replay.recreated >= replay.instructions - 1


def add_in_callee(n):
    def inner(k):
        return [k + i for i in range(3)]

    return sum_up(inner(n), inner(n + 1))


def sum_up(*lists):
    total = 0
    for values in lists:
        for value in values:
            total += value
    return total


def test_nested_python_calls_are_never_refused():
    replay = Replay(start=0, every=1)
    assert replay.run(add_in_callee, 1) == add_in_callee(1)
    assert replay.refused == []


def call_by_key():
    return sorted([3, 1, 2], key=lambda x: -x)


def call_by_fold():
    import functools

    return functools.reduce(lambda a, b: a + b, [1, 2, 3])


def call_by_method():
    data = [3, 1, 2]
    data.sort(key=lambda x: x * x)
    return data


def call_by_type():
    return list(map(lambda x: x + 1, [1, 2]))


CALLERS = [(call_by_key, "sorted"), (call_by_fold, "reduce"), (call_by_method, "sort"), (call_by_type, "list")]


@pytest.mark.parametrize(("program", "caller"), CALLERS)
def test_refusal_names_the_c_caller(program, caller):
    """Inside the callback the frames above cannot be re-entered: their progress is in C."""
    replay = Replay(start=0, every=1)
    assert replay.run(program) == program()
    assert replay.recreated > 0
    assert replay.refused
    # As a word: the place that a reason gives may hold the letters by chance.
    assert all(re.search(rf"\b{caller}\b", reason) for reason in replay.refused), replay.refused[:3]


def test_arguments_and_exceptions_pass_through():
    def f(a, *, b):
        if b:
            raise KeyError(a)
        return a

    assert Replay().run(f, 5, b=0) == 5
    with pytest.raises(KeyError, match="7"):
        Replay().run(f, 7, b=1)
