"""csrc/py/opcode.def against CPython's own tables: dis.opmap, dis.stack_effect, the caches, the specialisations."""

import dis
import opcode
import typing

import pytest

from alternator import _C


class Row(typing.NamedTuple):
    number: int
    caches: int
    how: str
    jumps: bool
    leaves: bool
    recording: str
    operands: str


ROWS = {name: Row(*row) for name, row in _C.opcodes().items()}
ARGUMENTS = {"BUILD_SLICE": (2, 3), "RAISE_VARARGS": (0, 1, 2)}
# CPython's dis books the arguments of a call on PRECALL, and the first value sent to a generator nowhere.
BOOKED_ELSEWHERE = {"PRECALL", "CALL", "RETURN_GENERATOR"}


def test_every_opcode_has_a_row():
    assert set(ROWS) == set(dis.opmap) - {"CACHE"}


@pytest.mark.parametrize("name", sorted(ROWS))
def test_number_and_caches(name):
    row = ROWS[name]
    assert row.number == dis.opmap[name]
    assert row.caches == opcode._inline_cache_entries[row.number]
    assert _C.canonical(row.number) == name


@pytest.mark.parametrize("name", sorted(ROWS))
def test_jumps(name):
    row = ROWS[name]
    assert row.jumps == (row.number in dis.hasjrel or row.number in dis.hasjabs)


@pytest.mark.parametrize("name", sorted(set(ROWS) - BOOKED_ELSEWHERE))
def test_stack_effect(name):
    number, jumps = ROWS[name].number, ROWS[name].jumps
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
    by_hand_over = {name for name, row in ROWS.items() if row.how == "hand_over"}
    assert by_hand_over == {"RETURN_GENERATOR", "IMPORT_STAR"}
    assert {name for name, row in ROWS.items() if row.how == "borrow"} == {"PREP_RERAISE_STAR", "ASYNC_GEN_WRAP"}


def test_harmless_instructions_are_listed_one_by_one():
    # Whoever adds one says here why a trace may let it run unseen: it moves values, builds a container, or jumps.
    moves = {"NOP", "RESUME", "EXTENDED_ARG", "PUSH_NULL", "SWAP", "COPY", "LOAD_CONST", "COPY_FREE_VARS", "PRECALL"}
    builds = {"BUILD_TUPLE", "BUILD_LIST", "BUILD_CONST_KEY_MAP", "BUILD_STRING", "BUILD_SLICE"}
    jumps = {"JUMP_FORWARD", "JUMP_BACKWARD_NO_INTERRUPT"}
    jumps |= {f"POP_JUMP_{way}_IF_{what}" for way in ("FORWARD", "BACKWARD") for what in ("NONE", "NOT_NONE")}
    others = {"POP_EXCEPT", "LOAD_ASSERTION_ERROR", "RETURN_GENERATOR"}
    harmless = {name for name, row in ROWS.items() if row.recording == "harmless"}
    assert harmless == moves | builds | jumps | others


def test_breaks():
    breaks = {name for name, row in ROWS.items() if row.recording == "break"}
    coroutines = {"ASYNC_GEN_WRAP", "GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "BEFORE_ASYNC_WITH", "END_ASYNC_FOR"}
    assert breaks == coroutines | {"IMPORT_STAR", "PRINT_EXPR"}


@pytest.mark.parametrize("name", sorted(ROWS))
def test_operand_roles(name):
    """Each value that an instruction touches has a role, and it touches all that it pops."""
    row = ROWS[name]
    fixed, bar, repeated = row.operands.partition("|")
    assert set(fixed + repeated) <= set("MSUDTNC")
    assert bool(repeated) == bool(bar)
    for argument in ARGUMENTS.get(name, range(8) if row.number >= dis.HAVE_ARGUMENT else (0,)):
        touched = _C.count_touched(row.number, argument)
        assert touched <= len(fixed) or repeated
        assert bar or touched == len(fixed)
        effect = _C.stack_effect(row.number, argument, False)
        assert touched >= -effect or name == "PRECALL"
