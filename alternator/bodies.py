"""Bodies: stretches of a trace that become graphs of their own, called by a higher-order operator.

The program's functions are traced like any code; what is recorded between `open_body` and the end of the body is then
cut out of the trace's graph. The tensors that it uses from before become its inputs, those that it gives its outputs;
all others are gone. Conventions are TorchDynamo's: `get_attr` nodes for the bodies (`wrap_body_0`), and the operators
`tag_activation_checkpoint`, `autograd_function_apply` and `cond`.

torch_stand_ins.py has the code that calls the functions here, in the place of torch's. A break inside a body is a break
at the call of the operator.
"""

from __future__ import annotations

import enum
import functools
import inspect
import types

import torch
from torch._functorch.autograd_function import autograd_function_apply
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint, noop_context_fn

from alternator import _capture
from alternator.graph_modules import make_graph_module
from alternator.graphs import make_example
from alternator.torch_errors import GivenUp, Unsupported

LOST = "a tensor that was made inside the function of a higher-order operator, and is none of its results"
set_grad_enabled = torch._C._set_grad_enabled


class Body:
    """A stretch of a trace."""

    def __init__(self, tracer):
        self.tracer = tracer
        self.first_call = len(tracer.writer.calls)
        self.first_known = len(tracer.known)
        self.state = self.find_state()
        self.writes = _capture.count_writes()
        self.draws = _capture.count_draws()
        self.versions = [(fake, version_of(fake)) for fake in map(tracer.fake_behind, tracer.known.values())]
        self.first_version = len(tracer.versions)
        self.calls, self.sites = [], []

    def find_state(self):
        """Tell what a body must leave as it was: it is done around graphs, not in them."""
        tracer = self.tracer
        scopes = [id(scope) for scope, _, _ in tracer.scopes]
        counts = len(tracer.around.front), len(tracer.around.actions)
        parts = (*counts, dict(tracer.flags), dict(tracer.states), tracer.dtype)
        return *parts, scopes, torch.is_autocast_enabled("cpu"), torch.is_grad_enabled()

    def has_written(self):
        """Tell whether objects from outside were changed."""
        return _capture.count_writes() != self.writes

    def has_changed_tensors(self):
        """Tell whether tensors from before were changed."""
        met = self.tracer.versions[self.first_version :]  # from outside
        return any(version is None or version_of(fake) != version for fake, version in (*self.versions, *met))

    def close(self):
        if self.find_state() != self.state:
            raise Unsupported("the function of a higher-order operator changes torch's state")
        if self.tracer.has_floats():
            raise GivenUp("a float that changes, beside the function of a higher-order operator")
        writer = self.tracer.writer
        self.calls, self.sites = writer.calls[self.first_call :], writer.sites[self.first_call :]
        del writer.calls[self.first_call :], writer.sites[self.first_call :]

    def list_free(self, outputs=(), known=()):
        """List the nodes from before that the calls use, or that are outputs."""
        own = {*self.calls, *known}
        used = [node for call in self.calls for node in call.all_input_nodes]
        torch.fx.map_arg(outputs, used.append)
        return list(dict.fromkeys(node for node in used if node not in own))

    def make(self, name, inputs, outputs):
        """Make the graph module; return the node that stands for it."""
        graph = torch.fx.Graph()
        copies = {}
        for number, node in enumerate(inputs):
            copy = graph.placeholder(node.name if node not in copies else f"{node.name}_as_{number}")
            copy.meta["example_value"] = node.meta["example_value"]
            copies.setdefault(node, copy)
        for call in self.calls:
            copies[call] = graph.node_copy(call, copies.__getitem__)
        graph.output(torch.fx.map_arg(outputs, copies.__getitem__))
        writer = self.tracer.writer
        inner = {call.target: writer.bodies[call.target] for call in self.calls if call.op == "get_attr"}
        writer.body_sites += zip((copies[call] for call in self.calls), self.sites, strict=True)
        for call in self.calls:  # not users any more
            call.args, call.kwargs = (), {}
        number = sum(each.startswith(name) for each in writer.bodies)
        writer.bodies[f"{name}_{number}"] = module = make_graph_module(graph, inner)
        return module, self.tracer.write_nodes("get_attr", f"{name}_{number}", ())

    def forget(self, kept=()):
        """Have what was made inside not be used any more."""
        own = set(self.calls)
        for known in list(self.tracer.known.values())[self.first_known :]:
            if self.tracer.node_behind(known) in own and known not in kept:
                self.tracer.close(known, LOST, wholly=True)


def version_of(fake):
    return 0 if fake.is_inference() else fake._version


def open_body(tracer, func, args, kwargs):
    return Body(tracer)


def refuse(tracer, func, args, kwargs):
    raise Unsupported(args[0])


# ---- Checkpoints ---------------------------------------------------------------------------------------------------


