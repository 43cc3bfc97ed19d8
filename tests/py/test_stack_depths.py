"""The stack map (csrc/py/code.h) of all code of the standard library: depths fit, and agree with the compiler's."""

import dis
import importlib.util
import types

import pytest

from alternator import _C

MODULES = ["dataclasses", "typing", "asyncio.tasks", "contextlib", "argparse", "inspect", "json.decoder", "ast", "enum"]


def all_code(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from all_code(constant)


@pytest.mark.parametrize("name", MODULES)
def test_depths_are_within_the_stack(name):
    module = importlib.util.find_spec(name).loader.get_code(name)
    for code in all_code(module):
        depths = _C.stack_depths(code)
        assert len(depths) * 2 == len(code.co_code)
        assert depths[0] == 0
        assert max(depths) <= code.co_stacksize
        assert min(depths) >= -1


def reachable(code):
    return {instruction.offset // 2 for instruction in dis.get_instructions(code)}


def test_a_loop_in_a_try():
    def program(items):
        total = 0
        for item in items:
            try:
                total += int(item)
            except ValueError as error:
                total = str(error)
        return total

    code = program.__code__
    depths = _C.stack_depths(code)
    by_name = {}
    for instruction in dis.get_instructions(code):
        by_name.setdefault(instruction.opname, []).append(depths[instruction.offset // 2])
    assert by_name["FOR_ITER"] == [1]  # the iterator
    assert by_name["PUSH_EXC_INFO"] == [2]  # iterator, exception
    assert set(by_name["CHECK_EXC_MATCH"]) == {4}  # iterator, saved, exception, type
    assert by_name["RETURN_VALUE"] == [1]


def test_dead_code_is_unreachable():
    def program():
        return 1
        return 2  # compiled away or unreachable

    depths = _C.stack_depths(program.__code__)
    assert all(depths[offset] >= 0 for offset in reachable(program.__code__))


def test_refuses_what_is_no_code():
    with pytest.raises(TypeError, match="code object"):
        _C.stack_depths(3)
