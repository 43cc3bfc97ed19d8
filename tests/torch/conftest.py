"""Fixtures for the tests of csrc/torch. Without the built module, or without torch, they are skipped."""

import pytest


@pytest.fixture
def fakes():
    pytest.importorskip("torch")
    module = pytest.importorskip("alternator._fakes", exc_type=ImportError)
    module.clear_cache()
    yield module
    module.clear_cache()
