"""What becomes of a call into torch while tracing: a rule for each function, found by the function itself.

A rule is `rule(tracer, func, args, kwargs)` and gives what the program sees. Most functions become a node
(`record_call`). Functions that only tell of metadata are computed on fakes and are constants of the trace. What a graph
cannot do, or does at another time than the program, is refused: it runs outside of graphs.
"""

from __future__ import annotations

import functools
import types

import torch

from alternator import _capture
from alternator.contracts import find_torch_functions
from alternator.torch_errors import Unsupported
from alternator.torch_leaves import ATTRIBUTE_RULES, make_leaf_rules, make_requiring
from alternator.torch_numbers import needs_parts, record_parts
from alternator.untraceable import record_undifferentiated

count_warnings = _capture.fakes.count_warnings

# What a tensor's metadata tell.
METADATA_ATTRIBUTES = [
    "shape",
    "dtype",
    "device",
    "ndim",
    "layout",
    "requires_grad",
    "is_leaf",
    "itemsize",
    "nbytes",
    "names",
    "is_sparse",
    "is_sparse_csr",
    "is_cuda",
    "is_cpu",
    "is_meta",
    "is_quantized",
    "is_nested",
    "is_mkldnn",
    "is_mps",
    "is_xpu",
    "is_ort",
    "is_vulkan",
    "is_ipu",
    "is_xla",
    "is_mtia",
    "is_maia",
]
METADATA_FUNCTIONS = [
    "size",
    "dim",
    "stride",
    "numel",
    "nelement",
    "ndimension",
    "element_size",
    "is_contiguous",
    "is_floating_point",
    "is_complex",
    "is_signed",
    "__len__",
    "get_device",
    "is_inference",
    "is_same_size",
    "is_conj",
    "is_neg",
    "has_names",
    "dim_order",
    "result_type",
    "can_cast",
    "promote_types",
    "is_nonzero",
    "type",
    "is_distributed",
    "_is_zerotensor",
    "is_vulkan_available",
]
VIEW_ATTRIBUTES = ["T", "mT", "H", "mH", "real", "imag"]

# By name, with the reason. Of a tensor, or of torch.
REFUSED = {
    "retain_grad": "the graph would change what autograd records",
    "register_hook": "a hook of autograd",
    "register_post_accumulate_grad_hook": "a hook of autograd",
    "backward": "autograd runs inside the function",
    "grad": "autograd runs inside the function",
    "set_": "a tensor gets the memory of another",
    "resize_": "a tensor gets other memory",
    "resize_as_": "a tensor gets other memory",
    "share_memory_": "a tensor's memory is moved",
    "pin_memory": "a tensor's memory is moved",
    "apply_": "a Python function is called for every element",
    "map_": "a Python function is called for every element",
    "map2_": "a Python function is called for every element",
    "rename_": "names of dimensions",
    "rename": "names of dimensions",
    "__deepcopy__": "a tensor is copied by copy.deepcopy",
    "__reduce_ex__": "a tensor is pickled",
    "__setstate__": "a tensor is pickled",
    "as_subclass": "a tensor of another class",
    "__repr__": "a tensor is printed",
    "__format__": "a tensor is printed",
    "__dir__": "the attributes of a tensor are listed",
}


# ---- Rules ---------------------------------------------------------------------------------------------------------


def record_call(tracer, func, args, kwargs):
    if tracer.shapes is not None and (kwargs.get("out") is not None or kwargs.get("requires_grad")):
        tracer.do_without_symbols(args, kwargs)
    if kwargs.get("out") is not None:
        return record_out(tracer, func, args, kwargs)
    if kwargs.get("requires_grad"):
        return make_requiring(tracer, func, args, kwargs)
    if needs_parts(func, args, kwargs):
        return record_parts(tracer, func, args, kwargs)
    return tracer.record_call(func, args, kwargs, tracer.compute(func, args, kwargs))


