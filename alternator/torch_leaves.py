"""Leaves of autograd: Parameters, tensors that are told to require grad; and data that is replaced.

A leaf that a trace makes becomes a further input of the graph (around.py), which writes its data with grad mode off.
Its memory is its own from then on: another tensor that has the same memory in eager execution cannot be used any more.
A leaf with the memory of a tensor from outside is made of that tensor, and neither of them may be written to.

What is changed of a tensor behind the graph (`requires_grad` after a use of it, `data`) closes it: the next use of it
is a break.
"""

from __future__ import annotations

import functools

import torch

from alternator import _capture
from alternator.around import Leaf, make_subclass, set_data, set_flag, set_grad
from alternator.graphs import make_example
from alternator.torch_errors import Unsupported

set_grad_enabled = torch._C._set_grad_enabled


# ---- Rules ---------------------------------------------------------------------------------------------------------


def make_parameter(tracer, func, args, kwargs):
    """Record torch.Tensor._make_subclass, as torch.nn.Parameter calls it."""
    if len(args) != 3 or kwargs or args[0] is not torch.nn.Parameter:
        raise Unsupported("a tensor of another class")
    cls, data, requires_grad = args
    result = tracer.compute(func, (cls, data, requires_grad), {})
    make_leaf(tracer, tracer.know(result), cls, tracer.find(data))
    return result


def make_requiring(tracer, func, args, kwargs):
    """Record a factory with `requires_grad=True`."""
    kwargs = {name: value for name, value in kwargs.items() if name != "requires_grad"}
    result = tracer.write("call_function", func, args, kwargs, tracer.compute(func, args, kwargs))
    return change_flag(tracer, result, True)


def set_requires_grad(tracer, func, args, kwargs):
    """Record x.requires_grad_(flag), or the attribute being set."""
    (tensor, *rest) = args
    (flag,) = rest or kwargs.values() or (True,)
    if not isinstance(flag, bool):
        raise Unsupported("requires_grad is set to a value that is not True or False")
    return change_flag(tracer, tensor, flag)


def change_flag(tracer, tensor, flag):
    known = tracer.find(tensor)
    if known.fake.requires_grad == flag:
        return tensor
    is_input = known.real is not None or known.leaf is not None
    node = tracer.node_of(tensor) if is_input else None
    tracer.alter(known)
    tracer.compute(torch.Tensor.requires_grad_, (tensor, flag), {})
    if not is_input:
        make_leaf(tracer, known, torch.Tensor, known)
    elif not is_used(tracer, node, flag):
        if known.leaf is not None:
            known.leaf.requires_grad = flag
        else:
            tracer.flags[tracer.number_of(known)] = flag
        tracer.writer.show_again(node, known.fake)
    else:
        tracer.close(known, "a tensor whose requires_grad was changed after it had been used")
        tracer.around.actions.append(functools.partial(set_flag, tracer.value_of(known), flag))
    return tensor


def is_used(tracer, node, flag):
    """Tell whether an input could not have had another flag from the start."""
    if node.op != "placeholder":
        return True
    if not flag:  # is there a result with a history?
        users = set(node.users) - tracer.returning
        return any(requires_grad(call.meta.get("example_value")) for call in users)
    enabled = tracer.grad_enabled
    for call in tracer.writer.calls:
        if call.target is set_grad_enabled:
            (enabled,) = call.args
        elif enabled and call in node.users:
            return True
    return False


def requires_grad(example):
    if isinstance(example, tuple):
        return any(map(requires_grad, example))
    return example is not None and example.requires_grad


def replace_data(tracer, func, args, kwargs):
    """Record `x.data = y`."""
    target, source = map(tracer.find, args)
    if target is source:
        raise Unsupported("a tensor's data is set to the tensor itself")
    for tensor in args:
        tracer.node_of(tensor)
    tracer.alter(target)
    tracer.compute(func, args, {})
    tracer.close(target, "a tensor whose data were replaced")
    places = [tracer.value_of(known) for known in (target, source)]
    tracer.around.actions.append(functools.partial(set_data, *places))


