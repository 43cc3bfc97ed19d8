"""The space of compilations: a program agrees with eager execution whatever choices were made in compiling it."""

import random

import pytest

from capture import compilations, families, sources
from capture.compilations import Choice, check_choice, check_choices, find_statements, put_breaks
from capture.perturbing import Case, Difference, alternator

pytestmark = pytest.mark.capture

SHARES = 4
CHOICES = 3


def check(cases, seed, number):
    failed, dropped, choice = [], [], random.Random(seed)
    for case in cases:
        found, unfit = check_choices(case, choice, number)
        failed += [f"==== {case}\n{case.text}\n{made}\n{steps}\n{what}" for made, steps, what in found]
        dropped += [f"{case}: {made}: {what!r}" for made, _, what in unfit]
    total = len(cases) * number
    assert not failed, f"{len(failed)} of {total}\n" + "\n".join(failed)
    # A graph of ours that is wrong would be refused as well.
    assert len(dropped) <= 2 + total // 50, f"{len(dropped)} of {total}\n" + "\n".join(dropped)


@pytest.mark.parametrize("share", range(SHARES))
def test_a_sample_of_choices(share):
    choice = random.Random(share)
    cases = choice.sample([*families.CASES.values()], 12) + [sources.write(seed) for seed in range(share, 160, 16)]
    check(cases, share, CHOICES)


@pytest.mark.full
@pytest.mark.parametrize("family", families.FAMILIES)
def test_many_choices(family):
    check(families.FAMILIES[family], 1, 12)


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, 2000, 100))
def test_many_choices_of_generated_programs(first):
    check([sources.write(seed) for seed in range(first, first + 100)], first, 8)


PROGRAM = """
import torch
def inner(t): return t + 1
def program(x, n):
    if n > 1: x = x * n
    for k in range(n):
        x = inner(x)
    return x
def make():
    return [torch.ones(2), 2]
"""


def test_breaks_are_put_everywhere():
    places = find_statements(PROGRAM)
    assert [line for line, _ in places] == [3, 5, 7, 8]
    text = put_breaks(PROGRAM, places)
    assert text.count(compilations.BREAK) == 4
    assert len(text.splitlines()) == len(PROGRAM.splitlines())
    check_choice(Case("breaks", PROGRAM), Choice(breaks=(0, 1, 2, 3)), [("call",)] * 3)


def test_choices_make_a_difference(monkeypatch):
    """The choice reaches the compiler, and a result that is wrong under one choice only is found."""
    seen = []

    def wrong_if_dynamic(program, backend, dynamic):
        seen.append((backend, dynamic))
        return program if not dynamic else lambda *args: 5

    monkeypatch.setattr(alternator, "compile", wrong_if_dynamic)
    case = Case("choices", PROGRAM)
    check_choice(case, Choice(backend="aot_eager"), [("call",)])
    with pytest.raises(Difference):
        check_choice(case, Choice(dynamic=True, fault=3), [("call",)])
    assert seen == [("aot_eager", None), ("eager", True)]
