"""Stand-ins (stand_ins.py) for functions of torch's in Python that call functions of the program.

What they call is traced as a body (bodies.py).
"""

from __future__ import annotations

import torch
from torch._functorch import eager_transforms
from torch._functorch.vmap import vmap_impl
from torch.autograd.function import FunctionCtx, _SingleLevelFunction
from torch.nn.modules._functions import BackwardHookFunction
from torch.utils.checkpoint import checkpoint, noop_context_fn

from alternator import _capture, torch_hooks
from alternator.bodies import make_body_rules
from alternator.higher_order import natives
from alternator.loops import make_loop_rules
from alternator.substitutes import call_tracer
from alternator.torch_hooks import HOOK_STAND_INS
from alternator.transforms import make_transform_rules


def make_call(rule):
    def name(*args):
        raise AssertionError("it is the tracer's")

    return call_tracer(name, rule)


rules = make_body_rules() | make_transform_rules() | make_loop_rules()
calls = {name: make_call(rule) for name, rule in rules.items()}
begin_loop, end_body, end_while = calls["begin_loop"], calls["end_body"], calls["end_while"]
end_scan, end_map = calls["end_scan"], calls["end_map"]
begin_vmap, end_vmap, begin_grad, end_grad = (
    *(calls["begin_vmap"], calls["end_vmap"]),
    *(calls["begin_grad"], calls["end_grad"]),
)
open_body, refuse, end_checkpoint = calls["open_body"], calls["refuse"], calls["end_checkpoint"]
end_branch, end_cond = calls["end_branch"], calls["end_cond"]
list_needs, bind_arguments = calls["list_needs"], calls["bind_arguments"]
begin_forward, begin_backward, end_function = (
    *(calls["begin_forward"], calls["begin_backward"]),
    calls["end_function"],
)
no_setup = _SingleLevelFunction.setup_context


def run_checkpoint(
    function,
    *args,
    use_reentrant=None,
    context_fn=noop_context_fn,
    determinism_check="default",
    debug=False,
    early_stop=True,
    preserve_rng_state=True,
    **kwargs,
):
    if use_reentrant is not False or debug or not preserve_rng_state:
        refuse("torch.utils.checkpoint with other settings than use_reentrant=False and context_fn")
    body = open_body()
    return end_checkpoint(body, function(*args, **kwargs), None if context_fn is noop_context_fn else context_fn)


def cond(pred, true_fn, false_fn, operands=()):
    if isinstance(pred, (bool, int, float)):
        return true_fn(*operands) if pred else false_fn(*operands)
    if not isinstance(pred, torch.Tensor):
        refuse("torch.cond of something else than a number or tensor")
    first = open_body()
    end_branch(first, true_fn(*operands))
    second = open_body()
    end_branch(second, false_fn(*operands))
    return end_cond(pred, first, second)


def run_while_loop(cond_fn, body_fn, carried_inputs, additional_inputs):
    values = (*carried_inputs, *additional_inputs)
    if additional_inputs:
        refuse("torch.while_loop with additional inputs")
    test, given = begin_loop((), values)
    end_body(test, cond_fn(*given))
    body, given = begin_loop((), values)
    end_body(body, body_fn(*given))
    return end_while(test, body)


def run_scan(combine_fn, init, xs, additional_inputs):
    if additional_inputs or not xs:
        refuse("scan with additional inputs, or over nothing")
    body, given = begin_loop(tuple(xs), tuple(init))
    end_body(body, combine_fn(*given[len(xs) :], *given[: len(xs)]))
    return end_scan(body, len(init), xs[0].shape[0])


def run_map(f, xs, args):
    body, given = begin_loop(tuple(xs), tuple(args))
    end_body(body, f(*given))
    return end_map(body, len(xs), xs[0].shape[0])


