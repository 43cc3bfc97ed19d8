"""Tools for tests of the interpreter and of capture."""

from __future__ import annotations

import enum
from types import CodeType, FunctionType, GeneratorType
from typing import NamedTuple

from alternator import _C


class Nothing(enum.Enum):
    """What stands in a slot of a frame that holds nothing: an unbound variable, an empty cell."""

    MISSING = "missing"


MISSING = Nothing.MISSING


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
    `begins()` is called before each trace, `rolling_back()` before its journal is rolled back, and `rolled_back()` when
    it is over and everything that it did has been put back, before anything else runs. Afterwards `instructions` tells
    how many there were, and `fired` whether the fault was met.
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


class Frame(NamedTuple):
    """What a frame holds, in the middle of its function."""

    code: CodeType
    offset: int  # of the instruction to run next, or of the call in progress, in units of two bytes
    locals: tuple  # with the cells; MISSING where there is nothing
    stack: tuple
    function: FunctionType
    generator: GeneratorType | Nothing  # whose frame it is
    handled: BaseException | Nothing  # the generator's own current exception


class Watch:
    """Look at the frames of compiled functions at breaks, or of a run that is only interpreted.

    Within the `with` statement `at_instruction(code, offset, depth)` is called when the frames of a compiled function
    have been put back, before an instruction that runs eagerly; frames() then tells what they hold. `depth` is the
    number of frames. `at_region(path)` is called when a region has run: the instructions that it stands for, each a
    tuple (code, offset, depth); the last one may be the one that runs eagerly next. Breaks inside of an instruction
    that runs eagerly are not looked at.

    run() calls a function in the interpreter, without capture, and calls `at_instruction` before each instruction. If
    it returns True, what that instruction calls runs natively and unseen.
    """

    def __init__(self, at_instruction, at_region=lambda path: None):
        self.callbacks = at_instruction, at_region

    def __enter__(self):
        _C.set_watch(*self.callbacks)
        return self

    def __exit__(self, *error):
        _C.set_watch(None, None)

    def run(self, fn, /, *args, **kwargs):
        with self:
            return _C.run_watched(fn, args, kwargs)


def frames() -> tuple[BaseException | Nothing, list[Frame]]:
    """Return the frames that are looked at, outermost first, after the exception that is handled outside of them."""
    handled, rows = _C.describe_frames(MISSING)
    return handled, [Frame(*row) for row in rows]


def generator_state(generator) -> tuple[CodeType, int, tuple, tuple, object] | None:
    """Return code, offset, locals, stack and current exception of a suspended generator; None for others."""
    return _C.describe_generator(generator, MISSING)


class Spoiled:
    """Spoil a part of a region of a compiled function: a guard, or a step of its exit.

    Within the `with` statement the guard says once that it does not hold, or the exit raises `error` when it comes to
    the step. `kind` is one of KINDS; `region` and `index` are numbers below those that count() gives.
    """

    KINDS = ("guard", "step", "effect", "position")

    def __init__(self, compiled, kind: str, region: int, index: int, error: BaseException | None = None):
        self.compiled = compiled
        self.part = kind, region, index, error

    @staticmethod
    def count(compiled, kind: str) -> list[int]:
        """Return how many parts of a kind each region has."""
        return compiled.count_parts(kind)

    def __enter__(self):
        self.compiled.spoil(*self.part)
        return self

    def __exit__(self, *error):
        self.compiled.mend()


class FailingMemory:
    """Let an allocation fail that Alternator's own code makes: number `at`, from the `with` statement on (-1: none).

    Allocations of the program, of torch and of backends are not counted. Afterwards `allocations` tells how many there
    were, and `capturing` whether the one that failed was made while something was captured.
    """

    def __init__(self, at: int = -1):
        self.at = at
        self.allocations = 0
        self.failed = False
        self.capturing = False

    def __enter__(self):
        from alternator import _capture

        _capture.count_memory(self.at, __file__)
        return self

    def __exit__(self, *error):
        from alternator import _capture

        self.allocations, self.failed, self.capturing = _capture.release_memory()


def own_attributes(instance) -> list[tuple[str, object]]:
    """Return the attributes that an instance itself holds, in their order, without giving it a __dict__."""
    return _C.own_attributes(instance)
