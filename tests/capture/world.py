"""Pictures of what a program can reach, and two ways to compare them.

A picture is taken from named roots. It goes through globals, cells, classes, attributes, containers, iterators and
tensors of the program; what belongs to others (their modules, classes and functions) is looked at from outside only.

    changes(before, after)     the same world at two times: every object is where it was and as it was
    differences(one, other)    two worlds that were made alike: equal values, and the same objects in the same places
"""

import collections
import contextvars
import gc
import itertools
import os
import random
import signal
import sys
import types
import warnings
import weakref

import torch

from alternator.testing import generator_state, own_attributes

ATOMS = (
    *(type(None), type(...), type(NotImplemented), bool, int, float, complex, str, bytes, range, types.CodeType),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size),
    *(types.FrameType, types.TracebackType),  # every run makes its own
)
C_CALLABLES = (
    *(types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType),
    *(types.GetSetDescriptorType, types.MemberDescriptorType, types.ClassMethodDescriptorType),
)
# Names in classes and modules that are caches, or descriptors that show what is shown already.
UNSTABLE = {"_abc_impl", "__dict__", "__weakref__", "__warningregistry__", "__builtins__", "__annotations__"}
UNSTABLE |= {"_torchdynamo_wrapper_id"}
ITERATORS = (
    *(type(iter([])), type(reversed([])), type(iter(())), type(iter("")), type(iter(range(1))), type(iter(b""))),
    *(type(iter({})), type(iter({}.values())), type(iter({}.items())), type(iter(set())), type(reversed({}))),
    *(type(iter(collections.deque())), enumerate, zip, map, filter, reversed),
    *(itertools.count, itertools.cycle, itertools.repeat, itertools.chain, itertools.islice, itertools.accumulate),
)


class Node:
    """One object: `head` are its own values, `place` what only this very object has, `parts` what it leads to."""

    __slots__ = ("head", "object", "parts", "path", "place")

    def __init__(self, object, path, head, parts=(), place=()):
        self.object = object  # kept alive, so that no other object gets its address
        self.path = path
        self.head = head
        self.place = place
        self.parts = parts


class Picture:
    """What can be reached from `roots` (a dict). `spaces` are the namespaces that belong to the program.

    With `outside`, what is not the program's is looked at from outside, for changes(); otherwise not at all.
    """

    def __init__(self, roots, spaces=(), outside=True):
        self.roots = dict(roots)
        self.outside = outside
        self.spaces = {id(space) for space in spaces}
        self.names = {space.get("__name__") for space in spaces}
        self.nodes = {}
        self.state = process_state()
        queue = collections.deque((name, value) for name, value in self.roots.items())
        while queue:
            path, value = queue.popleft()
            if id(value) in self.nodes or is_ours(value):
                continue
            node = self.nodes[id(value)] = self.look(value, path)
            queue.extend((path + label, part) for label, part in node.parts)

    def is_foreign(self, value):
        if isinstance(value, types.ModuleType):
            return id(vars(value)) not in self.spaces
        if isinstance(value, types.FunctionType):
            return id(value.__globals__) not in self.spaces and not value.__closure__ and not value.__defaults__
        return isinstance(value, type) and value.__module__ not in self.names

    def look(self, value, path):
        cls = type(value)
        if cls in ATOMS or cls in C_CALLABLES or isinstance(value, weakref.ref):
            return Node(value, path, (cls.__name__, shown_atom(value)))
        if self.is_foreign(value):
            return Node(value, path, (cls.__name__, name_of(value)), place=self.outside and outside_of(value))
        if isinstance(value, torch.Tensor):
            return look_at_tensor(value, path)
        if isinstance(value, torch.Generator):
            return Node(value, path, ("generator", bytes(value.get_state().numpy())))
        if isinstance(value, type):
            return Node(value, path, ("class", value.__qualname__), parts_of_class(value))
        if isinstance(value, ITERATORS):
            head, parts = look_at_iterator(value)
            return Node(value, path, head, parts)
        if isinstance(value, (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)):
            return look_at_generator(value, path)
        if isinstance(value, types.FunctionType):
            parts = parts_of_function(value)
            if id(value.__globals__) in self.spaces:
                parts.append((".__globals__", value.__globals__))
            return Node(value, path, ("function", value.__qualname__), parts)
        head, parts = look_into(value)
        return Node(value, path, head, parts)


def is_ours(value):
    """Tell what the project itself keeps: captured functions and their regions."""
    return type(value).__module__.partition(".")[0] == "alternator"


def shown_atom(value):
    if isinstance(value, (types.FrameType, types.TracebackType, weakref.ref)):
        return ""
    return value.co_name if isinstance(value, types.CodeType) else name_of(value)


def name_of(value):
    return getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or repr(value)


def outside_of(value):
    """What others' modules and classes hold, by identity: a patch that was left behind shows."""
    if isinstance(value, types.FunctionType):
        return (id(value.__code__), id(value.__defaults__), id(value.__kwdefaults__))
    if value.__name__.startswith(("torch.", "sympy", "numpy")) and isinstance(value, types.ModuleType):
        return ()  # they import and cache when they like
    return tuple((name, id(part)) for name, part in vars(value).items() if name not in UNSTABLE)


