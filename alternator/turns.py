"""Threads take turns: one at a time traces and compiles, because torch's compilers are not made for several.

A call that no graph fits takes `lock` until it has one. Other threads that need a graph wait meanwhile, without the
GIL, and look again when they have the lock: what they need may be there. With `set_threads("eager")` they run eagerly
instead. A call that a graph fits takes no lock at all.

TorchDynamo has such a lock too, which Inductor takes when it compiles a backward pass later on. It is made the same
one: two locks for the same thing would sooner or later be taken in two orders.

A process that is forked has only the thread that forked it. Whatever another thread was in the middle of stays as it
is: so no process is forked while a thread traces, and the child's lock is free.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import typing
import warnings

from alternator import _capture

FORK_PATIENCE = 5.0  # seconds; a trace takes milliseconds, but might wait for something that the forking thread has
DYNAMO = "torch._dynamo.convert_frame"
MODES = ("wait", "eager")


def find_lock():
    """Take TorchDynamo's lock if it is there already, which a thread may hold now."""
    found = getattr(sys.modules.get(DYNAMO), "compile_lock", None)
    return found if isinstance(found, type(threading.RLock())) else threading.RLock()


lock = find_lock()
tracing = threading.RLock()
_capture.set_locks(lock, tracing)


def share_lock():
    """Give TorchDynamo our lock, if it was loaded since."""
    module = sys.modules.get(DYNAMO)
    if module is not None and getattr(module, "compile_lock", lock) is not lock:
        module.compile_lock = lock


def set_threads(mode: typing.Literal["wait", "eager"]) -> None:
    """Choose what a call does that needs to compile while another thread compiles.

    "wait", as with TorchDynamo: it waits for its turn, and uses what the other thread compiled if that fits. "eager":
    it runs eagerly, this time. The environment variable ALTERNATOR_THREADS says the same for a program without an edit.
    """
    if mode not in MODES:
        raise ValueError(f"set_threads() takes {' or '.join(map(repr, MODES))}, not {mode!r}")
    _capture.set_waiting(mode == "wait")


def start():
    """Do what ALTERNATOR_THREADS says."""
    mode = os.environ.get("ALTERNATOR_THREADS", "")
    if mode in MODES:
        set_threads(mode)
    elif mode:
        warnings.warn(f"ALTERNATOR_THREADS={mode}: it is one of {', '.join(MODES)}.", stacklevel=2)


def run_once(function):
    """Have a function without arguments run once, whichever threads call it; they wait until it is done."""
    done = False

    @functools.wraps(function)
    def run():
        nonlocal done
        if not done:
            with lock:
                if not done:
                    function()
                    done = True

    return run


def begin_fork():
    tracing.acquire(timeout=FORK_PATIENCE)


def end_fork_in_parent():
    if tracing._is_owned():
        tracing.release()


def end_fork_in_child():
    if tracing._is_owned():
        tracing.release()
    else:
        tracing._at_fork_reinit()
    if not lock._is_owned():  # by the thread that is left
        lock._at_fork_reinit()


os.register_at_fork(before=begin_fork, after_in_parent=end_fork_in_parent, after_in_child=end_fork_in_child)
