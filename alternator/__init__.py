"""Alternator: graph capture for PyTorch, on an interpreter of its own.

So far the interpreter: CPython's evaluation loop in C++, entered through the frame-evaluation hook (PEP 523).
"""

from __future__ import annotations

import functools

try:
    from alternator import _C
except ImportError as error:
    raise ImportError(
        f"alternator's extension module could not be loaded ({error}). In a checkout, use ./dev (it builds the module "
        "and sets the path: ./dev python ...), or install the package with `pip install .`."
    ) from error

__version__ = "0.1.0"
__all__ = ["compile", "frames_translated", "interpret", "is_interpreting", "reset"]

# The capture part needs torch, which takes seconds to import: loaded at the first use.
_CAPTURE = {"compile", "frames_translated", "reset"}


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
    if name in _CAPTURE:
        from alternator import compiling

        return getattr(compiling, name)
    raise AttributeError(f"module 'alternator' has no attribute {name!r}")