def record_range(tracer, func, args, kwargs):
    """Record `x.uniform_(from=0, to=1)`: a graph's code cannot have a keyword as a name."""
    if "from" in kwargs and len(args) == 1:
        rest = {name: value for name, value in kwargs.items() if name != "from"}
        args = (*args, kwargs["from"])
        return tracer.write("call_method", func.__name__, args, rest, tracer.compute(func, args, rest))
    return record_call(tracer, func, args, kwargs)


def record_out(tracer, func, args, kwargs):
    """Record a call that puts its result into a tensor. Backends cannot give the program's tensors another size."""
    out = kwargs["out"]
    outside = [each for each in (out if isinstance(out, (tuple, list)) else [out]) if tracer.is_from_outside(each)]
    sizes = [tracer.fake_of(each).shape for each in outside]
    result = tracer.compute(func, args, kwargs)
    if [tracer.fake_of(each).shape for each in outside] != sizes:
        raise Unsupported("a tensor passed as `out` is resized")
    return tracer.record_call(func, args, kwargs, result)


def tell_metadata(tracer, func, args, kwargs):
    warnings = count_warnings()
    result = tracer.compute(func, args, kwargs)
    if count_warnings() != warnings:
        raise Unsupported("torch gives a warning, which a graph would not repeat")
    if isinstance(result, torch.Tensor):  # type() with an argument
        return tracer.record_call(func, args, kwargs, result)
    return result if tracer.shapes is None else tracer.shapes.tell(func, args, kwargs, result, tracer.fake_of)


def tell_offset(tracer, func, args, kwargs):
    """Tell where a tensor begins in its storage, which nothing but this and a few operators relies on."""
    _capture.rely_on_offset(tracer.fake_of(args[0]))
    return tell_metadata(tracer, func, args, kwargs)


PYTHON_TYPES = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}


def write_type(cls):
    """Write a type that torch takes for a dtype as something that code can be made of."""
    if cls in PYTHON_TYPES:
        return PYTHON_TYPES[cls]
    if isinstance(cls, type(torch.FloatTensor)):  # torch.FloatTensor
        return f"{cls.__module__}.{cls.__name__}"
    raise Unsupported(f"the type {cls.__name__} as an argument")


def refuse(reason):
    def rule(tracer, func, args, kwargs):
        raise Unsupported(reason)

    return rule


def record_view(tracer, func, args, kwargs):
    """Record an attribute that is a view of its tensor: `getattr(x, 'T')`."""
    result = tracer.compute(func, args, kwargs)
    return tracer.write("call_function", getattr, (args[0], func.__self__.__name__), {}, result)


def record_data(tracer, func, args, kwargs):
    result = tracer.compute(func, args, kwargs)
    tracer.watch_version(result)  # its writes are not counted by the tensor whose memory it has
    return tracer.write("call_function", torch._C._autograd._get_data_attr, args, {}, result)


def read_grad(tracer, func, args, kwargs):
    """Read the gradient of a tensor from outside, a tensor from outside as well; a fake has none."""
    tensor = args[0]
    if id(tensor) in tracer.grads:
        return tracer.grads[id(tensor)]
    if tracer.is_from_outside(tensor):
        return func(tensor)
    if not tensor.is_leaf:
        raise Unsupported("the gradient of a tensor that the function computed")
    return None


def read_item(tracer, func, args, kwargs):
    """Read a number out of a tensor: a break, or a number that the graph computes."""
    is_float = tracer.fake_of(args[0]).dtype.is_floating_point
    # int() of a float rounds.
    plain = func is torch.Tensor.item or is_float == (func is torch.Tensor.__float__)
    number = tracer.read_item(args[0]) if plain else None
    return record_call(tracer, func, args, kwargs) if number is None else number


def set_grad_mode(tracer, func, args, kwargs):
    # torch.no_grad() and its like call it even where nothing changes; a program that calls it itself means it.
    of_scope = "torch/autograd/grad_mode.py" in _capture.current_place().replace("\\", "/")
    if not of_scope or args != (torch.is_grad_enabled(),):
        tracer.write("call_function", func, args, kwargs, None)
    return func(*args, **kwargs)


