"""Tools for tests of the interpreter and of capture."""

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


class Fault:
    """Give up a trace, or raise an exception in it, at a chosen instruction.

    Within the `with` statement, the traces of this thread are counted through. At instruction number `at` (-1: none)
    the trace is given up, as if something there could not be captured; with `error`, the instruction raises it instead.
    `begins()` is called before each trace, `rolling_back()` before its journal is rolled back, and `rolled_back()` when it is over and everything that it did has been
    put back, before anything else runs. Afterwards `instructions` tells how many there were, and `fired` whether the
    fault was met.
    """

    def __init__(
        self, at: int = -1, *, error: BaseException | None = None, begins=None, rolling_back=None, rolled_back=None
    ):
        self.at = at
        self.error = error
        self.begins = begins
        self.rolling_back = rolling_back
        self.rolled_back = rolled_back
        self.instructions = 0
        self.fired = False

    def __enter__(self):
        from alternator import _capture

        _capture.set_fault(self.at, self.error, self.begins, self.rolling_back, self.rolled_back)
        return self

    def __exit__(self, *error):
        from alternator import _capture

        self.instructions, self.fired = _capture.take_fault()


def own_attributes(instance) -> list[tuple[str, object]]:
    """Return the attributes that an instance itself holds, in their order, without giving it a __dict__."""
    return _C.own_attributes(instance)
