"""Runs a generated program eagerly and compiled, in two worlds that were made alike, and says where they part."""

import contextlib
import traceback
import warnings

import torch

import alternator
from capture import grammar
from capture.perturbing import is_refusal
from capture.world import Picture, differences

FINE = "fine"
FILE = "<generated>"
STATE = ("calls", "seen", "log", "total", "registry", "keep_last")
CLASS = ("kind", "shared", "made")


class Side:
    """One of the two worlds."""

    def __init__(self, code, wrap=None):
        self.space = {"__name__": "generated"}
        exec(code, self.space)
        self.program = wrap(self.space["program"]) if wrap else self.space["program"]
        self.args = None

    def call(self, plan, twist):
        """Call the program; return its outcome. `picture` is what it left."""
        if plan is not None:
            self.args = self.space["make_arguments"](plan)
        names = self.space["program"].__code__.co_varnames
        with contextlib.suppress(Exception):  # it may not fit what an earlier call left
            exec(twist, self.space, dict(zip(names, self.args, strict=False)))
        torch.default_generator.manual_seed(7)
        try:
            outcome = ["returned", self.program(*self.args)]
        except Exception as error:
            outcome = ["raised", error, describe_error(error)]
        torch.set_grad_enabled(True)
        gradient = None if outcome[0] == "raised" else run_backward(outcome[1])
        state = {name: self.space[name] for name in STATE} | {
            f"Box.{name}": getattr(self.space["Box"], name) for name in CLASS
        }
        roots = {"outcome": outcome, "backward": gradient, "args": self.args, **state}
        self.picture = Picture(roots, outside=False)
        return outcome


def describe_error(error):
    """Types, texts and the program's lines of an exception and of those behind it."""
    chain = []
    while error is not None and len(chain) < 5:
        lines = [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__) if f.filename == FILE]
        chain.append((type(error).__qualname__, str(error), lines, error.__suppress_context__))
        error = error.__cause__ or error.__context__
    return repr(chain)


def run_backward(result):
    """Go back through whatever of the result asks for it."""
    nodes = Picture({"result": result}, outside=False).nodes.values()
    tensors = [node.object for node in nodes if isinstance(node.object, torch.Tensor)]
    roots = [t for t in tensors if t.grad_fn is not None]
    if not roots:
        return None
    try:
        sum(t.sum() for t in roots).backward()
    except RuntimeError as error:
        return str(error).partition("\\n")[0][:60]
    return [t.grad for t in tensors if t.is_leaf]


class Compared:
    """What came of one program."""

    def __init__(self, text, plans, backend="eager"):
        self.captures = 0
        self.said = []
        code = compile(f"{grammar.PRELUDE}\n\n{text}", FILE, "exec")
        before = alternator.frames_translated()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.verdict, self.detail = self.compare(code, plans, backend)
        self.captures = alternator.frames_translated() - before
        self.said = [str(w.message) for w in caught if "alternator" in str(w.message)]

    def compare(self, code, plans, backend):
        eager = Side(code)
        traced = Side(code, lambda program: alternator.compile(program, backend=backend))
        for number, (plan, twist) in enumerate(plans):
            expected = eager.call(plan, twist)
            found = traced.call(plan, twist)
            if is_refusal(found, backend):
                return FINE, ""  # the backend's own words; what the program has now is another world
            if expected[0] != found[0]:
                return "another end", f"call {number}: {shorten(expected)} eagerly, {shorten(found)} compiled"
            lines = differences(eager.picture, traced.picture, exact=backend == "eager")
            if lines:
                what = "outcome" if lines[0].startswith("outcome") else "state"
                return f"another {what}", f"call {number}: eager and compiled differ:\n  " + "\n  ".join(lines)
        return FINE, ""


def shorten(outcome):
    return f"{outcome[0]} {outcome[-1]!r}"[:300]
