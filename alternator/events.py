"""What happens while functions are captured, as one stream of events.

`with listen(callback):` calls `callback(event)` for everything that happens from then on, in any thread; explain, logs,
progress and the report listen here. Nothing is told, and nothing is computed for telling, while nobody listens. Warm
calls tell nothing unless a listener asks for `calls` or `steps` before the function is captured.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import inspect
import itertools
import linecache
import os
import sys
import sysconfig
import threading
import time
import types
import typing
import warnings

from alternator.errors import CaptureError

if typing.TYPE_CHECKING:
    import torch

capture_numbers = itertools.count(1)
STATE = "torch's modes are as they were: grad, inference, autocast, default dtype and device, determinism, threads"


# ---- Places --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Frame:
    """A frame of a program, and the expression in it that runs. Columns count UTF-8 bytes, as CPython's do."""

    file: str
    line: int
    function: str
    end_line: int | None = None
    column: int | None = None
    end_column: int | None = None
    library: str | None = None  # whose code it is, None: the user's own

    @property
    def source(self) -> str:
        """The line, as it is in the file."""
        return linecache.getline(self.file, self.line).rstrip("\n")

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


# Instructions in front of a call, which have the place of the function's name.
PREFIXES = {dis.opmap[name] for name in ("KW_NAMES", "PRECALL", "EXTENDED_ARG") if name in dis.opmap}

CACHE = dis.opmap["CACHE"]


