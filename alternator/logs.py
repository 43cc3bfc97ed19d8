"""Logs: what happens while functions are captured, in Python's logging. docs/logs.md is for users.

Each topic has a logger, `alternator.graph_breaks` and so on. Topics are switched on by ALTERNATOR_LOGS or `set_logs`;
those that torch knows too by TORCH_LOGS and `torch._logging.set_logs`, and are then told by torch's loggers. While all
are off nobody listens to events, and nothing is written.
"""

from __future__ import annotations

import dis
import functools
import logging
import os
import sys
import threading
import warnings

from alternator import events, messages

# Topic -> what it shows, and the module whose logger torch has for it (none: torch does not know it).
TOPICS = {
    "graph_breaks": ("why and where functions are split into several graphs", "torch._dynamo.symbolic_convert"),
    "recompiles": ("why a function was captured once more", "torch._dynamo.guards"),
    "guards": (
        "what must still be so for a graph to be used again, with the lines that needed it",
        "torch._dynamo.guards",
    ),
    "graph_code": ("graphs as Python code, with shapes", "torch._dynamo.output_graph"),
    "graph": ("graphs as tables", "torch._dynamo.output_graph"),
    "bytecode": ("the bytecode of captured functions, and where captures begin", "torch._dynamo.convert_frame"),
    "trace_source": ("the lines that are traced, as they are", "torch._dynamo.symbolic_convert"),
    "trace_bytecode": ("the instructions that are traced, as they are", "torch._dynamo.symbolic_convert"),
    "dynamo": ("captures and backends, as they begin and end; +dynamo: everything", None),
    "exits": ("how graphs end: what is written back, and where the program goes on", None),
    "steps": ("the instructions that run for real between graphs", None),
}
SPIED = ("trace_source", "trace_bytecode")

own = set()  # topics that were asked for here
_listener = None
_lock = threading.RLock()
_seen = set()  # breaks that were told


class StandardHandler(logging.Handler):
    """Writes to stderr, unless the program has handlers of its own."""

    def emit(self, record):
        if not logging.root.handlers:
            sys.stderr.write(f"[{record.name}] {self.format(record)}\n")


@functools.cache
def prepare_logger():
    logging.getLogger("alternator").addHandler(StandardHandler())


# ---- Switching -----------------------------------------------------------------------------------------------------


def set_logs(*names: str, **switches: bool) -> None:
    """Switch logs on: `set_logs("graph_breaks", "+dynamo", guards=True)`. All others are off; `set_logs()`: all.

    A name with "+" is more talkative, one with "-" is off.
    """
    wanted = set()
    for name in (*names, *(name for name, on in switches.items() if on)):
        topic = name.lstrip("+-")
        if topic not in TOPICS:
            raise ValueError(f"alternator: there is no log {topic!r}. The logs are: {', '.join(TOPICS)}.")
        if not name.startswith("-"):
            wanted |= set(TOPICS) if name == "+dynamo" else {topic}
    wanted -= {name[1:] for name in names if name.startswith("-")}
    with _lock:
        own.clear()
        own.update(wanted)
        _seen.clear()
        for topic in TOPICS:
            logging.getLogger(f"alternator.{topic}").setLevel(logging.DEBUG if topic in wanted else logging.NOTSET)
        if wanted:
            prepare_logger()
        update()


def read_environment():
    """Do what ALTERNATOR_LOGS says; a name that is not known is a warning."""
    names = [name.strip() for name in os.environ.get("ALTERNATOR_LOGS", "").split(",") if name.strip()]
    unknown = [name for name in names if name.lstrip("+-") not in TOPICS]
    if unknown:
        known = ", ".join(TOPICS)
        warnings.warn(f"ALTERNATOR_LOGS: there is no log {', '.join(unknown)}. The logs are: {known}.", stacklevel=2)
    if names:
        set_logs(*(name for name in names if name not in unknown))


