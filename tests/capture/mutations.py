"""Ways to change one value: for each kind of value, named functions that make another one in its place.

`list_mutations(value)` gives {name: function without arguments}. What the functions make is new each time, so that two
worlds never share an object, and depends on nothing but the value.
"""

import collections
import copy
import enum
import functools
import math
import types

import torch


class OtherInt(int):
    """A number that is more than a number."""


class OtherFloat(float):
    pass


class OtherStr(str):
    pass


class OtherList(list):
    pass


class OtherDict(dict):
    pass


class OtherTuple(tuple):
    pass


class Thing:
    """An object that no program expects."""


class OtherTensor(torch.Tensor):
    """A subclass without behaviour of its own."""


def other_function(*args, **kwargs):
    return args[-1] if args else None


def other_result(*args, **kwargs):
    return 3


def fresh(value):
    """Return an equal object that is another one, where Python allows it."""
    match value:
        case float():
            return float(repr(value)) if not math.isnan(value) else float("nan")
        case str():
            return "".join([*value[:1], value[1:]]) if len(value) > 1 else value
        case tuple() if hasattr(value, "_make"):
            return value._make(tuple(value))
        case tuple():
            return tuple([*value])
        case torch.Tensor():
            return copy_tensor(value, value.detach().clone(memory_format=torch.preserve_format))
        case _:
            return copy.copy(value)


def mutate_bool(value):
    return {"not": lambda: not value, "int": lambda: int(value), "float": lambda: float(value), "None": lambda: None}


def mutate_int(value):
    return {
        "+1": lambda: value + 1,
        "-1": lambda: -1,
        "0": lambda: 0,
        "bool": lambda: bool(value),
        "float": lambda: float(value),
        "subclass": lambda: OtherInt(value),
        "subclass +1": lambda: OtherInt(value + 1),
        "None": lambda: None,
        "str": lambda: str(value),
        "tensor": lambda: torch.tensor(value),
    }


def mutate_float(value):
    return {
        "+1": lambda: value + 1,
        "0": lambda: 0.0,
        "-0": lambda: -0.0,
        "nan": lambda: float("nan"),
        "inf": lambda: float("inf"),
        "int": lambda: int(value) if math.isfinite(value) else 2,
        "fresh": lambda: fresh(value),
        "subclass": lambda: OtherFloat(value),
        "None": lambda: None,
    }


def mutate_str(value):
    return {
        "longer": lambda: value + "x",
        "empty": lambda: "",
        "swapped case": lambda: value.swapcase(),
        "reversed": lambda: value[::-1],
        "fresh": lambda: fresh(value),
        "subclass": lambda: OtherStr(value),
        "None": lambda: None,
        "bytes": lambda: value.encode(),
    }


def mutate_bytes(value):
    return {"longer": lambda: value + b"x", "empty": lambda: b"", "str": lambda: value.decode("latin-1")}


def mutate_complex(value):
    return {"+1": lambda: value + 1, "conjugate": lambda: value.conjugate(), "float": lambda: value.real}


def mutate_none(value):
    return {"0": lambda: 0, "1": lambda: 1, "False": lambda: False, "text": lambda: "x", "list": lambda: [1]}


def mutate_list(value):
    return {
        "longer": lambda: [*value, *(value[-1:] or [0])],
        "shorter": lambda: value[:-1],
        "reversed": lambda: value[::-1],
        "empty": list,
        "fresh": lambda: list(value),
        "tuple": lambda: tuple(value),
        "subclass": lambda: OtherList(value),
        "None": lambda: None,
    }


def mutate_tuple(value):
    return {
        "longer": lambda: (*value, *(value[-1:] or (0,))),
        "shorter": lambda: tuple(value[:-1]),
        "reversed": lambda: tuple(value[::-1]),
        "empty": tuple,
        "fresh": lambda: fresh(value),
        "list": lambda: list(value),
        "subclass": lambda: OtherTuple(value),
        "plain": lambda: tuple([*value]),
        "None": lambda: None,
    }


def walks_by_hash(value):
    """CPython looks keys of an OrderedDict up in order to walk over them: a hash that changed makes that endless."""
    keys = [*dict.__iter__(value)] if isinstance(value, collections.OrderedDict) else ()
    return any(isinstance(type(key).__hash__, types.FunctionType) for key in keys)


