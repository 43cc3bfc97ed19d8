"""Generated programs: native = interpreted = re-created at every instruction = re-created once at a drawn instruction.

ALTERNATOR_EXAMPLES=5000 tries that many programs instead of a fixed few, other ones each time; a failure prints the
program (without its prelude) and how the outcomes differ.
"""

import dis
import os
import sys
import types

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import alternator
from alternator.testing import Replay

from .generate import compile_program, make_main, programs
from .outcome import describe_difference, record

pytestmark = pytest.mark.semantics
EXAMPLES = os.environ.get("ALTERNATOR_EXAMPLES")
# Programs are large by nature: hypothesis is told not to mind. Without a wish for more, the same programs each time.
SETTINGS = settings(
    max_examples=int(EXAMPLES or 200),
    derandomize=EXAMPLES is None,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


# Where CPython has joined two loads of locals into one instruction, it says that the first one's place has the unbound
# name: its own answer changes as the code gets warm.
VAGUE = (UnboundLocalError,)


def run_natively(code):
    return record(make_main(code), vague=VAGUE)


def run_interpreted(code):
    return record(make_main(code), run=lambda main, log: alternator.interpret(main)(log), vague=VAGUE)


def run_replayed(code, replay):
    return record(make_main(code), run=lambda main, log: replay.run(main, log), vague=VAGUE)


def check_equal(native, other, name):
    assert other == native, f"{name}:\n" + describe_difference(native, other, ("native", name))


@SETTINGS
@given(programs(), st.integers(0, 9999))
def test_engines_agree(text, fraction):
    note(text)
    code = compile_program(text)
    cold = run_interpreted(code)
    native = run_natively(code)
    check_equal(native, run_natively(code), "native again")
    check_equal(native, cold, "interpreted")

    every = Replay(start=0, every=1)
    check_equal(native, run_replayed(code, every), "re-created at every instruction")
    point = every.instructions * fraction // 10000
    check_equal(native, run_replayed(code, Replay(start=point, every=0)), f"re-created at {point}")


@settings(SETTINGS, max_examples=max(SETTINGS.max_examples // 4, 1))
@given(programs())
def test_engines_agree_on_specialised_code(text):
    note(text)
    code = compile_program(text)
    for _ in range(12):
        native = run_natively(code)
    check_equal(native, run_interpreted(code), "interpreted")
    check_equal(native, run_replayed(code, Replay(start=0, every=5)), "re-created at every fifth instruction")
    check_equal(native, run_natively(code), "native after the others")


def list_events(code, run, install):
    """The events that a trace or profile function gets of a program's frames."""
    events = []

    def trace(frame, event, argument):
        if frame.f_code.co_filename != "<generated>":
            return None
        what = argument.__name__ if event.startswith("c_") else type(argument).__name__
        events.append((event, frame.f_code.co_name, frame.f_lineno, what))
        return trace

    def run_traced(main, log):
        install(trace)
        try:
            return run(main, log)
        finally:
            install(None)

    return events, record(make_main(code), run=run_traced, vague=VAGUE)


@settings(SETTINGS, max_examples=max(SETTINGS.max_examples // 4, 1))
@given(programs())
def test_trace_events_agree(text):
    note(text)
    code = compile_program(text)
    for install in (sys.settrace, sys.setprofile):
        native, outcome = list_events(code, lambda main, log: main(log), install)
        interpreted, same_outcome = list_events(code, lambda main, log: alternator.interpret(main)(log), install)
        assert interpreted == native
        check_equal(outcome, same_outcome, "interpreted and traced")


# ---- are the programs worth running?

SEEN_IN_TWO_HUNDRED = """
    ASYNC_GEN_WRAP BEFORE_ASYNC_WITH BEFORE_WITH BINARY_OP BINARY_SUBSCR BUILD_CONST_KEY_MAP BUILD_LIST BUILD_MAP
    BUILD_SET BUILD_SLICE BUILD_STRING BUILD_TUPLE CALL CALL_FUNCTION_EX CHECK_EG_MATCH CHECK_EXC_MATCH COMPARE_OP
    CONTAINS_OP COPY COPY_FREE_VARS DELETE_FAST DELETE_SUBSCR DICT_MERGE DICT_UPDATE END_ASYNC_FOR FORMAT_VALUE
    FOR_ITER GET_AITER GET_ANEXT GET_AWAITABLE GET_ITER GET_LEN GET_YIELD_FROM_ITER IMPORT_FROM IMPORT_NAME IS_OP
    JUMP_BACKWARD JUMP_IF_TRUE_OR_POP KW_NAMES LIST_APPEND LIST_EXTEND LIST_TO_TUPLE LOAD_ASSERTION_ERROR
    LOAD_BUILD_CLASS LOAD_CLASSDEREF LOAD_CLOSURE LOAD_DEREF LOAD_GLOBAL LOAD_METHOD LOAD_NAME MAKE_CELL MAKE_FUNCTION
    MAP_ADD MATCH_CLASS MATCH_KEYS MATCH_MAPPING MATCH_SEQUENCE POP_EXCEPT PREP_RERAISE_STAR PUSH_EXC_INFO
    RAISE_VARARGS RERAISE RETURN_GENERATOR SEND SET_ADD STORE_ATTR STORE_DEREF STORE_GLOBAL STORE_SUBSCR SWAP
    UNARY_INVERT UNARY_NEGATIVE UNARY_NOT UNPACK_EX UNPACK_SEQUENCE WITH_EXCEPT_START YIELD_VALUE
""".split()


def list_codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from list_codes(constant)


def test_programs_are_valid_deterministic_and_lively():
    """Over 200 programs most opcodes occur, both ends (return, exception) are common, and much of the text runs."""
    opcodes, ends, noted, written, executed = set(), [], [], [], []

    @settings(SETTINGS, max_examples=200, derandomize=True)
    @given(programs())
    def look(text):
        code = compile_program(text)
        first, second = run_natively(code), run_natively(code)
        check_equal(first, second, "native again")
        ends.append(first.raised)
        noted.append(len(first.arguments[1]) - 2)
        opcodes.update(i.opname for c in list_codes(code) for i in dis.get_instructions(c))
        lines = list_own_lines(code, text)
        written.append(len(lines))
        executed.append(len(lines & trace_lines(code)))

    look()
    assert set(SEEN_IN_TWO_HUNDRED) - opcodes == set()
    assert 0.2 < ends.count(None) / len(ends) < 0.9
    assert len(set(ends)) >= 7, set(ends)
    assert sum(noted) / len(noted) > 10
    assert sum(executed) / sum(written) > 0.35


def list_own_lines(code, text):
    """The lines of a program that hold instructions, without its prelude and its module level."""
    functions = [c for c in list_codes(code) if c is not code]
    first = max(line for _, _, line in code.co_lines() if line) - len(text.splitlines())
    return {line for c in functions for _, _, line in c.co_lines() if line and line > first}


def trace_lines(code):
    """The lines that a native run executes."""
    seen = set()

    def trace(frame, event, argument):
        if frame.f_code.co_filename != "<generated>":
            return None
        seen.add(frame.f_lineno)
        return trace

    main, before = make_main(code), sys.gettrace()
    sys.settrace(trace)
    try:
        main([])
    except Exception:
        pass
    finally:
        sys.settrace(before)
    return seen