def parts_of_class(cls):
    parts = [("." + name, part) for name, part in vars(cls).items() if name not in UNSTABLE]
    return [*parts, *((f".__bases__[{i}]", base) for i, base in enumerate(cls.__bases__))]


def parts_of_function(function):
    names = ("__code__", "__defaults__", "__kwdefaults__", "__closure__", "__annotations__")
    parts = [("." + name, getattr(function, name)) for name in names]
    attributes = [(name, part) for name, part in own_attributes(function) if name not in UNSTABLE]
    return [*parts, *(("." + name, part) for name, part in attributes)]


def parts_of(value, but=()):
    """What the collector sees. For others' C types there is nothing better."""
    skipped = {id(part) for part in but} | {id(type(value))}
    return [(f"~{i}", part) for i, part in enumerate(gc.get_referents(value)) if id(part) not in skipped]


def look_into(value):
    """Containers, instances, and everything else."""
    parts, head = [], [type(value).__qualname__]
    but = [value]
    if isinstance(value, dict):
        ordered = isinstance(value, collections.OrderedDict)
        for i, (key, item) in enumerate((collections.OrderedDict if ordered else dict).items(value)):
            but += [key, item]
            if key not in UNSTABLE:
                parts += [(f"<key {i}>", key), (f"[{key!r}]" if type(key) in ATOMS else f"[key {i}]", item)]
    elif isinstance(value, (list, tuple, collections.deque)):
        items = list(type(value).__iter__(value)) if isinstance(value, collections.deque) else value[:]
        parts += [(f"[{i}]", item) for i, item in enumerate(items)]
        head.append(getattr(value, "maxlen", None))
        but += items
    elif isinstance(value, (set, frozenset)):
        items = sorted(value, key=lambda item: (type(item).__name__, repr(item) if type(item) in ATOMS else ""))
        parts += [(f"{{{i}}}", item) for i, item in enumerate(items)]
        but += items
    elif isinstance(value, (bytearray, memoryview)):
        head.append(bytes(value))
    elif isinstance(value, random.Random):
        head.append(value.getstate())
    attributes = own_attributes(value)
    parts += [("." + name, item) for name, item in attributes if name not in UNSTABLE]
    but += [item for _, item in attributes] + [name for name, _ in attributes]
    but += [part for part in gc.get_referents(value) if is_dict_of(part, attributes)]
    return tuple(head), [*parts, *parts_of(value, but)]


def is_dict_of(part, attributes):
    """The instance's __dict__, if it has one: made on demand, which nobody can see."""
    return type(part) is dict and [(id(k), id(v)) for k, v in part.items()] == [(id(k), id(v)) for k, v in attributes]


def look_at_iterator(value):
    """Where the iterator stands. What __reduce__ makes for the occasion is taken apart down to what it holds."""
    parts = []

    def flat(item, depth):
        if type(item) in (tuple, list) and depth < 4:
            return (type(item).__name__, *(flat(one, depth + 1) for one in item))
        if type(item) in ATOMS:
            return repr(item)
        parts.append((f"~{len(parts)}", item))
        return len(parts)

    try:
        position = flat(value.__reduce__()[1:], 0)
    except RuntimeError as error:  # a dict that changed under its iterator
        position = str(error)
    return (type(value).__name__, position), parts


def look_at_generator(value, path):
    state = generator_state(value)
    if state is not None:
        code, offset, variables, stack, handled = state
        parts = [(f"~local {i}", held) for i, held in enumerate(variables)]
        parts += [(f"~stack {i}", held) for i, held in enumerate(stack)]
        head = (type(value).__name__, value.__name__, value.__qualname__, offset)
        return Node(value, path, head, [("~code", code), *parts, ("~handled", handled)])
    if isinstance(value, types.GeneratorType):  # running or at its end
        return Node(value, path, (type(value).__name__, value.__name__, value.__qualname__, value.gi_running))
    head = (type(value).__name__, value.__qualname__)
    return Node(value, path, head, [part for part in parts_of(value) if not isinstance(part[1], types.FrameType)])


def look_at_tensor(value, path):
    with torch._C.DisableTorchFunction(), torch.no_grad():
        storage = value.untyped_storage()
        content = bytes(torch.empty(0, dtype=torch.uint8).set_(storage).numpy()) if value.device.type == "cpu" else b""
        head = (
            *(type(value).__qualname__, str(value.dtype), str(value.device), str(value.layout)),
            *(tuple(value.shape), value.stride(), value.storage_offset(), value.requires_grad, value.is_leaf),
            *(type(value.grad_fn).__name__, content, value.is_inference() or value._version),
        )
        place = (storage.data_ptr(), storage._cdata, id(value.grad_fn))
        parts = [(".grad", value.grad)] if value.is_leaf else []
    parts += [("." + name, item) for name, item in own_attributes(value)]
    return Node(value, path, head, parts, place)


