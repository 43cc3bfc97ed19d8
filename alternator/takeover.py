"""In TorchDynamo's place: torch.compile and torch._dynamo's entry points run on Alternator.

`install()` puts functions of ours where TorchDynamo's are, in every module of torch._dynamo that holds them (some copy
them when they are imported), and `uninstall()` puts those back. `torch.compile` itself stays: it resolves its options
and calls `torch._dynamo.optimize`. TorchDynamo's tracer, guards and bytecode are not used; its registry of backends,
its settings, counters, exceptions and markers are, because programs use them.
"""

from __future__ import annotations

import collections.abc
import contextlib
import functools
import inspect
import os
import sys
import types
import weakref

import torch
import torch._dynamo
from torch._dynamo import decorators, eval_frame
from torch._dynamo.hooks import Hooks
from torch._guards import GuardsSet

from alternator import _capture, compiling, events, markers, objects, startup
from alternator.accounts import Account, find_code
from alternator.options import check_settings, say_once
from alternator.stances import stance

HOOKS = ("guard_export_fn", "guard_fail_fn", "guard_filter_fn")
GUARD_HOOKS = {"guard_export_fn", "guard_filter_fn"}  # that get to see the guards

# What takes whose place: (module, name) -> ours. Filled below.
replacements = {}
_originals = {}  # id of ours -> (ours, theirs)
_marked = {}  # the same for markers and stances


def takes_place_of(owner, *names):
    """Register a function of ours for TorchDynamo's."""

    def register(ours):
        for name in names or (ours.__name__,):
            replacements[owner, name] = ours
        return ours

    return register


# ---- Compiling -----------------------------------------------------------------------------------------------------