@functools.cache
def start():
    """Begin, when the first function is captured."""
    read_environment()
    follow_torch()
    update()


def follow_torch():
    """Hear of torch's settings when they change."""
    from torch._logging import _internal

    theirs = _internal._init_logs  # every way to set them ends there

    @functools.wraps(theirs)
    def set_up_logs(*args, **kwargs):
        theirs(*args, **kwargs)
        update()

    _internal._init_logs = set_up_logs


def find_torch_logger(topic):
    """Return torch's logger for a topic, if it is switched on."""
    logging_of_torch = sys.modules.get("torch._logging")
    module = TOPICS[topic][1]
    if logging_of_torch is None:
        return None
    if module is None:
        logger = logging.getLogger("torch._dynamo")
        return logger if logger.level == logging.DEBUG else None
    logger = logging_of_torch.getArtifactLogger(module, topic)
    return logger if logger.isEnabledFor(logging.DEBUG) else None


def find_loggers(topic):
    found = find_torch_logger(topic)
    ours = [logging.getLogger(f"alternator.{topic}")] if topic in own else []
    return ours + ([found] if found is not None else [])


def update():
    """Listen to events if anything is switched on."""
    global _listener
    with _lock:
        loggers = {topic: find_loggers(topic) for topic in TOPICS}
        loggers = {topic: found for topic, found in loggers.items() if found}
        if _listener is not None:
            _listener.close()
            _listener = None
        if loggers:
            writer = Writer(loggers)
            spy = writer.spy if any(topic in loggers for topic in SPIED) else None
            _listener = events.listen(writer, steps="steps" in loggers, spy=spy)


# ---- Writing -------------------------------------------------------------------------------------------------------


class Writer:
    """Writes events to the loggers of topics."""

    def __init__(self, loggers):
        self.loggers = loggers
        self.local = threading.local()  # the line that is traced

    def __call__(self, event):
        handle = HANDLERS.get(type(event))
        if handle is not None:
            handle(self, event)

    def write(self, topic, text):
        for logger in self.loggers.get(topic, ()):
            logger.debug("%s", text)

    def tell_start(self, event):
        self.local.line = None
        self.write("dynamo", f"Step 1: start tracing {event.function.name} at {event.start}")
        if "bytecode" in self.loggers:
            self.write("bytecode", describe_bytecode(event))

    def tell_end(self, event):
        head = f"capture {event.capture} of {event.function}"
        how = "return" if event.end is None else event.end.what
        self.write(
            "dynamo", f"Step 1: done tracing {event.function.name} at {event.start} ({how}), {event.seconds:.4f} s"
        )
        if event.graph is not None:
            if "graph_code" in self.loggers:
                code = event.graph.print_readable(print_output=False, include_stride=True, include_device=True)
                self.write("graph_code", f"TRACED GRAPH: {head}\n{code}")
            if "graph" in self.loggers:
                self.write("graph", f"TRACED GRAPH: {head}\n{tabulate_graph(event.graph)}")
        if event.captured:
            if "guards" in self.loggers:
                self.write("guards", f"GUARDS: {head}\n{draw_guards(event.guards)}")
            self.write("exits", describe_exit(event))

    def tell_break(self, stop):
        key = (stop.function, stop.reason, stop.detail, stop.frames)
        if key in _seen:
            return
        _seen.add(key)
        if stop.reason == "SkippedFrame":
            self.write("dynamo", f"Skipping frame: {stop.what} in {stop.place}")
        text = messages.write(stop, "User code traceback:")
        self.write("graph_breaks", f"Graph break in user code at {stop.place}\nGraph Break Reason: {text}")

    def tell_backend(self, event):
        self.write("dynamo", f"Step 2: calling compiler function {event.backend} for {event.function}")

    def tell_backend_end(self, event):
        how = f"failed: {event.error}" if event.error else f"done, {event.seconds:.4f} s"
        self.write("dynamo", f"Step 2: compiler function {event.backend} {how}")

    def tell_recompile(self, event):
        where = f"{event.function.file}:{event.function.line}"
        self.write(
            "recompiles",
            f"Recompiling function {event.function.name} in {where}\n"
            f"    triggered by the following guard failure(s):\n    - {event.reason}",
        )

    def tell_limit(self, event):
        self.write(
            "recompiles", f"{event.limit} ({event.value}) reached in {event.function}; last reason: {event.reason}"
        )

    def tell_fallback(self, event):
        self.write("graph_breaks", f"The function {event.function} runs eagerly.\n{messages.write(event.why)}")

    def tell_step(self, event):
        frame = event.frames[-1]
        self.write("steps", f"runs for real: {frame}\n    {frame.source.strip()}")

    def spy(self, code, offset, depth, operands):
        """See an instruction before it is traced."""
        number, opname, argument = read_instruction(code, offset)
        inline = f" (inline depth: {depth})" if depth else ""
        if getattr(self.local, "line", None) != (code, number):
            self.local.line = (code, number)
            frame = events.make_frame(code, offset)
            text = f"TRACE starts_line {frame.file}:{number} in {frame.function}{inline}\n    {frame.source}"
            self.write("trace_source", text)
        self.write("trace_bytecode", f"TRACE {opname} {argument} [{', '.join(operands)}]")


