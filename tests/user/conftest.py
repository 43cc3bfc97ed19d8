"""Fixtures of the tests of the user's side."""

import pytest
import torch
from torch._dynamo.utils import counters

import alternator


@pytest.fixture
def take_over():
    """Run a test with Alternator in TorchDynamo's place, and nothing captured or counted yet."""
    with alternator.installed():
        torch._dynamo.reset()
        counters.clear()
        yield
