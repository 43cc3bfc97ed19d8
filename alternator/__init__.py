"""Alternator: graph capture for PyTorch, on an interpreter of its own."""

from __future__ import annotations

import functools
import importlib

try:
    from alternator import _C
except ImportError as error:
    raise ImportError(
        f"alternator's extension module could not be loaded ({error}). In a checkout, use ./dev (it builds the module "
        "and sets the path: ./dev python ...), or install the package with `pip install .` and start Python in another "
        "folder, or with -P: the checkout's own alternator/ comes first otherwise."
    ) from error

__version__ = "0.1.0"
__all__ = [
    "Unsupported",
    "compile",
    "explain",
    "frames_translated",
    "install",
    "installed",
    "interpret",
    "is_interpreting",
    "report",
    "reset",
    "set_logs",
    "set_progress",
    "set_threads",
    "uninstall",
]

# Most of it needs torch, which takes seconds to import: loaded at the first use.
_MODULES = {
    "compiling": ["compile", "frames_translated", "reset"],
    "takeover": ["install", "installed", "uninstall"],
    "errors": ["Unsupported"],
    "explaining": ["explain"],
    "logs": ["set_logs"],
    "progress": ["set_progress"],
    "reporting": ["report"],
    "turns": ["set_threads"],
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def interpret(fn):
    """Wrap a callable so that its frames, and all Python frames below them in the same thread, run in our loop.

    Works as a decorator, on methods too. A generator that the call returns runs in the loop of whoever resumes it.
    """
    wrapper = _C.Interpreted(fn)
    for name in functools.WRAPPER_ASSIGNMENTS:
        if hasattr(fn, name):
            setattr(wrapper, name, getattr(fn, name))
    wrapper.__dict__.update(getattr(fn, "__dict__", {}))
    return wrapper


def is_interpreting() -> bool:
    """Tell whether the frames of the current thread run in our loop."""
    return _C.is_interpreting()


def __getattr__(name):
    home = _HOMES.get(name)
    if home is not None:
        return getattr(importlib.import_module(f"alternator.{home}"), name)
    raise AttributeError(f"module 'alternator' has no attribute {name!r}")
