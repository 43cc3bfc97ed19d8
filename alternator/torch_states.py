"""Calls that set torch's state without passing through torch's dispatch: autocast, inference mode, determinism.

The recorder tells the tracer of each before it happens. A setter is a node, and a scope is two: where it is entered
and where it is left. Whatever a trace changes is put back when it ends, and set behind the graph if the function leaves
it changed, since a backend may run the graph's nodes at another time: by the core (csrc/torch/facts.h), and what is not
the core's by the tracer.

The default dtype is no node: what a backend makes of `torch.ones(2)` or `integers / 2` asks for the default when it
runs, not where the program set it. A graph runs with one default dtype, which is set around it (around.py): a program
that sets another one between two calls of torch is split there.
"""

from __future__ import annotations

import functools

import torch

from alternator import _capture
from alternator.torch_calls import Unsupported


def enter_autocast(tracer, func, args, kwargs):
    (scope,) = args
    write_autocast(tracer, scope, scope.device, scope.fast_dtype, scope._enabled, scope._cache_enabled)


def leave_autocast(tracer, func, args, kwargs):
    scope = args[0]
    if not close_scope(tracer, scope):
        # Entered before this graph: from here on, as it was outside of the scope.
        write_autocast(tracer, None, scope.device, scope.prev_fastdtype, scope.prev, scope.prev_cache_enabled)


def write_autocast(tracer, scope, *values):
    open_scope(tracer, scope, torch.amp.autocast_mode._enter_autocast, values, torch.amp.autocast_mode._exit_autocast)


def enter_inference_mode(tracer, func, args, kwargs):
    (scope,) = args
    mode = torch.autograd.grad_mode
    open_scope(tracer, scope, mode._enter_inference_mode, (scope.mode,), mode._exit_inference_mode)


def leave_inference_mode(tracer, func, args, kwargs):
    if not close_scope(tracer, args[0]):
        raise Unsupported("a scope of torch's state is left that was entered outside")


def open_scope(tracer, scope, enter, args, leave):
    tracer.write("call_function", enter, args, {}, None)
    tracer.scopes.append((scope, tracer.writer.calls[-1], leave))


def close_scope(tracer, scope):
    """Close the innermost scope. False if that is another one, or none was opened."""
    if not tracer.scopes or tracer.scopes[-1][0] is not scope:
        return False
    _, node, leave = tracer.scopes.pop()
    tracer.writer.add_call("call_function", leave, (node,), {}, tracer.writer.sites[-1][0])
    return True


def close_scopes(tracer):
    """Close the scopes that a break is in: the graph leaves the state as it found it."""
    while tracer.scopes:
        close_scope(tracer, tracer.scopes[-1][0])


def use_deterministic_algorithms(tracer, func, args, kwargs):
    import torch._inductor.config as inductor

    options = dict(zip(("mode",), args, strict=False)) | {"warn_only": False} | kwargs
    values = (options["mode"],), {"warn_only": options["warn_only"]}
    tracer.write("call_function", torch._C._set_deterministic_algorithms, *values, None)
    tracer.remember_state(set_inductor_determinism, (inductor.deterministic,), values[0])


def set_deterministic_algorithms(tracer, func, args, kwargs):
    tracer.write("call_function", func, args, kwargs, None)


def set_default_dtype(tracer, func, args, kwargs):
    (dtype,) = args
    if not isinstance(dtype, torch.dtype):
        raise Unsupported("the default dtype is changed")
    outside = torch.get_default_dtype() if tracer.dtype is None else tracer.dtype[0]
    if not tracer.writer.calls:
        tracer.dtype = (outside, dtype)
    tracer.unusual.append("the default dtype is set")
    inside = outside if tracer.dtype is None else tracer.dtype[1]
    tracer.remember_state(func, (torch.get_default_dtype(),), args)  # torch.Storage depends on it as well
    tracer.writer.closed = None if dtype is inside else "the default dtype is another one than earlier in the graph"


def set_switch(tracer, func, args, kwargs):
    """Record a setter of one of torch's switches, which has a getter."""
    getter = SWITCHES[func]
    before = getter()
    _capture.read_setting(getter, before)  # what the program reads from here on is its own
    tracer.write("call_function", func, args, kwargs, None)
    tracer.remember_state(func, (before,), args)


def set_saved_hooks(tracer, func, args, kwargs):
    """Record torch.autograd.graph.disable_saved_tensors_hooks(), which forbids them, and its end."""
    before = hooks_message()
    _capture.read_setting(hooks_message, before)
    tracer.write("call_function", func, args, kwargs, None)
    tracer.remember_state(forbid_saved_hooks, (before,), args or (None,))


def forbid_saved_hooks(message):
    """Forbid hooks on saved tensors; None: allow them."""
    if message is None:
        torch._C._autograd._saved_tensors_hooks_enable()
    else:
        torch._C._autograd._saved_tensors_hooks_disable(message)


hooks_message = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message
# Setter -> getter: which implementations of attention may be used.
SWITCHES = {
    getattr(torch._C, f"_set_sdp_use_{name}"): getattr(torch._C, f"_get_{name}_sdp_enabled")
    for name in ("cudnn", "flash", "mem_efficient", "math", "overrideable")
}


def set_inductor_determinism(mode):
    """Set the part of it that is no state of the core's."""
    torch._inductor.config.deterministic = mode


@functools.cache
def make_notes():
    """Make the table of the calls: function -> note(tracer, func, args, kwargs). contracts.py has their rows."""
    return {
        torch.autocast.__enter__: enter_autocast,
        torch.autocast.__exit__: leave_autocast,
        torch.inference_mode.__enter__: enter_inference_mode,
        torch.inference_mode.__exit__: leave_inference_mode,
        torch.use_deterministic_algorithms: use_deterministic_algorithms,
        torch._C._set_deterministic_algorithms: set_deterministic_algorithms,
        torch._C._set_default_dtype: set_default_dtype,
        torch._C._autograd._saved_tensors_hooks_disable: set_saved_hooks,
        torch._C._autograd._saved_tensors_hooks_enable: set_saved_hooks,
        **dict.fromkeys(SWITCHES, set_switch),
    }


def find_note(func):
    return make_notes()[func]
