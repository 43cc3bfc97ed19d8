"""Fixtures of the tests of capture."""

import gc

import pytest


@pytest.fixture
def collect_quickly():
    """Let a collection look at the test's own objects only."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
