"""alternator.compile: torch.compile's signature and meaning, on our capture."""

from __future__ import annotations

import functools
import inspect
import operator
import re
import sys
import threading
import types
import warnings
import weakref

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from alternator import _capture, deferring, events, flat_calls, logs, progress, stand_ins, torch_random, torch_stand_ins
from alternator.around import give_nothing
from alternator.backend_calls import load_backend, run_backend, static_context
from alternator.contracts import find_real_modules, make_rows
from alternator.errors import make_unsupported
from alternator.messages import describe, explain
from alternator.recording import Tracer, find_dynamics
from alternator.substitutes import Span, call_in_graph, call_tracer, ignore_books, substitute
from alternator.torch_calls import make_table
from alternator.torch_leaves import make_leaf_rules
from alternator.torch_numbers import find_early_ones
from alternator.untraceable import find_untraceable

# Objects that never change and that C code looks into.
IMMUTABLE = (re.Pattern, operator.itemgetter, operator.attrgetter)

_captured = weakref.WeakSet()
_captured_lock = threading.RLock()
_graphs = 0
forced_backend = None  # instead of every function's own: torch.compiler.set_stance(force_backend=..)


@functools.cache
def prepare():
    """Tell the core what it has to know of torch. Once, at the first use: it costs some milliseconds."""
    import enum

    by_value = (torch.dtype, torch.device, torch.layout, torch.memory_format, types.UnionType, types.GenericAlias)
    torch_types = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
    by_identity = (_capture.Captured, functools._lru_cache_wrapper, enum.Enum, *torch_types, *IMMUTABLE)
    module_call = torch.nn.Module._wrapped_call_impl.__code__
    tables = make_rows(), stand_ins.make_table(), find_real_modules()
    _capture.set_up(*tables, torch.Tensor, by_value, by_identity, module_call, *find_known_code())
    parts = torch._disable_dynamo.__code__.co_consts
    _capture.set_disabling_code(next(part for part in parts if getattr(part, "co_name", "") == "inner"))
    torch_stand_ins.allow_calls()
    torch_random.prepare()
    events.tell_interest()
    for function, rule in make_leaf_rules().items():
        if isinstance(function, types.BuiltinFunctionType):  # torch does not dispatch it
            substitute(function, call_tracer(function, rule))
    for function in find_early_ones():
        substitute(function, call_in_graph(function))
    substitute(torch.autograd.profiler.record_function, Span)
    make_table()[deferring.defer_call] = deferring.record_deferred
    _capture.add_contract("torch", deferring.defer_call)
    _capture.add_contract("eager", deferring.run_for_real)
    flat_calls.prepare()
    logs.start()
    progress.start()


def find_known_code():
    """Find Python functions of torch's whose steps the core knows; None in the place of one that is another."""
    registries = ("_parameters", "_buffers", "_modules", "'", "' object has no attribute '")
    expected = [
        (
            torch.nn.Module.__getattr__,
            registries,
            ("__dict__", "AttributeError", "type", "__name__"),
            torch.nn.modules.module,
        ),
        (torch.Tensor.__hash__, (None,), ("id",), torch._tensor),
    ]
    for function, constants, names, module in expected:
        code = getattr(function, "__code__", None)
        known = code is not None and code.co_names == names and code.co_filename == module.__file__
        yield function if known and code.co_consts[-len(constants) :] == constants else None


def find_backend(backend, mode=None, options=None):
    """Resolve a backend through torch's own registry; a callable is taken as it is."""
    if callable(backend):
        found = backend
    elif backend == "inductor":
        return torch._TorchCompileInductorWrapper(mode, options, False)
    else:
        from torch._dynamo.backends.registry import lookup_backend

        found = lookup_backend(backend)
    if not options:
        return found
    return functools.update_wrapper(functools.partial(found, options=options), found)


def report(kind, what):
    """Say what the core has to say to the user. `what` is an event Break, or the reason of a recompilation."""
    if kind == "error":
        raise make_unsupported(what, "alternator cannot capture the function as one graph (fullgraph=True).")
    if kind == "eager" and what.reason != "UserException":
        warnings.warn(f"alternator: the function runs eagerly. {describe(what)}", stacklevel=3)