def run_vmap(func, in_dims, out_dims, randomness, chunk_size, *args, **kwargs):
    if chunk_size is not None:
        refuse("torch.vmap in chunks")
    body, given = begin_vmap(in_dims, args)
    return end_vmap(body, func(*given, **kwargs), out_dims, randomness)


def run_grad(func, argnums, has_aux, args, kwargs):
    body, given = begin_grad(argnums, args)
    return end_grad(body, func(*given, **kwargs), argnums, has_aux, False)


def run_grad_and_value(func, argnums, has_aux, args, kwargs):
    body, given = begin_grad(argnums, args)
    return end_grad(body, func(*given, **kwargs), argnums, has_aux, True)


class Context(FunctionCtx):
    """What the functions of a torch.autograd.Function get as `ctx`."""

    def __init__(self, needs_input_grad):
        self.needs_input_grad = needs_input_grad
        self.to_save = ()
        self.non_differentiable = ()
        self.dirty_tensors = ()
        self.materialize_grads = True

    @property
    def saved_tensors(self):
        return self.to_save


def apply(cls, *args, **kwargs):
    if cls is BackwardHookFunction:
        refuse("backward hooks of modules, for which torch looks at what autograd recorded")
    separate = cls.setup_context is not no_setup
    if kwargs or separate:
        args = bind_arguments(cls.forward, separate, args, kwargs)
    needs, differentiated = list_needs(args)
    ctx = Context(needs)
    if not differentiated:
        with torch.no_grad():
            return run_forward(cls, ctx, args, separate, without_history)
    forward = begin_forward()
    outputs = run_forward(cls, ctx, args, separate, torch.Tensor.view_as)
    if ctx.dirty_tensors or not ctx.materialize_grads:
        refuse("a torch.autograd.Function that changes its inputs, or takes None for gradients")
    backward, gradients = begin_backward(forward, outputs)
    found = cls.backward(ctx, *gradients)
    return end_function(
        forward, backward, args, outputs, gradients, found, ctx.to_save or (), ctx.non_differentiable or ()
    )


def run_forward(cls, ctx, args, separate, alias):
    outputs = cls.forward(*args) if separate else cls.forward(ctx, *args)
    if separate:
        cls.setup_context(ctx, args, outputs)
    every = outputs if isinstance(outputs, tuple) else (outputs,)
    dirty = ctx.dirty_tensors or ()
    for tensor in dirty:
        if not holds(args, tensor) or not holds(every, tensor):
            refuse("a torch.autograd.Function that marks a tensor as dirty which is not both an input and an output")
    if isinstance(outputs, tuple):
        return tuple([make_own(output, args, dirty, alias) for output in outputs])
    return make_own(outputs, args, dirty, alias)


def make_own(output, args, dirty, alias):
    """Do to an output what torch does: an input becomes a tensor of its own, unless it is marked as dirty."""
    if not isinstance(output, torch.Tensor):
        return output
    if holds(args, output):
        return output if holds(dirty, output) and not output.requires_grad else alias(output, output)
    if output.requires_grad:
        refuse("a torch.autograd.Function that gives a tensor which requires grad and is none of its inputs")
    return output


def without_history(tensor, _):
    """Make the alias of an input that torch gives out where there is no gradient to compute."""
    return tensor.detach() if tensor.requires_grad else tensor.view_as(tensor)


def holds(tensors, tensor):
    return any(each is tensor for each in tensors)


TORCH_STAND_INS = HOOK_STAND_INS | {
    checkpoint: run_checkpoint,
    torch.cond: cond,
    torch.autograd.Function.apply.__func__: apply,
    natives["while_loop"]: run_while_loop,
    natives["scan"]: run_scan,
    natives["map"]: run_map,
    vmap_impl: run_vmap,
    eager_transforms.grad_impl: run_grad,
    eager_transforms.grad_and_value_impl: run_grad_and_value,
}


def allow_calls():
    """Let traces call the functions above that are the tracer's."""
    for call in calls.values():
        _capture.add_contract("torch", call)
    torch_hooks.allow_calls()
