"""Operators that a backend cannot trace, where it refused a graph.

Backends that differentiate a graph run each operator, and its formula for the gradient, on tensors without data. Where
one looks at data nonetheless they refuse the graph as a whole, and do not say which it was. So each operator of a
refused graph is tried by itself. Where it is the formula that fails, another operator hides it if that can be done
(opaque.py); others that fail run outside of graphs from then on, and the rest is compiled.
(TorchDynamo looks for a shorter beginning of the function that the backend takes, statement by statement.)
"""

from __future__ import annotations

import torch
from torch._subclasses import FakeTensorMode

from alternator.opaque import find_opaque
from alternator.torch_errors import Unsupported


def find_untraceable(module):
    """Find the calls in a graph that cannot be traced by themselves: function, as torch dispatches it -> its rule."""
    found = {}
    for node in module.graph.nodes:
        if node.op == "call_function":
            func = node.target
        elif node.op == "call_method":
            func = getattr(torch.Tensor, node.target, None)
        else:
            continue
        if func not in found:
            rule = try_node(node)
            if rule is not None:
                found[func] = rule
    return found


def try_node(node):
    """Run the call of a node and its formula for the gradient; give the rule for the call if one cannot be traced."""
    from torch._dynamo.exc import exceptions_allowed_to_be_fallback

    rule = refuse
    try:
        with FakeTensorMode(), torch.random.fork_rng(devices=()), torch.enable_grad():
            outputs, leaves = run(node)
            rule = record_undifferentiated
            if outputs and leaves:
                torch.autograd.grad(outputs, leaves, [torch.ones_like(each) for each in outputs], allow_unused=True)
    except exceptions_allowed_to_be_fallback:
        return rule
    except Exception:  # another reason than the one that the graph was refused for
        return None
    return None


def run(node):
    """Run the call of a node; give those of its results that can be differentiated, and by which tensors."""
    leaves = []
    args, kwargs = torch.fx.map_arg(
        (node.args, node.kwargs), lambda other: make_value(other.meta["example_value"], leaves)
    )
    if node.op == "call_method":
        outputs = getattr(args[0], node.target)(*args[1:], **kwargs)
    else:
        outputs = node.target(*args, **kwargs)
    return [each for each in list_tensors(outputs) if each.requires_grad], leaves


def list_tensors(result):
    results = result if isinstance(result, (tuple, list)) else [result]
    return [each for each in results if isinstance(each, torch.Tensor)]


def make_value(example, leaves):
    """Make a tensor of torch's own fakes, or a tuple of them, as a call in the graph gives."""
    if isinstance(example, tuple):
        return tuple(make_value(each, leaves) for each in example)
    if example is None:
        return None
    options = {"dtype": example.dtype, "device": example.device, "requires_grad": example.requires_grad}
    tensor = torch.empty_strided(example.size(), example.stride(), **options)
    if not tensor.requires_grad:
        return tensor
    leaves.append(tensor)
    return tensor.clone()  # a call may write to it


def refuse(tracer, func, args, kwargs):
    raise Unsupported(f"backends cannot trace {getattr(func, '__name__', func)}")


def record_undifferentiated(tracer, func, args, kwargs):
    """Record a call whose formula for the gradient backends cannot trace, if it is not needed or can be hidden."""
    result = tracer.compute(func, args, kwargs)
    if any(each.requires_grad for each in list_tensors(result)):
        opaque = find_opaque(func)
        if opaque is not None:
            return tracer.write("call_function", opaque, args, kwargs, result)
        raise Unsupported(f"backends cannot trace the backward formula of {getattr(func, '__name__', func)}")
    return tracer.record_call(func, args, kwargs, result)
