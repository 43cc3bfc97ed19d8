"""The contracts: what C functions read, write and return. csrc/record/contract.def says what each row means.

A function that is in no row cannot run while tracing: a call of it is a break.
"""

from __future__ import annotations

import _abc
import _collections
import _thread
import builtins
import collections
import contextvars
import copy
import functools
import inspect
import itertools
import math
import operator
import os
import re
import sys
import types
import typing


def methods(cls, *names):
    return [getattr(cls, name) for name in names]


def all_methods(cls):
    """All C methods of a type whose objects are immutable; also those of the class (int.from_bytes)."""
    kinds = (types.MethodDescriptorType, types.WrapperDescriptorType)
    found = [value for value in vars(cls).values() if isinstance(value, kinds)]
    return found + [value for name in vars(cls) if is_c_function(value := getattr(cls, name)) and name != "__new__"]


def is_c_function(value):
    """Tell whether it is a function, or a method that is bound to a class."""
    return isinstance(value, types.BuiltinFunctionType)


def is_exception(value):
    return isinstance(value, type) and issubclass(value, BaseException)


def is_plain_exception(value):
    """Tell whether it is a class of exceptions that have arguments and nothing else."""
    return is_exception(value) and value.__basicsize__ == BaseException.__basicsize__


SET_METHODS = [
    *("union", "intersection", "difference", "symmetric_difference", "issubset", "issuperset", "isdisjoint", "copy"),
    *("__or__", "__and__", "__sub__", "__xor__", "__ror__", "__rand__", "__rsub__", "__rxor__"),
]
COMPARISONS = ["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"]


ITERATORS = [
    *(type(iter(each)) for each in ([], (), {}, set(), "", b"", range(0), collections.deque())),
    *(type(reversed([])), reversed, enumerate, zip, map, filter, types.GeneratorType),
]
VIEWS = [type({}.keys()), type({}.values()), type({}.items())]


