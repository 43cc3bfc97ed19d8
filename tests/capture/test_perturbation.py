"""Whatever a call can reach is changed, one thing at a time, between calls: eager = compiled.

The programs are those of capture/families. In `./dev test` a sample of the changes is tried; `-m full` tries all.
"""

import collections
import random

import pytest
import torch

from capture import corpus, families, perturbing, sources
from capture.perturbing import Case, Pair, Perturbation, Walk, list_trials

pytestmark = pytest.mark.capture

SAMPLE = 2  # changes a program; the seed decides which
SHARES = 16  # tests, so that processes share the work


def check(cases, sample, seed=0, **options):
    """Perturb cases; return the number of trials."""
    trials, failed, dropped = 0, [], []
    for case in cases:
        done = Perturbation(case, sample, seed, **options)
        trials += done.trials
        dropped += [f"{case}: {what!r}" for what in done.unfit]
        if done.findings:
            failed.append(f"==== {case}\n{done.report()}")
    assert not failed, f"{len(failed)} programs of {len(cases)}\n" + "\n".join(failed)
    assert len(dropped) <= 2 + trials // 50, "\n".join(dropped)
    return trials


def list_sample():
    """All programs, but of the families that are products of two lists every third only."""
    large = {name for name, family in families.FAMILIES.items() if len(family) > 200}
    return [case for name, family in families.FAMILIES.items() for case in family[:: 3 if name in large else 1]]


@pytest.mark.parametrize("share", range(SHARES))
def test_a_sample_of_changes(share):
    cases = list_sample()[share::SHARES]
    assert check(cases, SAMPLE, seed=share) > len(cases) * SAMPLE


@pytest.mark.full
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("family", families.FAMILIES)
def test_all_changes(family, backend):
    cases = [case for case in families.FAMILIES[family] if perturbing.suits(case, backend)]
    check(cases, None if backend == "eager" else 8, backend=backend)


def test_there_are_many_programs():
    assert len(families.CASES) == sum(map(len, families.FAMILIES.values())) > 1200
    texts = collections.Counter(case.text for case in families.CASES.values())
    assert [text for text, count in texts.items() if count > 1] == []


def test_every_program_computes_with_tensors():
    """A program that nothing is captured of would prove nothing."""
    graphs = 0

    def count(program):
        def backend(module, examples):
            nonlocal graphs
            graphs += 1
            return module.forward

        return perturbing.alternator.compile(program, backend=backend)

    empty = []
    for case in random.Random(1).sample([*families.CASES.values()], 150):
        before = graphs
        pair = Pair(case, compile=count)
        pair.make_arguments()
        for world in pair.worlds:
            world.call()
        if graphs == before:
            empty.append(case.name)
    # Programs that are there to raise an exception before anything is computed, or whose classes stop a trace.
    assert len(empty) <= 6, empty


# ---- the mechanism can fail ------------------------------------------------------------------------------------------

PROGRAM = """
import collections, torch
scale, table = 2, {"a": [1, (2, 3)]}
def inner(t, by=[4], *, plus=5):
    return t * by[0] + plus
def outer(n):
    return lambda t: t + n
closed = outer(6)
class Box:
    kind = "k"
    def __init__(self):
        self.n = 1
def program(x, a, o, s=slice(0, 2)):
    return inner(x) + closed(x) * scale + len(table), a, o.n, o.kind, s, max(a)
def make():
    return [torch.ones(2), [1, 2.5, "t"], Box()]
"""


def test_leaves_are_found_everywhere():
    pair = Pair(Case("leaves", PROGRAM))
    pair.make_arguments()
    paths = [*Walk(pair.eager).leaves]
    for path in (
        *("args[0]", "args[1]", "args[1][1]", "args[2]", "args[2].n", "program.__defaults__[0]", "scale", "table['a']"),
        *("table['a'][1][0]", "inner.__defaults__[0][0]", "inner.plus=", "closed.cell n", "Box.kind", "builtin max"),
        *("program.__defaults__[0].stop", "inner", "table<key 0>"),
    ):
        assert path in paths, paths
    assert paths == [*Walk(pair.compiled).leaves]


