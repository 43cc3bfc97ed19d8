"""A quick description of what a call left behind, to compare two worlds that were made alike.

`describe(roots)` gives a flat list of words: equal lists mean equal values of equal types in equal places, and the same
objects in the same places. It looks at less than world.Picture does (nothing of the process but torch's state), but a
small world takes some 50 µs, so that it can be done after each of a hundred thousand calls. It runs no code of the
program's.

With `exact=False`, for backends that compute in their own way, tensors are compared by their values with a tolerance.
"""

import collections
import functools
import itertools
import re
import traceback
import types
import weakref

import torch

from alternator.testing import own_attributes
from capture import mutations
from capture.world import ITERATORS, look_at_iterator

FILE = "<program>"
ATOMS = {
    *(type(None), type(...), type(NotImplemented), bool, int, float, complex, str, bytes, range, types.CodeType),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
}
NUMBERS_AND_TEXTS = (int, float, complex, str, bytes)
ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
OVERFLOWS = (RecursionError, MemoryError)  # how much there is of either depends on who runs the program
UNSEEN = {
    "__slotnames__",
    "__module__",
    "__dict__",
    "__weakref__",
    "__doc__",
    "__qualname__",
    "__annotations__",
    "_abc_impl",
}


OTHERS = ("_torchdynamo", "_dynamo", "__dynamo")  # notes that torch's own code leaves on functions and tensors


def is_note(name):
    return isinstance(name, str) and name.startswith(OTHERS)  # the names in a class's dict may be of any type