def make_rows() -> dict[str, list]:
    import torch

    from alternator import _capture

    return {
        "keeps": [
            *(
                slice,
                property,
                classmethod,
                staticmethod,
                _collections._tuplegetter,
                _thread.RLock,
            ),
            *(object.__init__, object.__new__, object.__init_subclass__, _abc._abc_init, type.__init__),
        ],
        "values": [
            *(cls.__new__ for cls in (int, float, complex, str, bytes, slice, range)),
            *(abs, chr, divmod, ord, pow, round, hex, oct, bin, int, float, complex, range, object, super),
            *(bytes, bytearray, torch.Size, torch.Size.__reduce__, str.join),
            *(method for cls in (re.Pattern, re.Match) for method in all_methods(cls)),
            *(operator.itemgetter.__reduce__, operator.attrgetter.__reduce__, operator.itemgetter, operator.attrgetter),
            *[value for value in vars(math).values() if isinstance(value, types.BuiltinFunctionType)],
            *(method for cls in (int, float, complex, bool, str, bytes, range, slice) for method in all_methods(cls)),
            *(operator.index, operator.neg, sys.intern),
            *(torch.is_grad_enabled, torch._C._is_torch_function_enabled),
            torch._C._group_tensors_by_device_and_dtype,  # its stand-in has read the lists
            # Nothing is captured while torch.jit traces or a dispatch mode is on.
            *(torch._C._get_tracing_state, torch._C._is_tracing, torch._C._len_torch_dispatch_stack),
            torch._C._is_torch_function_all_disabled,
            # Part of the state of torch that every region is guarded by.
            *(torch.is_autocast_enabled, torch.get_autocast_dtype, torch.is_autocast_cache_enabled),
            *(torch.is_inference_mode_enabled, torch.get_default_dtype, torch.is_autocast_cpu_enabled),
            *(torch._C._get_deterministic_algorithms, torch._C._get_deterministic_algorithms_warn_only),
            # Constants of the build.
            *(torch._C._is_autocast_available, torch._C._get_privateuse1_backend_name, torch.finfo, torch.iinfo),
            *(torch.device, torch.device.__reduce__, torch.dtype.__reduce__),
            *methods(torch.Size, "numel", "__add__", "__mul__", "__rmul__"),
            torch._C._log_api_usage_once,  # counts for the vendor, no effect for the program
        ],
        "modes": [
            *(torch._C._is_torch_function_mode_enabled, torch._C._len_torch_function_stack),
            *(torch._C._has_torch_function, torch._C._has_torch_function_unary, torch._C._has_torch_function_variadic),
        ],
        "identifies": [id, torch.Tensor.__hash__],
        "keyed": [
            *(copy.deepcopy, copy._deepcopy_list, copy._deepcopy_tuple, copy._deepcopy_dict, copy._keep_alive),
            *(copy._reconstruct, inspect.unwrap, torch.nn.Parameter.__deepcopy__),
        ],
        "moves": [
            *(tuple, list),
            *methods(dict, "items", "keys", "values", "copy", "__iter__"),
            *methods(collections.OrderedDict, "items", "keys", "values", "copy", "__iter__"),
            *methods(list, "copy", "__iter__", "__reversed__", "__add__", "__mul__", "__rmul__"),
            *methods(tuple, "__iter__", "__getnewargs__", "__add__", "__mul__", "__rmul__"),
            *methods(collections.deque, "copy", "__copy__", "__add__", "__mul__", "__rmul__"),
        ],
        "iterates": [
            *(cls.__new__ for cls in (tuple, list, dict, set, frozenset, collections.deque, collections.defaultdict)),
            *(collections.OrderedDict.__new__, *(cls.__new__ for cls in vars(builtins).values() if is_exception(cls))),
            *(dict, enumerate, zip, map, filter, reversed),
            *(
                itertools.chain,
                itertools.chain.from_iterable,
                itertools.islice,
                itertools.repeat,
                itertools.count,
                itertools.starmap,
            ),
            *(itertools.accumulate, itertools.product, itertools.zip_longest, itertools.takewhile, itertools.dropwhile),
            *(itertools.filterfalse, itertools.combinations, itertools.permutations, itertools.pairwise),
            *(itertools.combinations_with_replacement, itertools.compress, itertools.groupby, itertools.cycle),
            *[cls for cls in vars(torch.return_types).values() if isinstance(cls, type)],
            *(collections.OrderedDict, collections.deque, collections.defaultdict),
            types.SimpleNamespace,
        ],
        "binds": [functools.partial],  # what it binds may be another one, which it takes apart
        "compares": [
            *(method for cls in (set, frozenset) for method in methods(cls, "__contains__", *SET_METHODS)),
            *(method for cls in (dict, collections.OrderedDict) for method in methods(cls, "__or__", "__ror__")),
            *(dict.__reversed__, collections.OrderedDict.__reversed__, collections.deque.__contains__),
            *methods(types.MappingProxyType, "items", "keys", "values", "get", "copy"),
            types.MappingProxyType,
            *(set, frozenset, _capture.look_into, dict.fromkeys, collections.OrderedDict.fromkeys),
            *methods(list, "index", "count"),
            *methods(tuple, "index", "count"),
            *methods(collections.deque, "index", "count"),
            operator.eq,
            operator.ne,
            operator.lt,
            operator.le,
            operator.gt,
            operator.ge,
            *methods(list, "__contains__", *COMPARISONS),
            *methods(tuple, "__contains__", "__hash__", *COMPARISONS),
            *methods(dict, *COMPARISONS),
            *methods(collections.OrderedDict, *COMPARISONS),
            *methods(set, *COMPARISONS),
            *methods(frozenset, "__hash__", *COMPARISONS),
        ],
        "hashes": [hash],
        "fills": [str.format, str.format_map],
        "prints": [
            *(
                str,
                repr,
                ascii,
                format,
                str.format,
                str.format_map,
                str.__mod__,
                bytes.__mod__,
                str.__format__,
                object.__repr__,
            ),
            *methods(list, "__repr__"),
            *methods(tuple, "__repr__"),
            *methods(dict, "__repr__"),
            *methods(object, "__str__", "__format__"),
        ],
        "measures": [len, *(cls.__len__ for cls in (list, tuple, dict, set, frozenset, collections.deque))],
        "decides": [bool, operator.truth, operator.not_],
        "resumes": [
            *methods(types.GeneratorType, "send", "throw", "close"),
            property.__set_name__,
            *methods(_thread.RLock, "__enter__", "__exit__"),
        ],
        "class_body": [builtins.__build_class__],
        "class": [type, type.__new__],
        "text": [exec, eval],
        "frame": [sys._getframe],
        "thread": [_thread.get_ident],
        "primed": [
            *find_caches_of_typing(),
            # torch.ops.space.name.overload: what was never looked for before
            *(cls.__getattr__ for cls in (torch._ops._Ops, torch._ops._OpNamespace, torch._ops.OpOverloadPacket)),
        ],
        "registry": [_abc._abc_instancecheck, _abc._abc_subclasscheck],
        "tests_type": [isinstance, issubclass, callable, type.__instancecheck__, type.__subclasscheck__],
        "gets_attribute": [getattr, hasattr, object.__getattribute__, vars],
        "sets_attribute": [
            setattr,
            delattr,
            object.__setattr__,
            object.__delattr__,
            type.__setattr__,
            type.__delattr__,
        ],
        "item": [torch.Tensor.item],
        "gets_item": [
            *methods(dict, "get", "__getitem__", "__contains__"),
            *(cls.__getitem__ for cls in (list, tuple, collections.deque)),
            operator.getitem,
        ],
        "appends": [list.append, collections.deque.append],
        "extends": [*methods(list, "extend", "__iadd__"), collections.deque.extend],
        "sets_item": [
            *methods(dict, "__setitem__", "setdefault"),
            *methods(collections.OrderedDict, "__setitem__", "setdefault"),
            *(operator.setitem, set.add, set.discard, set.remove),
        ],
        "removes_item": [
            *methods(dict, "__delitem__", "pop"),
            *methods(collections.OrderedDict, "__delitem__", "pop"),
            operator.delitem,
        ],
        "searches": [list.remove, list.sort, collections.deque.remove],
        "updates": [
            *methods(list, "insert", "pop", "clear", "reverse", "__init__", "__setitem__"),
            *methods(list, "__delitem__", "__imul__"),
            *methods(dict, "update", "popitem", "clear", "__init__", "__ior__"),
            *methods(set, "update", "clear", "pop", "__init__", "__ior__"),
            *methods(set, "difference_update", "intersection_update", "symmetric_difference_update"),
            *methods(set, "__iand__", "__isub__", "__ixor__"),
            *methods(collections.deque, "appendleft", "pop", "popleft", "extendleft", "clear", "rotate", "__init__"),
            *methods(collections.deque, "insert", "reverse"),
            *methods(collections.OrderedDict, "__init__", "move_to_end", "update", "popitem", "clear", "__ior__"),
            *methods(BaseException, "with_traceback"),
            *(cls.__init__ for cls in vars(builtins).values() if is_plain_exception(cls)),
        ],
        "cache": [_capture.cache_parts, _capture.cached_result, _capture.find_cached, _capture.keep_cached],
        "handled": [sys.exc_info, sys.exception],
        "iterator": [iter, *(cls.__iter__ for cls in (*ITERATORS, *VIEWS, set, frozenset, collections.deque))],
        "advances": [next, *(cls.__next__ for cls in ITERATORS if cls is not types.GeneratorType)],
        "torch": list(find_torch_functions()),
        "eager": [
            *(torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.backward, torch.Tensor.data_ptr),
            torch.Tensor.__deepcopy__,
            *(torch.Tensor.__bool__, torch.Tensor.__int__, torch.Tensor.__float__, torch.Tensor.__index__),
            *(torch.autograd.backward, torch.autograd.grad, print, input, open, compile),
        ],
        "setting": [
            *(sys.getrecursionlimit, contextvars.ContextVar.get, *find_getters()),
            torch._C._autograd._saved_tensors_hooks_get_disabled_error_message,
        ],
        "state": [
            *(torch.use_deterministic_algorithms, torch._C._set_deterministic_algorithms, torch._C._set_default_dtype),
            *(torch.inference_mode.__enter__, torch.inference_mode.__exit__),
            *(torch._C._autograd._saved_tensors_hooks_disable, torch._C._autograd._saved_tensors_hooks_enable),
            *(getattr(torch._C, name) for name in dir(torch._C) if name.startswith("_set_sdp_use_")),
        ],
        "scope": [torch.autocast.__enter__, torch.autocast.__exit__],
        "inner": [
            *(torch.set_autocast_enabled, torch.set_autocast_dtype, torch.set_autocast_cache_enabled),
            *(torch.autocast_increment_nesting, torch.autocast_decrement_nesting, torch.clear_autocast_cache),
        ],
    }


