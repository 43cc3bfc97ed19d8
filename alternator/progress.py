"""Progress: what a long compilation is doing, in one line of a terminal, gone when it is done.

Only where stderr is a terminal: not in notebooks, pipes, logs, CI. `ALTERNATOR_PROGRESS` is the number of seconds after
which the line appears, 0: never.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import shutil
import sys
import threading
import time

from alternator import events

DELAY = 1.0  # seconds
PAUSE = 0.5  # between captures that count as one stretch of work
TICK = 0.2
ERASE = "\r\x1b[K"

_line = None


@dataclasses.dataclass
class Activity:
    """What a thread is doing."""

    function: events.Function
    text: str
    began: float


class Line:
    """The line, and the thread that keeps it up to date."""

    def __init__(self, stream, delay):
        self.stream = stream
        self.delay = delay
        self.changed = threading.Condition()
        self.activities = {}  # thread -> its activities, the innermost last
        self.graphs = 0  # of this stretch
        self.since = 0.0  # when the stretch began
        self.ended = 0.0  # when the last capture did
        self.shown = False
        self.ticker = None
        self.process = None

    def __call__(self, event):
        with self.changed:
            stack = self.activities.setdefault(event.thread, [])
            if isinstance(event, events.CaptureBegan):
                self.begin(event, stack)
            elif isinstance(event, events.CaptureEnded) and stack:
                stack.pop()
                self.graphs += event.graph is not None
            elif isinstance(event, events.BackendBegan) and stack:
                count = sum("call" in node.op for node in event.graph.graph.nodes)
                stack[-1].text = f"{event.backend} compiles {count} operations of"
            elif isinstance(event, events.BackendEnded) and stack:
                stack[-1].text = "finishing"
            else:
                return
            if not stack:
                del self.activities[event.thread]
            if not self.activities:
                self.ended = time.monotonic()
            self.draw()

    def begin(self, event, stack):
        now = time.monotonic()
        if not any(self.activities.values()) and now - self.ended > PAUSE:
            self.since, self.graphs = now, 0
        stack.append(Activity(event.function, "capturing", now))
        if self.process != os.getpid():  # the first time, or in a child
            self.process = os.getpid()
            self.ticker = threading.Thread(target=self.tick, name="alternator-progress", daemon=True)
            self.ticker.start()
        self.changed.notify()

    def tick(self):
        """Draw while there is something to draw."""
        with self.changed:
            while True:
                self.changed.wait(TICK if self.activities else None)
                self.draw()

    def draw(self):
        now = time.monotonic()
        if not self.activities:
            if self.shown:
                self.write(ERASE)
                self.shown = False
        elif now - self.since >= self.delay:
            stack = next(reversed(self.activities.values()))
            self.write(ERASE + self.phrase(stack[-1], now - self.since))
            self.shown = True

    def phrase(self, activity, seconds):
        where = f"{activity.function.name} ({os.path.basename(activity.function.file)}:{activity.function.line})"
        graphs = f", {self.graphs} graphs so far" if self.graphs else ""
        text = f"alternator: {activity.text} {where}{graphs}, {seconds:.0f} s"
        return text[: shutil.get_terminal_size().columns - 1]

    def write(self, text):
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):  # closed
            pass


# ---- Switching -----------------------------------------------------------------------------------------------------


def find_delay():
    """Read the setting: seconds, 0 for never."""
    text = os.environ.get("ALTERNATOR_PROGRESS", "")
    try:
        return float(text) if text else DELAY
    except ValueError:
        return 0.0


def is_wanted(stream):
    """Tell whether somebody looks at a terminal."""
    if "ipykernel" in sys.modules or os.environ.get("CI") or os.environ.get("TERM") == "dumb":
        return False
    try:
        return stream is not None and stream.isatty()
    except (AttributeError, ValueError):
        return False


def set_progress(on: bool) -> None:
    """Show what long compilations are doing, in a line on stderr, or do not."""
    global _line
    if _line is not None:
        _line.close()
        _line = None
    if on:
        _line = events.listen(Line(sys.stderr, find_delay() or DELAY), brief=True)


@functools.cache
def start():
    """Begin, when the first function is captured."""
    if find_delay() > 0 and _line is None and is_wanted(sys.stderr):
        set_progress(True)
