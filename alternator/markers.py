"""Markers that programs put on functions for TorchDynamo, honoured here.

A marked function carries what is called in its place while tracing (csrc/record/contract.h, `substitute_of`). Where a
marker of TorchDynamo's leaves nothing to see, `install()` puts a function of ours in its place, which does the same and
marks.
"""

from __future__ import annotations

import functools
import gc
import traceback
import types

import torch
import torch._dynamo
import torch._higher_order_ops.wrap
from torch._dynamo import comptime as theirs
from torch._dynamo import decorators, trace_rules
from torch._dynamo import utils as dynamo_utils

from alternator import _capture, comptime
from alternator.flat_calls import call_with_leaves
from alternator.higher_order import call_inside
from alternator.substitutes import Substitution, call_in_graph, call_now, call_tracer, return_nothing, substitute
from alternator.torch_states import make_notes

replacements = {}


def extends(owner):
    """Register a function that gets TorchDynamo's as its first argument, and takes its place."""

    def register(ours):
        theirs = getattr(owner, ours.__name__)
        replacements[owner, ours.__name__] = functools.wraps(theirs)(functools.partial(ours, theirs))
        return ours

    return register


@extends(decorators)
def allow_in_graph(theirs, fn):
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(theirs, each) for each in fn]
    result = theirs(fn)
    if _capture.has_contract(fn):  # a function of torch, maybe disallowed before
        _capture.add_contract("torch", fn)
    else:
        substitute(fn, call_in_graph(fn))
    return result


@extends(decorators)
def disallow_in_graph(theirs, fn):
    if isinstance(fn, (list, tuple)):
        return [disallow_in_graph(theirs, each) for each in fn]
    result = theirs(fn)
    _capture.add_contract("eager", fn)
    return result


@extends(decorators)
def nonstrict_trace(theirs, traceable_fn):
    wrapped = theirs(traceable_fn)
    substitute(wrapped, call_with_leaves(wrapped))
    return wrapped


@extends(decorators)
def assume_constant_result(theirs, fn):
    substitute(fn, call_now(fn))
    return theirs(fn)


@extends(decorators)
def substitute_in_graph(theirs, original, **options):
    decorate = theirs(original, **options)

    def wrapper(traceable):
        wrapped = decorate(traceable)
        substitute(original, traceable)
        substitute(wrapped, traceable)
        return wrapped

    return wrapper


def return_true():
    """Stand for the questions whether code is being compiled."""
    return True


class NoScope:
    """What patch_dynamo_config() and its relatives come to: the settings that they may change mean nothing here."""

    def __enter__(self):
        return None

    def __exit__(self, *exception):
        return None

    def __call__(self, fn):
        return fn


def make_no_scope(fn=None, *args, **settings):
    """Stand for scopes that mean nothing while tracing, and for decorators with them."""
    return fn if callable(fn) else NoScope()


def make_error_scope(error_on_graph_break):
    """Stand for error_on_graph_break(): its class is traced, and the setter told to the tracer (note_error_setting)."""
    return decorators.ErrorOnGraphBreakDecoratorContextManager(error_on_graph_break)


def leave_error_scope(scope, *exception):
    before = scope.prev_error_on_graph_break.pop()
    if before is not None:
        dynamo_utils._set_error_on_graph_break(before)


def with_error_setting(fn, value):
    """Call a function with breaks as errors, or not."""

    @functools.wraps(fn)
    def call(*args, **kwargs):
        before = dynamo_utils._get_error_on_graph_break()
        dynamo_utils._set_error_on_graph_break(value)
        try:
            return fn(*args, **kwargs)
        finally:
            dynamo_utils._set_error_on_graph_break(before)

    return call


def note_error_setting(tracer, func, args, kwargs):
    tracer.remember_state(func, (dynamo_utils._get_error_on_graph_break(),), args)


substitution = Substitution()
polyfills = Substitution()  # which only take-over brings


