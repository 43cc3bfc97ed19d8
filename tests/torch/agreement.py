"""Runs a function on our fakes and on torch's FakeTensors, and compares what can be seen of the results.

Both runs start from the same real tensors. What is compared of every tensor among inputs and results: size, stride,
offset, dtype, device, layout, requires_grad, is_leaf, conj and neg bits, and which earlier tensor it shares its storage
with.
"""

import contextlib
import dataclasses
import warnings

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.utils import _pytree as pytree


@dataclasses.dataclass
class Facts:
    """What can be seen of a tensor. `storage` is a number, the same for tensors that share one."""

    size: tuple
    dtype: torch.dtype
    device: torch.device
    layout: torch.layout
    requires_grad: bool
    is_leaf: bool
    conj: bool
    neg: bool
    stride: tuple = ()
    offset: int = 0
    storage: int = 0

    def significant(self):
        """Return the facts with the strides that say nothing, those of dimensions never stepped along, left out."""
        empty = 0 in self.size
        stride = tuple(step for size, step in zip(self.size, self.stride) if size != 1 and not empty)
        return dataclasses.replace(self, stride=stride)


@dataclasses.dataclass
class Outcome:
    """What a run left: the tensors among arguments and results, or an exception."""

    values: list | None
    error: Exception | None = None
    data_dependent: bool = False


def describe(tensor, seen):
    facts = Facts(
        tuple(tensor.shape),
        tensor.dtype,
        tensor.device,
        tensor.layout,
        tensor.requires_grad,
        tensor.is_leaf,
        tensor.is_conj(),
        tensor.is_neg(),
    )
    if tensor.layout is torch.strided:
        facts.stride = tensor.stride()
        facts.offset = tensor.storage_offset()
        facts.storage = seen.setdefault(tensor.untyped_storage()._cdata, len(seen))
    return facts


def describe_all(values):
    seen = {}
    return [describe(leaf, seen) if isinstance(leaf, torch.Tensor) else leaf for leaf in pytree.tree_leaves(values)]


def run(function, mode, convert, arguments, is_data_dependent):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            args, kwargs = pytree.tree_map_only(torch.Tensor, convert, arguments)
            with mode:
                result = function(*args, **kwargs)
        except Exception as error:
            return Outcome(None, error, is_data_dependent(error))
        return Outcome(describe_all((args, kwargs, result)))


def run_ours(fakes, function, arguments):
    mode = fakes.FakeMode()
    return run(function, mode, mode.make, arguments, fakes.is_data_dependent)


def run_theirs(function, arguments):
    mode = FakeTensorMode()
    data_errors = (DataDependentOutputException, DynamicOutputShapeException)
    return run(function, mode, mode.from_tensor, arguments, lambda error: isinstance(error, data_errors))


def run_eager(function, arguments):
    """Run for real, on copies: an operator may write to its arguments."""
    return run(function, contextlib.nullcontext(), copy_tensor, arguments, lambda error: False)


def copy_tensor(tensor):
    if tensor.layout is not torch.strided:
        return tensor
    copy = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    return copy.copy_(tensor.detach()).requires_grad_(tensor.requires_grad)


def find_difference(ours, theirs, significant=False):
    """Return None if two lists of values are alike, else the first difference."""
    if len(ours) != len(theirs):
        return f"{len(ours)} values, theirs {len(theirs)}"
    for mine, other in zip(ours, theirs):
        if significant and isinstance(mine, Facts) and isinstance(other, Facts):
            mine, other = mine.significant(), other.significant()
        if mine != other and not (mine != mine and other != other):
            return f"ours {mine}, theirs {other}"
    return None


def same_error(a, b):
    return type(a) is type(b) and str(a) == str(b)


def check(fakes, function, arguments):
    """Compare both kinds of fakes on one call. Return (verdict, explanation, their outcome); verdicts:

    agree           every fact is the same
    eager's stride  the same but for strides that say nothing, and in those ours are those of the real tensors
    eager's error   ours fails as the real call does, theirs does not notice
    both fail       neither has an answer, for the same reason
    only ours       theirs has no answer
    refused         a sparse tensor, of which there are no fakes
    differ          everything else
    """
    ours = run_ours(fakes, function, arguments)
    theirs = run_theirs(function, arguments)
    if theirs.error is not None:
        if ours.error is None:
            return "only ours", None, theirs
        same = ours.data_dependent or not theirs.data_dependent
        return ("both fail" if same else "differ"), repr(ours.error), theirs
    if ours.error is not None:
        explanation = f"only ours fails: {ours.error!r}"
        if str(ours.error).startswith("no fake can stand for"):
            return "refused", explanation, theirs
        eager = run_eager(function, arguments)
        return ("eager's error" if same_error(ours.error, eager.error) else "differ"), explanation, theirs
    difference = find_difference(ours.values, theirs.values)
    if difference is None:
        return "agree", None, theirs
    if find_difference(ours.values, theirs.values, significant=True) is None:
        eager = run_eager(function, arguments)
        if eager.error is None and [v.stride for v in eager.values if isinstance(v, Facts)] == [
            v.stride for v in ours.values if isinstance(v, Facts)
        ]:
            return "eager's stride", difference, theirs
    return "differ", difference, theirs
