"""Graphs belong to code: compiled methods of the same function look for regions in one table.

Twelve blocks of one class, each with `.compile()`: what differs between them (parameters, attributes) is read through
`self`, an argument, and guarded, so the regions of one fit the others as far as their guards allow. A table lives as
long as one of the compiled methods; it has no reference to any of their objects.

Methods share if their objects are of one class, and modules if their parameters and buffers are also alike: those that
would need other graphs anyway only make each other's look-ups longer. One that finds the table crowded leaves it
(Captured::leave_table). Functions of their own do not share, even over the same code: a region reads closures and
defaults through the function that it was captured from.
"""

from __future__ import annotations

import threading
import types
import weakref

import torch
from torch.nn.parameter import is_lazy

from alternator import _capture

# id of a code object -> (the code object, weakly; tables, weakly). Code objects that are equal are not the same code.
tables = {}
lock = threading.RLock()


def find_table(fn, options):
    """Find the table for a method with such options, or make it; None if there is nothing to share."""
    function = fn.__func__ if isinstance(fn, types.MethodType) else None
    if not isinstance(function, types.FunctionType):
        return None
    owner = describe_owner(fn.__self__)
    if owner is None:
        return None
    key = (function, owner, *options)
    with lock:
        entries = find_entries(function.__code__)
        for reference in list(entries):
            table = reference()
            if table is None:
                entries.remove(reference)
            elif table.key is not None and table.key[0] is function and table.key == key:
                return table
        table = _capture.PointTable(key)
        entries.append(weakref.ref(table))
        return table


def find_entries(code):
    key = id(code)
    found = tables.get(key)
    if found is None or found[0]() is not code:
        found = tables[key] = weakref.ref(code, lambda _: tables.pop(key, None)), []
    return found[1]


def describe_owner(owner):
    """Say which objects' methods share: those of a class, and of modules those with the same tensors."""
    if not isinstance(owner, torch.nn.Module):
        return (type(owner),)
    rows = []
    for path, module in list_modules(owner):
        for registry in ("_parameters", "_buffers"):
            for name, tensor in module.__dict__.get(registry, {}).items():
                if tensor is not None and is_lazy(tensor):
                    return None
                facts = () if tensor is None else (tensor.shape, tensor.dtype, tensor.device, tensor.requires_grad)
                rows.append((path, name, *facts))
    return type(owner), tuple(rows)


def list_modules(owner):
    """List a module and those in it by path, each once, without running anybody's code."""
    seen, waiting = set(), [("", owner)]
    while waiting:
        path, module = waiting.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield path, module
        children = module.__dict__.get("_modules", {}).items()
        waiting.extend((f"{path}.{name}", child) for name, child in children if child is not None)
