"""Programs with breaks whose traces are given up somewhere: in loops, handlers, generators, at depth.

A trace that is given up in front of an instruction goes on behind it: each of these runs has one break more, at a place
that nobody chose.
"""

import pytest
import torch

from alternator.testing import Fault
from capture import test_break_documents, test_break_places
from capture.agreement import Captured, same
from capture.breaking import X, run
from capture.test_abort import quiet, spread, warm  # noqa: F401

pytestmark = pytest.mark.capture

PROGRAMS = {**test_break_places.programs, **test_break_documents.programs}


def call(name, fault=None):
    """Compile a program and call it twice, the first time with the fault."""
    fn, _, make = PROGRAMS[name]
    compiled = Captured(fn)
    if fault is None:
        first = run(compiled.fn, X.clone(), make())
    else:
        with fault:
            first = run(compiled.fn, X.clone(), make())
    grad, autocast = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")
    return first, run(compiled.fn, X.clone(), make()), grad, autocast


def check(name, places, **fault):
    fn, _, make = PROGRAMS[name]
    expected = run(fn, X.clone(), make())
    counting = Fault(-1)
    call(name, counting)
    for at in spread(counting.instructions, places):
        found = call(name, Fault(at, **fault))
        told = f"{name}, given up at {at} of {counting.instructions}\n {found}\n eager: {expected}"
        assert same(found, (expected, expected, True, False)), told


@pytest.mark.parametrize("places", [6, pytest.param(100_000, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_given_up(name, places):
    check(name, places)


@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_runs_out(name):
    check(name, 3, error=MemoryError("a fault"))
