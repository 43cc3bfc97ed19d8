"""What is called in a function's place while tracing, and what becomes of such calls."""

from __future__ import annotations

import functools
import sys
import types

import torch

from alternator import _capture
from alternator.torch_calls import Unsupported, make_table, record_call

substitute_of = _capture.substitute_of  # None if there is none


def substitute(fn, other):
    """Have `other` called where traced code calls `fn`; None: `fn` itself again."""
    if not isinstance(fn, types.FunctionType):
        _capture.set_substitute(fn, other)
    elif other is not None:
        fn._alternator_substitute = (id(fn), other)
    elif substitute_of(fn) is not None:
        del fn._alternator_substitute


def return_nothing(*args, **kwargs):
    """Stand for calls that mean nothing while tracing."""


def ignore_books():
    """Have traces leave out what TorchDynamo, once it was used in the process, notes down of each new module."""
    guards = sys.modules.get("torch._dynamo.mutation_guard")
    tracker = getattr(guards, "GenerationTracker", None)
    if tracker is not None and substitute_of(tracker.tag.__func__) is None:
        substitute(tracker.tag.__func__, return_nothing)


class Substitution:
    """Substitutes that can be taken back."""

    def __init__(self):
        self.originals = []  # (function, its own substitute)

    def put(self, fn, other):
        self.originals.append((fn, substitute_of(fn)))
        substitute(fn, other)

    def take_back(self):
        while self.originals:
            substitute(*self.originals.pop())


def call_tracer(fn, rule):
    """Make a function that hands calls of `fn` to the tracer: `rule(tracer, fn, args, kwargs)` says what they give."""
    make_table()[fn] = rule

    def call(*args, **kwargs):
        # The tracer is the innermost of torch's function modes.
        return torch.overrides.handle_torch_function(fn, (), *args, **kwargs)

    _capture.add_contract("torch", call)
    return call


def make_call(function, rule):
    """Make what hands a call to the tracer, in code of ours that a trace inlines and that a break may be in."""

    def call(*args):
        if not _capture.is_tracing():  # it could not be recorded: it runs for real
            return function(*args)
        return torch.overrides.handle_torch_function(call, (), *args)

    make_table()[call] = rule
    return call


def call_in_graph(fn):
    """Make the function that writes a call of `fn` as one node, without looking into it."""
    return call_tracer(fn, record_call)


def call_now(fn):
    """Make the function that calls `fn` at once: what it gives is a constant of the trace."""

    def compute(tracer, _, args, kwargs):
        if any(isinstance(value, torch.Tensor) for value in (*args, *kwargs.values())):
            raise Unsupported("a function whose result is assumed constant is called with a tensor")
        result = fn(*args, **kwargs)
        if isinstance(result, torch.Tensor):
            raise Unsupported("a tensor that is assumed constant")
        return result

    # Not `fn` itself, which may be called in graphs as well.
    return call_tracer(functools.wraps(fn)(lambda *args, **kwargs: fn(*args, **kwargs)), compute)


class Span:
    """What torch.profiler.record_function comes to: a graph has no place for it, as with TorchDynamo."""

    def __init__(self, name, args=None):
        self.name = name
        self.args = args

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None

    def __call__(self, fn):
        @functools.wraps(fn)
        def call(*args, **kwargs):
            return fn(*args, **kwargs)

        return call