def mutate_dict(value):
    if walks_by_hash(value):
        return {"empty": dict, "None": lambda: None}

    def turn_key(key):
        return float(key) if isinstance(key, int) else OtherStr(key) if isinstance(key, str) else key

    return {
        "longer": lambda: {**value, "zz": 1},
        "shorter": lambda: dict([*value.items()][1:]),
        "reversed": lambda: dict(reversed(value.items())),
        "empty": dict,
        "fresh": lambda: dict(value),
        "subclass": lambda: OtherDict(value),
        "OrderedDict": lambda: collections.OrderedDict(value),
        "defaultdict": lambda: collections.defaultdict(lambda: 5, value),
        "keys of other types": lambda: {turn_key(key): item for key, item in value.items()},
        "None": lambda: None,
    }  # fmt: skip


def mutate_set(value):
    kind = type(value)
    return {
        "longer": lambda: kind([*value, 77]),
        "shorter": lambda: kind([*value][1:]),
        "other order": lambda: kind([77, *reversed([*value])]) - {77},
        "empty": lambda: kind(),
        "other kind": lambda: set(value) if isinstance(value, frozenset) else frozenset(value),
        "floats": lambda: kind(float(v) if type(v) is int else v for v in value),
        "fresh": lambda: kind([*value]),
        "list": lambda: [*value],
    }


def mutate_deque(value):
    return {
        "longer": lambda: collections.deque([*value, 7], value.maxlen),
        "shorter": lambda: collections.deque([*value][:-1], value.maxlen),
        "reversed": lambda: collections.deque([*value][::-1], value.maxlen),
        "other limit": lambda: collections.deque(value, len(value) + 2),
        "list": lambda: [*value],
    }


def mutate_slice(value):
    return {"all": lambda: slice(None), "fresh": lambda: slice(value.start, value.stop, value.step), "int": lambda: 1}


def mutate_range(value):
    return {"longer": lambda: range(value.start, value.stop + value.step, value.step), "list": lambda: [*value]}


def mutate_enum(value):
    members = [*type(value)]
    return {
        "next member": lambda: members[(members.index(value) + 1) % len(members)],
        "its value": lambda: value.value,
        "None": lambda: None,
    }


def mutate_function(value):
    def copied():
        other = types.FunctionType(
            value.__code__, value.__globals__, value.__name__, value.__defaults__, value.__closure__
        )
        other.__kwdefaults__ = value.__kwdefaults__
        other.__dict__.update(value.__dict__)
        return other

    return {"another": lambda: other_function, "another result": lambda: other_result, "fresh": copied}  # fmt: skip


def mutate_callable(value):
    return {"another": lambda: other_function, "another result": lambda: other_result}


def mutate_class(value):
    return {"subclass": lambda: type(value.__name__, (value,), {"__module__": value.__module__}), "int": lambda: int}


def mutate_instance(value):
    def other_class():
        other = copy.copy(value)
        other.__class__ = type("Derived", (type(value),), {"__module__": type(value).__module__, "extra": 1})
        return other

    return {"fresh": lambda: copy.copy(value), "other class": other_class, "another": Thing, "None": lambda: None}


def copy_tensor(value, data):
    """Make `data` what `value` is to autograd, and give it the attributes that programs gave to `value`."""
    if isinstance(value, torch.nn.Parameter):
        data = torch.nn.Parameter(data, value.requires_grad)
    elif value.requires_grad and (data.is_floating_point() or data.is_complex()):
        data.requires_grad_()
    data.__dict__.update(value.__dict__)
    return data


