"""Alternator: graph capture for PyTorch, on an interpreter of its own.

    import alternator

    compiled = alternator.compile(model)      # as torch.compile
    alternator.install()                      # or: torch.compile itself runs on Alternator from here on

    print(alternator.explain(model)(x))       # what is captured of a call
    with alternator.report("report.html"):    # a page of what is captured, to open in a browser
        compiled(x)

`alternator.events` is the same as data. `alternator --help`, in a shell, shows the commands.
"""

from __future__ import annotations

import functools
import importlib
import typing

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
    "events",
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
if typing.TYPE_CHECKING:
    from alternator import events as events
    from alternator.compiling import compile as compile
    from alternator.compiling import frames_translated as frames_translated
    from alternator.compiling import reset as reset
    from alternator.errors import Unsupported as Unsupported
    from alternator.explaining import explain as explain
    from alternator.logs import set_logs as set_logs
    from alternator.progress import set_progress as set_progress
    from alternator.reporting import report as report
    from alternator.takeover import install as install
    from alternator.takeover import installed as installed
    from alternator.takeover import uninstall as uninstall
    from alternator.turns import set_threads as set_threads

    Called = typing.TypeVar("Called", bound=typing.Callable[..., object])
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def interpret(fn: Called) -> Called:
    """Wrap a callable so that its frames, and all Python frames below them in the same thread, run in our loop.

    Works as a decorator, on methods too. A generator that the call returns runs in the loop of whoever resumes it.

        @alternator.interpret
        def count(words): ...
    """
    wrapper = _C.Interpreted(fn)
    for name in functools.WRAPPER_ASSIGNMENTS:
        if hasattr(fn, name):
            setattr(wrapper, name, getattr(fn, name))
    wrapper.__dict__.update(getattr(fn, "__dict__", {}))
    return typing.cast("Called", wrapper)


def is_interpreting() -> bool:
    """Tell whether the frames of the current thread run in our loop."""
    return bool(_C.is_interpreting())


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> typing.Any:
    home = _HOMES.get(name)
    if name == "events":
        return importlib.import_module("alternator.events")
    if home is not None:
        return getattr(importlib.import_module(f"alternator.{home}"), name)
    raise AttributeError(f"module 'alternator' has no attribute {name!r}")
