"""What TorchDynamo's counters, hooks and messages say of a compiled function's traces, breaks and graphs."""

from __future__ import annotations

import re
import traceback
import types
import warnings

import torch._dynamo
from torch._dynamo import config
from torch._dynamo.output_graph import GraphCompileReason
from torch._dynamo.types import GuardFail
from torch._dynamo.utils import counters

from alternator.errors import make_unsupported
from alternator.recording import Tracer
from alternator.stances import stance

PLACE = re.compile(r"\(at (.*):(\d+) in (.*?);")


class Account:
    """Keeps TorchDynamo's books for one compiled function."""

    def __init__(self, fn, context):
        self.code = find_code(fn)
        self.context = context
        self.captured = None
        self.reason = None  # of the break that ends the trace at hand
        self.miss = None  # why no graph fitted

    def begin(self):
        """Begin a trace, if it may."""
        if not stance.permits_trace(self.code, self.miss):
            return None
        counters["frames"]["total"] += 1
        return Tracer()

    def take_graph(self, module):
        """Count a graph before the backend gets it."""
        counters["frames"]["ok"] += 1
        counters["stats"]["unique_graphs"] += 1
        counters["stats"]["calls_captured"] += sum("call" in node.op for node in module.graph.nodes)
        reason, self.reason = self.reason, None
        if reason is None:
            module.compile_subgraph_reason = GraphCompileReason("return_value", [], graph_break=False)
        else:
            module.compile_subgraph_reason = GraphCompileReason(reason, find_stack(reason))

    def report(self, kind, text):
        getattr(self, f"report_{kind}")(text)

    def report_error(self, text):
        kind, _, rest = text.partition(": ")
        raise make_unsupported(f"{rest}\n\nalternator cannot capture the function as one graph ({kind}).", kind)

    def report_break(self, text):
        counters["graph_break"][text] += 1
        self.reason = text
        if self.context.error_on_graph_break:
            self.report_error(text)

    def report_eager(self, text):
        if not text.startswith("UserException"):
            counters["graph_break"][text] += 1
            warnings.warn(f"alternator: the function runs eagerly. {text}", stacklevel=3)

    def report_recompile(self, text):
        self.miss = text
        if config.error_on_recompile:
            raise torch._dynamo.exc.RecompileError(f"Recompiling function {self.code.co_name}: {text}")
        self.tell_of_failure(text)

    def report_limit(self, text):
        self.tell_of_failure(text)

    def tell_of_failure(self, text):
        hook = (self.context.hooks or {}).get("guard_fail_fn")
        if hook is not None:
            hook(GuardFail(text, self.code))


def find_code(fn):
    while isinstance(fn, types.MethodType):
        fn = fn.__func__
    call = type(fn).__call__
    return getattr(fn, "__code__", None) or getattr(call, "__code__", None) or find_code.__code__


def find_stack(text):
    found = PLACE.search(text)
    if found is None:
        return []
    return [traceback.FrameSummary(found[1], int(found[2]), found[3])]
