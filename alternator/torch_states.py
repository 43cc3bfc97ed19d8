"""Calls that set torch's state without passing through torch's dispatch: autocast, inference mode, determinism.

The recorder tells the tracer of each before it happens. A setter is a node, is undone when the trace ends, and done
again behind the graph if the function leaves the state changed: a backend may run the graph's nodes at another time. A
scope is a node where it is entered and one where it is left.

The default dtype is not set by graphs: what a backend makes of `torch.ones(2)` asks for the default when it runs.
"""

from __future__ import annotations

import functools

import torch

from alternator.torch_calls import Unsupported


def enter_autocast(tracer, func, args, kwargs):
    (scope,) = args
    values = (scope.device, scope.fast_dtype, scope._enabled, scope._cache_enabled)
    open_scope(tracer, scope, torch.amp.autocast_mode._enter_autocast, values)


def leave_autocast(tracer, func, args, kwargs):
    close_scope(tracer, args[0], torch.amp.autocast_mode._exit_autocast)


def enter_inference_mode(tracer, func, args, kwargs):
    (scope,) = args
    open_scope(tracer, scope, torch.autograd.grad_mode._enter_inference_mode, (scope.mode,))


def leave_inference_mode(tracer, func, args, kwargs):
    close_scope(tracer, args[0], torch.autograd.grad_mode._exit_inference_mode)


def open_scope(tracer, scope, enter, args):
    tracer.write("call_function", enter, args, {}, None)
    tracer.scopes.append((scope, tracer.writer.calls[-1]))


def close_scope(tracer, scope, leave):
    if not tracer.scopes or tracer.scopes[-1][0] is not scope:
        raise Unsupported("a scope of torch's state is left that was entered outside, or not in the order of entering")
    _, node = tracer.scopes.pop()
    tracer.writer.add_call("call_function", leave, (node,), {}, tracer.writer.sites[-1][0])


def use_deterministic_algorithms(tracer, func, args, kwargs):
    options = dict(zip(("mode",), args, strict=False)) | {"warn_only": False} | kwargs
    now = (options["mode"], options["warn_only"])
    before = (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled())
    tracer.write("call_function", torch._C._set_deterministic_algorithms, now[:1], {"warn_only": now[1]}, None)
    tracer.remember_state(_set_deterministic, before, now)


def _set_deterministic(mode, warn_only):
    torch.use_deterministic_algorithms(mode, warn_only=warn_only)


@functools.cache
def make_notes():
    """Make the table of the calls: function -> note(tracer, func, args, kwargs). purity.py has their rows."""
    return {
        torch.autocast.__enter__: enter_autocast,
        torch.autocast.__exit__: leave_autocast,
        torch.inference_mode.__enter__: enter_inference_mode,
        torch.inference_mode.__exit__: leave_inference_mode,
        torch.use_deterministic_algorithms: use_deterministic_algorithms,
    }


def find_note(func):
    return make_notes()[func]
