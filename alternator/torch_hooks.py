"""Hooks of autograd on tensors that a graph does not make: they are registered behind it.

What autograd does with a tensor from outside, or with a leaf, is no part of the graph: it does not matter whether a
hook is there before the graph runs or after, as long as the tensor keeps its history. Hooks on what the graph itself
computes are breaks: a backend's graph gives the gradients of its inputs, and passes by whatever was in between.
"""

from __future__ import annotations

import torch
from torch.utils.hooks import RemovableHandle

from alternator import _capture
from alternator.substitutes import make_call
from alternator.torch_errors import Unsupported

# The originals, which stand-ins take the place of while tracing.
add_hook, add_late_hook = torch.Tensor.register_hook, torch.Tensor.register_post_accumulate_grad_hook


class Handle:
    """What a trace has in the place of a RemovableHandle: the region's end makes the real one.

    It is not derived from that class, which counts its objects and so is another one at each call.
    """

    def remove(self):
        remove_handle(self)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        remove_handle(self)

    def __getattr__(self, name):
        return remove_handle(None)


def keep_gradient(tensor):
    tensor.retain_grad()


# ---- Stand-ins -----------------------------------------------------------------------------------------------------


def register_hook(self, hook):
    handle = Handle()
    call_behind(handle, add_hook, self, hook)
    return handle


def register_post_accumulate_grad_hook(self, hook):
    handle = Handle()
    call_behind(handle, add_late_hook, self, hook)
    return handle


def retain_grad(self):
    call_behind(None, keep_gradient, self)


# ---- Rules ---------------------------------------------------------------------------------------------------------


def put_behind(tracer, func, args, kwargs):
    handle, function, tensor, *others = args
    known = tracer.find(tensor)
    if known.real is None and known.leaf is None:
        raise Unsupported("an autograd hook on a tensor that the function computed")
    fake = known.fake
    if not fake.requires_grad or not all(map(callable, others)) or (function is add_late_hook and not fake.is_leaf):
        raise Unsupported("an autograd hook that torch would refuse")
    if fake.is_leaf and function is keep_gradient:
        return
    if not fake.is_leaf:
        if tracer.has_changed(fake):
            raise Unsupported("an autograd hook on a tensor that was changed in place")
        tracer.unchanging.append(fake)
        tracer.unusual.append("memory is watched")
    _capture.call_behind(handle if handle is not None else object(), function, (tensor, *others))


def refuse_use(tracer, func, args, kwargs):
    raise Unsupported("the handle of an autograd hook that was registered in the same graph")


call_behind = make_call(None, put_behind)
remove_handle = make_call(RemovableHandle.remove, refuse_use)

HOOK_STAND_INS = {
    add_hook: register_hook,
    add_late_hook: register_post_accumulate_grad_hook,
    torch.Tensor.retain_grad: retain_grad,
}


def allow_calls():
    """Let traces call the functions above that are the tracer's."""
    for call in (call_behind, remove_handle):
        _capture.add_contract("torch", call)