def replace_grad(tracer, func, args, kwargs):
    """Record `x.grad = y`, of a leaf."""
    tensor, value = args
    known = tracer.find(tensor)
    if known.real is None and known.leaf is None:
        raise Unsupported("the attribute grad of a tensor is set")
    source = None
    if value is not None:
        fake, own = tracer.fake_of(value), known.fake
        if value is tensor or (fake.shape, fake.dtype, fake.device) != (own.shape, own.dtype, own.device):
            raise Unsupported("the attribute grad of a tensor is set to a tensor of another shape or dtype")
        tracer.node_of(value)
        source = tracer.value_of(tracer.find(value))
    tracer.node_of(tensor)
    tracer.alter(known)
    tracer.grads[id(tensor)] = value
    tracer.around.actions.append(functools.partial(set_grad, tracer.value_of(known), source))


def detach_in_place(tracer, func, args, kwargs):
    """Record x.detach_(): from now on the program's tensor is what x.detach() gives."""
    (tensor,) = args
    known = tracer.find(tensor)
    if known.real is not None or known.leaf is not None:
        raise Unsupported("the graph would change what autograd records")
    if len(tracer.list_sharing(known.fake)) > 1:
        raise Unsupported("detach_() of a tensor with views, which autograd still knows")
    before = known.node
    tracer.compute(func, args, {})
    known.node = tracer.write_nodes("call_method", "detach", (before,))
    known.node.meta["example_value"] = make_example(known.fake)
    return tensor


def tell_history(tracer, func, args, kwargs):
    """Tell that a tensor has no grad_fn. One that has is a thing of its own."""
    if tracer.find(args[0]).fake.grad_fn is not None:
        raise Unsupported("the attribute grad_fn of a tensor")


# ---- Leaves --------------------------------------------------------------------------------------------------------


def make_leaf(tracer, known, cls, data):
    """Make a known tensor, which has the memory of `data`, a leaf that the graph gets as an input."""
    fake = known.fake
    if fake.is_inference() or fake.is_conj() or fake.is_neg() or fake.is_meta:
        raise Unsupported("an autograd leaf that is not an ordinary tensor")
    sharing = [other for other in tracer.list_sharing(fake) if other is not known]
    outside = next((other for other in sharing if other.real is not None), None)
    if outside is not None:
        if outside.fake.dtype != fake.dtype or tracer.has_changed(fake):
            raise Unsupported("an autograd leaf that uses another tensor's memory with other strides")
        tracer.node_of(outside.real)
        _capture.rely_on_offset(fake)
        leaf = Leaf(cls, fake, tracer.number_of(outside))
        tracer.unchanging.append(fake)
        tracer.unusual.append("memory is watched")
    else:
        if fake.nbytes != fake.untyped_storage().nbytes() or not is_dense(fake):
            raise Unsupported("an autograd leaf that uses part of another tensor's memory")
        leaf = Leaf(cls, fake)
        written = data.node
    node = tracer.writer.add_leaf(cls, fake)
    if outside is None:
        write_data(tracer, fake, node, written)
        for other in sharing:
            tracer.close(other, "a tensor whose memory a Parameter or other leaf of autograd has taken", wholly=True)
    known.node, known.leaf = node, leaf
    tracer.around.front.append(leaf)
    tracer.leaves.append(known)


def is_dense(tensor):
    """Tell whether each place between the first element and the last one is one element's."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.size(), strict=True)):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


def write_data(tracer, fake, node, data):
    enabled = torch.is_grad_enabled()
    if enabled:
        tracer.write_nodes("call_function", set_grad_enabled, (False,))
    # Not to the leaf itself, which would count it.
    memory = tracer.write_nodes("call_function", torch._C._autograd._get_data_attr, (node,))
    copy = tracer.write_nodes("call_method", "copy_", (memory, data))
    memory.meta["example_value"] = copy.meta["example_value"] = make_example(fake.detach())
    if enabled:
        tracer.write_nodes("call_function", set_grad_enabled, (True,))


@functools.cache
def make_leaf_rules():
    """Make the rows of the table of rules (torch_calls.py)."""
    return {
        make_subclass: make_parameter,
        torch.Tensor.requires_grad_: set_requires_grad,
        torch.Tensor.detach_: detach_in_place,
    }


ATTRIBUTE_RULES = {
    ("requires_grad", "__set__"): set_requires_grad,
    ("data", "__set__"): replace_data,
    ("grad", "__set__"): replace_grad,
    ("grad_fn", "__get__"): tell_history,
}
