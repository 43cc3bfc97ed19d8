"""Changes to what a guard watches: for every kind of guard ways to make it not hold, each with the way back.

A change is a generator that does it, yields what it did, and puts everything back. `changes_of(row)` gives the changes
for a row of `Captured.inspect()`; none if what the guard watches cannot be changed from Python.
"""

import builtins
import collections
import sys
import types

import torch

Row = collections.namedtuple("Row", "kind expect parent key index text")


class Other:
    """An object of a type that no program expects."""


OTHER = Other()


class OtherDict(dict):
    """A dict of another type."""


def other_value(value):
    """Return a primitive of the same type and another value, if there is one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float, complex)):
        return value * 2 + 1
    if isinstance(value, (str, bytes)):
        return value + value[:1] if value else value + type(value)(b"x" if isinstance(value, bytes) else "x")
    return OTHER


def set_item(mapping, key, value):
    """Set an item of a dict, and put the dict back as it was, order and all."""
    items = list(dict.items(mapping))
    dict.__setitem__(mapping, key, value) if type(mapping) is dict else mapping.__setitem__(key, value)
    yield f"item set to {type(value).__name__}"
    restore(mapping, items)


def delete_item(mapping, key):
    items = list(dict.items(mapping))
    mapping.__delitem__(key)
    yield "item deleted"
    restore(mapping, items)


def restore(mapping, items):
    if [key for key, _ in items] == list(mapping):
        for key, value in items:
            if mapping[key] is not value:
                mapping[key] = value
        return
    if [key for key, _ in items] == [key for key in mapping if key in dict(items)]:
        for key in [key for key in mapping if key not in dict(items)]:
            del mapping[key]
        return restore(mapping, items)
    for key in list(mapping):
        del mapping[key]
    for key, value in items:
        mapping[key] = value


def set_builtin(mapping, key, value):
    put, old = mapping.__setitem__, mapping[key]
    put(key, value)
    yield "builtin set"
    put(key, old)


def is_vital(mapping):
    """Tell whether the interpreter itself looks into this dict all the time: it stays complete."""
    return mapping is vars(builtins) or mapping is sys.modules


def change_item(row):
    present = row.key in row.parent
    value = row.parent[row.key] if present else None
    if is_vital(row.parent):
        yield set_builtin(row.parent, row.key, OTHER)
        return
    if row.expect != "Present":
        yield set_item(row.parent, row.key, OTHER)
    if row.expect == "Value":
        yield set_item(row.parent, row.key, other_value(value))
    if present:
        yield delete_item(row.parent, row.key)


def set_attribute(parent, name, value):
    """Set an attribute that the object itself holds, whatever its class says."""
    by = type(parent) if isinstance(parent, (types.ModuleType, types.FunctionType, torch.Tensor)) else object
    own = own_attributes(parent)
    was = name in own
    old = own.get(name)
    by.__setattr__(parent, name, value)
    yield f"attribute set to {type(value).__name__}"
    by.__setattr__(parent, name, old) if was else by.__delattr__(parent, name)


def delete_attribute(parent, name):
    old = own_attributes(parent)[name]
    object.__delattr__(parent, name)
    yield "attribute deleted"
    object.__setattr__(parent, name, old)


def own_attributes(parent):
    # Looking at __dict__ may move the attributes: which is no reason for a guard to fail.
    return dict(parent.__dict__) if hasattr(parent, "__dict__") else {}


def change_attribute(row):
    own = own_attributes(row.parent)
    if row.expect != "Present":
        yield set_attribute(row.parent, row.key, OTHER)
    if row.expect == "Value":
        yield set_attribute(row.parent, row.key, other_value(own[row.key]))
    if row.key in own and type(row.parent).__setattr__ is object.__setattr__:
        yield delete_attribute(row.parent, row.key)


def set_index(items, index, value):
    old = items[index]
    items[index] = value
    yield f"item set to {type(value).__name__}"
    items[index] = old


def change_sequence(row):
    if isinstance(row.parent, list):
        yield set_index(row.parent, row.index, OTHER)
        if row.expect == "Value":
            yield set_index(row.parent, row.index, other_value(row.parent[row.index]))


def append(items):
    items.append(OTHER)
    yield "appended"
    items.pop()


def pop(items):
    last = items.pop()
    yield "popped"
    items.append(last)


def add_member(members):
    members.add(OTHER)
    yield "added"
    members.discard(OTHER)


def change_length(row):
    if isinstance(row.parent, dict):
        yield set_item(row.parent, "alternator", OTHER)
        if row.parent:
            yield delete_item(row.parent, next(iter(row.parent)))
    elif isinstance(row.parent, list):
        yield append(row.parent)
        if row.parent:
            yield pop(row.parent)
    elif isinstance(row.parent, set):
        yield add_member(row.parent)


def reorder(mapping):
    items = list(mapping.items())
    key, value = items[0]
    del mapping[key]
    mapping[key] = value
    yield "reordered"
    restore(mapping, items)


def move_to_end(mapping):
    items = list(mapping.items())
    mapping.move_to_end(items[0][0])
    yield "moved to the end"
    restore(mapping, items)


def change_keys(row):
    yield set_item(row.parent, "alternator", OTHER)
    if len(row.parent) > 1:
        yield reorder(row.parent)
        if isinstance(row.parent, collections.OrderedDict):
            yield move_to_end(row.parent)


def set_contents(cell, value):
    old = cell.cell_contents
    cell.cell_contents = value
    yield f"contents set to {type(value).__name__}"
    cell.cell_contents = old


def empty_cell(cell):
    old = cell.cell_contents
    del cell.cell_contents
    yield "contents deleted"
    cell.cell_contents = old


def change_cell(row):
    yield empty_cell(row.parent) if row.expect == "Present" else set_contents(row.parent, OTHER)
    if row.expect == "Value":
        yield set_contents(row.parent, other_value(row.parent.cell_contents))


def set_slot(parent, name, value):
    old = getattr(parent, name, OTHER)
    setattr(parent, name, value)
    yield f"slot set to {type(value).__name__}"
    delattr(parent, name) if old is OTHER else setattr(parent, name, old)


def delete_slot(parent, name):
    old = getattr(parent, name)
    delattr(parent, name)
    yield "slot deleted"
    setattr(parent, name, old)


def change_slot(row):
    if isinstance(row.parent, types.FunctionType):
        yield from change_function(row)
    elif isinstance(type(row.parent).__dict__.get(row.key), types.MemberDescriptorType):
        present = row.expect == "Present"
        yield delete_slot(row.parent, row.key) if present else set_slot(row.parent, row.key, OTHER)


def change_function(row):
    function = row.parent
    code = function.__code__
    if row.key == "__code__":
        yield set_slot(function, "__code__", code.replace(co_name=code.co_name + "_"))
    if row.key == "__defaults__":
        yield set_slot(function, "__defaults__", (*(function.__defaults__ or ()), OTHER))
        if function.__defaults__:
            yield set_slot(function, "__defaults__", (OTHER, *function.__defaults__[1:]))
    if row.key == "__kwdefaults__":
        yield set_slot(function, "__kwdefaults__", {**(function.__kwdefaults__ or {}), "alternator": OTHER})


def set_dict(parent):
    old = parent.__dict__
    parent.__dict__ = OtherDict(old)
    yield "__dict__ replaced"
    parent.__dict__ = old


def change_instance_dict(row):
    if not isinstance(row.parent, (types.ModuleType, type)):
        yield set_dict(row.parent)


def change_annotations(row):
    yield set_slot(row.parent, "__annotations__", OtherDict(row.parent.__annotations__))


def set_class_attribute(cls, name, value):
    was = name in vars(cls)
    old = vars(cls).get(name)
    setattr(cls, name, value)
    yield f"class attribute {name} set"
    setattr(cls, name, old) if was else delattr(cls, name)


def change_class(row):
    # Classes that this very code needs stay as they are.
    if row.parent.__module__.split(".")[0] in ("enum", "abc", "collections", "_pytest", "pytest", "typing", "inspect"):
        return
    yield set_class_attribute(row.parent, "alternator", 1)
    plain = (types.FunctionType, int, str, float, tuple)
    names = [n for n, v in vars(row.parent).items() if type(v) in plain and not n.startswith("__")]
    for name in names[:2]:
        yield set_class_attribute(row.parent, name, OTHER)


def change_class_attribute(row):
    if row.key in vars(row.parent) and not row.key.startswith("__"):
        yield set_class_attribute(row.parent, row.key, OTHER)


def set_data(tensor, make):
    # Through .data, as optimizers and loaders do it; the guard looks at the same object.
    old = tensor.data
    tensor.data = make(old)
    yield "data replaced"
    tensor.data = old


def set_requires_grad(tensor):
    tensor.requires_grad_(not tensor.requires_grad)
    yield "requires_grad"
    tensor.requires_grad_(not tensor.requires_grad)


def change_tensor(row):
    tensor = row.parent
    yield set_data(tensor, lambda t: torch.empty((*t.shape, 2), dtype=t.dtype))
    yield set_data(
        tensor, lambda t: torch.empty_like(t, dtype=torch.float64 if t.dtype != torch.float64 else torch.half)
    )
    if tensor.numel() > 1:
        yield set_data(
            tensor,
            lambda t: torch.empty(2 * t.numel(), dtype=t.dtype)[::2][: t.numel()].as_strided(
                t.shape, [2 * s for s in t.stride()]
            ),
        )
    if tensor.dim() > 1 and tensor.shape[0] != tensor.shape[1]:
        yield set_data(tensor, lambda t: torch.empty(t.transpose(0, 1).shape, dtype=t.dtype))
    if tensor.is_leaf and tensor.is_floating_point():
        yield set_requires_grad(tensor)


def set_grad(tensor, value):
    old = tensor.grad
    tensor.grad = value
    yield "gradient"
    tensor.grad = old


def change_gradient(row):
    yield set_grad(row.parent, torch.zeros_like(row.parent) if row.parent.grad is None else None)


CHANGES = {
    "DictItem": change_item,
    "OwnAttribute": change_attribute,
    "SequenceItem": change_sequence,
    "CellContents": change_cell,
    "Slot": change_slot,
    "Length": change_length,
    "DictKeys": change_keys,
    "InstanceDict": change_instance_dict,
    "Annotations": change_annotations,
    "TypeVersion": change_class,
    "ClassAttribute": change_class_attribute,
    "TensorFacts": change_tensor,
    "Gradient": change_gradient,
}

# What cannot be changed from Python, or not be put back; arguments are changed by making another call.
UNCHANGEABLE = {
    *("Local", "MethodPart", "Distinct", "AllDistinct", "Referent", "Setting", "CAttribute", "SetItems", "Word"),
} | {
    "IteratorItem", "IteratorMore", "IteratorEnd"
}  # fmt: skip


def changes_of(row):
    row = Row(*row)
    return CHANGES[row.kind](row) if row.kind not in UNCHANGEABLE else ()
