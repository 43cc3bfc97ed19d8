"""Logging inside of graphs: calls that a trace puts off until its graph has run, or leaves out.

`torch._dynamo.config.reorderable_logging_functions` and `ignore_logging_functions` name them: functions, and methods as
they are bound. What a call is given is kept as it is at the call: constants, tensors, containers of them, and texts
that f-strings make of tensors. While a trace lasts such a text is a mark, which only the call gets to see (csrc/record/
rules_texts.cpp looks at where it goes before it lets the trace make one).
"""

from __future__ import annotations

import re
import sys
import types
import uuid

import torch

from alternator import _capture
from alternator.graphs import make_example
from alternator.substitutes import Substitution
from alternator.torch_errors import Unsupported

CONSTANTS = {
    *(type(None), type(...), bool, int, float, complex, str, bytes),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size),
}
TOKEN = uuid.uuid4().hex
MARK = re.compile(f"<{TOKEN}:([0-9]+)>")


# ---- Calls ---------------------------------------------------------------------------------------------------------


class Value:
    """A tensor that a call is given, as it is when the call is made."""

    def __init__(self, tracer, tensor):
        self.node = tracer.node_of(tensor)
        self.known = tracer.find(tensor)
        self.place = len(tracer.writer.calls)
        self.site = _capture.describe_call(None)[1]
        self.versions = self.list_versions(tracer)
        self.number = None  # among what the region gives out

    def list_versions(self, tracer):
        fakes = [known.fake for known in tracer.list_sharing(self.known.fake)]
        return {None if fake.is_inference() else fake._version for fake in fakes}

    def settle(self, tracer):
        """Have the graph give it out: a copy if it is changed later on. Last ones first: copies move other places."""
        known = self.known
        if self.list_versions(tracer) != self.versions or None in self.versions:
            writer = tracer.writer
            copy = writer.make_node("call_method", "clone", (self.node,), {})
            copy.meta["example_value"] = make_example(known.fake.clone())
            writer.calls.insert(self.place, copy)
            writer.sites.insert(self.place, (self.site, copy.name))
            known = type(known)(None, known.fake, copy)
        self.number = tracer.value_of(known)

    def make(self, values):
        return values[self.number]


class Text:
    """A text with tensors in it."""

    def __init__(self, parts):
        self.parts = parts  # strings, and (Value, how it is formatted)

    def make(self, values):
        return "".join(part if isinstance(part, str) else format(part[0].make(values), part[1]) for part in self.parts)


class Container:
    def __init__(self, cls, items):
        self.cls = cls
        self.items = items

    def make(self, values):
        return self.cls(make(item, values) for item in self.items)


def make(item, values):
    return item.make(values) if isinstance(item, (Value, Text, Container)) else item


class DeferredCall:
    """A call that is made behind the graph."""

    def __init__(self, function, args, kwargs):
        self.function = function
        self.args = args
        self.kwargs = kwargs

    def __call__(self, values):
        self.function(*self.args.make(values), **self.kwargs.make(values))


class Deferrals:
    """The calls that one trace puts off."""

    def __init__(self):
        self.functions, self.ignored = follow_settings()
        self.values = []
        self.texts = []  # (tensor's Value, how it is formatted)
        self.calls = 0
        self.pending = set()  # numbers of the texts that no call has got yet

    def make_mark(self, tracer, callable, tensor, spec):
        """Make what stands for the text of a tensor; None if it does not go to a call that is put off."""
        function = getattr(callable, "__func__", callable)
        if not any(function is getattr(each, "__func__", each) for each in self.functions):
            return None
        self.pending.add(len(self.texts))
        with torch._C.DisableTorchFunction():  # the tracer's mode is on
            self.texts.append((self.keep(tracer, tensor), spec))
        return f"<{TOKEN}:{len(self.texts) - 1}>"

    def keep(self, tracer, tensor):
        self.values.append(Value(tracer, tensor))
        return self.values[-1]

    def pack(self, tracer, value):
        """Keep what a call is given."""
        cls = type(value)
        if cls is str:
            return self.pack_text(value)
        if cls in CONSTANTS:
            return value
        if isinstance(value, torch.Tensor):
            return self.keep(tracer, value)
        if cls is dict:
            return Container(cls, [self.pack(tracer, item) for item in value.items()])
        if cls in (tuple, list):
            return Container(cls, [self.pack(tracer, item) for item in value])
        raise Unsupported(f"a call that is to be put off is given an object of class {cls.__name__}", "MustRun")

    def pack_text(self, text):
        parts = MARK.split(text)  # every second one is a number
        if len(parts) == 1:
            return text
        numbers = list(map(int, parts[1::2]))
        self.pending.difference_update(numbers)
        parts[1::2] = [self.texts[number] for number in numbers]
        return Text(parts)

    def settle(self, tracer):
        for value in reversed(self.values):
            value.settle(tracer)


def defer_call(function, *args, **kwargs):
    """Stand for a call that is put off. The tracer is the innermost of torch's function modes."""
    if not _capture.is_tracing():  # it could not be: this runs for real, as one break
        return function(*args, **kwargs)
    return torch.overrides.handle_torch_function(defer_call, (), function, *args, **kwargs)


def record_deferred(tracer, _, args, kwargs):
    function, *args = args
    deferrals = tracer.deferrals
    packed = (deferrals.pack(tracer, value) for value in (tuple(args), kwargs))
    deferrals.calls += 1
    tracer.around.actions.append(DeferredCall(function, *packed))


def run_for_real(function, *args, **kwargs):
    """Stand for a call of a method that is another object's than those that are listed."""
    return function(*args, **kwargs)


# ---- Functions -----------------------------------------------------------------------------------------------------

listed = (frozenset(), frozenset())  # the settings that the substitutes are for
substitution = Substitution()
builtins = {}  # builtin function -> what defers its calls


def follow_settings():
    """Have calls of the functions in TorchDynamo's settings put off or left out; return the functions."""
    global listed
    config = sys.modules.get("torch._dynamo.config")
    if config is None:
        return listed
    settings = config.reorderable_logging_functions, config.ignore_logging_functions
    if settings != listed:
        substitution.take_back()
        listed = tuple(frozenset(filter(callable, functions)) for functions in settings)
        put_substitutes(*listed)
    return listed


def put_substitutes(deferred, ignored):
    methods = {}  # function of a class -> the methods, deferred and ignored
    for kind, functions in enumerate((deferred, ignored)):
        for function in functions:
            if isinstance(function, types.MethodType):
                methods.setdefault(function.__func__, ([], []))[kind].append(function)
            else:
                substitution.put(function, return_nothing if kind else find_deferring(function))
    for function, kinds in methods.items():
        if function not in deferred | ignored:
            substitution.put(function, make_choice(function, *kinds))


def return_nothing(*args, **kwargs):
    """Stand for a call that is left out."""


def find_deferring(function):
    """Find what stands for calls of a function; it is there as long as the function is, since graphs depend on it."""
    known = function.__dict__ if isinstance(function, types.FunctionType) else builtins
    key = "_alternator_deferring" if known is not builtins else function
    if key not in known or known[key].__kwdefaults__["function"] is not function:

        def call(*args, function=function, **kwargs):
            return defer_call(function, *args, **kwargs)

        known[key] = call
    return known[key]


def make_choice(function, deferred, ignored):
    """Make what stands for calls of a method's function: which object's it is decides."""

    def call(self, *args, **kwargs):
        for method in ignored:
            if method.__self__ is self:
                return None
        for method in deferred:
            if method.__self__ is self:
                return defer_call(method, *args, **kwargs)
        return run_for_real(function, self, *args, **kwargs)

    return call
