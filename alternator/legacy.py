"""Stand-ins (stand_ins.py) for the constructors of tensors from before torch 0.4.

`torch.Tensor(2, 3)`, `torch.FloatTensor([1, 2])`, `x.new(5)` and `Variable(x)` are C code that makes tensors by the
type of their arguments, past what torch dispatches. Each is one of the functions that torch has today, with the dtype
and the device said. Whatever is not known here raises an exception, so that the call runs for real.
"""

from __future__ import annotations

import torch
from torch.autograd import Variable


def make_tensor(dtype, device, args):
    """Make a tensor of sizes, of a sequence of numbers, or on the memory of another tensor."""
    if len(args) == 1 and isinstance(args[0], torch.Tensor):
        return make_alias(dtype, device, args[0])
    if len(args) == 1 and type(args[0]) in (list, tuple):
        if holds_tensor(args[0]):
            raise TypeError
        return torch.tensor(args[0], dtype=dtype, device=device)
    sizes = args[0] if len(args) == 1 and type(args[0]) is torch.Size else args or (0,)
    for size in sizes:
        if type(size) is not int:
            raise TypeError
    return torch.empty(sizes, dtype=dtype, device=device)


def make_alias(dtype, device, tensor):
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
        raise TypeError
    if dtype is not None and (tensor.dtype is not dtype or tensor.device != device):
        raise TypeError
    return torch.ops.aten.alias.default(tensor)


def holds_tensor(data):
    for item in data:  # noqa: SIM110
        if isinstance(item, torch.Tensor) or (type(item) in (list, tuple) and holds_tensor(item)):
            return True
    return False


def call_new(self, *args):
    if type(self) not in (torch.Tensor, torch.nn.Parameter) or self.layout is not torch.strided:
        raise TypeError
    return make_tensor(self.dtype, self.device, args)


def call_tensor(*args):
    if len(args) == 1 and isinstance(args[0], torch.Tensor):
        return make_alias(None, None, args[0])  # of any dtype
    if torch._C._get_default_device() != "cpu":  # torch.set_default_tensor_type
        raise TypeError
    return make_tensor(torch.get_default_dtype(), torch.device("cpu"), args)


def call_variable(data, requires_grad=False):
    if type(data) not in (torch.Tensor, torch.nn.Parameter) or type(requires_grad) is not bool:
        raise TypeError
    made = data.detach()
    return made.requires_grad_() if requires_grad else made


def make_typed(dtype):
    """Make what stands for torch.FloatTensor or another class of tensors of the CPU."""

    def call_typed(*args):
        return make_tensor(dtype, torch.device("cpu"), args)

    return call_typed


LEGACY_STAND_INS = {
    torch.Tensor: call_tensor,
    torch.Tensor.new: call_new,
    Variable: call_variable,
    **{
        kind: make_typed(kind.dtype)
        for kind in torch._tensor_classes
        if kind.layout is torch.strided and kind.__module__ == "torch"
    },
}
