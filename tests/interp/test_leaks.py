"""Nothing is kept and nothing is released twice: counts are flat over a thousand repetitions of the semantic programs.

Three counts are taken after a warm-up and after each batch of repetitions: allocated blocks, tracked objects, and
reference counts of objects that every program shares (None, small integers, types, the program's own function, code
and globals). A leak makes a count grow in every batch, by the number of repetitions at least; CPython's own caches and
free lists make it go up in one batch and down in another.
"""

import array
import gc
import os
import sys

import pytest

import alternator
from alternator.testing import Replay

from .outcome import record
from .programs import collect_programs

# Not under AddressSanitizer: CPython's own allocator, whose blocks are counted here, is off there.
pytestmark = [pytest.mark.semantics, pytest.mark.no_asan, pytest.mark.filterwarnings("ignore")]
PROGRAMS = collect_programs()
FAMILIES = sorted({name.split(".")[0] for name in PROGRAMS})
BATCHES = 4
REPETITIONS = int(os.environ.get("ALTERNATOR_LEAK_REPETITIONS", "1000"))
SHARED = [
    None,
    True,
    False,
    NotImplemented,
    ...,
    (),
    "",
    b"",
    *range(-5, 20),
    int,
    str,
    list,
    dict,
    tuple,
    type,
    object,
    Exception,
    ValueError,
]
SHARED += [KeyError, StopIteration, AttributeError, TypeError, len, print, sys.modules, "log", "append"]


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Keep programs' output and reports away, and old objects out of the collections."""
    with open(os.devnull, "w") as nowhere:
        monkeypatch.setattr(sys, "stdout", nowhere)
        monkeypatch.setattr(sys, "stderr", nowhere)
        monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)
        gc.collect()
        gc.freeze()
        yield
        gc.unfreeze()


def run_quietly(run, program):
    try:
        run(program)
    except BaseException:
        pass


def run_interpreted(program):
    alternator.interpret(program)([])


def run_replayed(program):
    Replay(start=0, every=1).run(program, [])


def run_replayed_now_and_then(program):
    Replay(start=3, every=17).run(program, [])


def count(involved, row):
    """Put blocks, tracked objects, and reference counts into a row, without keeping any object of its own."""
    sys._clear_type_cache()
    gc.collect()
    row[0], row[1] = sys.getallocatedblocks(), len(gc.get_objects())
    for index, thing in enumerate(involved, 2):
        row[index] = sys.getrefcount(thing)


def find_growth(run, program, repetitions):
    """The counts that went the same way in every batch, by more than a few, as {name: least change in a batch}."""
    involved = [*SHARED, program, program.__code__, program.__globals__]
    names = ["allocated blocks", "tracked objects", *map(repr, SHARED), "the function", "its code", "its globals"]
    size = repetitions // BATCHES
    rows = [array.array("q", [0] * len(names)) for _ in range(BATCHES + 1)]
    for row in rows:
        for _ in range(size):
            run_quietly(run, program)
        count(involved, row)
    growth = {}
    for name, *series in zip(names, *rows):
        changes = [after - before for before, after in zip(series, series[1:])]
        same_way = all(change > 0 for change in changes) or all(change < 0 for change in changes)
        least = min(changes, key=abs)
        if same_way and abs(least) > size // 25:
            growth[name] = least
    return growth


def list_family(family):
    return {name: program for name, program in PROGRAMS.items() if name.startswith(family + ".")}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("family", FAMILIES)
def test_interpreted_programs_do_not_leak(family):
    growth = {name: find_growth(run_interpreted, program, REPETITIONS) for name, program in list_family(family).items()}
    assert {name: grown for name, grown in growth.items() if grown} == {}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("run", [run_replayed, run_replayed_now_and_then])
def test_replayed_programs_do_not_leak(family, run):
    """Fewer repetitions here: each re-creates its frames thousands of times."""
    repetitions = max(REPETITIONS // 40, 4 * BATCHES)
    growth = {name: find_growth(run, program, repetitions) for name, program in list_family(family).items()}
    assert {name: grown for name, grown in growth.items() if grown} == {}


def test_a_leak_would_be_found():
    kept = []

    def leaking(log):
        kept.append([log])

    growth = find_growth(run_interpreted, leaking, REPETITIONS)
    assert growth["allocated blocks"] > REPETITIONS // BATCHES
    assert growth["tracked objects"] >= REPETITIONS // BATCHES


def test_a_kept_reference_would_be_found():
    kept = []

    def keeping(log):
        kept.append(None)

    assert find_growth(run_interpreted, keeping, REPETITIONS)["None"] >= REPETITIONS // BATCHES


class Probe:
    """An argument whose reference count is compared before and after."""

    def __init__(self):
        self.items, self.next = [1, 2], None

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        return False


def use_in_many_ways(probe, how):
    """Touches its argument on the stack, in cells, defaults, exceptions, generators, managers; may fail in between."""

    def inner(default=probe):
        yield probe
        raise how(default)

    with probe as again, Probe():
        pair = [again, (probe, {"k": probe})]
        for item in (probe, *pair):
            try:
                for value in inner():
                    pair.append(value)
            except ValueError as error:
                pair.append(error.args)
            finally:
                probe.next = item
    probe.next = None
    return f"{len(pair)}", [p for p in pair if p is probe]


@pytest.mark.parametrize("how", [ValueError, KeyError], ids=["caught", "uncaught"])
@pytest.mark.parametrize(
    "run",
    [alternator.interpret, lambda fn: lambda *a: Replay(start=0, every=1).run(fn, *a)],
    ids=["interpreted", "replayed"],
)
def test_argument_is_released(run, how):
    probe = Probe()
    referenced, repetitions = (probe, probe.items, probe.__dict__), 50

    def once():
        try:
            run(use_in_many_ways)(probe, how)
        except KeyError:
            pass

    once()
    gc.collect()
    before = [sys.getrefcount(thing) for thing in referenced]
    for _ in range(repetitions):
        once()
    gc.collect()
    assert [sys.getrefcount(thing) for thing in referenced] == before


def test_result_has_no_other_owner():
    def make():
        value = [object()]
        return value

    assert sys.getrefcount(alternator.interpret(make)()) == sys.getrefcount(make())
    assert sys.getrefcount(Replay(start=0, every=1).run(make)) == sys.getrefcount(make())


def test_suspended_generators_are_released():
    def gen(probe):
        with probe:
            for item in [probe, [probe]]:
                yield item

    def start(probe):
        return [next(it) is probe and it for it in (gen(probe), gen(probe))]

    probe = Probe()
    for run in (alternator.interpret(start), lambda p: Replay(start=0, every=1).run(start, p)):
        before = sys.getrefcount(probe)
        for _ in range(20):
            suspended = run(probe)
            assert sys.getrefcount(probe) > before
            del suspended
        assert sys.getrefcount(probe) == before


def test_outcomes_do_not_leak_either():
    """The recorder itself must be flat, or the other tests would look for its leaks."""
    program = PROGRAMS["exceptions.deep_nesting"]
    assert find_growth(record, program, max(REPETITIONS // 5, 20)) == {}
