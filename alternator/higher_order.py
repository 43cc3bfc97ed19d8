"""Higher-order operators that compile themselves when they are called eagerly: torch.while_loop, scan and so on.

While tracing, torch's own functions call the operator itself, since `is_dynamo_compiling()` says yes. In the operator's
place a trace calls `run(..)`, and that a *native* function: it has TorchDynamo compile the operator, as torch does in
eager execution. (Called directly, such operators have no right gradients and look at nothing that they are given.) A
call of the native function is a break, unless it has a stand-in that captures the operator.
"""

from __future__ import annotations

import torch
from torch._higher_order_ops.associative_scan import associative_scan_op
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.flex_attention import flex_attention
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph_placeholder
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.strict_mode import strict_mode_op
from torch._higher_order_ops.utils import _hop_compile_and_call
from torch._higher_order_ops.while_loop import while_loop_op

from alternator import _capture
from alternator.substitutes import substitute

# By name: TorchDynamo knows those that a function names.
OPERATORS = {
    "associative_scan": associative_scan_op,
    "cond": cond_op,
    "flex_attention": flex_attention,
    "map": map_impl,
    "scan": scan_op,
    "strict_mode": strict_mode_op,
    "while_loop": while_loop_op,
}


def make_native(operator):
    def call(*args, **kwargs):
        return operator(*args, **kwargs)

    def native(*args, **kwargs):
        return _hop_compile_and_call(call, args, kwargs)

    return native


natives = {name: make_native(operator) for name, operator in OPERATORS.items()}


def make_run(native):
    def run(*args, **kwargs):
        return native(*args, **kwargs)

    return run


def call_inside(fn, *args, **kwargs):
    """Stand for operators that call a function and do nothing else."""
    return fn(*args, **kwargs)


def prepare():
    """Tell the core."""
    _capture.add_contract("eager", torch._ops.HigherOrderOperator.__call__)
    for name, operator in OPERATORS.items():
        _capture.add_contract("eager", natives[name])
        substitute(operator, make_run(natives[name]))
    substitute(invoke_subgraph_placeholder, call_inside)