class Context:
    """What torch._dynamo.optimize() gives: a decorator."""

    def __init__(
        self, backend, *, fullgraph, dynamic=None, hooks=None, limit=None, error_on_graph_break=None, isolated=False
    ):
        check_settings(torch._dynamo.config)
        self.given = backend
        self.backend = torch._dynamo.lookup_backend(backend)
        self.fullgraph = fullgraph
        self.dynamic = dynamic
        self.hooks = hooks or {}
        self.limit = limit
        self.error_on_graph_break = error_on_graph_break
        self.isolated = isolated  # shares its graphs with no other
        config = getattr(backend, "get_compiler_config", None)
        self.compiler_config = config() if config is not None else None

    def __enter__(self):
        raise RuntimeError(
            "torch._dynamo.optimize(...) is used with a context manager. Please refer to "
            "https://pytorch.org/tutorials/intermediate/torch_compile_tutorial.html "
            "to use torch._dynamo.optimize(...) as an annotation/decorator. "
        )

    def __exit__(self, *exception):
        return None

    def __call__(self, fn):
        fn = eval_frame.innermost_fn(fn)
        if isinstance(fn, torch.nn.Module):
            return self.compile_module(fn)
        if inspect.isclass(fn):
            fn.__call__ = self(fn.__call__)
            return fn
        if not callable(fn):
            raise AssertionError(f"A callable function is expected, but {type(fn)} is provided.")
        compiled = self.compile_function(fn)
        if self.error_on_graph_break is not None and not self.fullgraph:
            compiled = markers.with_error_setting(compiled, self.error_on_graph_break)
        self.mark(compiled, fn)
        return compiled

    def compile_module(self, module):
        if isinstance(module, torch.jit.ScriptModule):
            raise RuntimeError(
                "torch.compile does not support compiling torch.jit.script or torch.jit.freeze models directly"
            )
        compiled = eval_frame.OptimizedModule(module, self)
        self.mark(compiled, module.forward)
        return compiled

    def compile_function(self, fn):
        shared = None if self.hooks or self.isolated else find_shared(fn, self)
        if shared is not None:
            return shared
        account = Account(fn, self)
        captured = compiling.capture(
            fn if is_python(fn) else make_inline(fn),
            self.backend,
            self.fullgraph,
            begin=account.begin,
            on_graph=account.take_graph,
            report=account.report,
            dynamic=self.dynamic,
            guard_filter=self.choose_guards if self.hooks.keys() & GUARD_HOOKS else None,
            limit=self.limit,
            on_compiled=account.call_bytecode_hooks,
        )
        account.captured = weakref.ref(captured)
        objects.remember(captured, compile_again, fn, self)
        if not self.hooks and not self.isolated:
            share(fn, self, captured)
        return captured

    def choose_guards(self, entries):
        """Show the guards of a region to the program; say which to keep."""
        export, choose = self.hooks.get("guard_export_fn"), self.hooks.get("guard_filter_fn")
        if export is not None:
            export(GuardsSet({entry.orig_guard for entry in entries}))
        return [True] * len(entries) if choose is None else choose(entries)

    def mark(self, compiled, fn):
        compiled._torchdynamo_orig_callable = fn
        if not isinstance(compiled, torch.nn.Module):
            compiled._torchdynamo_inline = fn  # what TorchDynamo traces, where torch has it trace something
        compiled._torchdynamo_wrapper_id = id(compiled)
        compiled._is_torch_compile = True
        compiled.get_compiler_config = lambda: self.compiler_config
        if torch._dynamo.config.enable_aot_compile and not isinstance(compiled, torch.nn.Module):
            compiled.aot_compile = functools.partial(self.compile_ahead, fn)

    # What torch.compile(..).aot_compile and OptimizedModule._aot_compile look for.
    callback = property(lambda self: self.backend)
    _hooks = property(lambda self: Hooks(**{name: self.hooks.get(name) for name in HOOKS}))

    def compile_ahead(self, fn, example_inputs):
        """Compile a function before it is called: TorchDynamo does, and serializes its own guards and bytecode."""
        from torch._dynamo.aot_compile import aot_compile_fullgraph

        if torch._inductor.config.force_disable_caches:
            raise RuntimeError(
                "Cannot precompile with torch._inductor.config.force_disable_caches=True; caching is required."
            )
        if not self.fullgraph:
            raise RuntimeError(
                "Graph breaks are not supported with aot compile. Please use torch.compile(fullgraph=True)."
            )
        backend = eval_frame.innermost_backend(self.backend)
        return aot_compile_fullgraph(fn, example_inputs, hooks=self._hooks, backend=backend, dynamic=self.dynamic)

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        settings = (self.fullgraph, self.dynamic, self.hooks, self.limit, self.error_on_graph_break)
        return rebuild_context, (self.given, *settings)


def rebuild_context(backend, fullgraph, dynamic, hooks, limit, error_on_graph_break):
    return Context(
        backend,
        fullgraph=fullgraph,
        dynamic=dynamic,
        hooks=hooks,
        limit=limit,
        error_on_graph_break=error_on_graph_break,
    )


def compile_again(fn, context):
    return context(fn)


def is_python(fn):
    """Tell whether a call makes a frame of the callable's own."""
    while isinstance(fn, types.MethodType):
        fn = fn.__func__
    return isinstance(fn, types.FunctionType) and fn not in torch_functions()


@functools.cache
def torch_functions():
    """Find torch's overridable functions in Python: nodes, not code to capture."""
    from alternator.contracts import find_torch_functions

    return {fn for fn in find_torch_functions() if isinstance(fn, types.FunctionType)}


def make_inline(fn):
    """Give a callable that has no frame of its own one that is captured."""

    def inner(*args, **kwargs):
        return fn(*args, **kwargs)

    return functools.wraps(fn)(inner) if hasattr(fn, "__name__") else inner


# A function compiled twice with the same backend has its graphs once. The function itself keeps what was compiled, as
# (its id, [(context, captured)]), so that nothing outlives it and copies of its attributes mean nothing.


def find_shared(fn, context):
    owner, entries = getattr(fn, "_alternator_compiled", (None, ()))
    for other, captured in entries if owner == id(fn) else ():
        if (
            other.backend == context.backend
            and other.fullgraph == context.fullgraph
            and other.error_on_graph_break == context.error_on_graph_break
            and other.limit == context.limit
        ):
            return captured
    return None


