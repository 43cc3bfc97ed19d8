"""Calls of backends, which compile a graph: the program must not be able to tell that they were made.

Torch's compilers, and the users' own, take numbers from counters, draw random numbers and leave weak references to the
tensors that they are shown. All of that is undone, or kept apart from what is the program's.
"""

from __future__ import annotations

import contextlib
import sys
import weakref

from torch.utils.hooks import RemovableHandle
from torch.utils.weak import WeakIdKeyDictionary, WeakIdRef

from alternator import _capture


class HookNumbers:
    """The numbers of hooks while compiling: from a range of their own, so that the program's go on where they were.

    Going back alone would not do: a hook that a backend registered for good would share its number with a later one.
    """

    next_number = 1 << 40
    compiling = 0
    of_program = 0

    # There is no call in these, so no other thread gets its turn in the middle.
    @classmethod
    def begin(cls):
        if cls.compiling == 0:
            cls.of_program = RemovableHandle.next_id
            RemovableHandle.next_id = cls.next_number
        cls.compiling += 1

    @classmethod
    def end(cls):
        cls.compiling -= 1
        if cls.compiling == 0:
            cls.next_number = RemovableHandle.next_id
            RemovableHandle.next_id = cls.of_program


def run_backend(backend, module, examples):
    """Have a backend compile a graph."""
    with unseen(examples):
        return _capture.run_backend(backend, module, examples)


@contextlib.contextmanager
def unseen(examples):
    """Keep from the program what compiling does besides. (Torch's random generator is the core's to keep.)"""
    random = sys.modules.get("random")
    state = random.getstate() if random is not None else None
    HookNumbers.begin()
    try:
        yield
    finally:
        HookNumbers.end()
        if random is not None:
            random.setstate(state)
        for example in examples:
            forget_tensor(example)


def forget_tensor(tensor):
    """Drop the weak references by which torch's makers of fakes know a tensor again.

    Programs can see them: torch.utils.swap_tensors refuses a tensor that has any.
    """
    for reference in weakref.getweakrefs(tensor):
        if type(reference) is not WeakIdRef or reference.__callback__ is None:
            continue
        table = find_table(reference.__callback__)
        if table is not None and type(table.get(tensor)) is int:  # they number tensors
            del table[tensor]


def find_table(callback):
    """Find the dictionary that is told by a callback when one of its keys has died."""
    for default in callback.__defaults__ or ():
        table = default() if isinstance(default, weakref.ref) else None
        if type(table) is WeakIdKeyDictionary:
            return table
    return None