def find_limits():
    """Return TorchDynamo's settings: its two limits, and whether to fail at one of them."""
    dynamo = sys.modules.get("torch._dynamo.config")
    if dynamo is None:
        return {"recompile_limit": 8, "accumulated_recompile_limit": 256}, False
    names = ("recompile_limit", "accumulated_recompile_limit")
    return {name: getattr(dynamo, name) for name in names}, dynamo.fail_on_recompile_limit_hit


def admit(teller, fullgraph, regions, captures, reason):
    """Tell whether a point that has so many regions, after so many captures, may get another. As in TorchDynamo."""
    limits, fails = find_limits()
    if captures >= limits["accumulated_recompile_limit"]:
        hit = "accumulated_recompile_limit"
    elif regions >= limits["recompile_limit"]:
        hit = "recompile_limit"
    else:
        if regions > 0:
            if events.listeners:
                teller.emit(events.Recompiled, reason=reason)
            teller.report("recompile", reason)
        return True
    if events.listeners:
        teller.emit(events.LimitReached, limit=hit, value=limits[hit], reason=reason)
    teller.report("limit", reason)
    said = explain("", reason)
    hints = "".join(f"\n  Hint: {hint}" for hint in said["hints"])
    text = f"alternator: {hit} ({limits[hit]}) reached in {teller.function}. The last reason: {reason}."
    if fails or fullgraph:
        from torch._dynamo.exc import FailOnRecompileLimitHit

        option = "fail_on_recompile_limit_hit" if fails else "fullgraph=True"
        raise FailOnRecompileLimitHit(f"Hard failure due to {option}. {text}{hints}")
    warnings.warn(f"{text} From now on the function runs eagerly where no graph fits.{hints}", stacklevel=2)
    return False


def call_backend(backend, module, examples):
    """Compile a graph. Its failure is the user's to see, unless TorchDynamo would go on: then a text says why."""
    try:
        with static_context(examples):
            return run_backend(backend, module, examples)
    except Exception as error:
        from torch._dynamo import config
        from torch._dynamo.exc import BackendCompilerFailed, exceptions_allowed_to_be_fallback

        named = types.SimpleNamespace(__name__=events.name_backend(backend))
        failed = BackendCompilerFailed(named, error, inspect.currentframe())
        if config.suppress_errors or isinstance(error, exceptions_allowed_to_be_fallback):
            return str(failed)
        raise failed.with_traceback(error.__traceback__) from None


def call_symbolic(backend, module, shapes):
    """Compile a graph with symbols; one that computes nothing but numbers needs no backend."""
    if not shapes.has_tensors():
        return module
    try:
        shapes.finish(module)
        with shapes.compiling():
            return run_backend(backend, module, shapes.examples)
    except Exception:  # constants may suit the backend; if not, it says so then
        return False


def capture(fn, backend, fullgraph, begin=Tracer, on_graph=None, report=report, dynamic=None):
    """Wrap a Python function or bound method.

    `begin()` starts a trace and gives its tracer, or None: not now. `on_graph(module)` sees each graph before the
    backend does. `report` is told what happens.
    """
    prepare()
    teller = events.Teller(fn, report)
    untraceable = {}  # functions of torch that the backend cannot trace -> their rule

    def start():
        load_backend(forced_backend or backend)
        ignore_books()
        tracer = begin()
        if tracer is not None:
            tracer.dynamic = find_dynamics(dynamic)
        if tracer is not None and untraceable:
            try:
                tracer.add_rules(untraceable)
            except BaseException:
                tracer.end(False)
                raise
        return tracer

    def finish(tracer):
        global _graphs
        shapes = tracer.shapes
        try:
            module, examples, around = tracer.make_graph()
        except Exception as error:  # ours
            return error
        if shapes is not None and (shapes.failure is not None or not around.is_idle()):
            return False
        if module is None:
            _graphs += 1
            return around.wrap(give_nothing)
        if on_graph is not None:
            on_graph(module)
        nodes = list(module.graph.nodes)
        try:
            chosen = forced_backend or backend
            if shapes is None:
                compile = functools.partial(call_backend, chosen, module, around.prepare(examples, for_real=False))
            else:
                compile = functools.partial(call_symbolic, chosen, module, shapes)
            run = teller.run_backend(chosen, module, tracer, compile) if events.listeners else compile()
        finally:
            around.undo(examples)
        if run is False:
            return False
        tracer.undo_states()  # a backend may run the graph's nodes when it compiles
        if callable(run):
            if not tracer.conclude():
                return False
            _graphs += 1
            is_module = run is module or run == module.forward
            tracer.keeps_order = is_module and list(module.graph.nodes) == nodes
            return around.wrap(run)
        found = find_untraceable(module)
        if found.keys() <= untraceable.keys():
            return run
        untraceable.update(found)
        return None  # again, split where they are called

    admits = functools.partial(admit, teller, fullgraph)
    captured = _capture.Captured(fn, start, finish, teller, admits, fullgraph)
    for name in functools.WRAPPER_ASSIGNMENTS:
        if hasattr(fn, name):
            setattr(captured, name, getattr(fn, name))
    with _captured_lock:
        _captured.add(captured)
    return captured


