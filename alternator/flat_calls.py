"""Functions that a graph calls without looking inside, and that take and give any object that torch's pytree knows.

`torch._dynamo.nonstrict_trace`. The program's objects are taken apart and put together by pytree's own code, which is
traced like the program's; the node gets tensors and constants, and gives a tuple of them.
"""

from __future__ import annotations

import functools

import torch
from torch.utils import _pytree as pytree

from alternator import _capture
from alternator.deferring import CONSTANTS
from alternator.torch_calls import make_table
from alternator.torch_errors import Unsupported


def call_with_leaves(fn):
    """Make the function that stands for `fn` while tracing."""

    def call(*args, **kwargs):
        leaves, spec = pytree.tree_flatten((args, kwargs))
        made, made_spec = call_flat(fn, spec, list_contexts(spec), *leaves)
        return pytree.tree_unflatten(made, made_spec)

    return call


def list_contexts(spec):
    """List what a tree has besides its leaves. Traced: what is given to call_flat() is guarded."""
    found = [spec._context]
    for child in spec._children:
        found += list_contexts(child)
    return found


def call_flat(fn, spec, contexts, *leaves):
    """Call a function whose arguments were taken apart; take apart what it gives."""
    if _capture.is_tracing():  # the tracer is the innermost of torch's function modes
        return torch.overrides.handle_torch_function(call_flat, (), fn, spec, contexts, *leaves)
    args, kwargs = pytree.tree_unflatten(leaves, spec)
    return pytree.tree_flatten(fn(*args, **kwargs))


def record_flat(tracer, _, args, kwargs):
    fn, spec, contexts, *leaves = args
    for leaf in leaves:
        check(leaf, f"{fn.__qualname__} is given")
    if not is_constant(contexts):
        raise Unsupported(f"{fn.__qualname__} gets a tree with an object that is not one of its leaves")
    specs = []

    @functools.wraps(fn)
    def compute(*leaves):
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        made, made_spec = pytree.tree_flatten(fn(*args, **kwargs))
        specs[:] = [made_spec]
        return tuple(made)

    results = tracer.compute(compute, tuple(leaves), {})
    for result in results:
        check(result, f"{fn.__qualname__} gives")
    node = tracer.write_nodes("call_function", compute, tuple(map(functools.partial(write, tracer), leaves)))
    made = [adopt(tracer, node, i, result) for i, result in enumerate(results)]
    node.meta["example_value"] = tuple(
        tracer.example_of(each) if isinstance(each, torch.Tensor) else each for each in made
    )
    return made, specs.pop()


def check(leaf, what):
    if type(leaf) not in CONSTANTS and not isinstance(leaf, torch.Tensor):
        raise Unsupported(f"{what} an object of class {type(leaf).__name__}, which torch's pytree does not know")


def is_constant(context):
    if isinstance(context, (list, tuple)):
        return all(map(is_constant, context))
    return type(context) in CONSTANTS or isinstance(context, type)


def write(tracer, leaf):
    return tracer.node_of(leaf) if isinstance(leaf, torch.Tensor) else leaf


def adopt(tracer, node, index, result):
    if not isinstance(result, torch.Tensor):
        return result
    return tracer.adopt(result, tracer.writer.add_item(node, index, _capture.describe_call(None)[1]))


def prepare():
    """Tell the core and the tracer of call_flat()."""
    make_table()[call_flat] = record_flat
    _capture.add_contract("torch", call_flat)
