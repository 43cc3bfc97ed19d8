"""C++ exceptions become Python exceptions where our code returns to CPython."""

import pytest

from alternator import _C


def test_a_lack_of_memory():
    with pytest.raises(MemoryError):
        _C.throw_exception("memory")


def test_another_exception():
    with pytest.raises(RuntimeError, match="alternator: something is wrong"):
        _C.throw_exception("something is wrong")