def make_frame(code, offset) -> Frame:
    """Make the frame for an instruction, given by its offset in bytes."""
    offset, instructions = max(offset, 0), code.co_code
    while offset < len(instructions) and instructions[offset] in PREFIXES:
        offset += 2
        while instructions[offset] == CACHE:
            offset += 2
    positions = next(itertools.islice(code.co_positions(), offset // 2, None), (None,) * 4)
    line, end_line, column, end_column = positions
    where = code.co_filename, line or code.co_firstlineno, code.co_qualname
    return Frame(*where, end_line, column, end_column, find_library(code.co_filename))


@functools.lru_cache(4096)
def find_library(file) -> str | None:
    """Tell which library a file belongs to: "python", the package's name, or None for the user's own code."""
    if file.startswith("<"):
        return "python" if file.startswith("<frozen") else None
    path = os.path.abspath(file)
    paths = sysconfig.get_paths()
    for root in (*(paths[name] for name in ("purelib", "platlib")), *_find_site_folders()):
        if path.startswith(root + os.sep):
            return path[len(root) + 1 :].split(os.sep)[0].removesuffix(".py")
    package = os.path.dirname(os.path.abspath(__file__))
    if path.startswith(package + os.sep):
        return "alternator"
    torch = sys.modules.get("torch")
    if torch is not None and path.startswith(os.path.dirname(os.path.abspath(torch.__file__)) + os.sep):
        return "torch"
    return "python" if path.startswith((paths["stdlib"] + os.sep, paths["platstdlib"] + os.sep)) else None


def _find_site_folders():
    return [os.path.abspath(path) for path in sys.path if path.endswith(("site-packages", "dist-packages"))]


# ---- Events --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Function:
    """A compiled function."""

    name: str
    file: str
    line: int

    def __str__(self):
        return f"{self.name} ({self.file}:{self.line})"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened. `capture` is the number of the capture that it belongs to, 0 if to none."""

    function: Function
    capture: int = 0
    thread: int = dataclasses.field(default_factory=threading.get_ident)
    time: float = dataclasses.field(default_factory=time.perf_counter)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CaptureBegan(Event):
    """The program is traced from a point on: the start of the function, or behind a break."""

    frames: tuple[Frame, ...]  # from the outermost
    after_break: bool
    code: types.CodeType = dataclasses.field(repr=False)  # of the innermost frame
    offset: int = dataclasses.field(repr=False)  # of the instruction that is the first, in bytes

    @property
    def start(self) -> Frame:
        """Where it begins: the innermost frame."""
        return self.frames[-1]

    @property
    def depth(self) -> int:
        """How many calls deep that is, seen from the compiled function."""
        return len(self.frames) - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Break(Event):
    """The trace ended in front of something that cannot be captured. Also the reason why a function runs eagerly."""

    reason: str  # id of a row of the table of messages
    what: str
    why: str
    hints: tuple[str, ...]
    detail: str  # what exactly: a function, a class, torch's own words
    frames: tuple[Frame, ...]  # from the outermost
    idle: bool = False  # there was nothing to compute in front of it, so it split nothing
    error: bool = False  # it raised alternator.Unsupported

    @property
    def user_frames(self) -> tuple[Frame, ...]:
        """The user's own code; all frames if nothing of it is the user's."""
        return tuple(frame for frame in self.frames if frame.library is None) or self.frames

    @property
    def library_frames(self) -> tuple[Frame, ...]:
        """The frames of libraries behind the user's last line: how the break came about there."""
        last = max((i for i, frame in enumerate(self.frames) if frame.library is None), default=len(self.frames))
        return tuple(frame for frame in self.frames[last + 1 :] if frame.library != "alternator")

    @property
    def place(self) -> Frame | None:
        """The user's line that led to it."""
        return self.user_frames[-1] if self.frames else None


@dataclasses.dataclass(frozen=True)
class Guard:
    """One thing that must still be so for a graph to be used again."""

    text: str  # a line: "L['n'] == 3"
    source: str  # what it looks at: "L['n']"
    kind: str
    parent: int | None  # number of the guard that finds what this one looks into; None: a root
    frame: Frame | None  # the user's line that needed it, where known


@dataclasses.dataclass(frozen=True, kw_only=True)
class CaptureEnded(Event):
    """A capture is over: with a graph or without, by a return or a break."""

    frames: tuple[Frame, ...]  # where it began
    after_break: bool
    seconds: float  # tracing, without the backend
    backend_seconds: float
    captured: bool  # there is a region now; it may have nothing to compute
    graph: torch.fx.GraphModule | None
    operations: tuple[str, ...]  # targets of the graph's calls, in order
    lines: dict[str, tuple[int, ...]]  # file -> the user's lines that the graph covers
    guards: tuple[Guard, ...]
    effects: tuple[str, ...]  # what the exit writes to objects that were there before
    resumes: tuple[Frame, ...]  # frames that go on behind it; none: it returns
    end: Break | None  # None: it returns
    conduct: str  # how the point goes on if nothing was captured: "capture" (tries again), "step", "dull", "native"

    @property
    def start(self) -> Frame:
        return self.frames[-1]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BackendBegan(Event):
    """A backend begins to compile a graph."""

    backend: str
    graph: torch.fx.GraphModule


@dataclasses.dataclass(frozen=True, kw_only=True)
class BackendEnded(Event):
    """A backend has compiled a graph, or failed."""

    backend: str
    seconds: float
    error: str = ""  # if it failed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recompiled(Event):
    """No graph fitted: another one is to be captured."""

    reason: str  # "`n` was 3, is now 4"

    @property
    def guard(self) -> str:
        """What changed: the name in the reason."""
        return self.reason.split("`")[1] if self.reason.count("`") >= 2 else self.reason


@dataclasses.dataclass(frozen=True, kw_only=True)
class LimitReached(Event):
    """No further graphs for a point: it runs eagerly where none fits."""

    limit: str  # the setting's name
    value: int
    reason: str  # of the last recompilation


@dataclasses.dataclass(frozen=True, kw_only=True)
class FellBack(Event):
    """The function runs eagerly from here on."""

    why: Break


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphCalled(Event):
    """A compiled graph ran; told to listeners that asked for calls when it was captured."""

    seconds: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stepped(Event):
    """An instruction runs for real; told to listeners that asked for steps."""

    frames: tuple[Frame, ...]


# ---- Listening -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Listener:
    callback: typing.Callable[[Event], object]
    calls: bool
    steps: bool
    brief: bool
    spy: typing.Callable[..., object] | None

    def close(self) -> None:
        """Listen no more."""
        global listeners
        with _lock:
            listeners = tuple(other for other in listeners if other is not self)
            tell_interest()

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


listeners: tuple[Listener, ...] = ()
generation = 0  # how often somebody began to listen while nobody did
_lock = threading.Lock()
_local = threading.local()


def listen(
    callback: typing.Callable[[Event], object],
    calls: bool = False,
    *,
    steps: bool = False,
    brief: bool = False,
    spy: typing.Callable[..., object] | None = None,
) -> Listener:
    """Call `callback(event)` for all that happens from now on, until the result is closed (it is a context manager).

    `calls`: also GraphCalled, of graphs captured from now on. `steps`: also Stepped. `brief`: guards, lines and effects
    are of no interest. `spy(code, offset, depth, operands)` is called before each traced instruction. An exception of a
    listener is a warning.
    """
    global listeners, generation
    listener = Listener(callback, calls, steps, brief, spy)
    with _lock:
        generation += not listeners
        listeners = (*listeners, listener)
        tell_interest()
    return listener


def tell_interest():
    """Tell the core what listeners want to know, if it is there already (compiling.prepare() asks again)."""
    core = sys.modules.get("alternator._capture")
    if core is not None:
        level = 0 if not listeners else 1 if all(listener.brief for listener in listeners) else 2
        spies = [listener.spy for listener in listeners if listener.spy is not None]
        spy = None if not spies else spies[0] if len(spies) == 1 else lambda *args: [spy(*args) for spy in spies]
        core.set_interest(level, any(listener.steps for listener in listeners), spy)


def wants_calls() -> bool:
    return any(listener.calls for listener in listeners)


def wants_details() -> bool:
    return not all(listener.brief for listener in listeners)


def emit(event):
    for listener in listeners:
        if (isinstance(event, GraphCalled) and not listener.calls) or (
            isinstance(event, Stepped) and not listener.steps
        ):
            continue
        try:
            listener.callback(event)
        except Exception as error:
            warnings.warn(f"alternator: a listener of events failed. {type(error).__name__}: {error}", stacklevel=2)


# ---- Telling -------------------------------------------------------------------------------------------------------


class Capture:
    """One capture in progress, as far as it was told."""

    def __init__(self, frames, after_break):
        self.number = next(capture_numbers)
        self.generation = generation
        self.frames = frames
        self.after_break = after_break
        self.began = time.perf_counter()
        self.backend_seconds = 0.0
        self.graph = None
        self.operations = ()
        self.lines = {}
        self.region = ([], [], ([], []))
        self.end = None


def current_capture() -> Capture | None:
    """Find the capture that runs in this thread, if it was told of."""
    captures = getattr(_local, "captures", ())
    # The end of others was not told: nobody listened any more.
    return captures[-1] if captures and captures[-1].generation == generation else None


class Teller:
    """Makes events of what the core tells of one compiled function. `report(kind, break)` hears of what concerns it."""

    def __init__(self, fn, report):
        self.function = describe_function(fn)
        self.report = report

    def __call__(self, kind, what):
        __tracebackhide__ = True  # pytest: show the user's frames
        try:
            getattr(self, f"tell_{kind}")(what)
        except CaptureError as error:  # of our frames, one is enough
            raise error.with_traceback(None) from None

    def emit(self, kind, **fields):
        capture = current_capture()
        emit(kind(function=self.function, capture=capture.number if capture else 0, **fields))

    # What the core tells always.

    def tell_break(self, what, **fields):
        stop = self.make_break(what, **fields)
        if listeners:
            self.note_end(stop)
        if not stop.idle:
            self.report("error" if stop.error else "break", stop)

    def tell_error(self, what):
        self.tell_break(what, error=True)

    def tell_eager(self, what):
        stop = self.make_break(what)
        if listeners:
            if current_capture() is not None:
                current_capture().end = stop
            self.emit(FellBack, why=stop)
        self.report("eager", stop)

    # What it tells if somebody listens.

    def tell_idle(self, what):
        self.tell_break(what, idle=True)

    def tell_began(self, trail):
        frames = make_frames(trail)
        after_break = trail[0][1] != 0
        outer = [each for each in getattr(_local, "captures", ()) if each.generation == generation]
        _local.captures = [*outer, Capture(frames, after_break)]
        code, offset = trail[-1]
        self.emit(CaptureBegan, frames=frames, after_break=after_break, code=code, offset=offset)

    def tell_region(self, what):
        if current_capture() is not None:
            current_capture().region = what

    def tell_ended(self, what):
        capture = current_capture()
        if capture is None:  # somebody began to listen in the middle
            return
        captured, conduct, conditions = what
        guards, sites, (effects, resumes) = capture.region
        self.emit(
            CaptureEnded,
            frames=capture.frames,
            after_break=capture.after_break,
            seconds=time.perf_counter() - capture.began - capture.backend_seconds,
            backend_seconds=capture.backend_seconds,
            captured=captured,
            graph=capture.graph if captured else None,
            operations=capture.operations if captured else (),
            lines=capture.lines if captured else {},
            guards=make_guards(guards, sites)
            + tuple(Guard(text, text, "Condition", None, None) for text in conditions),
            effects=tuple(effects),
            resumes=make_frames(resumes),
            end=capture.end,
            conduct=conduct,
        )
        _local.captures = _local.captures[:-1]

    def tell_step(self, trail):
        self.emit(Stepped, frames=make_frames(trail))

    # Parts.

    def make_break(self, what, **fields) -> Break:
        from alternator import messages

        reason, detail, trail = what
        capture = current_capture()
        number = capture.number if capture else 0
        frames = make_frames(trail)
        texts = messages.explain(reason, detail)
        stop = Break(function=self.function, capture=number, detail=detail, frames=frames, **texts, **fields)
        if stop.library_frames:
            hint = messages.LIBRARY_HINT.format(library=messages.name_library(stop.library_frames[0].library))
            stop = dataclasses.replace(stop, hints=(*stop.hints, hint))
        return stop

    def note_end(self, stop):
        if current_capture() is not None:
            current_capture().end = stop
        emit(stop)

    def run_backend(self, backend, module, tracer, compile):
        """Compile a graph, and tell of it."""
        capture = current_capture()
        if capture is not None:
            capture.graph = module
            capture.operations = tuple(name_operation(node) for node in module.graph.nodes if "call" in node.op)
            capture.lines = find_lines(tracer.writer) if wants_details() else {}
        name = name_backend(backend)
        self.emit(BackendBegan, backend=name, graph=module)
        began = time.perf_counter()
        error = "it raised an exception"
        try:
            run = compile()
            error = run if isinstance(run, str) else ""
        finally:
            seconds = time.perf_counter() - began
            if capture is not None:
                capture.backend_seconds += seconds
            self.emit(BackendEnded, backend=name, seconds=seconds, error=error)
        return self.time_calls(run) if wants_calls() and callable(run) else run

    def time_calls(self, run):
        number = current_capture().number if current_capture() else 0

        def timed(*inputs):
            if not listeners:
                return run(*inputs)
            began = time.perf_counter()
            outputs = run(*inputs)
            seconds = time.perf_counter() - began
            emit(GraphCalled(function=self.function, capture=number, seconds=seconds, time=began))
            return outputs

        return timed


def describe_function(fn) -> Function:
    inner = fn
    while hasattr(inner, "__func__"):
        inner = inner.__func__
    code = getattr(inner, "__code__", None)
    if code is None:
        return Function(getattr(fn, "__qualname__", type(fn).__qualname__), "?", 0)
    name = code.co_qualname
    owner = getattr(fn, "__self__", None)
    if owner is not None and find_library(code.co_filename) == "torch":  # the call of a module: show the user's own
        forward = getattr(inspect.unwrap(getattr(type(owner), "forward", None)), "__code__", None)
        if forward is not None:
            code, name = forward, type(owner).__qualname__
    return Function(name, code.co_filename, code.co_firstlineno)


def make_frames(trail) -> tuple[Frame, ...]:
    return tuple(make_frame(code, offset) for code, offset in trail)


def name_backend(backend) -> str:
    found = getattr(backend, "compiler_name", None) or getattr(backend, "__name__", None)
    return found or type(backend).__name__


def name_operation(node) -> str:
    return node.target if isinstance(node.target, str) else node._pretty_print_target(node.target)


def resolve_sites(sites):
    """For each number of frames: the frame that a user would name, the innermost of the user's own, or None."""
    found = []
    for outer, code, offset, *_ in sites:
        frame = make_frame(code, offset)
        found.append(frame if frame.library is None or outer < 0 else found[outer])
    return found


def make_guards(rows, sites) -> tuple[Guard, ...]:
    places = resolve_sites(sites)
    finders = {}  # node -> the guard that finds it
    guards = []
    for number, (kind, expect, parent, child, source, text, site) in enumerate(rows):
        if expect == "NewNode":
            finders.setdefault(child, number)
        place = places[site] if site >= 0 else None
        guards.append(Guard(text, source, kind, finders.get(parent), place))
    if guards:
        guards.append(Guard(STATE, "torch", "GlobalState", None, None))
    return tuple(guards)


def find_lines(writer) -> dict[str, tuple[int, ...]]:
    """Find the user's lines that a graph covers."""
    places = resolve_sites(writer.frames)
    lines = {}
    for site, _ in writer.sites:
        frame = places[site]
        if frame is not None:
            lines.setdefault(frame.file, set()).update(range(frame.line, (frame.end_line or frame.line) + 1))
    return {file: tuple(sorted(found)) for file, found in lines.items()}