def end_checkpoint(tracer, func, args, kwargs):
    """End the function of torch.utils.checkpoint; return what it gave."""
    body, result, context_fn = args
    leaves = pytree.tree_leaves(result)
    if not all(leaf is None or isinstance(leaf, (torch.Tensor, int, float, str)) for leaf in leaves):
        raise Unsupported("torch.utils.checkpoint of a function that does not return tensors")
    given = {id(leaf): tracer.find(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)}
    if not any(known.fake.requires_grad for known in given.values()):
        return result  # nothing is kept for a gradient anyway
    if body.has_written() or body.has_changed_tensors():
        raise Unsupported("a function under torch.utils.checkpoint changes an object from outside, and would run twice")
    body.close()
    own = set(body.calls)
    outputs = [known for known in given.values() if tracer.node_behind(known) in own]
    nodes = tuple(known.node for known in outputs)
    free = body.list_free()
    body.forget(outputs)
    module, attribute = body.make("wrap_body", free, nodes)
    if context_fn is not None:  # what to keep for the gradient: it changes no value
        module.meta["_checkpoint_context_fn"] = context_fn
    operator = checkpoint_with_draws if _capture.count_draws() != body.draws else tag_activation_checkpoint
    call = tracer.write_nodes("call_function", operator, (attribute, *free))
    give_out(tracer, call, outputs)
    return result


def give_out(tracer, call, outputs):
    """Have tensors be the items of what a call gives."""
    site = tracer.writer.sites[-1][0]
    for number, known in enumerate(outputs):
        known.node = tracer.writer.add_item(call, number, site)
        known.node.meta["example_value"] = make_example(known.fake)
    call.meta["example_value"] = tuple(known.node.meta["example_value"] for known in outputs)


def checkpoint_with_draws(body, *args):
    """Checkpoint a body that draws random numbers.

    `tag_activation_checkpoint` leaves it to compilers to draw the same numbers again; nobody does if it is just run.
    """
    if torch._C._len_torch_dispatch_stack():
        return tag_activation_checkpoint(body, *args)
    context_fn = body.meta.get("_checkpoint_context_fn", noop_context_fn)
    return checkpoint(body, *args, use_reentrant=False, context_fn=context_fn)


# ---- Branches ------------------------------------------------------------------------------------------------------


def end_branch(tracer, func, args, kwargs):
    """End one of the functions of torch.cond; return what it gave, as one list."""
    body, result = args
    leaves, body.form = pytree.tree_flatten(result)
    if body.has_written() or body.has_changed_tensors():
        raise Unsupported("a branch of torch.cond changes an object from outside")
    body.close()
    own = set(body.calls)
    body.outputs = [tracer.find(leaf) if isinstance(leaf, torch.Tensor) else None for leaf in leaves]
    if not all(known is not None and tracer.node_behind(known) in own for known in body.outputs):
        raise Unsupported("a branch of torch.cond returns something that is not a tensor it computed")
    sharing = [other for known in body.outputs for other in tracer.list_sharing(known.fake) if other is not known]
    if any(other in body.outputs or tracer.node_behind(other) not in own for other in sharing):
        raise Unsupported("a branch of torch.cond returns a view of a tensor")


def end_cond(tracer, func, args, kwargs):
    """Record torch.cond of two branches that have ended; return what it gives."""
    pred, first, second = args
    if first.form != second.form or not all(map(are_alike, first.outputs, second.outputs)):
        raise Unsupported("the branches of torch.cond return different structures, shapes or dtypes")
    free = list(dict.fromkeys([*first.list_free(), *second.list_free()]))
    differentiated = torch.is_grad_enabled() and any(fake.requires_grad for fake in find_fakes(tracer, free))
    if any(known.fake.requires_grad != differentiated for known in first.outputs):
        raise Unsupported("only one branch of torch.cond has a result with a gradient")
    attributes = []
    for name, body in (("cond_true", first), ("cond_false", second)):
        nodes = tuple(known.node for known in body.outputs)
        attributes.append(body.make(name, free, nodes)[1])
        body.forget(first.outputs)
    call = tracer.write_nodes("call_function", cond_op, (tracer.node_of(pred), *attributes, tuple(free)))
    give_out(tracer, call, first.outputs)
    return pytree.tree_unflatten([known.fake for known in first.outputs], first.form)


def are_alike(one, other):
    one, other = one.fake, other.fake
    return all(
        getattr(one, each) == getattr(other, each) for each in ("shape", "dtype", "device", "requires_grad")
    ) and (one.stride() == other.stride())


# ---- torch.autograd.Function ---------------------------------------------------------------------------------------


def is_watched(value):
    """Tell whether changes of an argument would be noticed."""
    plain = (torch.Tensor, int, float, complex, str, bytes, tuple, type(None), types.FunctionType, type, enum.Enum)
    torchs = (torch.dtype, torch.device, torch.layout, torch.memory_format)
    return isinstance(value, (*plain, *torchs)) or _capture.name_of(value) is not None