class Description:
    """Words of one world; `space` is the namespace whose functions and classes belong to the program."""

    def __init__(self, roots, space=None, exact=True, with_paths=False):
        self.words, self.paths, self.values = [], [] if with_paths else None, []
        self.path = []
        self.space, self.name, self.exact = space, space and space.get("__name__"), exact
        self.numbers, self.kept = {}, []
        for name, value in roots.items():
            self.part(name, value)

    def say(self, *words):
        self.words.append(words)
        if self.paths is not None:
            self.paths.append("".join(self.path))

    def part(self, label, value):
        if self.paths is None:
            self.add(value)
        else:
            self.path.append(label if isinstance(label, str) else f"[{label!r:.40}]")
            self.add(value)
            self.path.pop()

    def add(self, value):
        cls = type(value)
        if cls in ATOMS:
            return self.say(cls.__name__, show_atom(value))
        number = self.numbers.get(id(value))
        if number is not None:
            return self.say("same as", number)
        self.numbers[id(value)] = len(self.numbers)
        self.kept.append(value)  # or another object gets its address
        add = ADDERS.get(cls)
        if add is not None:
            return add(self, value)
        self.add_other(value, cls)

    def add_other(self, value, cls):
        if issubclass(cls, torch.Tensor):
            self.add_tensor(value)
        elif issubclass(cls, type):
            self.add_class(value)
        elif issubclass(cls, BaseException):
            self.add_exception(value)
        elif issubclass(cls, ITERATORS):
            head, parts = look_at_iterator(value)
            self.say(*head)
            for label, part in parts:
                self.part(label, part)
        else:
            self.say("object", cls.__qualname__)
            for base, add in CONTAINERS:
                if issubclass(cls, base):
                    add(self, value)
                    break
            else:
                if issubclass(cls, NUMBERS_AND_TEXTS):
                    base = next(kind for kind in NUMBERS_AND_TEXTS if issubclass(cls, kind))
                    self.say(base.__repr__(value))
            if not str(cls.__module__).startswith(("alternator", "torch._library")):
                self.add_attributes(value)

    def add_attributes(self, value):
        for name, part in own_attributes(value):
            if name not in UNSEEN and not is_note(name):
                self.say("attribute", str(name))
                self.part(f".{name}", part)
        for cls in type(value).__mro__:
            for name, member in vars(cls).items() if "__slots__" in vars(cls) else ():
                if isinstance(member, types.MemberDescriptorType):
                    try:
                        part = member.__get__(value)
                    except AttributeError:
                        continue
                    self.say("slot", name)
                    self.part("." + name, part)

    def add_items(self, value):
        items = list(list.__iter__(value)) if isinstance(value, list) else [*type(value).__iter__(value)]
        self.say(type(value).__name__, len(items), getattr(value, "maxlen", None))
        for i, item in enumerate(items):
            self.part(i, item)

    def add_tuple(self, value):
        self.say(type(value).__name__, tuple.__len__(value))
        for i, item in enumerate(tuple.__iter__(value)):
            self.part(i, item)

    def add_dict(self, value):
        ordered = isinstance(value, collections.OrderedDict) and not mutations.walks_by_hash(value)
        items = list((collections.OrderedDict if ordered else dict).items(value))
        self.say(type(value).__name__, len(items))
        if isinstance(value, collections.defaultdict):
            self.part(".default_factory", value.default_factory)
        for key, item in items:
            self.part("<key>", key)
            self.part(key, item)

    def add_set(self, value):
        items = [*(frozenset if isinstance(value, frozenset) else set).__iter__(value)]
        self.say(type(value).__name__, len(items))
        # The order in which a set gives its items can be seen; if addresses decide, it is another one in each world.
        if not all(map(has_plain_hash, items)):
            items.sort(key=lambda item: (type(item).__qualname__, show_atom(item) if type(item) in ATOMS else ""))
        for i, item in enumerate(items):
            self.part(i, item)

    def add_bytes(self, value):
        self.say("bytearray", bytes(value))

    def add_slice(self, value):
        self.say("slice")
        for name in ("start", "stop", "step"):
            self.part("." + name, getattr(value, name))

    def add_function(self, value):
        self.say("function", value.__qualname__, value.__code__.co_name)
        if value.__globals__ is self.space or value.__closure__:
            self.part(".__defaults__", value.__defaults__)
            self.part(".__kwdefaults__", value.__kwdefaults__)
            for cell in value.__closure__ or ():
                self.part(".cell", cell)
            for name, part in own_attributes(value):
                if not is_note(name):
                    self.say("attribute", name)
                    self.part("." + name, part)

    def add_cell(self, value):
        try:
            contents = value.cell_contents
        except ValueError:
            return self.say("cell", "empty")
        self.say("cell")
        self.part(".cell_contents", contents)

    def add_method(self, value):
        self.say("method")
        self.part(".__func__", value.__func__)
        self.part(".__self__", value.__self__)

    def add_builtin(self, value):
        self.say("builtin", value.__qualname__)
        if not isinstance(value.__self__, (types.ModuleType, type, type(None))):
            self.part(".__self__", value.__self__)

    def add_partial(self, value):
        self.say("partial")
        self.part(".func", value.func)
        self.part(".args", value.args)
        self.part(".keywords", value.keywords)

    def add_class(self, value):
        self.say("class", value.__qualname__)
        if value.__module__ == self.name:
            self.part(".__bases__", value.__bases__)
            for name, part in list(vars(value).items()):
                if name not in UNSEEN and not isinstance(
                    part, (types.MemberDescriptorType, types.GetSetDescriptorType)
                ):
                    self.say("attribute", name)
                    self.part("." + name, part)

    def add_module(self, value):
        self.say("module", value.__name__)

    def add_property(self, value):
        self.say("property")
        for name in ("fget", "fset", "fdel"):
            self.part("." + name, getattr(value, name))

    def add_wrapped(self, value):
        self.say(type(value).__name__)
        self.part(".__func__", value.__func__)

    def add_reference(self, value):
        self.say("weakref", value() is None)

    def add_generator(self, value):
        self.say("generator", value.__qualname__, value.gi_frame and value.gi_frame.f_lasti)

    def add_exception(self, value):
        self.say("exception", type(value).__qualname__, value.__suppress_context__)
        if isinstance(value, OVERFLOWS):
            return
        lines = traceback.extract_tb(value.__traceback__) if value.__traceback__ is not None else ()
        # Where CPython has joined two instructions, a variable without a value is missed in the line of the first.
        exact = not isinstance(value, UnboundLocalError)
        self.say(*((f.name, f.lineno if exact else 0) for f in lines if f.filename == FILE))
        if isinstance(value, BaseExceptionGroup):
            self.say(value.message)
            self.part(".exceptions", value.exceptions)
        else:
            self.part(".args", value.args)
        self.part(".__cause__", value.__cause__)
        self.part(".__context__", value.__context__)
        self.add_attributes(value)

    def add_tensor(self, value):
        try:
            history = value.is_leaf, type(value.grad_fn).__name__
        except RuntimeError as error:  # one of several views, of which another was written to
            return self.say("a tensor without a history", str(error)[:40])
        with torch._C.DisableTorchFunction(), torch.no_grad():
            if not self.exact:
                self.say(type(value).__qualname__, value.dtype, tuple(value.shape), value.stride(), value.requires_grad)
                self.values.append(value.detach().clone())
            else:
                storage = value.untyped_storage()
                content = bytes(torch.empty(0, dtype=torch.uint8).set_(storage).numpy())
                if self.paths is not None:
                    content = str(value.tolist()) if storage.nbytes() < 4000 else content  # for people to read
                memory = self.numbers.setdefault(("storage", storage._cdata), len(self.numbers))
                self.say(
                    *(
                        type(value).__qualname__,
                        value.dtype,
                        tuple(value.shape),
                        value.stride(),
                        value.storage_offset(),
                    ),
                    *(value.requires_grad, *history, content, memory),
                    value.is_inference() or value._version,
                )
            if history[0] and value.grad is not None:
                self.part(".grad", value.grad)
            self.add_attributes(value)


