"""Generated programs that mix tensor work with Python state: eager and compiled agree over changing calls."""

import contextlib
import copy
import io
import os

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capture import fuzz
from capture.agreement import Captured, outcome, same
from capture.comparing import FINE, Compared

pytestmark = pytest.mark.capture

EXAMPLES = int(os.environ.get("ALTERNATOR_EXAMPLES", "60"))


class Box:
    kind = "box"

    def __init__(self, n):
        self.n = n
        self.t = torch.full((2, 3), float(n))
        self.items = [1, n]
        self.table = {"a": n, "t": torch.ones(2, 3) * n}

    def scaled(self, t, by=2):
        return t * by + self.n

    @property
    def double(self):
        return self.n * 2


class Manager:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("in")
        return 3

    def __exit__(self, *error):
        self.log.append(error[0] is not None)
        return bool(self.log) and error[0] is ValueError


TENSORS = ["x", "y", "box.t", 'box.table["t"]']
NUMBERS = ["n", "box.n", 'box.table["a"]', "len(box.items)", "box.double", "x.shape[1]", "box.items[-1]", "k"]


def tensors():
    return st.sampled_from(TENSORS)


def numbers():
    return st.sampled_from(NUMBERS) | st.integers(-2, 3).map(str)


def expressions():
    return st.one_of(
        st.builds("{} + {}".format, tensors(), tensors()),
        st.builds("{} * {}".format, tensors(), numbers()),
        st.builds("{} - {}".format, numbers(), tensors()),
        st.builds("torch.relu({}).abs()".format, tensors()),
        st.builds("box.scaled({}, by={})".format, tensors(), numbers()),
        st.builds("{}.sum(dim=0, keepdim=True) + {}".format, tensors(), tensors()),
        st.builds("torch.stack([{}, {}]).mean(0)".format, tensors(), tensors()),
        st.builds("{}.t().contiguous().t()".format, tensors()),
        st.builds("sum([{0} * i for i in range({1} % 3)], {0})".format, tensors(), numbers()),
        st.builds("helper({}, {})".format, tensors(), numbers()),
        st.builds("(lambda v, *rest: v * len(rest))({}, {}, {})".format, tensors(), numbers(), numbers()),
    )


def simple_statements():
    return st.one_of(
        st.builds("{} = {}".format, st.sampled_from(["x", "y"]), expressions()),
        st.builds("k = {} + {}".format, numbers(), numbers()),
        st.builds("box.n = {}".format, numbers()),
        st.builds("box.t = {}".format, expressions()),
        st.builds('box.table["{}"] = {}'.format, st.sampled_from(["a", "new"]), numbers()),
        st.builds("box.extra = [{}, {}]".format, numbers(), expressions()),
        st.builds("out.append({})".format, expressions()),
        st.builds("calls[0] = {}".format, numbers()),
        st.builds('seen["last"] = {}'.format, numbers()),
        st.builds("x.add_({})".format, numbers()),
        st.just("count = bump()"),
        # Breaks.
        st.builds('print("at", {})'.format, numbers()),
        st.builds("k = int({}.sum() > 0)".format, tensors()),
        st.builds("y = loud({}, {})".format, tensors(), numbers()),
        st.builds("out.append([loud(part, 1) for part in parts({}, {})])".format, tensors(), tensors()),
        st.builds("raise ValueError({})".format, numbers()),
        st.builds('assert {} != 1, "one"'.format, numbers()),
    )


def indent(lines):
    return [f"    {line}" for line in lines]