HANDLERS = {
    events.CaptureBegan: Writer.tell_start,
    events.CaptureEnded: Writer.tell_end,
    events.Break: Writer.tell_break,
    events.BackendBegan: Writer.tell_backend,
    events.BackendEnded: Writer.tell_backend_end,
    events.Recompiled: Writer.tell_recompile,
    events.LimitReached: Writer.tell_limit,
    events.FellBack: Writer.tell_fallback,
    events.Stepped: Writer.tell_step,
}


# ---- Texts ---------------------------------------------------------------------------------------------------------


@functools.lru_cache(256)
def read_instructions(code):
    """For each offset (line, name, argument)."""
    found, line = {}, code.co_firstlineno
    for instruction in dis.get_instructions(code):
        line = instruction.positions.lineno or line
        found[instruction.offset] = line, instruction.opname, instruction.argrepr or instruction.arg
    return found


def read_instruction(code, offset):
    return read_instructions(code).get(offset) or (code.co_firstlineno, "?", "")


def describe_bytecode(event):
    frame = event.start
    bytecode = dis.Bytecode(event.code, current_offset=event.offset)
    return f"ORIGINAL BYTECODE {frame.function} {frame.file} line {frame.line}\n{bytecode.dis()}"


def tabulate_graph(module):
    """Write a graph as a table: kind, name, target, arguments."""
    rows = [("opcode", "name", "target", "args", "kwargs")]
    for node in module.graph.nodes:
        rows.append((node.op, node.name, events.name_operation(node), str(node.args), str(node.kwargs)))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    rows.insert(1, tuple("-" * width for width in widths))
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def draw_guards(guards):
    """Draw guards as a tree, each with the line that needed it."""
    children = {}
    for number, guard in enumerate(guards):
        children.setdefault(guard.parent, []).append(number)
    lines = []

    def draw(number, depth):
        guard = guards[number]
        where = f"  # {guard.frame.source.strip()}  # {guard.frame}" if guard.frame is not None else ""
        lines.append(f"{'|  ' * depth}+- {guard.kind}: {guard.text}{where}")
        for child in children.get(number, ()):
            draw(child, depth + 1)

    for root in children.get(None, ()):
        draw(root, 0)
    return "\n".join(lines)


def describe_exit(event):
    stop = event.end
    how = f"{event.function.name} returns" if stop is None else f"before {stop.place}: {stop.what}"
    lines = [f"EXIT: capture {event.capture} of {event.function}: {how}"]
    lines += [f"    {effect}" for effect in event.effects]
    lines += [f"    goes on at {frame}" for frame in event.resumes]
    return "\n".join(lines)
