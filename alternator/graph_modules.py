"""The module that a backend gets: torch.fx's, without what a program could see of its calls.

A call of a torch.nn.Module runs the hooks that the program registered for all modules, and one of torch.fx's prints a
report on stderr when its graph raises an exception. Neither is part of the program: calls of a `CapturedModule` run its
`forward` and nothing else. Hooks that a backend registers on the module itself run.
"""

from __future__ import annotations

import torch
from torch.fx._lazy_graph_module import _LazyGraphModule

OWN_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class CapturedModule(_LazyGraphModule):
    """A graph module whose code is generated at its first call, or when somebody asks for it."""

    def __call__(self, *args, **kwargs):
        own = self.__dict__
        if any(map(own.get, OWN_HOOKS)) or own.get("_compiled_call_impl") is not None:
            return torch.nn.Module.__call__(self, *args, **kwargs)
        return self.forward(*args, **kwargs)

    def _lazy_forward(self, *args, **kwargs):
        self.real_recompile()
        return self.forward(*args, **kwargs)

    forward = _lazy_forward

    def _real_recompile(self):
        cls = type(self)
        has_own_call = "__call__" in vars(cls)
        code = super()._real_recompile()
        if not has_own_call:
            del cls.__call__  # torch.fx's, which reports exceptions
        return code

    def __setattr__(self, name, value):
        """Take graphs of bodies in without a word to the hooks for all modules' registrations."""
        if isinstance(value, CapturedModule):
            self._modules[name] = value
        else:
            super().__setattr__(name, value)

    def __copy__(self):
        made = CapturedModule(self, self.graph)
        made.meta = getattr(self, "meta", {})
        return made


def make_graph_module(graph, bodies):
    """Make the module of a graph; `bodies` are the modules that its `get_attr` nodes name."""
    root = torch.nn.Module()
    root._modules.update(bodies)
    return CapturedModule(root, graph, "GraphModule")