# What a call of a module looks at. (Hooks of state_dict() stay apart: it goes through both modules.)
CALL_HOOKS = (
    *("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks"),
    *("_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks", "_is_full_backward_hook"),
)


@_capture.forward_calls
class CompiledModule(_capture.Forwarder, torch.nn.Module):
    """A module whose calls are captured. Attributes, state_dict and the like are the original module's."""

    def __init__(self, module, backend, fullgraph, dynamic=None):
        torch.nn.Module.__init__(self)
        self._modules["_orig_mod"] = module
        for name in CALL_HOOKS:
            self.__dict__.pop(name, None)
        call = type(module).__call__.__get__(module)
        captured = capture(call, backend, fullgraph, report=report, dynamic=dynamic)
        object.__setattr__(self, "_captured_call", captured)
        object.__setattr__(self, "_callee", module)

    def __getattr__(self, name):
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._modules["_orig_mod"], name)

    def __setattr__(self, name, value):
        setattr(self._modules["_orig_mod"], name, value)

    def __delattr__(self, name):
        delattr(self._modules["_orig_mod"], name)

    @property
    def training(self):
        return self._modules["_orig_mod"].training

    @training.setter
    def training(self, value):
        if "_orig_mod" in self.__dict__.get("_modules", ()):  # not while Module.__init__ runs
            self._modules["_orig_mod"].training = value

    def train(self, mode=True):
        self._orig_mod.train(mode)
        return self

    def __reduce__(self):
        raise TypeError("a compiled module cannot be pickled; pickle its _orig_mod")


def compile(model=None, *, fullgraph=False, dynamic=None, backend="inductor", mode=None, options=None, disable=False):
    """Capture a function or module as torch.fx graphs and run what `backend` makes of them, guarded.

    Takes what torch.compile takes, also as a decorator, and returns a function or module of the same signature:

        compiled = alternator.compile(model, backend="inductor")
        compiled(x)   # the first call captures and compiles, further ones check the guards and run the graphs

    `fullgraph=True` makes a break an error, `alternator.Unsupported`. `backend` is a name that torch.compile knows, or
    a callable that takes a graph module and example inputs and returns what is called instead; `mode` and `options` are
    for the backend. `disable=True` returns the function as it is. With `dynamic=None` sizes and numbers that have
    changed between calls are no constants of the next graph, with True none is from the first call on, with False all
    are. The attributes, parameters and state_dict of a compiled module are the module's own.
    """
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable
        )
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if not callable(model):
        raise TypeError(f"alternator.compile() takes a function or a module, not {type(model).__name__}")
    if disable:
        return model
    found = find_backend(backend, mode, options)
    if isinstance(model, torch.nn.Module):
        return CompiledModule(model, found, fullgraph, dynamic)
    return capture(model, found, fullgraph, report=report, dynamic=dynamic)


def reset():
    """Forget every graph that was captured, in all compiled functions. They capture again at their next call."""
    with _captured_lock:
        found = list(_captured)
    for captured in found:
        captured.reset()
    symbolic = sys.modules.get("torch.fx.experimental.symbolic_shapes")
    for method in vars(symbolic.ShapeEnv).values() if symbolic is not None else ():
        if hasattr(method, "cache_clear"):  # by environment: torch keeps every one there
            method.cache_clear()
    if symbolic is not None:
        FakeTensorMode.cache_clear()  # likewise


def frames_translated() -> int:
    """Tell how many stretches of programs were captured since the process started.

    That is the number of graphs, and of stretches that compute nothing with tensors and run without one.
    """
    return _graphs + _capture.count_regions_without_graph()