# Input, output and formatting through and through, and TorchDynamo's own functions for breaking graphs.
REAL_MODULES = (
    *("logging", "warnings", "traceback", "pprint", "pdb", "bdb", "subprocess", "threading", "tempfile"),
    *("unittest.mock", "unittest.runner", "unittest.result"),
    *(
        "json",
        "pickle",
        "shutil",
        "socket",
        "urllib",
        "http",
        "argparse",
        "importlib",
        "torch._logging",
    ),
    *("torch.serialization", "torch.utils.data", "torch.profiler", "torch.autograd.profiler"),
)

# Of TorchDynamo's own modules, those with code for programs.
TRACED_MODULES = ("polyfills", "external_utils", "mutation_guard", "test_case", "testing")


def find_real_modules():
    """List the modules whose functions run for real: the ones above, and nearly all of TorchDynamo's."""
    import torch

    folder = os.path.join(os.path.dirname(torch.__file__), "_dynamo")
    names = {name.partition(".")[0] for name in os.listdir(folder)} - {"__init__", "__pycache__", *TRACED_MODULES}
    return REAL_MODULES + tuple(f"torch._dynamo.{name}" for name in sorted(names))


def find_caches_of_typing():
    """Find the caches behind typing's subscripts: of functions of their arguments alone."""
    caches = [getattr(clear, "__self__", None) for clear in typing._cleanups]
    return [cache for cache in caches if isinstance(cache, functools._lru_cache_wrapper)]


