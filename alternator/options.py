"""Options and markers that mean less here than with TorchDynamo: each is said once, when it is used."""

from __future__ import annotations

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
