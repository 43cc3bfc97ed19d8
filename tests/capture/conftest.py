"""Fixtures of the tests of capture."""

import gc

import pytest
import torch


@pytest.fixture
def collect_quickly():
    """Let a collection look at the test's own objects only."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def plain_optimizers(monkeypatch):
    """Undo what TorchDynamo does to torch's optimizers when it is first used: it disables a method of theirs."""
    for cls in vars(torch.optim).values():
        method = getattr(cls, "_init_group", None)
        while hasattr(method, "_torchdynamo_orig_callable"):
            method = method._torchdynamo_orig_callable
            monkeypatch.setattr(cls, "_init_group", method)