ADDERS = {
    **{kind: Description.add_items for kind in (list, collections.deque)},
    **{kind: Description.add_dict for kind in (dict, collections.OrderedDict, collections.defaultdict)},
    **{kind: Description.add_set for kind in (set, frozenset)},
    **{kind: Description.add_tuple for kind in (tuple, torch.Size)},
    **{kind: Description.add_wrapped for kind in (staticmethod, classmethod)},
    **{kind: Description.add_tensor for kind in (torch.Tensor, torch.nn.Parameter)},
    bytearray: Description.add_bytes,
    slice: Description.add_slice,
    types.FunctionType: Description.add_function,
    types.CellType: Description.add_cell,
    types.MethodType: Description.add_method,
    types.BuiltinFunctionType: Description.add_builtin,
    types.ModuleType: Description.add_module,
    types.GeneratorType: Description.add_generator,
    functools.partial: Description.add_partial,
    property: Description.add_property,
    weakref.ref: Description.add_reference,
}
CONTAINERS = [
    *((kind, Description.add_tuple) for kind in (tuple,)),
    *((kind, Description.add_items) for kind in (list, collections.deque)),
    (dict, Description.add_dict),
    *((kind, Description.add_set) for kind in (set, frozenset)),
]


def has_plain_hash(value):
    """Tell whether the hash is that of the value, which is the same in both worlds."""
    return all(map(has_plain_hash, value)) if type(value) is tuple else type(value) in ATOMS


def show_atom(value):
    if isinstance(value, types.CodeType):
        return value.co_name
    text = repr(value)
    return ADDRESS.sub("0x", text) if "0x" in text else text


def differences(one, other, limit=6):
    """Tell where two descriptions part, as lines of text."""
    lines = []
    for i, (a, b) in enumerate(itertools.zip_longest(one.words, other.words)):
        if a != b:
            path = next((w.paths[i] for w in (one, other) if w.paths and i < len(w.paths)), f"word {i}")
            lines.append(f"{path}: {shorten(a)} and {shorten(b)}")
            if len(lines) == limit or a is None or b is None or a[:1] != b[:1]:
                break  # what follows is not side by side any more
    if not lines and not one.exact:
        for a, b in zip(one.values, other.values, strict=True):
            if not torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True):
                lines.append(f"a tensor: {shorten(a.tolist())} and {shorten(b.tolist())}")
    return lines


def are_alike(one, other):
    if one.words != other.words:
        return False
    return one.exact or not differences(one, other)


def shorten(value):
    return f"{value}" if len(f"{value}") < 200 else f"{value}"[:200] + " ..."
