"""Python code that a trace runs in place of C functions that look into their arguments or call what they are given.

C code that takes items out of an iterator and compares them, or that calls another C function, does so unseen: what it
reads would have no guard. Its equal in Python is seen instruction by instruction. A stand-in serves the trace alone,
and only as long as all goes well: if it raises an exception the call runs for real, so that messages and tracebacks
are CPython's.

A stand-in calls the real function by its name. Reads of this file's globals need no guard.
"""

from __future__ import annotations

import _abc
import _collections
import collections
import functools
import itertools
import operator
import re

import torch

from alternator import _capture

_missing = object()


# ---- Functions over iterables --------------------------------------------------------------------------------------


def any_(iterable, /):
    for item in iterable:  # noqa: SIM110
        if item:
            return True
    return False


def all_(iterable, /):
    for item in iterable:  # noqa: SIM110
        if not item:
            return False
    return True


def is_disjoint(self, other, /):
    for item in other:  # noqa: SIM110
        if item in self:
            return False
    return True


def is_superset(self, other, /):
    for item in other:  # noqa: SIM110
        if item not in self:
            return False
    return True


def sum_(iterable, /, start=0):
    if isinstance(start, (str, bytes, bytearray)):
        raise TypeError
    for item in iterable:
        start = start + item
    return start


def make_extreme(is_better):
    def extreme(*args, key=None, default=_missing):
        best = best_key = _missing
        for item in args[0] if len(args) == 1 else args:
            item_key = item if key is None else key(item)
            if best is _missing or is_better(item_key, best_key):
                best, best_key = item, item_key
        if best is _missing and (default is _missing or len(args) != 1):
            raise ValueError
        return default if best is _missing else best

    return extreme


def reduce_(function, iterable, initial=_missing, /):
    result = initial
    for item in iterable:
        result = item if result is _missing else function(result, item)
    if result is _missing:
        raise TypeError
    return result


def sorted_(iterable, /, *, key=None, reverse=False):
    items = [*iterable]
    sort(items, key=key, reverse=reverse)
    return items


def sort(self, /, *, key=None, reverse=False):
    if key is None:
        _capture.look_into(self)
        return list.sort(self, reverse=reverse)
    keys = [key(item) for item in self]
    _capture.look_into(keys)
    ahead = iter(keys)
    return list.sort(self, key=lambda item: next(ahead), reverse=reverse)


def remove(self, value, /):
    del self[list.index(self, value)]


# ---- Functions that look into classes ------------------------------------------------------------------------------


def begin_abstract_class(cls, /):
    """Look at what decides which methods of a new class are abstract."""
    for value in cls.__dict__.values():
        getattr(value, "__isabstractmethod__", False)
    for base in cls.__bases__:
        for name in getattr(base, "__abstractmethods__", ()):
            getattr(getattr(cls, name, None), "__isabstractmethod__", False)
    return _abc._abc_init(cls)


# ---- Functions that call what they are given -----------------------------------------------------------------------


def map_(function, *iterables):
    return map(lambda *args: function(*args), *iterables)


def make_choice(cls):
    """Make the stand-in for an iterator that asks of each item whether something is true."""

    def choose(function, iterable, /):
        return cls((lambda item: bool(item)) if function is None else lambda item: bool(function(item)), iterable)

    return choose


def starmap(function, iterable, /):
    return itertools.starmap(lambda *args: function(*args), ((*args,) for args in iterable))


def accumulate(iterable, func=None, *, initial=None):
    if func is None:
        return itertools.accumulate(iterable, lambda a, b: a + b, initial=initial)
    return itertools.accumulate(iterable, lambda a, b: func(a, b), initial=initial)


def iter_(function, sentinel, /):
    return iter(lambda: look(function()), sentinel)


def groupby(iterable, key=None):
    return itertools.groupby(iterable, look if key is None else lambda item: look(key(item)))


def compress(data, selectors):
    return itertools.compress(data, (bool(selector) for selector in selectors))


def sub(self, /, repl, string, count=0):
    return self.sub(lambda match: repl(match), string, count)


def look(value):
    _capture.look_into(value)
    return value


# ---- Containers made of iterators ----------------------------------------------------------------------------------


