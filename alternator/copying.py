"""Stand-ins (stand_ins.py) for the C code behind copy.copy and copy.deepcopy: what an object is made of.

The functions of `copy` itself are Python code like any other; a row of contracts.py lets them use addresses as keys.
"""

from __future__ import annotations

import collections
import copy
import copyreg

HEAP_TYPE = 1 << 9
WORD = tuple.__itemsize__


def deep_copy(x, memo=None, /):
    """A break anywhere in it is one at the call: what it keeps by address can be no part of an exit."""
    return copy.deepcopy(x, memo)


def reduce_object(self, protocol=0, /):
    """Stand for object.__reduce_ex__."""
    cls = type(self)
    if cls.__reduce__ is not object.__reduce__:
        return self.__reduce__()
    if protocol < 2 or not cls.__flags__ & HEAP_TYPE or hasattr(cls, "__getnewargs_ex__"):
        raise TypeError
    has_args = hasattr(cls, "__getnewargs__")
    args = tuple(self.__getnewargs__()) if has_args else ()
    is_list, is_dict = isinstance(self, list), isinstance(self, dict)
    if cls.__getstate__ is object.__getstate__:
        state = list_state(self, not (has_args or is_list or is_dict))
    else:
        state = self.__getstate__()
    items, pairs = iter(self) if is_list else None, iter(self.items()) if is_dict else None
    return copyreg.__newobj__, (cls, *args), state, items, pairs


def list_state(self, is_all):
    """Give the attributes and slots. `is_all`: the object must have nothing else."""
    cls = type(self)
    slots = list_slots(cls)
    has_dict = hasattr(self, "__dict__")
    expected = object.__basicsize__ + WORD * (has_dict + (cls.__weakrefoffset__ != 0) + len(slots))
    if is_all and (cls.__itemsize__ or cls.__basicsize__ > expected):
        raise TypeError
    state = self.__dict__ if has_dict else None
    values = {}
    for name in slots:
        if hasattr(self, name):
            values[name] = getattr(self, name)
    return (state, values) if values else state


def list_slots(cls):
    names = []
    for base in cls.__mro__:
        slots = getattr(base, "__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name in ("__dict__", "__weakref__") or name in names:
                continue
            if name.startswith("__"):
                raise TypeError  # its real name depends on the class
            names.append(name)
    return names


def reduce_set(self, /):
    refuse_subclasses(self, (set, frozenset))
    return type(self), ([*self],), None


def reduce_deque(self, /):
    refuse_subclasses(self, (collections.deque,))
    return type(self), () if self.maxlen is None else ((), self.maxlen), None, iter(self)


def reduce_default_dict(self, /):
    refuse_subclasses(self, (collections.defaultdict,))
    factory = self.default_factory
    return type(self), () if factory is None else (factory,), None, None, iter(self.items())


def copy_default_dict(self, /):
    return type(self)(self.default_factory, self)


def reduce_ordered_dict(self, /):
    refuse_subclasses(self, (collections.OrderedDict,))
    return type(self), (), None, None, iter(self.items())


def refuse_subclasses(value, classes):
    """Their objects have attributes of their own."""
    if type(value) not in classes:
        raise TypeError


COPY_STAND_INS = {
    copy.deepcopy: deep_copy,
    object.__reduce_ex__: reduce_object,
    set.__reduce__: reduce_set,
    frozenset.__reduce__: reduce_set,
    collections.deque.__reduce__: reduce_deque,
    collections.defaultdict.__reduce__: reduce_default_dict,
    collections.defaultdict.__copy__: copy_default_dict,
    collections.defaultdict.copy: copy_default_dict,
    collections.OrderedDict.__reduce__: reduce_ordered_dict,
}
