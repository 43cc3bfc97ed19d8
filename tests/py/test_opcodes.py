"""csrc/py/opcode.def against CPython's own tables: dis.opmap, dis.stack_effect, the caches, the specialisations."""

import dis
import opcode

import pytest

from alternator import _C

ROWS = _C.opcodes()
# CPython's dis books the arguments of a call on PRECALL, and the first value sent to a generator nowhere.
BOOKED_ELSEWHERE = {"PRECALL", "CALL", "RETURN_GENERATOR"}


def test_every_opcode_has_a_row():
    assert set(ROWS) == set(dis.opmap) - {"CACHE"}


@pytest.mark.parametrize("name", sorted(ROWS))
def test_number_and_caches(name):
    number, caches, _how, _jumps, _leaves = ROWS[name]
    assert number == dis.opmap[name]
    assert caches == opcode._inline_cache_entries[number]
    assert _C.canonical(number) == name


@pytest.mark.parametrize("name", sorted(ROWS))
def test_jumps(name):
    number, _caches, _how, jumps, _leaves = ROWS[name]
    assert jumps == (number in dis.hasjrel or number in dis.hasjabs)


@pytest.mark.parametrize("name", sorted(set(ROWS) - BOOKED_ELSEWHERE))
def test_stack_effect(name):
    number, _caches, _how, jumps, _leaves = ROWS[name]
    arguments = range(16) if number >= dis.HAVE_ARGUMENT else [0]
    for argument in arguments:
        given = argument if number >= dis.HAVE_ARGUMENT else None
        assert _C.stack_effect(number, argument, False) == dis.stack_effect(number, given, jump=False)
        if jumps:
            assert _C.stack_effect(number, argument, True) == dis.stack_effect(number, given, jump=True)


def test_stack_effect_of_calls():
    for argument in range(16):
        ours = [_C.stack_effect(dis.opmap[name], argument, False) for name in ("PRECALL", "CALL")]
        theirs = [dis.stack_effect(dis.opmap[name], argument) for name in ("PRECALL", "CALL")]
        assert sum(ours) == sum(theirs)


def test_specialised_opcodes_are_canonical():
    for name in opcode._specialized_instructions:
        number = dis.opmap.get(name)
        assert number is None  # they are in no public table ...
    known = {number for number in range(256) if _C.canonical(number) is not None}
    # ... but every byte that CPython may put into a code object has a canonical opcode.
    families = len(opcode._specialized_instructions)
    assert len(known) >= len(ROWS) + families


def test_unknown_opcodes():
    assert _C.canonical(0) is None
    with pytest.raises(ValueError, match="byte"):
        _C.canonical(256)


def test_how_column():
    by_hand_over = {name for name, row in ROWS.items() if row[2] == "hand_over"}
    assert by_hand_over == {"RETURN_GENERATOR", "IMPORT_STAR"}
    assert {name for name, row in ROWS.items() if row[2] == "borrow"} == {"PREP_RERAISE_STAR", "ASYNC_GEN_WRAP"}