def mutate_tensor(value):
    def make(change):
        return lambda: copy_tensor(value, change(value.detach().clone(memory_format=torch.preserve_format)))

    def spread(t):
        wide = torch.zeros(2 * t.numel() + 1, dtype=t.dtype)
        view = wide[1:].as_strided(t.shape, [2 * s for s in t.contiguous().stride()])
        return view.copy_(t)

    def toggle():
        other = make(lambda t: t)()
        return other.requires_grad_(not value.requires_grad) if value.is_floating_point() else other.float()

    mutations = {
        "values": make(lambda t: t + 1 if t.dtype != torch.bool else ~t),
        "fresh": make(lambda t: t),
        "double": make(lambda t: t.double() if t.dtype != torch.float64 else t.float()),
        "int64": make(lambda t: t.long()),
        "bool": make(lambda t: t.bool()),
        "requires_grad": toggle,
        "Parameter": lambda: torch.nn.Parameter(value.detach().clone(), value.is_floating_point()),
        "more dims": make(lambda t: t.unsqueeze(0)),
        "spread": make(spread),
        "subclass": lambda: value.detach().clone().as_subclass(OtherTensor),
        "None": lambda: None,
        "attribute": lambda: give_attribute(make(lambda t: t)()),
        "number": lambda: value.detach().flatten()[0].item() if value.numel() else 0,
    }
    if value.is_floating_point() and value.numel():
        mutations["nan"] = make(lambda t: t + float("nan"))
    if value.dim():
        mutations["longer"] = make(lambda t: torch.cat([t, t[:1]]))
        mutations["shorter"] = make(lambda t: t[:-1].clone())
        mutations["empty"] = make(lambda t: t[:0].clone())
        mutations["size one"] = make(lambda t: t[:1].clone())
    if value.dim() > 1:
        mutations["transposed"] = make(lambda t: t.transpose(0, 1).contiguous())
        mutations["strides"] = make(lambda t: t.transpose(0, 1).contiguous().transpose(0, 1))
        mutations["fewer dims"] = make(lambda t: t[0].clone())
    return mutations


def give_attribute(tensor):
    tensor.tag = 5
    return tensor


def mutate_dtype(value):
    return {"another": lambda: torch.float64 if value != torch.float64 else torch.float32}


BY_TYPE = {
    bool: mutate_bool,
    int: mutate_int,
    float: mutate_float,
    complex: mutate_complex,
    str: mutate_str,
    bytes: mutate_bytes,
    type(None): mutate_none,
    list: mutate_list,
    tuple: mutate_tuple,
    torch.Size: mutate_tuple,
    dict: mutate_dict,
    collections.OrderedDict: mutate_dict,
    set: mutate_set,
    frozenset: mutate_set,
    collections.deque: mutate_deque,
    slice: mutate_slice,
    range: mutate_range,
    torch.dtype: mutate_dtype,
    types.FunctionType: mutate_function,
    types.BuiltinFunctionType: mutate_callable,
    functools.partial: mutate_callable,
    types.MethodType: mutate_callable,
}
BY_BASE = [
    (torch.Tensor, mutate_tensor),
    (type, mutate_class),
    (enum.Enum, mutate_enum),
    (bool, mutate_bool),
    (int, mutate_int),
    (float, mutate_float),
    (str, mutate_str),
    (tuple, mutate_tuple),
    (list, mutate_list),
    (dict, mutate_dict),
    ((set, frozenset), mutate_set),
]
UNTOUCHED = (types.ModuleType, types.CodeType, types.GeneratorType, types.FrameType, types.TracebackType)


def list_mutations(value):
    """Return {name: what makes a value to stand in its place}."""
    make = BY_TYPE.get(type(value))
    if make is None:
        if isinstance(value, UNTOUCHED):
            return {}
        make = next((make for base, make in BY_BASE if isinstance(value, base)), mutate_instance)
    mutations = make(value)
    if type(value) not in BY_TYPE and not isinstance(value, (torch.Tensor, type, enum.Enum)):
        mutations = {**mutations, "copy": lambda: copy.copy(value)}
    return mutations


def change_in_place(value):
    """Return {name: function that changes a container itself}; each returns what puts it back."""
    if isinstance(value, list):
        return {"append": lambda: edit(value, list, [*value, 7]), "pop": lambda: edit(value, list, [*value][:-1]),
                "swap": lambda: edit(value, list, [*value][::-1])}  # fmt: skip
    if isinstance(value, dict):
        kind = collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict
        items = [*kind.items(value)]
        return {
            "insert": lambda: edit(value, kind, [*items, ("zz", 1)]),
            "remove": lambda: edit(value, kind, items[1:]),
            "reorder": lambda: edit(value, kind, items[::-1]),
        }
    if isinstance(value, set):
        return {"add": lambda: edit(value, set, [*value, 77]), "discard": lambda: edit(value, set, [*value][1:])}
    return {}


def edit(value, kind, items):
    before = [*kind.items(value)] if issubclass(kind, dict) else [*kind.__iter__(value)]

    def put(these):
        if kind is list:
            list.__setitem__(value, slice(None), these)
        else:
            kind.clear(value)
            kind.update(value, these)

    put(items)
    return lambda: put(before)
