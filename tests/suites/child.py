"""Runs one command in a process group of its own, with a time limit and its output in files.

Output goes to files, not pipes: a grandchild that survives its parent would keep a pipe open for ever.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Ended:
    """How a command ended. A negative exit code is the signal that killed it."""

    exit_code: int
    seconds: float
    timed_out: bool
    out: str
    err: str


def clean_environment(**more: str) -> dict[str, str]:
    """The environment of a test process: the caller's, without what changes how Python or pytest behave.

    PYTHONPATH stays, since it is how the checkout's `alternator` is found; its entries become absolute because
    the process runs in a directory of its own.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    path = [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if path:
        kept["PYTHONPATH"] = os.pathsep.join(path)
    return {**kept, "TERM": "dumb", **more}


def restore_signals() -> None:
    """Give children the default action for signals that this process was started with as ignored.

    Shells start background jobs with SIGINT ignored; a Python that inherits that never raises KeyboardInterrupt, and
    tests which interrupt themselves run for ever. A handler, unlike SIG_IGN, is not inherited. Main thread only.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run_child(command: list[str], log: Path, cwd: Path, env: dict[str, str], limit: float, memory: int = 0) -> Ended:
    """Run `command`, writing LOG.out and LOG.err; after `limit` seconds the whole group is killed.

    `memory`, if given, bounds the address space in bytes, so that a runaway test does not take the machine with it.
    """
    out_path, err_path = Path(f"{log}.out"), Path(f"{log}.err")
    out_path.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with open(out_path, "wb") as out, open(err_path, "wb") as err:
        process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
        if memory:
            resource.prlimit(process.pid, resource.RLIMIT_AS, (memory, resource.RLIM_INFINITY))
        timed_out = False
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            # Also after a normal end: what a test left running must not disturb the next one.
            kill_group(process.pid)
            process.wait()
    return Ended(
        process.returncode,
        time.monotonic() - started,
        timed_out,
        out_path.read_text(errors="replace"),
        err_path.read_text(errors="replace"),
    )