def make_tensor(tracer, func, args, kwargs):
    """Record torch.tensor. Of tensors, it reads values, which a fake does not have; torch has a definition for it."""
    numbers = tracer.shapes is not None and tracer.shapes.touches((args, kwargs), tracer.fake_of)
    if not numbers and not holds_tensor(args) and not holds_tensor(tuple(kwargs.values())):
        return record_call(tracer, func, args, kwargs)
    if isinstance(args[0] if args else kwargs.get("data"), torch.Tensor):
        raise Unsupported("torch.tensor of a tensor; use detach().clone()")
    if not all(tensor.numel() == 1 for tensor in list_tensors([*args, *kwargs.values()])):
        raise Unsupported("torch.tensor of tensors with several elements")  # torch raises; its definition stacks them
    result = tracer.compute(torch._refs.tensor, args, kwargs)
    return tracer.write("call_function", torch._refs.tensor, args, kwargs, result)


def make_like(tracer, func, args, kwargs):
    """Record x.new_tensor(data), as torch.tensor with the dtype and device of x."""
    (like, *data) = args
    if holds_tensor(data) or not data:
        raise Unsupported("new_tensor of a tensor")
    options = {name: tracer.compute(getattr, (like, name), {}) for name in ("dtype", "device")}
    options |= {name: value for name, value in kwargs.items() if value is not None}
    return record_call(tracer, torch.tensor, tuple(data), options)


def list_tensors(value):
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in list_tensors(part)]
    return [value] if isinstance(value, torch.Tensor) else []


def holds_tensor(value):
    return bool(list_tensors(value))


# Those that do the right thing with symbols (shapes.py).
SYMBOLIC_RULES = {
    *(record_call, record_undifferentiated, tell_metadata, tell_offset, record_view, read_grad),
    *(set_grad_mode, make_tensor, read_item),
}

# ---- The table -----------------------------------------------------------------------------------------------------


def find_rule(func):
    """Find the rule for a function that torch dispatches."""
    if func is torch.device:
        return tell_metadata
    if isinstance(func, types.MethodWrapperType):  # of an attribute of tensors
        return find_attribute_rule(func)
    if isinstance(func, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return record_call
    if isinstance(func, types.FunctionType) and func not in known_functions():
        return refuse(f"{func.__module__}.{func.__qualname__}")
    name = getattr(func, "__name__", "")
    if name in REFUSED and (name != "grad" or func is torch.autograd.grad):
        return refuse(REFUSED[name])
    if name in METADATA_FUNCTIONS:
        return tell_metadata
    if not isinstance(
        func, (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
    ):
        return refuse(f"{func}")
    return record_call


def find_attribute_rule(func):
    attribute = func.__self__.__name__
    if (attribute, func.__name__) in ATTRIBUTE_RULES:
        return ATTRIBUTE_RULES[attribute, func.__name__]
    if func.__name__ != "__get__":
        return refuse(f"the attribute {attribute} of a tensor is set")
    if attribute in METADATA_ATTRIBUTES:
        return tell_metadata
    if attribute in VIEW_ATTRIBUTES:
        return record_view
    return {"data": record_data, "grad": read_grad}.get(attribute) or refuse(f"the attribute {attribute} of a tensor")


@functools.cache
def known_functions():
    # Methods of tensors in Python, some of which pass on what they are given.
    methods = {method for method in vars(torch.Tensor).values() if isinstance(method, types.FunctionType)}
    return methods.union(find_torch_functions())


@functools.cache
def make_table():
    """Make the table of the functions with a rule of their own; find_rule() says what holds for the others."""
    return {
        torch.tensor: make_tensor,
        torch.Tensor.storage_offset: tell_offset,
        **dict.fromkeys((torch.Tensor.item, torch.Tensor.__int__, torch.Tensor.__float__), read_item),
        torch.Tensor.new_tensor: make_like,
        torch.Tensor.random_: record_range,
        torch.Tensor.uniform_: record_range,
        torch.lstm: record_undifferentiated,
        torch._C._set_grad_enabled: set_grad_mode,
        **make_leaf_rules(),
    }
