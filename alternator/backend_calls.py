"""Calls of backends, which compile a graph: the program must not be able to tell that they were made.

Torch's compilers, and the users' own, take numbers from counters, draw random numbers and leave weak references to the
tensors that they are shown. All of that is undone, or kept apart from what is the program's.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import weakref

import torch
from torch._guards import TracingContext, tracing
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


def load_backend(backend):
    """Import what a backend needs, before a trace begins.

    Modules register classes with abstract base classes when they are imported. A trace that has asked such a class
    relies on that there are no new ones, and would have to be made again, and its graph compiled again.
    """
    if isinstance(backend, torch._TorchCompileInductorWrapper):
        importlib.import_module("torch._inductor.compile_fx")


class BackendFailure(Exception):
    """A backend raised `error`. Whatever else is raised around it is a failure of ours."""

    def __init__(self, error):
        super().__init__(error)
        self.error = error


def run_backend(backend, module, examples):
    """Have a backend compile a graph; what it raises is in a BackendFailure."""
    with unseen(examples), uncached(module):
        try:
            run = _capture.run_backend(backend, module, examples)
        except Exception as error:
            if type(error) is MemoryError and error.__traceback__.tb_next is None:
                raise  # there was none for the call itself
            raise BackendFailure(error) from None
    if not callable(run):
        returned = "None" if run is None else f"an object of class {type(run).__name__}"
        text = f"it returned {returned}. A backend must return a callable, such as `module.forward`."
        raise BackendFailure(TypeError(text))
    return run


def uncached(module):
    """Keep a graph out of Inductor's caches that is right for one offset of an input: their keys leave offsets out."""
    if not module.meta.get("relies_on_offsets"):
        return contextlib.nullcontext()
    return torch.compiler.config.patch(force_disable_caches=True)


class StaticContext(TracingContext):
    """What torch's compilers are told of a graph without symbols: as TorchDynamo tells them, by a mode for fakes.

    Their caches want the mode to have a ShapeEnv; there is no symbol in it. Most backends never ask for the mode, so it
    is made when one does. A compiler that puts the backward graph off keeps this object, which then keeps no tensor.
    """

    def __init__(self, examples):
        self.examples, self.fakes = examples, None
        self.mode = None
        super().__init__(None)

    @property
    def fake_mode(self):
        if self.mode is None and self.examples is not None:
            self.mode, self.fakes = make_static_mode(self.examples)
        return self.mode

    @fake_mode.setter
    def fake_mode(self, mode):
        self.mode = mode

    def close(self):
        """Forget the tensors."""
        if self.mode is not None:
            describer = self.mode.fake_tensor_converter.meta_converter.describer
            describer.lookup_tensor.clear()
            describer.lookup_storage.clear()
        self.examples = self.fakes = None


def make_static_mode(examples):
    """Make a mode that knows fakes of all examples, with their sizes as constants; return it and these fakes."""
    from torch._functorch import config
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    env = ShapeEnv(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False, assume_static_by_default=True)
    with config.patch(fake_tensor_allow_unsafe_data_ptr_access=False):
        mode = FakeTensorMode(shape_env=env)
    tensors = [example for example in examples if isinstance(example, torch.Tensor)]
    with torch._C.DisableTorchFunction():
        return mode, [mode.from_tensor(tensor, static_shapes=True) for tensor in tensors]


@contextlib.contextmanager
def static_context(examples):
    """Have torch's compilers find what they need to know of a graph without symbols."""
    context = StaticContext(examples)
    with tracing(context):
        try:
            yield
        finally:
            context.close()


@contextlib.contextmanager
def unseen(examples):
    """Keep from the program what compiling does besides. (Torch's random generator is the core's to keep.)"""
    random = sys.modules.get("random")
    state = random.getstate() if random is not None else None
    limit = sys.getrecursionlimit()
    end = HookNumbers.end  # there may be no memory for this later on
    HookNumbers.begin()
    try:
        yield
    finally:
        end()
        if sys.getrecursionlimit() != limit:  # Inductor raises it
            sys.setrecursionlimit(limit)
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
