"""alternator.compile: torch.compile's signature and meaning, on our capture."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
import re
import sys
import threading
import types
import typing
import warnings
import weakref

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

from alternator import (
    _capture,
    deferring,
    events,
    flat_calls,
    higher_order,
    logs,
    objects,
    progress,
    stand_ins,
    torch_random,
    torch_stand_ins,
    turns,
)
from alternator.around import give_nothing
from alternator.backend_calls import BackendFailure, load_backend, run_backend, static_context
from alternator.contracts import find_real_modules, make_rows
from alternator.errors import make_unsupported
from alternator.guard_filter import make_filter
from alternator.messages import describe, explain
from alternator.options import check_arguments, check_inductor, check_takes, look_up_backend
from alternator.recording import Compiling, Tracer, find_dynamics
from alternator.substitutes import Span, call_in_graph, call_tracer, ignore_books, substitute
from alternator.torch_calls import make_table
from alternator.torch_leaves import make_leaf_rules
from alternator.torch_numbers import find_early_ones
from alternator.untraceable import find_untraceable

if typing.TYPE_CHECKING:
    from collections.abc import Mapping

    Backend = str | typing.Callable[..., typing.Callable[..., typing.Any]]
    Options = Mapping[str, typing.Any]

# Objects that never change and that C code looks into.
IMMUTABLE = (re.Pattern, operator.itemgetter, operator.attrgetter)

_captured = weakref.WeakSet()
_captured_lock = threading.RLock()
_graphs = 0
forced_backend = None  # instead of every function's own: torch.compiler.set_stance(force_backend=..)


@turns.run_once
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
    higher_order.prepare()
    logs.start()
    progress.start()
    turns.start()


uses_markers = False  # alternator.compile was called


def watch_markers():
    """Have the markers of torch.compiler and torch._dynamo be known, as soon as a program can have used one."""
    if "torch._dynamo" in sys.modules:
        from alternator import takeover

        takeover.watch_markers()


class Calls:
    """What stances know of a function that `alternator.compile` compiled (stances.py)."""

    def __init__(self, fn):
        self.fn = fn
        self.eager_calls = 0
        self.miss = None

    @property
    def code(self):
        from alternator.accounts import find_code

        return find_code(self.fn)

    def begin(self):
        watch_markers()
        stances = sys.modules.get("alternator.stances")
        return Tracer() if stances is None or stances.stance.permits_trace(self) else None


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
    if backend == "inductor":
        check_inductor(mode, options)
        return torch._TorchCompileInductorWrapper(mode, options, False)
    found = backend if callable(backend) else look_up_backend(backend)
    given = {"mode": mode if mode != "default" else None, "options": options}
    given = {name: value for name, value in given.items() if value}
    if not given:
        return found
    check_takes(found, given)
    return functools.update_wrapper(functools.partial(found, **given), found)


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


def admit(teller, fullgraph, limit, regions, captures, reason):
    """Tell whether a point that has so many regions, after so many captures, may get another. As in TorchDynamo."""
    limits, fails = find_limits()
    if limit is not None:
        limits["recompile_limit"] = limit
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
        __tracebackhide__ = True
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
    except BackendFailure as failure:
        __tracebackhide__ = True
        from torch._dynamo import config
        from torch._dynamo.exc import BackendCompilerFailed, exceptions_allowed_to_be_fallback

        error = failure.error
        named = types.SimpleNamespace(__name__=events.name_backend(backend))
        failed = BackendCompilerFailed(named, error, inspect.currentframe())
        if config.suppress_errors or isinstance(error, exceptions_allowed_to_be_fallback):
            return str(failed)
        frames = error.__traceback__  # the first is run_backend's
        raise failed.with_traceback(frames.tb_next if frames is not None else None) from None


def call_symbolic(backend, module, shapes):
    """Compile a graph with symbols; one that computes nothing but numbers needs no backend."""
    if not shapes.has_tensors():
        return module
    try:
        shapes.finish(module)
        with shapes.compiling():
            return run_backend(backend, module, shapes.examples)
    except (MemoryError, RecursionError):  # ours: another time
        raise
    except Exception:  # constants may suit the backend; if not, it says so then
        return False


def capture(fn, backend, fullgraph, begin=Tracer, on_graph=None, report=report, dynamic=None, **options):
    """Wrap a Python function or bound method.

    `begin()` starts a trace and gives its tracer, or None: not now. `on_graph(module)` sees each graph before the
    backend does. `report` is told what happens. Further: the program's `guard_filter`, a `limit` of graphs for this
    function, and `on_compiled()` after each graph was compiled.
    """
    prepare()
    teller = events.Teller(fn, report)
    guard_filter, on_compiled = options.get("guard_filter"), options.get("on_compiled")
    untraceable = {}  # functions of torch that the backend cannot trace -> their rule

    def start():
        turns.share_lock()
        load_backend(forced_backend or backend)
        ignore_books()
        tracer = begin()
        if tracer is None:
            return None
        tracer.dynamic = find_dynamics(dynamic)
        if untraceable:
            tracer.add_rules(untraceable)
        traces = Compiling.traces
        try:
            tracer.begin()  # last: from here on the core sees to its end
        except BaseException:  # an interruption, before it was begun or just afterwards
            if Compiling.traces != traces:
                Compiling.end()
            raise
        return tracer

    def finish(tracer):
        global _graphs
        __tracebackhide__ = True  # pytest: show the user's frames
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
            turns.share_lock()  # the backend may have loaded TorchDynamo
        if run is False:
            return False
        tracer.undo_states()  # a backend may run the graph's nodes when it compiles
        if callable(run):
            try:
                if not tracer.conclude():
                    return False
            except ConstraintViolationError as error:  # the user's to see, without our frames
                raise error.with_traceback(None) from None
            _graphs += 1
            is_module = run is module or run == module.forward
            tracer.keeps_order = is_module and list(module.graph.nodes) == nodes
            if on_compiled is not None:
                on_compiled()
            return around.wrap(run)
        found = find_untraceable(module)
        if found.keys() <= untraceable.keys():
            return run
        untraceable.update(found)
        return None  # again, split where they are called

    admits = functools.partial(admit, teller, fullgraph, options.get("limit"))
    chosen = None if guard_filter is None else make_filter(guard_filter)
    captured = _capture.Captured(fn, start, finish, teller, admits, fullgraph, chosen)
    for name in functools.WRAPPER_ASSIGNMENTS:
        if hasattr(fn, name):
            setattr(captured, name, getattr(fn, name))
    with _captured_lock:
        _captured.add(captured)
    return captured


@dataclasses.dataclass(frozen=True)
class Settings:
    """The arguments of compile()."""

    fullgraph: bool
    dynamic: bool | None
    backend: object
    mode: str | None
    options: dict | None

    def __deepcopy__(self, memo):
        return self  # the backend is the same


# What a call of a module looks at. (Hooks of state_dict() stay apart: it goes through both modules.)
CALL_HOOKS = (
    *("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks"),
    *("_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks", "_is_full_backward_hook"),
)


@_capture.forward_calls
class CompiledModule(_capture.Forwarder, torch.nn.Module):
    """A module whose calls are captured. Attributes, state_dict and the like are the original module's."""

    def __init__(self, module, settings):
        torch.nn.Module.__init__(self)
        self._modules["_orig_mod"] = module
        for name in CALL_HOOKS:
            self.__dict__.pop(name, None)
        self.capture_calls(settings)

    def capture_calls(self, settings):
        module = self._modules["_orig_mod"]
        call = type(module).__call__.__get__(module)
        object.__setattr__(self, "_captured_call", capture_with(call, settings))
        object.__setattr__(self, "_callee", module)
        self.__dict__["_settings"] = settings

    def __getattr__(self, name):
        modules = self.__dict__.get("_modules")
        if modules is None:  # a copy in the making
            raise AttributeError(name)
        return modules["_orig_mod"] if name == "_orig_mod" else getattr(modules["_orig_mod"], name)

    def __setattr__(self, name, value):
        if name == "_orig_mod":
            self._modules["_orig_mod"] = value
            self.capture_calls(self._settings)
        else:
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

    @property
    def forward(self):
        """Do what a call does, as with TorchDynamo."""
        self._captured_call.__signature__ = find_signature(self._orig_mod)
        return self._captured_call

    @property
    def dynamo_ctx(self):
        """Compile another function in the same way."""
        return functools.partial(compile, **vars(self._settings))

    @property
    def __signature__(self):
        return find_signature(self._orig_mod)

    def __len__(self):
        return len(self._orig_mod)

    def __bool__(self):
        return bool(self._orig_mod)

    def __dir__(self):
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __reduce__(self):
        return make_empty_module, (), dict(self.__dict__)

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.__dict__["_modules"] = dict(state["_modules"])
        self.capture_calls(self._settings)


