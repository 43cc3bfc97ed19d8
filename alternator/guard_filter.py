"""options={"guard_filter_fn": ..}: the program sees the guards of a region as TorchDynamo's entries, and drops some.

A guard of ours becomes one entry with the type that TorchDynamo has for such a check. Which ones stay in any case is
said in csrc/region/filtering.cpp.
"""

from __future__ import annotations

import types

import torch
from torch._guards import Guard, GuardSource, Source

# Guards that relate several objects. TorchDynamo does not offer them either.
RELATIONS = ("Distinct", "AllDistinct")

# By kind of guard, whatever it expects.
KINDS = {
    "TensorFacts": "TENSOR_MATCH",
    "TypeVersion": "TYPE_MATCH",
    "Length": "SEQUENCE_LENGTH",
    "DictKeys": "DICT_KEYS_MATCH",
    "DictKey": "DICT_KEYS_MATCH",
    "SetItems": "SET_CONTAINS",
    "SetLayout": "SET_CONTAINS",
    "IteratorMore": "TUPLE_ITERATOR_LEN",
    "IteratorEnd": "TUPLE_ITERATOR_LEN",
    "Referent": "WEAKREF_ALIVE",
    "Setting": "GLOBAL_STATE",
    "Word": "EQUALS_MATCH",
}
PINNED = (
    ((types.FunctionType, types.MethodType, types.CodeType), "CLOSURE_MATCH"),
    (types.ModuleType, "MODULE_MATCH"),
    (type, "CLASS_MATCH"),
    (types.BuiltinFunctionType, "BUILTIN_MATCH"),
)


class GuardedSource(Source):
    """What a guard looks at."""

    def __init__(self, name, kind):
        self._text = name
        self._kind = kind

    @property
    def _name_template(self):
        return self._text

    @property
    def guard_source(self):
        return self._kind


def make_filter(choose):
    """Make the function that the core calls, of the program's `guard_filter_fn`."""

    def filter_guards(found):
        entries = [
            make_entry("", "GLOBAL_STATE", GuardSource.GLOBAL),
            make_entry("", "SHAPE_ENV", GuardSource.SHAPE_ENV),
        ]
        numbers = []
        rows, objects = found
        origins = find_origins(rows, objects)
        for number, (kind, expected, parent, name, value) in enumerate(rows):
            if kind not in RELATIONS and expected != "SameNode":
                numbers.append(number)
                guard_type, derived = classify(kind, expected, value)
                module = value if isinstance(value, torch.nn.Module) else origins[parent] if parent >= 0 else None
                source = find_source(name, module)
                entries.append(make_entry(name, guard_type, source, derived, value))
        answers = choose(entries)
        if len(answers) != len(entries):
            raise AssertionError(f"filter_results length ({len(answers)}) != sorted_guards length ({len(entries)})")
        if not all(type(answer) is bool for answer in answers):
            raise AssertionError("All filter_results entries must be bool")
        kept = [True] * len(rows)
        for number, answer in zip(numbers, answers[2:], strict=True):
            kept[number] = answer
        return kept, *answers[:2]

    return filter_guards


def find_origins(rows, objects):
    """Find for each node the module that it belongs to, as far as it is reached through one."""
    found = [each if isinstance(each, torch.nn.Module) else None for each in objects]
    nodes = {id(each): node for node, each in enumerate(objects) if each is not ...}
    for _, expected, parent, _, value in rows:  # parents come first
        node = nodes.get(id(value)) if expected == "NewNode" else None
        if node is not None and found[node] is None and parent >= 0:
            found[node] = found[parent]
    return found


def find_source(name, module):
    is_global = name.startswith("G")
    if module is None:
        return GuardSource.GLOBAL if is_global else GuardSource.LOCAL
    is_torchs = type(module).__module__.startswith(("torch.nn.", "torch.ao."))
    scope, kind = "GLOBAL" if is_global else "LOCAL", "BUILTIN_NN_MODULE" if is_torchs else "NN_MODULE"
    return GuardSource[f"{scope}_UNSPECIALIZED_{kind}"]


def classify(kind, expected, value):
    """Tell the types that TorchDynamo has for a guard: its own, and what that comes to."""
    if kind in KINDS:
        return KINDS[kind], KINDS[kind]
    if expected == "Absent":
        name = "DICT_NOT_CONTAINS" if kind == "DictItem" else "HASATTR"
        return name, name
    if expected == "Present":
        name = "DICT_CONTAINS" if kind == "DictItem" else "HASATTR"
        return name, name
    if expected == "Pinned":
        return next((name for classes, name in PINNED if isinstance(value, classes)), "ID_MATCH"), "ID_MATCH"
    if expected == "Value":
        return "CONSTANT_MATCH", "ID_MATCH" if value is None or isinstance(value, bool) else "EQUALS_MATCH"
    return "TYPE_MATCH", "TYPE_MATCH"


def make_entry(name, guard_type, source, derived=None, value=...):
    from torch._dynamo.guards import GuardBuilder, strip_local_scope
    from torch._dynamo.types import GuardFilterEntry

    guard = Guard(GuardedSource(name, source), getattr(GuardBuilder, guard_type))
    return GuardFilterEntry(
        name=strip_local_scope(name),
        has_value=value is not ...,
        value=value,
        guard_type=guard_type,
        derived_guard_types=() if derived is None else (derived,),
        is_global=name.startswith("G"),
        orig_guard=guard,
    )