@functools.cache
def find_substitutes():
    """List what stands for functions of TorchDynamo's, and for others that it has Python code for."""
    questions = (
        torch._dynamo.external_utils.is_compiling,
        torch._utils.is_compiling,
        torch.compiler.is_compiling,
        torch.compiler.is_dynamo_compiling,
    )
    silent = decorators.mark_static_address, dynamo_utils.warn_once, traceback.clear_frames
    scopes = decorators.patch_dynamo_config, decorators.dont_skip_tracing, decorators.disable_nested_graph_breaks
    actions = {getattr(theirs.comptime, name): comptime.make_action(name) for name in comptime.ACTIONS}
    return [
        *((question, return_true) for question in questions),
        *((marker, return_nothing) for marker in silent),
        *((scope, make_no_scope) for scope in scopes),
        *((action, call_tracer(action, rule)) for action, rule in actions.items()),
        (torch._higher_order_ops.wrap.wrap, call_inside),
        (theirs.comptime, call_tracer(type(theirs.comptime).__call__, comptime.run_comptime)),
        (decorators.error_on_graph_break, make_error_scope),
        (decorators.ErrorOnGraphBreakDecoratorContextManager.__exit__, leave_error_scope),
        (decorators.DynamoConfigPatchProxy.__exit__, return_nothing),
    ]


def install():
    """Take over what TorchDynamo is asked by programs."""
    for fn, other in find_substitutes():
        substitution.put(fn, other)
    decorators.DynamoConfigPatchProxy.__call__ = wrap_with_settings
    _capture.add_contract("setting", dynamo_utils._get_error_on_graph_break)
    _capture.add_contract("state", dynamo_utils._set_error_on_graph_break)
    make_notes()[dynamo_utils._set_error_on_graph_break] = note_error_setting


def take_polyfills():
    """Have Python functions of TorchDynamo's stand for C functions, as they do where it traces."""
    for original, wrapped in find_stand_ins().items():
        if _capture.has_contract(original) is None and _capture.substitute_of(original) is None:
            polyfills.put(original, wrapped.__torch_dynamo_polyfill__)


def find_earlier():
    """Mark what was marked before anybody listened: TorchDynamo knows functions by their ids."""
    tables = {
        allow_in_graph: trace_rules._allowed_callable_ids() - trace_rules._leaf_function_ids(),
        disallow_in_graph: trace_rules._disallowed_callable_ids(),
        nonstrict_trace: trace_rules._nonstrict_trace_callable_ids(),
    }
    tables[allow_in_graph] -= tables[nonstrict_trace]
    wanted = {number: mark for mark, numbers in tables.items() for number in numbers}
    kinds = types.FunctionType, types.BuiltinFunctionType
    functions = [each for each in gc.get_objects() if type(each) in kinds]
    for each in functions:
        if id(each) not in wanted and not getattr(each, "_dynamo_marked_constant", False):
            continue
        own = (each.__module__ or "").startswith("torch._dynamo")  # graph_break() and its like, which the core knows
        if own or _capture.substitute_of(each) is not None:
            continue
        if id(each) in wanted:
            wanted[id(each)](lambda fn: fn, each)
        else:
            substitute(each, call_now(each))


def uninstall():
    """Put back what is no module's. Functions that the program marked stay marked."""
    substitution.take_back()
    decorators.DynamoConfigPatchProxy.__call__ = wrap_with_settings.theirs


def wrap_with_settings(scope, fn):
    """Stand for DynamoConfigPatchProxy.__call__: a trace sees the function inside."""
    wrapped = wrap_with_settings.theirs(scope, fn)
    substitute(wrapped, fn)
    return wrapped


wrap_with_settings.theirs = decorators.DynamoConfigPatchProxy.__call__


def find_stand_ins():
    from torch._dynamo.variables import PolyfilledFunctionVariable

    found = PolyfilledFunctionVariable._get_polyfill_handlers()
    kinds = (types.BuiltinFunctionType, types.MethodDescriptorType, type, functools._lru_cache_wrapper)
    return {original: wrapped for original, wrapped in found.items() if isinstance(original, kinds)}
