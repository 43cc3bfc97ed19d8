"""What the tracer's rules raise."""

from __future__ import annotations


class Unsupported(Exception):
    """A use of torch that cannot be captured. `reason` is one of csrc/base/abort.def."""

    def __init__(self, text, reason="UnsupportedTorch"):
        super().__init__(text)
        self.reason = reason


class TorchFailed(Exception):
    """Torch raised an exception on fakes: most likely it would on the program's tensors."""


class GivenUp(Exception):
    """Something that cannot be done with symbols (shapes.py)."""
