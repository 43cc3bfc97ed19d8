"""Functions of torch that take a number and are given a tensor, written as several calls that take tensors.

Torch's own parsing of arguments would ask the tensor for its value, which a fake does not have: `x.addcdiv_(a, b,
value=t)`, as optimizers call it while torch.compiler.is_compiling(). TorchDynamo takes them apart as well. The steps and
their order are those of torch's kernels for the CPU, so that results are bitwise those of eager execution wherever no
kernel fuses a multiplication with an addition.
"""

from __future__ import annotations

import functools

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
            if torch.result_type(other, fake.reshape(())) != other.dtype:
                raise Unsupported("a tensor in the place of a number changes the dtype of the result")
        if fake.requires_grad:
            value = self.detach(value)
        return self.reshape(value, ()) if fake.dim() else value


# ---- How each is taken apart ---------------------------------------------------------------------------------------


def add_product(steps, name, tensor, first, second, *, value):
    value = steps.find_number(value, [tensor, first, second])
    product = steps.mul(steps.mul(first, value), second)
    return steps.call(name.replace("addcmul", "add"), tensor, product)


def add_quotient(steps, name, tensor, first, second, *, value):
    value = steps.find_number(value, [tensor, first, second])
    quotient = steps.div(steps.mul(first, value), second)
    return steps.call(name.replace("addcdiv", "add"), tensor, quotient)


def add_scaled(steps, name, tensor, other, *, alpha):
    return steps.call(name, tensor, steps.mul(other, steps.find_number(alpha, [tensor, other])))


def find_numbers(steps, scalars, *lists):
    """Give a list of numbers: the items of one tensor, or one for each tensor of the lists."""
    numbers = steps.unbind(scalars)
    if len({len(numbers), *map(len, lists)}) != 1:
        raise Unsupported("lists of unequal lengths")
    groups = zip(*lists, strict=True)
    return [steps.find_number(number, group) for number, group in zip(numbers, groups, strict=True)]


def add_products(steps, name, tensors, first, second, scalars):
    numbers = find_numbers(steps, scalars, tensors, first, second)
    products = steps._foreach_mul(steps._foreach_mul(first, numbers), second)
    return steps.call(name.replace("addcmul", "add"), tensors, products)


def add_quotients(steps, name, tensors, first, second, scalars):
    numbers = find_numbers(steps, scalars, tensors, first, second)
    quotients = steps._foreach_div(steps._foreach_mul(first, numbers), second)
    return steps.call(name.replace("addcdiv", "add"), tensors, quotients)


def add_all_scaled(steps, name, tensors, others, *, alpha):
    alpha = steps.find_number(alpha, [*tensors, *others])
    return steps.call(name, tensors, steps._foreach_mul(others, [alpha] * len(others)))


def interpolate(steps, name, tensors, ends, weight):
    return steps.call(name, tensors, ends, [steps.find_number(weight, [*tensors, *ends])] * len(tensors))


def raise_to_powers(steps, name, base, exponents):
    return steps.call(name, [steps.find_number(base, exponents)] * len(exponents), exponents)


@functools.cache
def make_parts():
    """Make the table: function -> what writes its parts, and its name."""
    ways = {
        "addcmul": (add_product, add_products),
        "addcdiv": (add_quotient, add_quotients),
        "add": (add_scaled, add_all_scaled),
        "sub": (add_scaled, add_all_scaled),
        "lerp": (None, interpolate),
        "pow": (None, raise_to_powers),
    }
    table = {}
    for name, (of_tensor, of_list) in ways.items():
        spaces = [(torch, name, of_tensor), (torch.Tensor, name, of_tensor), (torch.Tensor, f"{name}_", of_tensor)]
        spaces += [(torch, f"_foreach_{name}", of_list), (torch, f"_foreach_{name}_", of_list)]
        table |= {getattr(space, name): (way, name) for space, name, way in spaces if way is not None}
    return table


def has_parts(func):
    return func in make_parts()


def has_tensor_as_number(func, kwargs):
    """Tell in advance that a call will fail, where a keyword tells it; all else is found out by trying."""
    value = kwargs.get("value", kwargs.get("alpha"))
    return isinstance(value, torch.Tensor) and has_parts(func)


def record_parts(tracer, func, args, kwargs):
    """Write a call that needs the value of a tensor."""
    way, name = make_parts()[func]
    try:
        return way(Steps(tracer), name, *args, **kwargs)
    except TypeError as error:  # other arguments than those that are known here
        raise Unsupported(f"{name} with a tensor in the place of a number: {error}") from None
