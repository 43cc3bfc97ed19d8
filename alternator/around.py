"""What a region does in front of its graph and behind it, where the graph itself cannot.

A backend compiles a graph for inputs that require grad or do not, and gives out tensors with a history: a leaf of
autograd is none of its outputs. So the leaves that a function makes (Parameters, `torch.ones(2, requires_grad=True)`)
are made empty in front of the graph, which gets them as inputs and writes their data. Likewise a `requires_grad_()` of
an input is done in front of the graph, or behind it.
"""

from __future__ import annotations

import functools

import torch

make_subclass = torch.Tensor._make_subclass


class Leaf:
    """How a leaf is made: of new memory, or of the memory of an input."""

    __slots__ = ("base", "cls", "geometry", "options", "requires_grad", "version")

    def __init__(self, cls, fake, base=None):
        self.cls = cls
        self.geometry = fake.size(), fake.stride(), fake.storage_offset()
        self.options = {"dtype": fake.dtype, "device": fake.device}
        self.requires_grad = fake.requires_grad
        self.base = base  # number of the input
        self.version = fake._version if base is None else 0

    def make(self, inputs, made, for_real):
        if self.base is None:
            tensor = torch.empty_strided(*self.geometry[:2], **self.options)
            if self.version:
                torch._C._autograd._unsafe_set_version_counter((tensor,), (self.version,))
        else:
            tensor = inputs[self.base].detach()
            if (tensor.size(), tensor.stride(), tensor.storage_offset()) != self.geometry:
                tensor = tensor.as_strided(*self.geometry)
        if self.cls is torch.Tensor:
            return tensor.requires_grad_(self.requires_grad)
        return make_subclass(self.cls, tensor, self.requires_grad)


class Around:
    """What is done around one graph."""

    def __init__(self):
        self.front = []  # in front of the graph: leaves, which are further inputs; the random generator is set
        self.flags = []  # (number of an input, requires_grad that it gets in front of the graph)
        self.dtype = None  # (default dtype outside of the graph, the one that it runs with)
        self.actions = []  # function(values) behind the graph; values are what the region gives out
        self.states = []  # (setter, arguments) behind the graph
        self.former_states = []  # (setter, arguments) if the graph fails in the middle
        self.picks = []  # for each value: (True, number of an input or leaf) or (False, number of an output)

    def is_idle(self):
        return not (self.front or self.flags or self.dtype or self.actions)

    def prepare(self, inputs, for_real=True):
        """Make the graph's inputs. Not for real: for a backend to compile with."""
        made = []
        for step in self.front:
            tensor = step.make(inputs, made, for_real)
            if tensor is not None:
                made.append(tensor)
        given = [*inputs, *made]
        for number, flag in self.flags:
            given[number].requires_grad_(flag)
        if self.dtype is not None:
            torch.set_default_dtype(self.dtype[1])
        return given

    def undo(self, inputs):
        """Undo what prepare() did to what was there before, and what a graph that failed has left of torch's states."""
        for setter, args in self.former_states:
            setter(*args)
        self.leave_dtype()
        for number, flag in self.flags:
            inputs[number].requires_grad_(not flag)

    def leave_dtype(self):
        if self.dtype is not None:
            torch.set_default_dtype(self.dtype[0])

    def run(self, graph, *inputs):
        try:
            given = self.prepare(inputs)
            outputs = graph(*given)
        except BaseException:
            self.undo(inputs)
            raise
        self.leave_dtype()
        values = [given[number] if is_input else outputs[number] for is_input, number in self.picks]
        for action in self.actions:
            action(values)
        return self.leave(values)

    def leave(self, values):
        for setter, args in self.states:
            setter(*args)
        return values

    def wrap(self, graph):
        """Make what a region calls in the graph's place."""
        if not self.is_idle():
            return functools.partial(self.run, graph)
        return functools.partial(self.run_and_leave, graph) if self.former_states else graph

    def run_and_leave(self, graph, *inputs):
        try:
            outputs = graph(*inputs)
        except BaseException:
            self.undo(inputs)
            raise
        return self.leave(outputs)


def give_nothing(*inputs):
    """Stand for a graph in which nothing is computed."""
    return ()


def set_flag(number, flag, values):
    values[number].requires_grad_(flag)


def set_data(number, source, values):
    values[number].data = values[source]


def set_grad(number, source, values):
    values[number].grad = None if source is None else values[source]
