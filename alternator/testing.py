"""Tools for tests of the interpreter."""

from __future__ import annotations

from alternator import _C


class Replay:
    """Run a function and, on the way, take its whole stack of frames away and put it back.

    At instruction number `start`, and from there each `every` instructions (0: once only), all frames below `run` are
    written to a snapshot, abandoned, re-created in a new call and continued. What run() returns or raises is what the
    function itself would.
    """

    def __init__(self, start: int = 0, every: int = 1):
        self.start = start
        self.every = every
        self.instructions = 0
        self.recreated = 0
        self.refused: list[str] = []

    def run(self, fn, /, *args, **kwargs):
        report = {}
        try:
            return _C.replay(report, self.start, self.every, fn, args, kwargs)
        finally:
            self.__dict__.update(report)
