"""Transforms of torch.func: vmap, grad and grad_and_value.

The function that is transformed is traced as a body (bodies.py), with tensors of its own in the place of its arguments:
for vmap one of the batch. The graph calls the transform of the body; what that gives is computed on fakes by torch's
own transforms.
"""

from __future__ import annotations

import functools

import torch
from torch._functorch.vmap import _process_batched_inputs, lazy_load_decompositions
from torch.utils import _pytree as pytree

from alternator.bodies import Body, find_fakes, set_grad_enabled
from alternator.graphs import make_example
from alternator.torch_errors import Unsupported


class Transformed(Body):
    """The function of a transform."""

    def begin(self, leaves, form, make):
        """Give the arguments: `make(leaf, number)` makes what stands for a tensor; other things stay as they are."""
        self.given, self.stands = [], []  # the nodes of the tensors, and of what stands for them
        self.numbers = []  # of those leaves
        values = []
        for number, leaf in enumerate(leaves):
            fake = make(leaf, number) if isinstance(leaf, torch.Tensor) else None
            if fake is None:
                values.append(leaf)
                continue
            known = self.tracer.know(fake)
            known.node = self.tracer.writer.make_node("placeholder", "arg", (), {})
            known.node.meta["example_value"] = make_example(fake)
            self.given.append(self.tracer.node_of(leaf))
            self.stands.append(known.node)
            self.numbers.append(number)
            values.append(fake)
        self.first_known = len(self.tracer.known)
        self.versions += [(self.tracer.known[id(each)].fake, 0) for each in values if id(each) in self.tracer.known]
        self.versions = [(fake, fake._version) for fake, _ in self.versions if not fake.is_inference()]
        return pytree.tree_unflatten(values, form)

    def end(self, operator, outputs, *options):
        """Write the call `operator(body, *options, *tensors)`; give the tensors that it gives, as one tuple."""
        tracer = self.tracer
        if self.has_changed_tensors():
            raise Unsupported("a function that torch.func transforms changes a tensor from outside")
        self.close()
        nodes = tuple(tracer.node_of(output) for output in outputs)
        lifted = self.list_free(nodes, self.stands)
        fakes = find_fakes(tracer, self.given + lifted)
        self.forget()
        for known in list(tracer.known.values()):
            if tracer.node_behind(known) in self.stands:
                tracer.close(known, "an argument of a function that torch.func transforms, used outside", wholly=True)
        module, attribute = self.make("transformed_body", self.stands + lifted, nodes)
        result = tracer.compute(functools.partial(operator, module, *options), fakes, {})
        call = tracer.write_nodes("call_function", operator, (attribute, *options, *self.given, *lifted))
        return tracer.adopt_all(result, call, tracer.writer.sites[-1][0])


# ---- vmap ----------------------------------------------------------------------------------------------------------


def call_vmap(body, in_dims, out_dims, randomness, *tensors):
    """Call a body for each of a batch; the tensors that have no place in `in_dims` are the same for all."""
    dims = (*in_dims, *[None] * (len(tensors) - len(in_dims)))
    return torch.vmap(body, in_dims=dims, out_dims=out_dims, randomness=randomness)(*tensors)


def begin_vmap(tracer, func, args, kwargs):
    in_dims, values = args
    lazy_load_decompositions()
    try:
        _, dims, leaves, form = _process_batched_inputs(in_dims, values, func)
    except ValueError as error:
        raise Unsupported(str(error)) from None
    body = Transformed(tracer)
    body.dims = dims

    def make(leaf, number):
        dim = dims[number]
        return None if dim is None else tracer.compute(torch.select, (leaf, dim, 0), {})

    return body, body.begin(leaves, form, make)


def end_vmap(tracer, func, args, kwargs):
    body, result, out_dims, randomness = args
    outputs, form = pytree.tree_flatten(result)
    if not outputs or not all(isinstance(output, torch.Tensor) for output in outputs):
        raise Unsupported("torch.vmap of a function that does not return tensors")
    out_dims = pytree._broadcast_to_and_flatten(out_dims, form)
    if out_dims is None:
        raise Unsupported("torch.vmap with out_dims that do not match what the function returns")
    in_dims = tuple(body.dims[number] for number in body.numbers)
    found = body.end(call_vmap, outputs, in_dims, tuple(out_dims), randomness)
    return pytree.tree_unflatten(list(found), form)


# ---- grad ----------------------------------------------------------------------------------------------------------


def call_grad(body, places, *tensors):
    """Differentiate the first output of a body by the tensors in some places; give the gradients and all outputs."""

    def call(differentiated):
        given = list(tensors)
        for place, tensor in zip(places, differentiated, strict=True):
            given[place] = tensor
        outputs = body(*given)
        return outputs[0], outputs

    gradients, outputs = torch.func.grad(call, has_aux=True)(tuple(tensors[place] for place in places))
    return *gradients, *outputs


def begin_grad(tracer, func, args, kwargs):
    argnums, values = args
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    if not all(isinstance(each, int) and -len(values) <= each < len(values) for each in numbers):
        raise Unsupported("torch.func.grad with argnums out of range")
    leaves, form = pytree.tree_flatten(values)
    places = pytree.tree_unflatten(list(range(len(leaves))), form)
    body = Transformed(tracer)
    body.by = pytree.tree_map(int, tuple(places[each] for each in numbers))
    body.grad_enabled = torch.is_grad_enabled()
    differentiated = set(pytree.tree_leaves(body.by))
    if not all(isinstance(leaves[each], torch.Tensor) for each in differentiated):
        raise Unsupported("torch.func.grad with respect to an argument that is not a tensor")

    def make(leaf, number):
        fake = tracer.compute(torch.empty_like, (leaf,), {})
        return fake.requires_grad_() if number in differentiated else fake

    given = body.begin(leaves, form, make)
    set_grad_enabled(True)  # not as a node: the transform does it
    body.state = body.find_state()
    return body, given


def end_grad(tracer, func, args, kwargs):
    body, result, argnums, has_aux, with_value = args
    if has_aux and not (isinstance(result, tuple) and len(result) == 2):
        raise Unsupported("torch.func.grad with has_aux=True of a function that does not return a pair")
    output, aux = result if has_aux else (result, None)
    if not isinstance(output, torch.Tensor) or output.dim():
        raise Unsupported("torch.func.grad of a function that does not return a scalar")
    leaves, form = pytree.tree_flatten(aux) if has_aux else ([], None)
    if not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
        raise Unsupported("torch.func.grad of a function that does not return a tensor")
    places, structure = pytree.tree_flatten(body.by)
    places = [body.numbers.index(place) for place in places]
    set_grad_enabled(body.grad_enabled)
    body.state = body.find_state()
    found = list(body.end(call_grad, [output, *leaves], tuple(places)))
    gradients = pytree.tree_unflatten(found[: len(places)], structure)
    gradients = gradients if isinstance(argnums, tuple) else gradients[0]
    value, *others = found[len(places) :]
    aux = pytree.tree_unflatten(others, form) if has_aux else None
    if with_value:
        return gradients, (value, aux) if has_aux else value
    return (gradients, aux) if has_aux else gradients


def make_transform_rules():
    """Make the table of what torch_stand_ins.py calls: name -> rule."""
    return {rule.__name__: rule for rule in (begin_vmap, end_vmap, begin_grad, end_grad)}
