"""`alternator doctor`: is everything here that Alternator needs, and does a small capture work?"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import typing

TORCH = "2.13.0"  # as in pyproject.toml
PYTHON = (3, 11)
VARIABLES = ("ALTERNATOR", "TORCH_LOGS", "TORCH_TRACE", "TORCHDYNAMO_", "TORCHINDUCTOR_", "CXX")


class Problem(Exception):
    """Something is wrong: what, and what to do."""

    def __init__(self, what: str, advice: str):
        super().__init__(what)
        self.what, self.advice = what, advice


def check_python() -> str:
    found = f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"
    if platform.python_implementation() != "CPython" or sys.version_info[:2] != PYTHON:
        raise Problem(found, "Alternator needs CPython {}.{}.".format(*PYTHON))
    return found


def check_platform() -> str:
    found = f"{platform.system()} {platform.machine()}"
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise Problem(found, "Alternator is made for Linux on x86-64.")
    return found


def check_torch() -> str:
    advice = f"pip install torch=={TORCH}"
    try:
        import torch
    except ImportError as error:
        raise Problem(f"torch cannot be imported: {error}", advice) from None
    if torch.__version__.partition("+")[0] != TORCH:
        raise Problem(f"torch {torch.__version__}, but this build is for {TORCH}", advice)
    return f"{torch.__version__}, {torch.__path__[0]}"


def check_extension() -> str:
    try:
        from alternator import _capture
    except ImportError as error:
        advice = f"Install Alternator again, with the torch {TORCH} that your program uses."
        raise Problem(f"the extension cannot be loaded: {error}", advice) from None
    return os.path.dirname(_capture.__file__)


def check_compiler() -> str:
    name = os.environ.get("CXX", "g++")
    found = shutil.which(name.split()[0]) if name.strip() else None
    if found is None:
        raise Problem(
            f"there is no C++ compiler `{name}`",
            'Inductor needs one on CPUs: install g++, or set CXX. `backend="eager"` and "aot_eager" work without.',
        )
    return found


def check_environment() -> str:
    found = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(VARIABLES)]
    if os.environ.get("TORCHDYNAMO_DISABLE") == "1":
        raise Problem("TORCHDYNAMO_DISABLE=1", "torch.compile does nothing while this is set: unset it.")
    return ", ".join(found) or "no variables that matter"


def check_capture(backend: str) -> str:
    import torch

    import alternator

    def fn(x, n):
        return (x * n).relu().sum()

    x = torch.arange(-3.0, 3.0)
    before = alternator.frames_translated()
    try:
        found = alternator.compile(fn, backend=backend, fullgraph=True)(x, 2)
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        advice = f"If the lines above are fine, please report it, with `backend={backend!r}` and the whole message."
        raise Problem(f"{type(error).__name__}: {first}", advice) from error
    if not torch.allclose(found, fn(x, 2)) or alternator.frames_translated() != before + 1:
        raise Problem("the result is wrong, or nothing was captured", "Please report it.")
    return "1 graph, the right result"


CHECKS: dict[str, typing.Callable[[], str]] = {
    "Python": check_python,
    "platform": check_platform,
    "torch": check_torch,
    "extension": check_extension,
    "environment": check_environment,
    "C++ compiler": check_compiler,
    "capture": lambda: check_capture("eager"),
    "inductor": lambda: check_capture("inductor"),
}
# What makes no sense without another: it is left out when that one failed.
NEEDS = {
    "extension": ("torch",),
    "capture": ("torch", "extension", "environment"),
    "inductor": ("capture", "C++ compiler"),
}


def examine() -> int:
    """Print what each check finds; return 0 if all is well, else 1."""
    import alternator

    print(f"alternator {alternator.__version__}")
    bad = set()
    for name, check in CHECKS.items():
        if bad.intersection(NEEDS.get(name, ())):
            bad.add(name)
            print(f"  --   {name:13} not tried")
            continue
        try:
            print(f"  ok   {name:13} {check()}", flush=True)
        except Problem as problem:
            bad.add(name)
            print(f"  BAD  {name:13} {problem.what}\n       {'':13} {problem.advice}", flush=True)
    print(
        "Everything works." if not bad else f"Something is wrong: {', '.join(name for name in CHECKS if name in bad)}."
    )
    return 1 if bad else 0
