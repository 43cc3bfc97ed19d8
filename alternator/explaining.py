"""alternator.explain: what is captured of a call, as data and as text."""

from __future__ import annotations

import dataclasses
import functools
import html
import threading
import typing

import torch

from alternator import compiling, events, messages

if typing.TYPE_CHECKING:
    from alternator.events import Break, CaptureEnded, Guard


@dataclasses.dataclass(eq=False, repr=False)
class Explanation:
    """What was captured of a call: graphs, breaks, guards, times. `print` shows all of it, a notebook folds it up."""

    function: events.Function
    captures: list[CaptureEnded]  # in order, those with a graph or something else to run again
    break_reasons: list[Break]
    fallbacks: list[Break]  # why something runs eagerly
    recompiles: list[str]

    @property
    def graphs(self) -> list[torch.fx.GraphModule]:
        return [capture.graph for capture in self.captures if capture.graph is not None]

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        return len(self.break_reasons)

    @property
    def ops_per_graph(self) -> list[tuple[str, ...]]:
        return [capture.operations for capture in self.captures if capture.graph is not None]

    @property
    def op_count(self) -> int:
        return sum(map(len, self.ops_per_graph))

    @property
    def out_guards(self) -> list[Guard]:
        return [guard for capture in self.captures for guard in capture.guards]

    @property
    def compile_times(self) -> list[tuple[str, float, float]]:
        """For each capture where it began, the seconds of tracing and those of the backend."""
        return [(str(capture.start), capture.seconds, capture.backend_seconds) for capture in self.captures]

    def to_dict(self) -> dict[str, typing.Any]:
        """Give everything as dicts, lists, texts and numbers."""
        return {
            "function": dataclasses.asdict(self.function),
            "graph_count": self.graph_count,
            "graph_break_count": self.graph_break_count,
            "op_count": self.op_count,
            "graphs": [describe_capture(capture) for capture in self.captures],
            "break_reasons": list(map(describe_break, self.break_reasons)),
            "fallbacks": list(map(describe_break, self.fallbacks)),
            "recompiles": list(self.recompiles),
        }

    # ---- Text ------------------------------------------------------------------------------------------------------

    def __str__(self):
        return "\n".join([*self.write_summary(), *self.write_operations(), *self.write_guards(), *self.write_times()])

    def __repr__(self):
        return "\n".join([*self.write_summary(), f"Out Guards: {len(self.out_guards)} (print it to see them)"])

    def write_summary(self):
        yield f"Graph Count: {self.graph_count}"
        yield f"Graph Break Count: {self.graph_break_count}"
        yield f"Op Count: {self.op_count}"
        yield "Break Reasons:"
        for number, stop in enumerate([*self.break_reasons, *self.fallbacks], 1):
            first, *others = messages.describe(stop).splitlines()
            yield f"  Break Reason {number}:"
            yield f"    Reason: {first}"
            yield from (f"    {line}" for line in others)
            yield "    User Stack:"
            yield from (f"    {line}" for line in messages.quote_frames(stop).splitlines()[1:])

    def write_operations(self):
        yield "Ops per Graph:"
        for number, capture in enumerate((each for each in self.captures if each.graph is not None), 1):
            yield f"  Ops {number}: ({describe_lines(capture)})"
            yield from (f"    {operation}" for operation in capture.operations)

    def write_guards(self):
        yield "Out Guards:"
        for number, guard in enumerate(self.out_guards, 1):
            yield f"  Guard {number}:"
            yield f"    Name: {guard.source!r}"
            yield f"    Source: {find_scope(guard)}"
            yield f"    Create Function: {guard.kind}"
            yield f"    Guard Types: {[guard.kind]}"
            yield f"    Code List: {[guard.text]}"
            yield f"    User Line: {guard.frame}"

    def write_times(self):
        yield "Compile Times: (seconds)"
        rows = [("where", "tracing", "backend")]
        rows += [(where, f"{tracing:.4f}", f"{backend:.4f}") for where, tracing, backend in self.compile_times]
        width = max(len(row[0]) for row in rows)
        yield from (f"  {where.ljust(width)}  {tracing:>8}  {backend:>8}" for where, tracing, backend in rows)

    def _repr_html_(self):
        sections = [("Break Reasons", self.write_summary), ("Ops per Graph", self.write_operations)]
        sections += [("Out Guards", self.write_guards), ("Compile Times", self.write_times)]
        head = (
            f"<b>{html.escape(str(self.function))}</b>: {self.graph_count} graphs, {self.graph_break_count} breaks, "
            f"{self.op_count} operations"
        )
        parts = [f"<div>{head}</div>"]
        for title, write in sections:
            text = html.escape("\n".join(write()))
            shown = " open" if title == "Break Reasons" and self.break_reasons else ""
            parts.append(f"<details{shown}><summary>{title}</summary><pre>{text}</pre></details>")
        for number, graph in enumerate(self.graphs, 1):
            code = html.escape(graph.print_readable(print_output=False).strip())
            parts.append(f"<details><summary>Graph {number}</summary><pre>{code}</pre></details>")
        return "\n".join(parts)


