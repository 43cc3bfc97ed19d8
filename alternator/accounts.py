"""What TorchDynamo's counters, hooks and messages say of a compiled function's traces, breaks and graphs."""

from __future__ import annotations

import re
import types
import warnings
import weakref

import torch._dynamo
from torch._dynamo import config, convert_frame
from torch._dynamo.output_graph import GraphCompileReason
from torch._dynamo.types import GuardFail
from torch._dynamo.utils import _get_error_on_graph_break, _set_error_on_graph_break, counters

from alternator.errors import make_unsupported
from alternator.messages import describe, summarize
from alternator.options import say_once
from alternator.recording import Tracer
from alternator.stances import stance

SIZES = re.compile(r"`(.*)` had sizes \[([\d, ]+)\], has now \[([\d, ]+)\]")


class Account:
    """Keeps TorchDynamo's books for one compiled function."""

    def __init__(self, fn, context):
        self.code = find_code(fn)
        self.context = context
        self.captured = None
        self.tracer = lambda: None  # of the trace at hand: a weak reference, it has the program's tensors
        self.reason = None  # of the break that ends the trace at hand
        self.eager_calls = 0  # for the stance eager_then_compile
        self.miss = None  # why no graph fitted

    def begin(self):
        """Begin a trace, if it may."""
        if not stance.permits_trace(self):
            return None
        counters["frames"]["total"] += 1
        tracer = Tracer()
        self.tracer = weakref.ref(tracer)
        return tracer

    def take_graph(self, module):
        """Count a graph before the backend gets it."""
        counters["frames"]["ok"] += 1
        counters["stats"]["unique_graphs"] += 1
        counters["stats"]["calls_captured"] += sum("call" in node.op for node in module.graph.nodes)
        reason, self.reason = self.reason, None
        if reason is None:
            module.compile_subgraph_reason = GraphCompileReason("return_value", [], graph_break=False)
        else:
            module.compile_subgraph_reason = GraphCompileReason(describe(reason), summarize(reason.user_frames))

    def call_bytecode_hooks(self):
        """Call what torch._dynamo.convert_frame.register_bytecode_hook() registered. There is no new bytecode."""
        for hook in convert_frame._bytecode_hooks.values():
            if hook(self.code, self.code) not in (None, self.code):
                say_once("the code that a bytecode hook returns is not used here: no bytecode is rewritten.")

    def report(self, kind, what):
        getattr(self, f"report_{kind}")(what)

    def report_error(self, stop):
        raise make_unsupported(stop, "alternator cannot capture the function as one graph.")

    def report_break(self, stop):
        counters["graph_break"][describe(stop)] += 1
        self.reason = stop
        if self.is_error():
            self.report_error(stop)

    def is_error(self):
        """Tell whether a break is an error where the trace ended: error_on_graph_break()."""
        inside = self.tracer().states.get(_set_error_on_graph_break)
        if inside is not None:
            return inside[1][0]
        return _get_error_on_graph_break()

    def report_eager(self, stop):
        if stop.reason != "UserException":
            counters["graph_break"][describe(stop)] += 1
            warnings.warn(f"alternator: the function runs eagerly. {describe(stop)}", stacklevel=4)

    def report_recompile(self, text):
        self.miss = text
        code = self.code
        message = (
            f"Recompiling function {code.co_name} in {code.co_filename}:{code.co_firstlineno}\n"
            f"    triggered by the following guard failure(s):\n    - {text}"
        )
        if config.error_on_recompile:
            raise torch._dynamo.exc.RecompileError(message)
        self.tell_of_failure(text)

    def report_limit(self, text):
        self.tell_of_failure(text)

    def tell_of_failure(self, text):
        hook = self.context.hooks.get("guard_fail_fn")
        if hook is not None:
            hook(GuardFail(phrase_failure(text), self.code))


class GuardLine(str):
    """A guard as programs get to see it: a line of text."""


def list_guards(compiled):
    """List the guards of all graphs of a compiled function or module."""
    captured = getattr(compiled, "forward", compiled)
    return [GuardLine(row[-1]) for region in captured.regions() for row in region]


def find_code(fn):
    while isinstance(fn, types.MethodType):
        fn = fn.__func__
    call = type(fn).__call__
    return getattr(fn, "__code__", None) or getattr(call, "__code__", None) or find_code.__code__


def phrase_failure(text):
    """Put TorchDynamo's words for a tensor of another size in front of ours: programs look for them."""
    found = SIZES.fullmatch(text)
    if found is None:
        return text
    before, now = (list(map(int, sizes.split(", "))) for sizes in found.group(2, 3))
    if len(before) != len(now):
        return f"tensor '{found[1]}' rank mismatch. expected {len(before)}, actual {len(now)} ({text})"
    for i, (old, new) in enumerate(zip(before, now, strict=True)):
        if old != new:
            return f"tensor '{found[1]}' size mismatch at index {i}. expected {old}, actual {new} ({text})"
    return text