@pytest.mark.parametrize(
    "path", ["args[0]", "args[1][1]", "args[2].n", "scale", "inner.plus=", "closed.cell n", "Box.kind"]
)
def test_a_compiled_program_that_does_not_look_is_found(path):
    """In place of a compiled function, one that answers every call with what the first call gave."""

    def remember(program):
        first = []

        def answer(*args):
            if not first:
                first.append(program(*args))
            return first[0]

        return answer

    text = PROGRAM.replace("s, max(a)", "max(a, key=str)").replace(", a, o.n,", ", [*a], o.n,")
    pair = Pair(Case("stale", text), compile=remember)
    for _ in range(2):
        pair.call()
    trials = [trial for trial in list_trials(Walk(pair.eager)) if trial[0] == path]
    noticed = 0
    for trial in trials:
        try:
            pair.try_change(*trial)
        except perturbing.Difference:
            noticed += 1
    assert noticed > 0
    pair.call()  # what was changed is put back


ENDLESS = """
import torch
def program(x, items):
    for k in items:
        try:
            if len(items) < 4: items.append(k)
        except BaseException: pass
    return x + len(items)
def make():
    return [torch.ones(2), [1]]
"""


def test_calls_that_do_not_end_are_dropped(monkeypatch):
    monkeypatch.setattr(perturbing, "ENDLESS_SECONDS", 0.2)
    done = Perturbation(Case("endless", ENDLESS))
    assert done.findings == [] and done.trials > 10
    assert [type(what) for what in done.unfit] == [perturbing.Endless]


REFUSED = """
import torch
def program(x, y):
    x.mul_(2), y.add_(1)
    return x + y
def make():
    x = torch.ones(4)
    return [x.view(torch.int32), x]
"""


def test_what_a_backend_refuses_is_dropped():
    done = Perturbation(Case("refused", REFUSED), sample=1, backend="aot_eager")
    assert done.findings == [] and {type(what) for what in done.unfit} == {perturbing.Refused}
    assert Perturbation(Case("refused", REFUSED), sample=1).unfit == []


def test_changes_are_put_back():
    pair = Pair(Case("back", PROGRAM), compile=lambda program: program)
    pair.call()
    before = pair.eager.describe().words
    for trial in list_trials(Walk(pair.eager)):
        pair.try_change(*trial)
    pair.call()
    assert pair.eager.describe().words == before


def test_worlds_that_differ_are_told_apart():
    def describe(**roots):
        return perturbing.Description(roots).words

    shared = [1]
    one, other = torch.ones(2), torch.ones(2)
    pairs = [
        ({"a": 1}, {"a": True}),
        ({"a": 0.0}, {"a": -0.0}),
        ({"a": [shared, shared]}, {"a": [[1], [1]]}),
        ({"a": {"p": 1, "q": 2}}, {"a": {"q": 2, "p": 1}}),
        ({"a": [one, one]}, {"a": [one, other]}),
        ({"a": [one, one[:]]}, {"a": [one, other[:]]}),
        ({"a": torch.ones(2)}, {"a": torch.ones(2).double()}),
        ({"a": ValueError(1)}, {"a": ValueError(2)}),
        ({"a": slice(1, 2)}, {"a": slice(1, 3)}),
    ]
    for a, b in pairs:
        assert describe(**a) != describe(**b), (a, b)
    assert describe(a=[float("nan"), shared]) == describe(a=[float("nan"), [1]])


# ---- programs of other tests -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", range(SHARES))
def test_a_sample_of_changes_to_the_corpus(share):
    check(corpus.list_cases()[share::SHARES], 1, seed=share)


@pytest.mark.full
@pytest.mark.parametrize("share", range(SHARES))
def test_all_changes_to_the_corpus(share):
    check(corpus.list_cases()[share::SHARES], None)


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, 1600, 100))
def test_all_changes_to_generated_programs(first):
    check([sources.write(seed) for seed in range(first, first + 100)], 60)