# ---- Data ----------------------------------------------------------------------------------------------------------


def describe_frames(frames):
    return [dataclasses.asdict(frame) for frame in frames]


def describe_break(stop):
    names = ("reason", "what", "why", "detail")
    texts = {name: getattr(stop, name) for name in names} | {"hints": list(stop.hints)}
    return texts | {"user_stack": describe_frames(stop.user_frames), "library": describe_frames(stop.library_frames)}


def describe_guard(guard):
    return dataclasses.asdict(guard)


def describe_capture(capture):
    return {
        "start": dataclasses.asdict(capture.start),
        "after_break": capture.after_break,
        "operations": list(capture.operations),
        "code": capture.graph.print_readable(print_output=False) if capture.graph is not None else None,
        "lines": {file: list(lines) for file, lines in capture.lines.items()},
        "guards": list(map(describe_guard, capture.guards)),
        "effects": list(capture.effects),
        "seconds": capture.seconds,
        "backend_seconds": capture.backend_seconds,
        "ends_with": capture.end.what if capture.end is not None else "return",
    }


def describe_lines(capture):
    """Write which lines a graph covers: `file.py:3-7`."""
    return ", ".join(f"{file}:{join_numbers(lines)}" for file, lines in capture.lines.items()) or str(capture.start)


def join_numbers(numbers):
    runs = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def find_scope(guard):
    return "local" if "L['" in guard.source else "global"


# ---- Explaining ----------------------------------------------------------------------------------------------------


class Collector:
    """Listens to the captures of one thread."""

    def __init__(self):
        self.thread = threading.get_ident()
        self.captures, self.breaks, self.fallbacks, self.recompiles = [], {}, [], []

    def __call__(self, event):
        if event.thread != self.thread:
            return
        if isinstance(event, events.CaptureEnded) and event.captured:
            self.captures.append(event)
        elif isinstance(event, events.Break):
            self.breaks.setdefault((event.reason, event.detail, event.frames), event)
        elif isinstance(event, events.FellBack):
            self.fallbacks.append(event.why)
        elif isinstance(event, events.Recompiled):
            self.recompiles.append(event.reason)

    def explain(self, function):
        return Explanation(function, self.captures, list(self.breaks.values()), self.fallbacks, self.recompiles)


def explain(
    fn: typing.Callable[..., object], *, backend: str | typing.Callable[..., typing.Any] = "eager"
) -> typing.Callable[..., Explanation]:
    """Tell what is captured of a call: `alternator.explain(fn)(*args)` makes the call and returns an Explanation.

    Compiles anew; what is already compiled of the function stays as it is.

        found = alternator.explain(model)(x)
        print(found.graph_count, found.graph_break_count)
        print(found)    # all of it
    """
    fn = find_original(fn)
    compiled = compiling.compile(fn, backend=backend)

    @functools.wraps(getattr(fn, "forward", fn))
    def inner(*args, **kwargs):
        collector = Collector()
        with events.listen(collector):
            compiled(*args, **kwargs)
        return collector.explain(events.describe_function(type(fn).__call__.__get__(fn) if is_module(fn) else fn))

    return inner


def make_output(explanation):
    """Make what torch._dynamo.explain gives: its own class, with ours as `explanation`."""
    from torch._dynamo.backends.debugging import ExplainOutput
    from torch._dynamo.output_graph import GraphCompileReason

    ends = [capture for capture in explanation.captures if capture.graph is not None]
    stops = [capture.end for capture in ends if capture.end is not None]
    reasons = [GraphCompileReason(messages.describe(stop), messages.summarize(stop.user_frames)) for stop in stops]
    operations = [[node.target for node in end.graph.graph.nodes if node.op == "call_function"] for end in ends]
    rows = "\n".join(explanation.write_times())
    output = ExplainOutput(
        explanation.graphs,
        explanation.graph_count,
        explanation.graph_count - 1,
        reasons,
        sum(map(len, operations)),
        operations,
        [guard.text for guard in explanation.out_guards],
        rows,
    )
    output.explanation = explanation
    return output


def is_module(fn):
    return isinstance(fn, torch.nn.Module)


def find_original(fn):
    """Find what a compiled function or module was made of."""
    while True:
        if isinstance(fn, compiling._capture.Captured):
            fn = fn.__wrapped__
        elif is_module(fn) and "_orig_mod" in fn._modules:
            fn = fn._modules["_orig_mod"]
        else:
            return fn
