"""torch._dynamo.comptime: code that runs while a function is traced, and looks at the trace."""

from __future__ import annotations

import builtins

from alternator import _capture
from alternator.torch_calls import Unsupported


class ComptimeContext:
    """What a function that is given to comptime() gets."""

    def __init__(self, tracer):
        self.tracer = tracer

    def graph(self):
        """Give the nodes recorded so far, in order."""
        return [*self.tracer.writer.placeholders, *self.tracer.writer.calls]

    def print_graph(self, *, verbose=True, file=None):
        for node in self.graph():
            builtins.print(node.format_node(), file=file)

    def print_bt(self, *, file=None, stacklevel=0):
        builtins.print(_capture.current_place(), file=file)

    def print_guards(self, *, file=None):
        for known, _ in self.tracer.met:
            builtins.print(known.name, file=file)

    def print(self, value, *, file=None):
        builtins.print(repr(value), file=file)

    def graph_break(self, msg="ComptimeContext.graph_break"):
        raise Unsupported(f"comptime.graph_break({msg!r})")

    def sleep(self, seconds):
        import time

        time.sleep(seconds)


def run_comptime(tracer, func, args, kwargs):
    """Run a function of the program's while tracing."""
    (fn,) = args[:1]
    fn(ComptimeContext(tracer))


# What the wrappers on `comptime` come to.
ACTIONS = {
    "print_graph": lambda context: context.print_graph(),
    "print_guards": lambda context: context.print_guards(),
    "print_bt": lambda context: context.print_bt(),
    "graph_break": lambda context: context.graph_break(),
    "breakpoint": lambda context: builtins.breakpoint(),
}


def make_action(name):
    def run_action(tracer, func, args, kwargs):
        ACTIONS[name](ComptimeContext(tracer))

    return run_action