def share(fn, context, captured):
    if isinstance(fn, types.FunctionType):
        owner, entries = getattr(fn, "_alternator_compiled", (None, None))
        if owner != id(fn):
            fn._alternator_compiled = (id(fn), entries := [])
        entries.append((context, captured))


def compiles_for_torch():
    """Tell whether it is torch that compiles: torch.cond, flex_attention and their like, called eagerly."""
    utils = sys.modules.get("torch._higher_order_ops.utils")
    return utils is not None and utils._in_hop_compile()


def hand_over(ours, *args, **options):
    """Have TorchDynamo do it. Higher-order operators rely on what it makes of them."""
    builder = torch._dynamo.variables.builder.VariableBuilder
    builder._type_dispatch().setdefault(_capture.Captured, builder.wrap_jit_function)  # code inside may be compiled
    return _originals[id(ours)][1](*args, **options)


@takes_place_of(eval_frame)
def optimize(
    backend="inductor",
    *,
    nopython=False,
    error_on_graph_break=None,
    guard_export_fn=None,
    guard_fail_fn=None,
    guard_filter_fn=None,
    disable=False,
    dynamic=None,
    package=None,
    recompile_limit=None,
    isolate_recompiles=False,
    shapes_spec=None,
):
    """Make a decorator that compiles with a backend: torch._dynamo.optimize."""
    if compiles_for_torch():
        return hand_over(optimize, **locals())
    torch._dynamo.eval_frame.check_for_incompatible_configs()
    if disable or os.environ.get("TORCHDYNAMO_DISABLE", "") == "1":
        return eval_frame._NullDecorator()
    hooks = dict(zip(HOOKS, (guard_export_fn, guard_fail_fn, guard_filter_fn), strict=True))
    if package is not None or shapes_spec is not None:
        say_once("package= and shapes_spec= of torch.compile are not used here.")
    return Context(
        backend,
        fullgraph=nopython,
        dynamic=dynamic,
        hooks={name: hook for name, hook in hooks.items() if hook is not None},
        limit=recompile_limit,
        error_on_graph_break=error_on_graph_break,
        isolated=isolate_recompiles,
    )


@takes_place_of(eval_frame)
def optimize_assert(backend, *, dynamic=None, recompile_limit=None, **options):
    """Make a decorator that compiles to one graph or fails: torch._dynamo.optimize_assert."""
    if compiles_for_torch():
        return hand_over(optimize_assert, backend, dynamic=dynamic, recompile_limit=recompile_limit, **options)
    hooks = options.get("hooks")
    hooks = {name: getattr(hooks, name) for name in HOOKS if getattr(hooks, name, None) is not None}
    isolated = options.get("isolate_recompiles", False)
    return Context(backend, fullgraph=True, dynamic=dynamic, hooks=hooks, limit=recompile_limit, isolated=isolated)


# ---- Asking --------------------------------------------------------------------------------------------------------


@takes_place_of(eval_frame)
def explain(f, *extra_args, **extra_kwargs):
    """Tell what is captured of a call: torch._dynamo.explain."""
    from alternator.explaining import Collector, make_output

    def inner(*args, **kwargs):
        torch._dynamo.reset()
        collector = Collector()
        with events.listen(collector):
            optimize(lambda module, inputs: module.forward)(f)(*args, **kwargs)
        torch._dynamo.reset()
        return make_output(collector.explain(events.describe_function(f)))

    if extra_args or extra_kwargs:
        import warnings

        warnings.warn(
            "explain(f, *args, **kwargs) is deprecated, use explain(f)(*args, **kwargs) instead.  "
            "If you don't migrate, we may break your explain call in the future if your user defined kwargs "
            "conflict with future kwargs added to explain(f).",
            FutureWarning,
            stacklevel=2,
        )
        return inner(*extra_args, **extra_kwargs)
    return inner