def make_gathering(function):
    """Make the stand-in for a function that looks at the items of an iterator: it gets a list of them."""

    def gather(*args):
        return function(*[[*arg] if hasattr(type(arg), "__next__") else arg for arg in args])

    return gather


def dict_(pairs, /, **items):
    made = {}
    update(made, pairs, **items)
    return made


def ordered_dict(pairs, /, **items):
    made = collections.OrderedDict()
    update_by_items(made, pairs, **items)
    return made


def default_dict(factory=None, pairs=(), /, **items):
    made = collections.defaultdict(factory)
    update(made, pairs, **items)
    return made


def count_elements(mapping, iterable, /):
    for element in iterable:
        mapping[element] = mapping.get(element, 0) + 1


def chain_from(iterables, /):
    return itertools.chain.from_iterable((item for item in iterable) for iterable in iterables)


def update(self, pairs, /, **items):
    if hasattr(type(pairs), "keys"):
        return dict.update(self, pairs, **items)
    for pair in pairs:
        key, value = pair
        dict.__setitem__(self, key, value)
    dict.update(self, **items)


def update_by_items(self, pairs, /, **items):
    if hasattr(type(pairs), "keys"):
        return collections.OrderedDict.update(self, pairs, **items)
    for pair in pairs:
        key, value = pair
        self[key] = value
    for key, value in items.items():
        self[key] = value


def add_all(self, /, *iterables):
    for iterable in iterables:
        for item in iterable:
            set.add(self, item)


# ---- Objects that are called ---------------------------------------------------------------------------------------


def call_unpacking(function, iterable, /, **kwargs):
    return function(*[*iterable], **kwargs)


def call_partial(self, /, *args, **kwargs):
    return self.func(*self.args, *args, **{**self.keywords, **kwargs})


def call_itemgetter(self, value, /):
    keys = self.__reduce__()[1]
    return value[keys[0]] if len(keys) == 1 else tuple([value[key] for key in keys])


def call_attrgetter(self, value, /):
    found = []
    for path in self.__reduce__()[1]:
        part = value
        for name in path.split("."):
            part = getattr(part, name)
        found.append(part)
    return found[0] if len(found) == 1 else tuple(found)


def call_cache(self, /, *args, **kwargs):
    """Call what functools.lru_cache made. The cache itself is called with the same when the region has run."""
    results, function, typed, mark, limit, made, calls = _capture.cache_parts(self)
    if limit == 0:
        return function(*args, **kwargs)
    key = args
    if kwargs:
        key += (mark,)
        for item in kwargs.items():
            key += item
    if typed:
        key += tuple([type(value) for value in (*args, *kwargs.values())])
    elif not kwargs and len(args) == 1 and type(args[0]) in (int, str):
        key = args[0]
    if key in made:
        result = made[key]
    else:
        result = _capture.find_cached(results, key)
        if result is ...:
            value = function(*args, **kwargs)
            result = made[key] = _capture.keep_cached(results, key, value, limit, len(made))
        elif limit > 0:
            result = _capture.cached_result(result)
    calls.append((args, kwargs, result))
    return result


# ---- The operators as functions ------------------------------------------------------------------------------------


def make_operators():
    """Pair the functions of `operator` with Python functions that use the operators themselves."""
    binary = {
        "add": "+",
        "sub": "-",
        "mul": "*",
        "matmul": "@",
        "truediv": "/",
        "floordiv": "//",
        "mod": "%",
        "pow": "**",
        "lshift": "<<",
        "rshift": ">>",
        "and_": "&",
        "or_": "|",
        "xor": "^",
        "is_": "is",
        "eq": "==",
        "ne": "!=",
        "lt": "<",
        "le": "<=",
        "gt": ">",
        "ge": ">=",
        "is_not": "is not",
    }
    source = [f"def {name}(a, b, /): return a {sign} b" for name, sign in binary.items()]
    for name, sign in list(binary.items())[:13]:
        source.append(f"def i{name.rstrip('_')}(a, b, /):\n    a {sign}= b\n    return a")
    unary = {"neg": "-", "pos": "+", "invert": "~", "not_": "not ", "truth": "not not "}
    source += [f"def {name}(a, /): return {sign}a" for name, sign in unary.items()]
    source += [
        "def getitem(a, b, /): return a[b]",
        "def setitem(a, b, c, /): a[b] = c",
        "def delitem(a, b, /): del a[b]",
        "def contains(a, b, /): return b in a",
        "def concat(a, b, /): return a + b",
    ]
    space = {}
    exec("\n".join(source), globals(), space)
    return {getattr(operator, name): function for name, function in space.items() if hasattr(operator, name)}