def find_getters():
    """Find torch's functions without arguments that tell a state of torch."""
    import torch

    for space in (torch._C, torch._C._functorch):
        for name, value in vars(space).items():
            getter = name.lstrip("_").startswith(("are_", "get_", "is_", "has_", "len_", "peek_"))
            if getter and isinstance(value, types.BuiltinFunctionType) and name not in KNOWN_GETTERS:
                yield value


# Getters with rows of their own, or that the tracer itself would be seen by.
KNOWN_GETTERS = {
    *("_is_torch_function_mode_enabled", "_len_torch_function_stack", "_has_torch_function"),
    *("_has_torch_function_unary", "_has_torch_function_variadic", "_is_torch_function_all_disabled"),
    *("_is_torch_function_enabled", "_get_tracing_state", "_is_tracing", "is_grad_enabled", "is_autocast_enabled"),
    *("get_autocast_dtype", "is_autocast_cache_enabled", "is_inference_mode_enabled", "get_default_dtype"),
    *("is_autocast_cpu_enabled", "_get_deterministic_algorithms", "_get_deterministic_algorithms_warn_only"),
    *("_is_autocast_available", "_get_privateuse1_backend_name"),
}


def find_torch_functions():
    """Find the C functions and methods that torch dispatches through overridable functions."""
    import torch
    from torch.overrides import get_overridable_functions, get_testing_overrides

    seen = set()
    candidates = [function for functions in get_overridable_functions().values() for function in functions]
    candidates += list(get_testing_overrides())
    # Factories are overridable by modes, though not by arguments.
    candidates += [getattr(torch, name) for name in FACTORIES if hasattr(torch, name)]
    candidates += [torch._C._set_grad_enabled, torch._ops.OpOverload.__call__, torch._ops.OpOverloadPacket.__call__]
    # get_overridable_functions() leaves some out that its tests cannot call; torch dispatches them all the same.
    for space in (torch._C.TensorBase, torch._C._VariableFunctionsClass, torch._C._nn, torch._C._fft, torch._C._linalg):
        candidates += [getattr(space, name) for name in vars(space) if not name.startswith("_")]
    candidates += [getattr(torch, name) for name in vars(torch._C._VariableFunctionsClass) if hasattr(torch, name)]
    kinds = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.FunctionType)
    for function in candidates:
        if isinstance(function, kinds) and id(function) not in seen and function.__name__ not in UNDISPATCHED:
            seen.add(id(function))
            yield function


# Functions that do not pass through the dispatch of overridable functions. (A test tries all the others.)
UNDISPATCHED = {
    *("as_subclass", "set_", "from_numpy", "frombuffer", "range", "is_vulkan_available", "_nnpack_available"),
    *("_use_cudnn_rnn_flatten_weight", "_from_blob"),
}

FACTORIES = [
    *("arange", "empty", "empty_like", "empty_strided", "eye", "full", "full_like", "linspace", "logspace", "ones"),
    *("ones_like", "rand", "rand_like", "randint", "randn", "randn_like", "randperm", "tensor", "zeros", "zeros_like"),
    *("scalar_tensor", "tril_indices", "triu_indices", "as_tensor", "normal", "bernoulli", "complex", "polar"),
]
