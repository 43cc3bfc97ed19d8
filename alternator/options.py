"""Options: arguments of compile() are checked at once; what means less here than with TorchDynamo is said once."""

from __future__ import annotations

import collections.abc
import difflib
import inspect
import warnings

_said = set()


def say_once(text):
    """Warn of something, once in the process."""
    if text not in _said:
        _said.add(text)
        warnings.warn(f"alternator: {text}", stacklevel=4)


# Settings of torch._dynamo.config: the default, and what happens when one has another value.
UNUSED_SETTINGS = {
    "automatic_dynamic_shapes_mark_as": ("dynamic", "sizes that change get symbols that have a value"),
    "caching_precompile": (False, "nothing is kept of captures from process to process; the backend's caches work"),
    "capture_dynamic_output_shape_ops": (False, "`nonzero()`, `x[mask]` and their like are breaks"),
    "compiled_autograd": (False, "backward passes run as torch has them"),
    "enable_compiler_collectives": (False, "each process decides by itself which sizes get symbols"),
    "minimum_call_count": (1, "the first call is captured"),
    "prefer_deferred_runtime_asserts_over_guards": (False, "what a graph assumes of sizes is checked before it runs"),
    "prepare_freezing": (False, "parameters are inputs of the graph"),
    "replay_side_effects": (True, "what the function changes is always changed"),
    "side_effect_replay_policy": ("info", "what the function changes is always changed, and not reported"),
    "skip_fwd_side_effects_in_bwd_under_checkpoint": (
        False,
        "a function that changes something and that checkpoint() calls runs eagerly, both times",
    ),
    "trace_autograd_ops": (False, "`torch.autograd.grad` is a break"),
    "use_graph_deduplication": (False, "equal parts of a graph stay as they are"),
}


def check_settings(config):
    """Say which of the settings above the program has changed."""
    for name, (default, instead) in UNUSED_SETTINGS.items():
        if getattr(config, name) != default:
            say_once(f"torch._dynamo.config.{name} is not used here: {instead}.")


# ---- Arguments of compile() ----------------------------------------------------------------------------------------


def check_arguments(fullgraph, dynamic, backend, mode, options):
    """Refuse arguments of a wrong type at once, not at the first call."""
    if not isinstance(fullgraph, int):
        raise TypeError(f"`fullgraph` must be True or False, not {fullgraph!r}.")
    if dynamic not in (None, True, False):
        raise TypeError(f"`dynamic` must be None, True or False, not {dynamic!r}.")
    if not isinstance(backend, str) and not callable(backend):
        raise TypeError(f"`backend` must be a name or a callable, not {backend!r}. The names: {list_backends()}.")
    if mode is not None and not isinstance(mode, str):
        raise TypeError(f"`mode` must be None or a text, not {mode!r}.")
    if options is not None and not isinstance(options, collections.abc.Mapping):
        raise TypeError(f"`options` must be a dict, not {options!r}.")
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")


def list_backends() -> str:
    from torch._dynamo.backends.registry import list_backends

    return ", ".join(list_backends(exclude_tags=None))


def suggest(name, names) -> str:
    """Name what was probably meant: a sentence, or nothing."""
    close = difflib.get_close_matches(name, names, 1)
    return f" Did you mean {close[0]!r}?" if close else ""


def look_up_backend(name):
    """Find a backend by its name in torch's registry."""
    from torch._dynamo.backends.registry import list_backends as list_names
    from torch._dynamo.backends.registry import lookup_backend
    from torch._dynamo.exc import InvalidBackend

    try:
        return lookup_backend(name)
    except InvalidBackend as error:
        names = list_names(exclude_tags=None)
        error.args = error.msg, *_ = (f"There is no backend {name!r}.{suggest(name, names)} All: {', '.join(names)}.",)
        raise error.with_traceback(None) from None


def check_inductor(mode, options):
    """Refuse modes and options that Inductor does not know, and name those that it does."""
    import torch._inductor

    if mode is not None and mode not in (modes := torch._inductor.list_mode_options()):
        raise RuntimeError(f"Unrecognized mode={mode!r}.{suggest(mode, modes)} All: {', '.join(modes)}.")
    known = torch._inductor.list_options() if options else ()
    for name in options or ():
        plain = name.replace("-", "_")
        if plain not in known:
            raise RuntimeError(
                f"Unexpected optimization option {name!r} of inductor.{suggest(plain, known)} "
                "`torch._inductor.list_options()` lists all."
            )


def check_takes(backend, given):
    """Refuse `mode` or `options` for a backend that takes none."""
    try:
        inspect.signature(backend).bind(None, None, **given)
    except TypeError:
        named = getattr(backend, "__name__", type(backend).__name__)
        raise TypeError(f"The backend `{named}` does not take {' and '.join(f'`{name}`' for name in given)}.") from None
    except ValueError:  # C code, which does not say
        pass
