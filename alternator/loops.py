"""Loops as higher-order operators: torch.while_loop, scan and map.

Each function is traced once as a body (bodies.py), with tensors of its own for arguments. Tensors from before that it
uses are further operands. A body runs any number of times, so it must change nothing. What cannot be captured is a
break at the operator (higher_order.py). Conventions are TorchDynamo's.
"""

from __future__ import annotations

import torch
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op
from torch.utils import _pytree as pytree

from alternator.bodies import are_alike, find_fakes
from alternator.torch_errors import Unsupported
from alternator.transforms import Transformed


class Loop(Transformed):
    """The function of a loop, with its outputs once it has ended."""

    def collect(self, result):
        tracer = self.tracer
        leaves, self.form = pytree.tree_flatten(result)
        if self.has_written() or self.has_changed_tensors():
            raise Unsupported("the body of a loop operator changes an object from outside")
        self.close()
        own = set(self.calls)
        self.outputs = [tracer.find(leaf) if isinstance(leaf, torch.Tensor) else None for leaf in leaves]
        if not all(known is not None and tracer.node_behind(known) in own for known in self.outputs):
            raise Unsupported("the body of a loop operator returns something that is not a tensor it computed")
        sharing = [other for known in self.outputs for other in tracer.list_sharing(known.fake) if other is not known]
        if any(other in self.outputs or tracer.node_behind(other) not in own for other in sharing):
            raise Unsupported("the body of a loop operator returns a view of a tensor")
        self.nodes = [known.node for known in self.outputs]
        self.lifted = self.list_free(self.nodes, self.stands)

    def write(self, name, lifted, outputs):
        """Make the graph of the body; return the node that stands for it."""
        self.forget()
        for known in list(self.tracer.known.values()):
            if self.tracer.node_behind(known) in self.stands:
                self.tracer.close(known, "an argument of the function of a loop, used outside", wholly=True)
        return self.make(name, self.stands + lifted, outputs)[1]


def begin_loop(tracer, func, args, kwargs):
    """Begin a body: of some arguments it gets the first row, others as they are."""
    sliced, whole = args
    leaves = (*sliced, *whole)
    if not leaves or not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
        raise Unsupported("a loop operator over something that is not a tensor")
    if torch.is_grad_enabled() and any(tracer.fake_of(leaf).requires_grad for leaf in leaves):
        raise Unsupported("a loop operator with gradients")

    def make(leaf, number):
        is_row = number < len(sliced)
        return (
            tracer.compute(torch.select, (leaf, 0, 0), {}) if is_row else tracer.compute(torch.empty_like, (leaf,), {})
        )

    body = Loop(tracer)
    return body, tuple(body.begin(leaves, pytree.tree_flatten(leaves)[1], make))


def end_body(tracer, func, args, kwargs):
    body, result = args
    body.collect(result)


def write_loop(tracer, operator, fakes, bodies, make_args):
    """Write the call of the operator; `fakes` are what it gives."""
    lifted = list(dict.fromkeys(node for body in bodies for node in body.lifted))
    if torch.is_grad_enabled() and any(fake.requires_grad for fake in find_fakes(tracer, lifted)):
        raise Unsupported("a loop operator with gradients")
    call = tracer.write_nodes("call_function", operator, make_args(lifted))
    return list(tracer.adopt_all(tuple(fakes), call, tracer.writer.sites[-1][0]))


def end_while(tracer, func, args, kwargs):
    test, body = args
    carried = find_stands(tracer, body)
    if len(test.outputs) != 1 or test.outputs[0].fake.dtype is not torch.bool or test.outputs[0].fake.numel() != 1:
        raise Unsupported("torch.while_loop with a condition that is not a single bool")
    if len(body.outputs) != len(carried) or not all(map(are_alike, body.outputs, carried)):
        raise Unsupported("torch.while_loop of a function whose results differ in shape or dtype from its arguments")
    fakes = [tracer.compute(torch.empty_like, (known.fake,), {}) for known in body.outputs]

    def make_args(lifted):
        attributes = (
            test.write("cond_fn", lifted, test.nodes[0]),
            body.write("body_fn", lifted, tuple(body.nodes)),
        )
        return *attributes, tuple(body.given), tuple(lifted)

    return tuple(write_loop(tracer, while_loop_op, fakes, (test, body), make_args))


def find_stands(tracer, body):
    by_node = {tracer.node_behind(known): known for known in tracer.known.values()}
    return [by_node[node] for node in body.stands]


def end_scan(tracer, func, args, kwargs):
    """`count` arguments are carried from round to round; they come behind the rows among the body's arguments."""
    body, count, rounds = args
    stands = find_stands(tracer, body)
    rows = len(stands) - count
    carried, others = body.outputs[:count], body.outputs[count:]
    if len(carried) != count or not all(map(are_alike, carried, stands[rows:])):
        raise Unsupported("scan with a function that changes the shape or dtype of the carry")
    fakes = [tracer.compute(torch.empty_like, (known.fake,), {}) for known in carried]
    fakes += [tracer.compute(torch.stack, ([known.fake] * rounds,), {}) for known in others]
    body.stands = body.stands[rows:] + body.stands[:rows]

    def make_args(lifted):
        attribute = body.write("scan_combine_fn", lifted, list(body.nodes))
        return attribute, body.given[rows:], body.given[:rows], list(lifted)

    return write_loop(tracer, scan_op, fakes, (body,), make_args)


def end_map(tracer, func, args, kwargs):
    body, count, rounds = args
    fakes = [tracer.compute(torch.stack, ([known.fake] * rounds,), {}) for known in body.outputs]

    def make_args(lifted):
        attribute = body.write("map_body", lifted, tuple(body.nodes))
        return attribute, body.given[:count], [*body.given[count:], *lifted]

    return pytree.tree_unflatten(write_loop(tracer, map_impl, fakes, (body,), make_args), body.form)


def make_loop_rules():
    """Make the table of what torch_stand_ins.py calls: name -> rule."""
    return {rule.__name__: rule for rule in (begin_loop, end_body, end_while, end_scan, end_map)}