@takes_place_of(eval_frame)
def export(f, *extra_args, aten_graph=False, decomposition_table=None, **options):
    """Make one graph with the function's own signature: torch._dynamo.export. Shapes are static."""
    from alternator.exporting import export_call

    def inner(*args, **kwargs):
        return export_call(optimize, eval_frame.innermost_fn(f), args, kwargs, aten_graph, decomposition_table)

    settings = inspect.signature(_originals[id(export)][1]).parameters
    extra_kwargs = {name: value for name, value in options.items() if name not in settings}
    return inner(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else inner


@takes_place_of(decorators)
def run(fn=None):
    """Call a function with the graphs that it has, and eagerly where none fits: torch._dynamo.run."""
    if fn is None:
        return run
    compiled = fn if hasattr(fn, "_is_torch_compile") else torch.compile(fn)

    @functools.wraps(fn)
    def run_only(*args, **kwargs):
        with stance.without_traces():
            return compiled(*args, **kwargs)

    return run_only


@takes_place_of(torch._dynamo)
def reset():
    """Forget everything that was captured: torch._dynamo.reset."""
    _originals[id(reset)][1]()
    compiling.reset()


@takes_place_of(torch._dynamo)
def reset_code_caches():
    _originals[id(reset_code_caches)][1]()
    compiling.reset()


@takes_place_of(eval_frame)
def remove_from_cache(f):
    """Forget what was captured of a function, code object or module: torch._dynamo.eval_frame.remove_from_cache."""
    inner = eval_frame.innermost_fn(f)
    if isinstance(inner, torch.nn.Module):
        inner = inner.forward
    code = inner if isinstance(inner, types.CodeType) else find_code(inner)
    _originals[id(remove_from_cache)][1](code)
    compiling.reset_code(code)


# ---- Installing ----------------------------------------------------------------------------------------------------


def install() -> None:
    """Make torch.compile and torch._dynamo's entry points run on Alternator, from now on.

    Functions that TorchDynamo compiled before stay its own. `python -m alternator run SCRIPT` and ALTERNATOR=1 do the
    same for a program without an edit.
    """
    if _originals:
        return
    watch_markers()
    markers.take_polyfills()
    _originals.update(put_in_place(replacements))


def uninstall() -> None:
    """Put TorchDynamo back. What was compiled in between stays Alternator's."""
    if not _originals:
        return
    replace_everywhere(dict(_originals))
    _originals.clear()
    markers.polyfills.take_back()
    if not compiling.uses_markers:
        markers.uninstall()
        replace_everywhere(dict(_marked))
        _marked.clear()


def watch_markers():
    """Have markers and stances concern our compiled functions. `alternator.compile` needs that too."""
    if not _marked:
        _marked.update(put_in_place({**markers.replacements, **stance.replacements}))
        compiling.prepare()
        markers.install()
        if not startup.is_early:
            markers.find_earlier()


def put_in_place(table):
    """Put functions where TorchDynamo's are; return what `replace_everywhere` needs to put those back."""
    pairs, back = {}, {}
    for (owner, name), ours in table.items():
        theirs = getattr(owner, name)
        pairs[id(theirs)] = (theirs, ours)
        back[id(ours)] = (ours, theirs)
    replace_everywhere(pairs)
    return back


def replace_everywhere(pairs):
    """Replace functions in all modules of torch._dynamo, and in torch.compiler, that hold them."""
    for name, module in list(sys.modules.items()):
        if module is None or not name.startswith(("torch._dynamo", "torch.compiler", "torch._compile")):
            continue
        for key, value in list(vars(module).items()):
            pair = pairs.get(id(value))
            if pair is not None and pair[0] is value:
                setattr(module, key, pair[1])


@contextlib.contextmanager
def installed() -> collections.abc.Iterator[None]:
    """Install for the time of a `with` statement, and put back what was there before.

    What is compiled in it stays Alternator's:

        with alternator.installed():
            compiled = torch.compile(model)
    """
    was_installed = bool(_originals)
    install()
    try:
        yield
    finally:
        if not was_installed:
            uninstall()


if startup.pending:  # the program runs with ALTERNATOR=1, and this module is the first that needs torch._dynamo
    install()
