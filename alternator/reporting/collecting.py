"""Listens to what happens while a program runs, and keeps it as plain data of bounded size.

Nothing of the program is kept alive: a graph is described when the backend gets it, a frame is a file and a line.
What is too much is counted and left out, and the page says so (`notes`).
"""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
import sys
import threading
import time

from alternator import events
from alternator.reporting.graphs import describe_graph
from alternator.reporting.sources import Sources

MAX_CAPTURES = 2_000
MAX_GRAPHS = 200  # with code and drawing
MAX_NODES = 40_000  # of all graphs together
MAX_CODE = 4_000_000  # characters of all graphs together
MAX_GUARDS = 20_000  # different ones
MAX_BREAKS = 1_000  # groups
MAX_RECOMPILES = 2_000
MAX_CALLS = 50_000  # calls of graphs that are kept before they are merged for the timeline
CALLS_OF_MODULES = "torch/nn/modules/module.py"  # around every module, and no part of anybody's program
SHOWN_CALLS = 2_000  # bars for them on the timeline


class Collector:
    """Turns events into rows."""

    def __init__(self):
        self.lock = threading.Lock()
        self.began = time.perf_counter()
        self.started = datetime.datetime.now().astimezone()
        self.sources = Sources(events.find_library)
        self.functions = {}  # events.Function -> its number
        self.captures = {}  # number -> row
        self.graphs = {}  # what makes graphs equal -> number
        self.graph_rows = []
        self.breaks = {}  # what makes breaks equal -> row
        self.guards = {}  # what makes guards equal -> (its number, numbers of captures)
        self.recompiles = []
        self.limits = []
        self.fallbacks = []
        self.calls = {}  # capture -> [count, seconds, shortest, longest]
        self.call_times = []  # (capture, began, seconds)
        self.left_out = {}  # what -> how many
        self.room = {"nodes": MAX_NODES, "code": MAX_CODE}
        self.threads = {}
        self.own_seconds = {}  # capture -> what describing its graph took, which is no part of the capture
        self.handlers = {
            events.CaptureBegan: self.take_beginning,
            events.CaptureEnded: self.take_ending,
            events.BackendBegan: self.take_graph,
            events.BackendEnded: self.take_backend,
            events.Break: self.take_break,
            events.Recompiled: self.take_recompile,
            events.LimitReached: self.take_limit,
            events.FellBack: self.take_fallback,
            events.GraphCalled: self.take_call,
        }
        self.listener = events.listen(self.take, calls=True)

    def stop(self):
        self.listener.close()

    def take(self, event):
        handler = self.handlers.get(type(event))
        if handler is not None:
            with self.lock:
                handler(event)

    # ---- Events ----------------------------------------------------------------------------------------------------

    def take_beginning(self, event):
        if len(self.captures) >= MAX_CAPTURES:
            return self.leave_out("captures")
        self.captures[event.capture] = {
            "id": event.capture,
            "fn": self.number_function(event.function),
            "thread": self.threads.setdefault(event.thread, len(self.threads)),
            "began": self.since_start(event.time),
            "start": self.find_start(event),
            "depth": len(event.frames) - 1,
            "afterBreak": event.after_break,
            "graph": None,
            "backend": None,
        }

    def take_graph(self, event):
        row = self.captures.get(event.capture)
        if row is None:
            return
        graph = describe_graph(event.graph)
        for file, line, _ in graph.pop("places"):
            self.cover(file, line, event.capture)
        for node in graph["nodes"]:
            if node[6] is not None:
                node[6] = [self.sources.number(node[6][0]), node[6][1]]
        row["graph"] = self.keep_graph(graph)
        row["operations"] = graph["operations"]
        now = time.perf_counter()
        row["backend"] = {"name": event.backend, "began": self.since_start(now), "seconds": None, "error": ""}
        self.own_seconds[event.capture] = now - event.time

    def keep_graph(self, graph):
        """Keep a graph once, however often it was captured; without drawing or code where there is no room left."""
        key = graph["code"], str(graph["nodes"])
        if key in self.graphs:
            return self.graphs[key]
        self.graphs[key] = number = len(self.graph_rows)
        full = number < MAX_GRAPHS
        if not full or len(graph["nodes"]) > self.room["nodes"]:
            graph |= {"nodes": [], "stacks": [], "nodesCut": len(graph["nodes"])}
            self.leave_out("drawings of graphs")
        if not full or len(graph["code"]) > self.room["code"]:
            graph |= {"code": "", "codeCut": len(graph["code"])}
            self.leave_out("graphs' code")
        self.room["nodes"] -= len(graph["nodes"])
        self.room["code"] -= len(graph["code"])
        self.graph_rows.append(graph)
        return number

    def take_backend(self, event):
        row = self.captures.get(event.capture)
        if row is not None and row["backend"] is not None:
            row["backend"] |= {"seconds": event.seconds, "error": event.error}

    def take_ending(self, event):
        row = self.captures.get(event.capture)
        if row is None:
            return
        for file, lines in event.lines.items():
            for line in lines:
                self.cover(file, line, event.capture)
        row |= {
            "seconds": event.seconds - self.own_seconds.pop(event.capture, 0.0),
            "ended": self.since_start(event.time),
            "captured": event.captured,
            "operations": len(event.operations) if event.captured else row.get("operations", 0),
            "guards": len(event.guards),
            "effects": list(event.effects[:50]),
            "resumes": self.sources.place(event.resumes[-1]) if event.resumes else None,
            "end": self.number_break(event.end) if event.end is not None else None,
            "conduct": event.conduct,
        }
        if event.end is not None and event.end.place is not None:
            row["endPlace"] = self.sources.place(event.end.place)
        for guard in event.guards:
            self.keep_guard(guard, event.capture)

    def keep_guard(self, guard, capture):
        place = self.sources.place(guard.frame)
        key = guard.text, guard.kind, str(place)
        if key not in self.guards:
            if len(self.guards) >= MAX_GUARDS:
                return self.leave_out("guards")
            self.guards[key] = {"text": guard.text, "kind": guard.kind, "place": place, "captures": []}
        seen = self.guards[key]["captures"]
        if not seen or seen[-1] != capture:
            seen.append(capture)

    def take_break(self, event):
        number = self.number_break(event)
        if number is not None:
            row = list(self.breaks.values())[number]
            row["count"] += 1
            row["fns"].setdefault(self.number_function(event.function), None)

    def number_break(self, event):
        """Find the group of a break: the same reason at the same place, reached the same way."""
        key = event.reason, event.frames, event.idle, event.error
        if key not in self.breaks:
            if len(self.breaks) >= MAX_BREAKS:
                return self.leave_out("breaks")
            number = len(self.breaks)
            self.breaks[key] = {
                "number": number,
                "reason": event.reason,
                "what": event.what,
                "why": event.why,
                "hints": list(event.hints),
                "detail": event.detail,
                "place": self.sources.place(event.place),
                "frames": [self.sources.place(frame) for frame in event.frames],
                "idle": event.idle,
                "error": event.error,
                "count": 0,
                "fns": {},
            }
            if event.place is not None:
                for frame in {event.place, event.frames[-1]}:
                    self.sources.mark_break(frame.file, frame.line, number)
        return self.breaks[key]["number"]

    def take_recompile(self, event):
        self.append(self.recompiles, "recompilations", self.describe(event, reason=event.reason, guard=event.guard))

    def take_limit(self, event):
        row = self.describe(event, reason=event.reason, limit=event.limit, value=event.value)
        self.append(self.limits, "calls beyond a limit", row)

    def take_fallback(self, event):
        row = self.describe(event, group=self.number_break(event.why))
        self.append(self.fallbacks, "calls that ran eagerly", row)

    def take_call(self, event):
        seconds = event.seconds
        stats = self.calls.setdefault(event.capture, [0, 0.0, seconds, seconds])
        stats[0] += 1
        stats[1] += seconds
        stats[2] = min(stats[2], seconds)
        stats[3] = max(stats[3], seconds)
        if len(self.call_times) < MAX_CALLS:
            self.call_times.append((event.capture, event.time - self.began, seconds))

    # ---- Parts -----------------------------------------------------------------------------------------------------

    def find_start(self, event):
        """Give the place where a capture begins; for a module that is its forward(), not torch's code around it."""
        if event.after_break:
            return self.sources.place(event.frames[-1])
        function = event.function
        return [self.sources.want(function.file, function.line), function.line, function.name, None, None, None]

    def cover(self, file, line, capture):
        if not file.endswith(CALLS_OF_MODULES):
            self.sources.cover(file, line, capture)

    def describe(self, event, **fields):
        return {
            "fn": self.number_function(event.function),
            "capture": event.capture,
            "time": self.since_start(event.time),
            **fields,
        }

    def number_function(self, function):
        return self.functions.setdefault(function, len(self.functions))

    def since_start(self, moment):
        return round(moment - self.began, 6)

    def append(self, rows, what, row):
        if len(rows) < MAX_RECOMPILES:
            rows.append(row)
        else:
            self.leave_out(what)

    def leave_out(self, what):
        self.left_out[what] = self.left_out.get(what, 0) + 1

    # ---- The result ------------------------------------------------------------------------------------------------

    def collect(self, title, status=None) -> dict:
        """Give everything seen so far, ready for json.dumps()."""
        with self.lock:
            seconds = self.since_start(time.perf_counter())
            notes = [
                f"{count:,} {what} were left out to keep this page small." for what, count in self.left_out.items()
            ]
            calls, merged = merge_calls(self.call_times, seconds)
            kept = len(self.call_times)
            total = sum(stats[0] for stats in self.calls.values())
            if total > kept:
                notes.append(
                    f"The timeline shows the first {kept:,} of {total:,} calls; the figures count all of them."
                )
            return {
                "title": title,
                "command": sys.argv,
                "started": self.started.isoformat(timespec="seconds"),
                "seconds": seconds,
                "status": status,
                "versions": find_versions(),
                "functions": [
                    {"name": fn.name, "place": [self.sources.number(fn.file), fn.line]} for fn in self.functions
                ],
                "captures": list(self.captures.values()),
                "graphs": list(self.graph_rows),
                "breaks": [row | {"fns": list(row["fns"])} for row in self.breaks.values()],
                "guards": list(self.guards.values()),
                "recompiles": list(self.recompiles),
                "limits": list(self.limits),
                "fallbacks": list(self.fallbacks),
                "calls": {capture: list(stats) for capture, stats in self.calls.items()},
                "callBars": calls,
                "callsMerged": merged,
                "threads": len(self.threads),
                "files": self.sources.collect(notes),  # last: the rows above give files their numbers
                "notes": notes,
            }


def merge_calls(calls, seconds):
    """Merge calls of the same graph that stand close together: [capture, began, ended, how many] each."""
    nearest = 0.0
    bars = [[capture, began, began + spent, 1] for capture, began, spent in calls]
    merged = False
    while len(bars) > SHOWN_CALLS:
        merged = True
        nearest = max(nearest * 2, seconds / (4 * SHOWN_CALLS))
        open_bars, shorter = {}, []
        for capture, began, ended, count in bars:
            last = open_bars.get(capture)
            if last is not None and began - last[2] < nearest:
                last[2] = max(last[2], ended)
                last[3] += count
            else:
                open_bars[capture] = bar = [capture, began, ended, count]
                shorter.append(bar)
        bars = shorter
        if nearest > seconds:
            break
    return [[capture, round(began, 6), round(ended, 6), count] for capture, began, ended, count in bars], merged


def find_versions():
    import alternator

    versions = {"alternator": alternator.__version__, "Python": platform.python_version()}
    try:
        versions["torch"] = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        pass
    return versions