def process_state():
    """State that belongs to no object of the program."""
    return {
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "autocast": [
            torch.is_autocast_enabled("cpu"),
            torch.get_autocast_dtype("cpu"),
            torch.is_autocast_cache_enabled(),
        ],
        "autocast nesting": (torch.autocast_increment_nesting(), torch.autocast_decrement_nesting()),
        "default dtype": torch.get_default_dtype(),
        "random numbers of torch": bytes(torch.get_rng_state().numpy()),
        "random numbers": random.getstate(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "function modes": torch._C._len_torch_function_stack(),
        "dispatch modes": torch._C._len_torch_dispatch_stack(),
        "torch functions": torch._C._is_torch_function_enabled(),
        "dispatch keys": [
            str(torch._C._dispatch_tls_local_include_set()),
            str(torch._C._dispatch_tls_local_exclude_set()),
        ],
        "compiling": torch.compiler._is_compiling_flag,
        "handled exception": id(sys.exc_info()[1]),
        "collector": (gc.isenabled(), gc.get_threshold()),
        "recursion limit": sys.getrecursionlimit(),
        "tracing": (id(sys.gettrace()), id(sys.getprofile())),
        "context": [(id(name), id(value)) for name, value in contextvars.copy_context().items()],
        "warning filters": list(warnings.filters),
        "environment": dict(os.environ),
        "path": list(sys.path),
        "SIGINT": id(signal.getsignal(signal.SIGINT)),
    }


def shown(node):
    return "nothing" if node is None else f"{node.head[0]} {name_of(node.object)[:60]}"


def changes(before, after):
    """Tell what is not as it was, as lines of text. Both pictures must be alive."""
    lines = [
        f"state: {name} was {was}, is {after.state[name]}"[:300]
        for name, was in before.state.items()
        if was != after.state[name]
    ]
    for key, old in before.nodes.items():
        new = after.nodes.get(key)
        if new is None:
            continue  # whoever led here has changed
        if (old.head, old.place) != (new.head, new.place):
            lines.append(f"{old.path}: was {old.head} {old.place}, is {new.head} {new.place}"[:600])
        was = [(label, id(part)) for label, part in old.parts]
        now = [(label, id(part)) for label, part in new.parts]
        if was != now:
            label = next((a or b)[0] for a, b in itertools.zip_longest(was, now) if a != b)
            old_part, new_part = (dict(node.parts).get(label, "<nothing>") for node in (old, new))
            lines.append(f"{old.path}{label}: was {show(old_part)}, is {show(new_part)}")
    return lines


def show(value):
    return f"{value!r}"[:80] + f" at {id(value):#x}"


# For a backend that computes in its own way: not bit by bit, and what only the way tells.
INEXACT_STATE = {"random numbers of torch"}


def differences(one, other, *, exact=True, limit=8):
    """Tell where two worlds that were made alike differ, as lines of text."""
    lines = [
        f"state: {name}: {value} and {other.state[name]}"[:300]
        for name, value in one.state.items()
        if name not in ("handled exception", "context", "warning filters", *(() if exact else INEXACT_STATE))
        and value != other.state[name]
    ]
    pairs, partners = {}, {}
    queue = collections.deque((name, one.roots[name], other.roots[name]) for name in one.roots)
    while queue and len(lines) < limit:
        path, a, b = queue.popleft()
        node_a, node_b = one.nodes.get(id(a)), other.nodes.get(id(b))
        if node_a is None or node_b is None:
            continue  # ours
        if pairs.get(id(a), id(b)) != id(b) or partners.get(id(b), id(a)) != id(a):
            if type(a) not in ATOMS:
                lines.append(f"{path}: is the same as {node_a.path} here, as {node_b.path} there")
            elif node_a.head != node_b.head:
                lines.append(f"{path}: {node_a.head} and {node_b.head}")
            continue
        if id(a) in pairs:
            continue
        pairs[id(a)], partners[id(b)] = id(b), id(a)
        if not exact and isinstance(a, torch.Tensor) and are_close(a, b):
            continue
        heads = [node_a.head, node_b.head]
        if heads[0] != heads[1]:
            lines.append(f"{path}: {heads[0]} and {heads[1]}"[:600])
            continue
        if isinstance(a, torch.Tensor):
            here, there = (("storage", node.place[1]) for node in (node_a, node_b))
            if pairs.setdefault(here, there) != there or partners.setdefault(there, here) != here:
                lines.append(f"{path}: shares memory in one of the two only")
        labels = [[label for label, _ in node.parts] for node in (node_a, node_b)]
        if labels[0] != labels[1]:
            lines.append(f"{path}: has {labels[0]} and {labels[1]}"[:600])
            continue
        queue.extend((path + label, x, y) for (label, x), (_, y) in zip(node_a.parts, node_b.parts, strict=True))
    return lines


def are_close(a, b):
    """Tell whether two tensors are the same to a program that does not look at bits."""
    facts = [(type(t), t.dtype, t.shape, t.stride(), t.requires_grad, t.is_leaf) for t in (a, b)]
    return facts[0] == facts[1] and torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
