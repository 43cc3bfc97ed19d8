"""Runs a function eagerly and compiled on equal inputs and compares everything that a program can see."""

import collections
import copy
import dataclasses
import traceback
import warnings
from unittest import mock

import torch

import alternator
from alternator import compiling


def same(a, b) -> bool:
    """Equal in type, structure and value; tensors bitwise, with their metadata."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        facts = [(t.dtype, t.device, t.shape, t.stride(), t.requires_grad, t.is_leaf) for t in (a, b)]
        return facts[0] == facts[1] and torch.equal(a.nan_to_num(), b.nan_to_num())
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a) and same_attributes(a, b)
    if isinstance(a, (list, tuple, collections.deque)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and a != a:
        return b != b
    if dataclasses.is_dataclass(a) or (hasattr(a, "__dict__") and not callable(a)):
        return same_attributes(a, b)
    return a == b


def same_attributes(a, b) -> bool:
    return not hasattr(a, "__dict__") or same(dict(vars(a)), dict(vars(b)))


def outcome(fn, args, filename=None):
    """Return the result or the exception with its traceback lines, and the arguments as the call left them.

    Of the traceback the lines in `filename`, all of them, or else the last one.
    """
    try:
        return ("returned", fn(*args)), args
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [(frame.name, frame.lineno) for frame in frames if filename in (None, frame.filename)]
        return ("raised", type(error).__name__, str(error), lines if filename else lines[-1:]), args


class Captured:
    """A compiled function, the graphs that it made, and what alternator said about it."""

    def __init__(self, fn, **options):
        self.graphs = []
        self.said = []
        self.breaks = []
        with mock.patch.object(compiling, "report", self.hear):
            self.fn = alternator.compile(fn, backend=self.keep, **options)

    def hear(self, kind, what, say=compiling.report):
        if kind == "break":
            self.breaks.append(f"{what.reason}: {what.what}. {what.detail} (at {what.place})")
        return say(kind, what)

    def keep(self, module, examples):
        self.graphs.append(module)
        return module.forward

    def __call__(self, *args, **kwargs):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                return self.fn(*args, **kwargs)
            finally:
                self.said += [str(w.message) for w in caught if "alternator" in str(w.message)]


def check_calls(fn, calls, *, graphs=None):
    """Compare eager and compiled execution over several calls, whose arguments are copied for each side."""
    captured = Captured(fn)
    for args in calls:
        expected = outcome(fn, copy.deepcopy(args))
        found = outcome(captured, copy.deepcopy(args))
        assert same(found[0], expected[0]), f"{fn.__name__}{args}\n compiled: {found[0]}\n eager:    {expected[0]}"
        assert same(found[1], expected[1]), f"{fn.__name__}: arguments after the call differ"
    if graphs is not None:
        assert len(captured.graphs) == graphs, captured.said
    return captured


def capture_with_torchdynamo(fn, args, kwargs=None):
    """Return the graphs that TorchDynamo makes of a call."""
    graphs = []

    def keep(module, examples):
        graphs.append(module)
        return module.forward

    torch._dynamo.reset()
    # TorchDynamo patches Module for good: every module made from then on is entered into a table of its own, which is a
    # write to the outside.
    init = torch.nn.Module.__init__
    try:
        compiled = torch.compile(fn, backend=keep)
        compiled(*args if isinstance(fn, torch.nn.Module) else copy.deepcopy(args), **kwargs or {})
    finally:
        torch.nn.Module.__init__ = init
        torch._dynamo.reset()
    return graphs


def list_operations(module):
    """List the operations of a graph, and of which earlier ones each takes its tensors."""
    numbers = {}
    rows = []
    for node in module.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        numbers[node] = len(numbers)
        target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
        rows.append((node.op, target, [numbers.get(used) for used in node.all_input_nodes]))
    return rows


def check(fn, *args, like_torchdynamo=True):
    """One graph, eager's values and effects; the operations that TorchDynamo records."""
    captured = check_calls(fn, [args, args], graphs=1)
    assert captured.said == []
    (graph,) = captured.graphs
    graph.graph.lint()
    if like_torchdynamo:
        (theirs,) = capture_with_torchdynamo(fn, args)
        assert list_operations(graph) == list_operations(theirs)
    return graph


def check_break(fn, *args, reason, calls=2):
    """It is a break, and the graphs around it are right."""
    captured = check_calls(fn, [args] * calls)
    assert captured.said == []
    assert len(captured.breaks) >= 1
    assert all(reason in text for text in captured.breaks), captured.breaks
    return captured
