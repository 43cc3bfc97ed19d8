"""Re-creation of stacks that do not fit into one chunk of CPython's frame stack."""

import sys

import pytest

from alternator.testing import Replay

pytestmark = pytest.mark.semantics


def descend(n, log):
    if n == 0:
        log.append(repr(sys.exc_info()[1]))
        return 0
    try:
        if n % 50 == 0:
            raise KeyError(n)
        return descend(n - 1, log) + 1
    except KeyError as error:
        result = descend(n - 1, log) + 1
        log.append((n, error.args, sys.exc_info()[1] is error))
        return result


def descend_by_generators(n, log):
    if n == 0:
        yield "bottom"
        return
    for item in descend_by_generators(n - 1, log):
        log.append(n)
        yield item


def drive(n, log):
    return list(item for item in descend_by_generators(n, log)), [item for item in descend_by_generators(n, log)]


def run(fn, n, replay=None):
    log = []
    try:
        raise OSError("ambient")
    except OSError:
        value = fn(n, log) if replay is None else replay.run(fn, n, log)
        log.append(repr(sys.exc_info()[1]))
    return value, log


@pytest.mark.parametrize("fn", [descend, drive])
def test_deep_stacks_are_recreated(fn):
    expected = run(fn, 300)
    counting = Replay(start=2**62, every=0)
    assert run(fn, 300, counting) == expected
    recreated = 0
    for point in range(0, counting.instructions, counting.instructions // 40):
        replay = Replay(start=point, every=0)
        assert run(fn, 300, replay) == expected
        recreated += replay.recreated
    assert recreated > 10


def test_deep_stack_is_recreated_now_and_then():
    replay = Replay(start=5, every=97)
    assert run(descend, 400, replay) == run(descend, 400)
    assert replay.recreated > 30


def test_deep_recursion_needs_no_c_stack():
    import alternator

    def count(n):
        return 0 if n == 0 else count(n - 1) + 1

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(200_000)
    try:
        assert alternator.interpret(count)(100_000) == 100_000
    finally:
        sys.setrecursionlimit(limit)