def blocks(depth):
    if depth == 0:
        return st.lists(simple_statements(), min_size=1, max_size=3)
    inner = blocks(depth - 1)
    compound = st.one_of(
        st.builds(lambda n, a, b: [f"if {n} > 1:", *indent(a), "else:", *indent(b)], numbers(), inner, inner),
        st.builds(lambda n, a: [f"for k in range({n} % 3):", *indent(a)], numbers(), inner),
        st.builds(lambda a, b: ["try:", *indent(a), "except ValueError as error:", *indent(b)], inner, inner),
        st.builds(lambda a, b: ["try:", *indent(a), "finally:", *indent(b)], inner, inner),
        st.builds(lambda a: ["with Manager(out) as k:", *indent(a)], inner),
        st.builds(lambda a: ["with torch.no_grad():", *indent(a)], inner),
        st.builds(lambda t: ["for part in parts(x, y):", f"    x = part + {t}"], tensors()),
        st.builds(lambda a: ["for k, part in enumerate(parts(x, y)):", *indent(a), "    y = part"], inner),
        st.builds(lambda a: ["for k, part in zip(box.items, [x, y]):", *indent(a), "    y = part + k"], inner),
        st.builds(
            lambda n, a, w: [f"{w} = 0", f"while {w} < {n} % 3:", f"    {w} += 1", *indent(a)],
            *(numbers(), inner, st.sampled_from([f"w{i}" for i in range(99)])),
        ),
    )
    plain = simple_statements().map(lambda statement: [statement])
    return st.lists(plain | compound, min_size=1, max_size=4).map(
        lambda groups: [line for group in groups for line in group]
    )


PREAMBLE = """
calls = [0]
seen = {}
total = 0

def helper(t, n):
    if n > 2:
        return t
    return t + helper(t, n + 2) if n >= 0 else -t

def loud(t, n):
    t = t * n
    print("loud", n)
    return t + 1

def bump():
    global total
    total += 1
    return total

def parts(*tensors):
    for number, tensor in enumerate(tensors):
        yield tensor * number

def program(x, y, n, box):
    k = 0
    out = []
"""


def build(lines):
    source = PREAMBLE + "\n".join(indent([*lines, "return x, y, k, out, box.kind"]))
    space = {"torch": torch, "Manager": Manager, "__name__": "generated"}
    exec(compile(source, "<generated>", "exec"), space)
    return space, source


def inputs(n, m):
    torch.manual_seed(n)
    return torch.randn(2, 3), torch.randn(2, 3), m, Box(n)


def printed_outcome(fn, args):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        result = outcome(fn, args, "<generated>")
    return result, output.getvalue()


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(blocks(2), st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=3, max_size=3))
def test_eager_and_compiled_agree(lines, calls):
    eager, source = build(lines)
    traced, _ = build(lines)
    compiled = Captured(traced["program"])
    for n, m in [*calls, calls[0]]:
        args = inputs(n, m)
        expected = printed_outcome(eager["program"], copy.deepcopy(args))
        found = printed_outcome(compiled, copy.deepcopy(args))
        assert same(found, expected), f"{source}\n\n{(n, m)}\n compiled: {found}\n eager: {expected}\n {compiled.said}"
        for name in ("calls", "seen", "total"):
            assert same(traced[name], eager[name]), f"{source}\n\n{name}: {traced[name]} instead of {eager[name]}"


def test_the_generator_is_worth_something():
    """Most of the programs are captured."""
    captured, tried = 0, 0

    @settings(max_examples=40, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(blocks(2))
    def look(lines):
        nonlocal captured, tried
        compiled = Captured(build(lines)[0]["program"])
        printed_outcome(compiled, inputs(1, 1))
        tried += 1
        captured += bool(compiled.graphs)

    look()
    assert captured / tried > 0.6


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_programs_of_the_grammar_agree(backend):
    """Results, exceptions, mutations, aliasing and gradients over four calls with changes between them.

    The programs are those of tests/capture/fuzz.py, which looks for more.
    """
    captures = 0
    for seed in range(EXAMPLES if backend == "eager" else EXAMPLES // 2):
        text, plans = fuzz.write(seed)
        compared = Compared(text, plans, backend)
        assert compared.verdict == FINE, f"seed {seed}\n{text}\n{plans}\n{compared.detail}\n{compared.said}"
        captures += compared.captures
    assert captures > EXAMPLES / 4