# ---- Functions of torch that look at tensors -----------------------------------------------------------------------


def group_tensors(_, lists, with_indices=False):  # pybind's functions have an object of pybind's in front
    for tensors in lists:
        for tensor in tensors:
            if tensor is not None:
                tensor.dtype  # noqa: B018
    return torch._C._group_tensors_by_device_and_dtype(lists, with_indices)


# What decides that a call is stood in for, and the pairs. record/stand_in.def has the same conditions.
def is_of_tensor_type(tensor, kinds):
    """Stand for isinstance(): fakes are of no device that torch's own test would know."""
    if isinstance(kinds, tuple):
        return any(is_of_tensor_type(tensor, kind) for kind in kinds)
    if kinds not in TENSOR_TYPES:
        return isinstance(tensor, kinds)
    dtype, layout, device = TENSOR_TYPES[kinds]
    return tensor.dtype is dtype and tensor.layout is layout and tensor.device.type == device


TENSOR_TYPES = {
    kind: (kind.dtype, kind.layout, "cuda" if kind.is_cuda else "xpu" if kind.is_xpu else "cpu")
    for kind in torch._tensor_classes
}


STAND_INS = {
    "always": {
        any: any_,
        all: all_,
        sum: sum_,
        sorted: sorted_,
        list.sort: sort,
        list.remove: remove,
        functools.reduce: reduce_,
        min: make_extreme(operator.lt),
        max: make_extreme(operator.gt),
        filter: make_choice(filter),
        itertools.filterfalse: make_choice(itertools.filterfalse),
        itertools.takewhile: make_choice(itertools.takewhile),
        itertools.dropwhile: make_choice(itertools.dropwhile),
        itertools.starmap: starmap,
        itertools.accumulate: accumulate,
        itertools.groupby: groupby,
        itertools.compress: compress,
        itertools.chain.from_iterable: chain_from,
        _collections._count_elements: count_elements,
        _abc._abc_init: begin_abstract_class,
        torch._C._group_tensors_by_device_and_dtype: group_tensors,
    },
    # an argument is an iterator
    "iterator": {
        **{function: make_gathering(function) for function in (set, frozenset, str.join, bytes.join, dict.fromkeys)},
        collections.OrderedDict.fromkeys: make_gathering(collections.OrderedDict.fromkeys),
        **{
            function: make_gathering(function)
            for cls in (set, frozenset)
            for function in map(cls.__dict__.get, ["union", "intersection", "difference", "issubset"])
        },
        **{cls.isdisjoint: is_disjoint for cls in (set, frozenset)},
        **{cls.issuperset: is_superset for cls in (set, frozenset)},
        **{getattr(set, n): make_gathering(getattr(set, n)) for n in ("difference_update", "intersection_update")},
        set.update: add_all,
    },
    # an argument is C code that can be called
    "callback": {map: map_, re.Pattern.sub: sub},
    # f(*x), where x is no list or tuple
    "unpacking": {...: call_unpacking},
    "two": {iter: iter_},
    # of a tensor and torch.FloatTensor or the like
    "tensor_type": {isinstance: is_of_tensor_type},
    # the argument is no dict
    "pairs": {
        dict: dict_,
        dict.update: update,
        dict.__init__: update,
        collections.OrderedDict.update: update_by_items,
        collections.OrderedDict: ordered_dict,
        collections.defaultdict: default_dict,
    },
    "instance": {
        functools.partial: call_partial,
        operator.itemgetter: call_itemgetter,
        operator.attrgetter: call_attrgetter,
        functools._lru_cache_wrapper: call_cache,
    },
}


def make_table():
    from alternator.copying import COPY_STAND_INS
    from alternator.legacy import LEGACY_STAND_INS
    from alternator.torch_stand_ins import TORCH_STAND_INS

    of_torch = TORCH_STAND_INS | LEGACY_STAND_INS
    return {**STAND_INS, "always": STAND_INS["always"] | make_operators() | of_torch | COPY_STAND_INS}