def find_signature(module):
    try:
        return inspect.signature(module.forward)
    except (TypeError, ValueError):  # of C code, or none
        return inspect.signature(type(module).__call__)


def find_module_class():
    """Find the class of compiled modules: TorchDynamo's OptimizedModule is a base of it, if that is loaded."""
    optimized = getattr(sys.modules.get("torch._dynamo.eval_frame"), "OptimizedModule", None)
    return CompiledModule if optimized is None else derive_module_class(optimized)


@functools.cache
def derive_module_class(optimized):
    derived = type(CompiledModule.__name__, (CompiledModule, optimized), {"__module__": __name__})
    return _capture.forward_calls(derived)


def make_empty_module():
    cls = find_module_class()
    return cls.__new__(cls)


def capture_with(fn, settings):
    """Wrap a Python function or bound method."""
    options = dict(settings.options) if settings.options is not None else None
    guard_filter = options.pop("guard_filter_fn", None) if options else None
    backend = find_backend(settings.backend, settings.mode, options)
    captured = capture(
        *(fn, backend, settings.fullgraph, Calls(fn).begin),
        report=report,
        dynamic=settings.dynamic,
        guard_filter=guard_filter,
    )
    return objects.remember(captured, capture_with, fn, settings)


Called = typing.TypeVar("Called", bound=typing.Callable[..., object])


