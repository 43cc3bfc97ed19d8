"""Functions of torch that take a number and are given a tensor, written as several calls that take tensors.

Torch's own parsing of arguments would ask the tensor for its value, which a fake does not have: `x.addcdiv_(a, b,
value=t)`, as optimizers call it while torch.compiler.is_compiling(). TorchDynamo takes them apart as well. The steps
round where torch's kernels for the CPU do, so that results are bitwise those of eager execution: addcmul multiplies and
adds in one step, as add does with alpha.
"""

from __future__ import annotations

import functools
import re

import torch

from alternator.torch_errors import Unsupported


class Steps:
    """Writes calls that the program did not make itself. The functions are methods of tensors, or torch's for lists."""

    def __init__(self, tracer):
        self.tracer = tracer

    def __getattr__(self, name):
        return functools.partial(self.call, name)

    def call(self, name, *args):
        of_list = name.startswith("_foreach")
        func = getattr(torch if of_list else torch.Tensor, name)
        result = self.tracer.compute(func, args, {})
        kind, target = ("call_function", func) if of_list else ("call_method", name)
        return self.tracer.write(kind, target, args, {}, result)

    def find_number(self, value, others):
        """Give a tensor that stands for a number, as the results of eager execution see it: without a history."""
        fake_of = self.tracer.fake_of
        fake = fake_of(value)
        for other in map(fake_of, others):
            if torch.result_type(other, fake) != other.dtype:
                raise Unsupported("a tensor in place of a number changes the dtype of the result")
        return self.detach(value) if fake.requires_grad else value


# ---- How each is taken apart ---------------------------------------------------------------------------------------


def add_product(steps, name, tensor, first, second, *, value):
    value = steps.find_number(value, [tensor, first, second])
    return steps.call(name, tensor, steps.mul(first, value), second)


def add_quotient(steps, name, tensor, first, second, *, value):
    value = steps.find_number(value, [tensor, first, second])
    quotient = steps.div(steps.mul(first, value), second)
    return steps.call(name.replace("addcdiv", "add"), tensor, quotient)


def add_scaled(steps, name, tensor, other, *, alpha):
    alpha = steps.find_number(alpha, [tensor, other])
    alpha = steps.neg(alpha) if "sub" in name else alpha
    return steps.call(re.sub("add|sub", "addcmul", name), tensor, other, alpha)


def find_numbers(steps, scalars, *lists):
    """Give a number for each of the tensors of the lists: the items of one tensor, or tensors."""
    numbers = steps.unbind(scalars) if isinstance(scalars, torch.Tensor) else scalars
    pairs = zip(numbers, zip(*lists, strict=True), strict=True)
    return [steps.find_number(number, group) for number, group in pairs]


def add_products(steps, name, tensors, first, second, scalars):
    numbers = find_numbers(steps, scalars, tensors, first, second)
    return steps.call(name, tensors, steps._foreach_mul(first, numbers), second)


def add_quotients(steps, name, tensors, first, second, scalars):
    numbers = find_numbers(steps, scalars, tensors, first, second)
    quotients = steps._foreach_div(steps._foreach_mul(first, numbers), second)
    return steps.call(name.replace("addcdiv", "add"), tensors, quotients)


def add_all_scaled(steps, name, tensors, others, *, alpha):
    alpha = steps.find_number(alpha, [*tensors, *others])
    alpha = steps.neg(alpha) if "sub" in name else alpha
    return steps.call(re.sub("add|sub", "addcmul", name), tensors, others, [alpha] * len(others))


def interpolate(steps, name, tensors, ends, weight):
    return steps.call(name, tensors, ends, [steps.find_number(weight, [*tensors, *ends])] * len(tensors))


def raise_to_powers(steps, name, base, exponents):
    return steps.call(name, [steps.find_number(base, exponents)] * len(exponents), exponents)


class Way:
    """How a function is taken apart, and where its number is: among the arguments or under a keyword."""

    def __init__(self, write, place, keyword):
        self.write, self.place, self.keyword = write, place, keyword

    def has_tensor(self, args, kwargs):
        number = args[self.place] if self.place < len(args) else kwargs.get(self.keyword)
        if isinstance(number, (list, tuple)) and number:
            return self.write in FOR_EACH and all(isinstance(each, torch.Tensor) for each in number)
        return isinstance(number, torch.Tensor)


FOR_EACH = (add_products, add_quotients)


@functools.cache
def make_ways():
    """Make the table: function -> its name and Way."""
    of_tensor = {
        "addcmul": Way(add_product, 3, "value"),
        "addcdiv": Way(add_quotient, 3, "value"),
        "add": Way(add_scaled, 2, "alpha"),
        "sub": Way(add_scaled, 2, "alpha"),
    }
    of_list = {
        "addcmul": Way(add_products, 3, "scalars"),
        "addcdiv": Way(add_quotients, 3, "scalars"),
        "add": Way(add_all_scaled, 2, "alpha"),
        "sub": Way(add_all_scaled, 2, "alpha"),
        "lerp": Way(interpolate, 2, "weight"),
        "pow": Way(raise_to_powers, 0, "self"),
    }
    spaces = [(torch, "{}", of_tensor), (torch.Tensor, "{}", of_tensor), (torch.Tensor, "{}_", of_tensor)]
    spaces += [(torch, "_foreach_{}", of_list), (torch, "_foreach_{}_", of_list)]
    rows = [(space, form.format(name), way) for space, form, ways in spaces for name, way in ways.items()]
    return {getattr(space, name): (name, way) for space, name, way in rows if hasattr(space, name)}


def find_early_ones():
    """Find the functions whose lists of tensors torch refuses when it parses the arguments, before it dispatches."""
    return [func for func, (_, way) in make_ways().items() if way.write in FOR_EACH]


def needs_parts(func, args, kwargs):
    """Tell whether torch would ask a tensor for its value."""
    way = make_ways().get(func)
    return way is not None and way[1].has_tensor(args, kwargs)


def record_parts(tracer, func, args, kwargs):
    """Write such a call."""
    name, way = make_ways()[func]
    try:
        return way.write(Steps(tracer), name, *args, **kwargs)
    except (TypeError, ValueError) as error:  # other arguments than those that are known here, unequal lengths
        raise Unsupported(f"{name} with a tensor in place of a number: {error}") from None