def list_needs(tracer, func, args, kwargs):
    """Tell of each argument whether it requires grad, and whether there is a gradient to compute."""
    (values,) = args
    if not all(map(is_watched, values)):
        raise Unsupported("a torch.autograd.Function with an argument that the compiled function made and may change")
    needs = tuple(isinstance(value, torch.Tensor) and tracer.fake_of(value).requires_grad for value in values)
    return needs, torch.is_grad_enabled() and any(needs)


def begin_forward(tracer, func, args, kwargs):
    body = Body(tracer)
    body.grad_enabled = torch.is_grad_enabled()
    set_grad_enabled(False)  # not as a node: the operator does it
    body.state = body.find_state()
    return body


def begin_backward(tracer, func, args, kwargs):
    """End the forward function and begin the other one; return the gradients that it gets."""
    forward, outputs = args
    if forward.has_changed_tensors():
        raise Unsupported("a torch.autograd.Function that changes its inputs")
    forward.close()
    gradients = []
    for number, output in enumerate(outputs if isinstance(outputs, tuple) else (outputs,)):
        if not isinstance(output, torch.Tensor):
            if not (output is None or isinstance(output, (int, float, str))):
                raise Unsupported("a torch.autograd.Function that does not return tensors")
            gradients.append(None)
            continue
        fake = tracer.compute(torch.empty_like, (output,), {})
        known = tracer.know(fake)
        known.node = tracer.writer.make_node("placeholder", f"grad_{number}", (), {})
        known.node.meta["example_value"] = make_example(fake)
        gradients.append(fake)
    return Body(tracer), tuple(gradients)


def end_function(tracer, func, args, kwargs):
    """End the backward function; record the call and return its outputs."""
    forward, backward, values, outputs, gradients, found, saved, fixed = args
    backward.close()
    if backward.has_written() or backward.has_changed_tensors():
        raise Unsupported("the backward function of a torch.autograd.Function changes an object from outside")
    every = outputs if isinstance(outputs, tuple) else (outputs,)
    tensors = [output for output in every if isinstance(output, torch.Tensor)]
    inputs = [tracer.node_of(value) for value in values if isinstance(value, torch.Tensor)]
    results = list_results(tracer, found, values)
    grads = [tracer.node_of(each) for each in gradients if each is not None]
    kept = backward.list_free(results, grads)
    wanted = tuple(map(tracer.node_of, tensors))
    lifted = forward.list_free((wanted, kept), inputs)
    fakes = find_fakes(tracer, inputs + lifted)
    by_context = {tracer.known_node(tensor) for tensor in saved}
    options = {
        "non_differentiable_idx": [number for number, output in enumerate(tensors) if is_among(output, fixed)],
        "saved_for_backward_idx": [number for number, node in enumerate(kept) if node in by_context],
    }
    for body in (forward, backward):
        body.forget()
    module, ahead = forward.make("fwd_body", inputs + lifted, (wanted, tuple(kept)))
    back_module, back = backward.make("bwd_body", grads + kept, (*results, *[None] * len(lifted)))
    set_grad_enabled(forward.grad_enabled)
    result = tracer.compute(functools.partial(autograd_function_apply, module, back_module, **options), fakes, {})
    call = tracer.write_nodes("call_function", autograd_function_apply, (ahead, back, *inputs, *lifted), options)
    made = iter(tracer.adopt_all(result, call, tracer.writer.sites[-1][0]))
    given = tuple(next(made) if isinstance(output, torch.Tensor) else output for output in every)
    return given if isinstance(outputs, tuple) else given[0]


def list_results(tracer, found, values):
    """List the nodes of the gradients by those arguments that are tensors."""
    found = found if isinstance(found, tuple) else (found,)
    if any(each is not None for each in found[len(values) :]) or len(found) < len(values):
        raise Unsupported("a torch.autograd.Function that does not return one gradient per argument")
    wanted = [each for each, value in zip(found, values, strict=False) if isinstance(value, torch.Tensor)]
    return [None if each is None else tracer.node_of(each) for each in wanted]


def bind_arguments(tracer, func, args, kwargs):
    """Put arguments that have a name into their places, as torch.autograd.Function.apply does."""
    forward, separate, values, named = args
    signature = inspect.signature(forward)
    if separate:
        bound = signature.bind(*values, **named)
        bound.apply_defaults()
        values, named = bound.args, bound.kwargs
    else:
        for name in list(signature.parameters)[1 + len(values) :]:
            if name not in named:
                break
            values = (*values, named.pop(name))
    if named:
        raise Unsupported("a torch.autograd.Function with keyword arguments")
    return values


def is_among(tensor, tensors):
    return any(tensor is each for each in tensors)


def find_fakes(tracer, nodes):
    by_node = {tracer.node_behind(known): known for known in tracer.known.values()}
    return tuple(by_node[node].fake for node in nodes)


@functools.cache
def make_body_rules():
    """Make the table of what torch_stand_ins.py calls: name -> rule."""
    rules = (open_body, refuse, end_checkpoint, end_branch, end_cond, list_needs, bind_arguments)
    rules += (begin_forward, begin_backward, end_function)
    return {rule.__name__: rule for rule in rules}
