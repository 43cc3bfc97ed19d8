"""Operators of libraries that a backend may differentiate without a look into the formula for their gradient.

A backend that differentiates a graph runs formulas for gradients on tensors without data, and refuses one that looks at
data. Such an operator is recorded as another one, made here, which computes the same. Its gradient is an operator as
well: when the backward pass runs it computes the original once more, with autograd, and differentiates that.
"""

from __future__ import annotations

import functools

import torch
from torch.utils import _pytree as pytree

library = None  # holds what is registered; made when it is first needed
operators = {}  # overload -> the operator in its place, or None

# Names of the gradient's own arguments, in front of those of the operator.
OWN_ARGUMENTS = "Tensor?[] alternator_grads, int[] alternator_places"


def find_opaque(func):
    """Find the operator to record in the place of one of torch.ops; None if it has to be left as it is."""
    overload = find_overload(func)
    if overload is None:
        return None
    if overload not in operators:
        operators[overload] = make_opaque(overload) if can_repeat(overload) else None
    return operators[overload]


def find_overload(func):
    if isinstance(func, torch._ops.OpOverloadPacket) and len(func.overloads()) == 1:
        return getattr(func, func.overloads()[0])
    return func if isinstance(func, torch._ops.OpOverload) else None


def can_repeat(overload):
    """Tell whether it computes its results from its arguments alone, and new ones."""
    schema = overload._schema
    return (
        not schema.is_mutable
        and all(result.alias_info is None for result in schema.returns)
        and all(isinstance(result.type, torch.TensorType) for result in schema.returns)
        and torch.Tag.nondeterministic_seeded not in overload.tags
        # torch.library has no gradients for tensors that are given by keyword only
        and not any(argument.kwarg_only and "Tensor" in str(argument.type) for argument in schema.arguments)
    )


def make_opaque(overload):
    """Register the operator that stands for another one, and the operator that is its gradient."""
    global library
    if library is None:
        library = torch.library.Library("alternator", "FRAGMENT")
    name = overload.name().replace("::", "_").replace(".", "_")
    signature = str(overload._schema).partition("(")[2]
    arguments = signature.rpartition(" -> ")[0]
    library.define(f"{name}({signature}")
    library.define(f"{name}_gradient({OWN_ARGUMENTS}, {arguments} -> Tensor[]")
    gradient = getattr(torch.ops.alternator, f"{name}_gradient").default
    library.impl(name, overload, "CompositeExplicitAutograd")
    library.impl(f"{name}_gradient", functools.partial(differentiate, overload), "CompositeExplicitAutograd")
    torch.library.register_fake(f"alternator::{name}", overload, lib=library)
    torch.library.register_fake(f"alternator::{name}_gradient", imagine_gradients, lib=library)
    backward = functools.partial(ask_for_gradients, gradient)
    torch.library.register_autograd(f"alternator::{name}", backward, setup_context=keep_arguments, lib=library)
    return getattr(torch.ops.alternator, name).default


def keep_arguments(ctx, inputs, output, keyword_only_inputs=None):
    leaves, ctx.structure = pytree.tree_flatten((tuple(inputs), keyword_only_inputs or {}))
    ctx.save_for_backward(*(leaf if isinstance(leaf, torch.Tensor) else None for leaf in leaves))
    ctx.others = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]


def ask_for_gradients(gradient, ctx, *grads):
    """Call the operator `gradient`, for the arguments that autograd wants to differentiate by."""
    tensors = ctx.saved_tensors
    places = [i for i, tensor in enumerate(tensors) if tensor is not None and tensor.requires_grad]
    leaves = [other if tensor is None else tensor for tensor, other in zip(tensors, ctx.others, strict=True)]
    args, kwargs = pytree.tree_unflatten(leaves, ctx.structure)
    found = [None] * len(leaves)
    for place, grad in zip(places, gradient(list(grads), places, *args, **kwargs), strict=True):
        found[place] = grad
    return pytree.tree_unflatten(found, ctx.structure)[0]


def imagine_gradients(grads, places, *args, **kwargs):
    leaves = pytree.tree_leaves((args, kwargs))
    return [torch.empty_like(leaves[place]) for place in places]


def differentiate(overload, grads, places, *args, **kwargs):
    """Compute the gradients. Those that the formula leaves out are zeros: a graph gives as many tensors each time."""
    leaves, structure = pytree.tree_flatten((args, kwargs))
    wanted = [leaves[place].detach().requires_grad_() for place in places]
    for place, leaf in zip(places, wanted, strict=True):
        leaves[place] = leaf
    args, kwargs = pytree.tree_unflatten(leaves, structure)
    # Operators run below autograd.
    autograd = torch._C._SetExcludeDispatchKeyGuard(torch._C.DispatchKey.AutogradFunctionality, False)
    with torch.enable_grad(), autograd:
        results = overload(*args, **kwargs)
        results = results if isinstance(results, tuple) else (results,)
        pairs = [(a, b) for a, b in zip(results, grads, strict=True) if b is not None and a.requires_grad]
        found = torch.autograd.grad(
            [result for result, _ in pairs], wanted, [grad for _, grad in pairs], allow_unused=True
        )
    # Tensors of their own, laid out as was promised.
    return [
        torch.zeros_like(leaf) if grad is None else torch.empty_like(leaf).copy_(grad)
        for leaf, grad in zip(wanted, found, strict=True)
    ]