@typing.overload
def compile(
    model: Called,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Backend = "inductor",
    mode: str | None = None,
    options: Options | None = None,
    disable: bool = False,
) -> Called: ...
@typing.overload
def compile(
    model: None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Backend = "inductor",
    mode: str | None = None,
    options: Options | None = None,
    disable: bool = False,
) -> typing.Callable[[Called], Called]: ...
def compile(model=None, *, fullgraph=False, dynamic=None, backend="inductor", mode=None, options=None, disable=False):
    """Capture a function or module as torch.fx graphs and run what `backend` makes of them, guarded.

    Takes what torch.compile takes, also as a decorator, and returns a function or module of the same signature:

        compiled = alternator.compile(model, backend="inductor")
        compiled(x)   # the first call captures and compiles, further ones check the guards and run the graphs

    `fullgraph=True` makes a break an error, `alternator.Unsupported`. `backend` is a name that torch.compile knows, or
    a callable that takes a graph module and example inputs and returns what is called instead; `mode` and `options` are
    for the backend. `disable=True` returns the function as it is. `dynamic=None` makes a size or number symbolic once
    it changes between calls; `True` makes all symbolic from the first call; `False` compiles one graph per value. The
    attributes, parameters and state_dict of a compiled module are the module's own.
    """
    check_arguments(fullgraph, dynamic, backend, mode, options)
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable
        )
    if not callable(model):
        raise TypeError(f"alternator.compile() takes a function or a module, not {type(model).__name__}")
    if disable:
        return model
    global uses_markers
    uses_markers = True
    watch_markers()
    settings = Settings(fullgraph, dynamic, backend, mode, options)
    return find_module_class()(model, settings) if isinstance(model, torch.nn.Module) else capture_with(model, settings)


def reset_code(code):
    """Forget the graphs of the functions with this code."""
    with _captured_lock:
        found = list(_captured)
    for captured in found:
        if code is getattr(captured.__wrapped__, "__code__", None):
            captured.reset()


def reset() -> None:
    """Forget every graph that was captured, in all compiled functions. They capture again at their next call."""
    with _captured_lock:
        found = list(_captured)
    with turns.lock:  # nothing of it is in use
        for captured in found:
            captured.reset()
        clear_shapes()


def clear_shapes():
    """Empty torch's caches of what it found out about shapes, which keep every environment."""
    symbolic = sys.modules.get("torch.fx.experimental.symbolic_shapes")
    for method in vars(symbolic.ShapeEnv).values() if symbolic is not None else ():
        if hasattr(method, "cache_clear"):
            method.cache_clear()
    if symbolic is not None:
        FakeTensorMode.cache_clear()
    shapes = sys.modules.get("alternator.shapes")
    for environment in list(shapes.environments) if shapes is not None else ():
        environment.fake_tensor_cache.clear()


def frames_translated() -> int:
    """Tell how many stretches of programs were captured since the process started.

    That is the number of graphs, and of stretches that compute nothing with tensors and run without one.
    """
    return _graphs + _capture.count_regions_without_graph()
