"""fullgraph=True: one error that names the construct, the user's line and the way out, for each kind of break."""

import logging
import os
import re
import time
import warnings
import zlib

import pytest
import torch

from alternator.errors import Unsupported
from capture.agreement import Captured, same
from capture.breaking import X

pytestmark = pytest.mark.capture

WEIGHT = torch.ones(3, requires_grad=True)
CASES = {}  # name -> (function, what the error says, a part of the line that it quotes)


def refuses(construct, line):
    def register(fn):
        CASES[fn.__name__] = (fn, construct, line)
        return fn

    return register


@refuses("Unknown C function: `zlib.crc32`", 'zlib.crc32(b"a")')
def unknown_c_function(x):
    return (x + 1) * zlib.crc32(b"a")


@refuses("Clock or sleep: `time.time`", "time.time()")
def clock(x):
    return (x + 1) * time.time()


@refuses("`print` is a side effect", 'print("hello", 3)')
def printing(x):
    x = x + 1
    print("hello", 3)
    return x


@refuses("File access: `io.open`", "open(os.devnull)")
def opening(x):
    with open(os.devnull):
        return x + 1


@refuses("Output or logging: `logging.getLogger`", 'logging.getLogger("capture")')
def logs(x):
    logging.getLogger("capture").warning("message")
    return x + 1


@refuses("Output or logging: `warnings.warn`", 'warnings.warn("careful")')
def warns(x):
    warnings.warn("careful")  # noqa: B028
    return x + 1


@refuses("Data-dependent branching", "if x.sum() > 3")
def branch(x):
    return x * 2 if x.sum() > 3 else x


@refuses("Data-dependent branching", "while x.sum() < 100:")
def loop(x):
    while x.sum() < 100:
        x = x * 2
    return x


@refuses("a tensor's value as a Python number", "bool(x.any())")
def truth(x):
    return x * bool(x.any())


@refuses("a tensor's value as a Python number", "int(x.sum())")
def number(x):
    return x * int(x.sum())


@refuses("Unsupported Tensor.item() call", "x.sum().item()")
def item(x):
    return x * x.sum().item()


@refuses("Tensor data is read: `Tensor.tolist`", "x.tolist()")
def numbers(x):
    return x * x.tolist()[0][0]


@refuses("Tensor data is read: `Tensor.numpy`", "x.numpy()")
def array(x):
    return x * x.numpy().shape[0]


@refuses("nonzero", "x.nonzero()")
def nonzero(x):
    return x.nonzero() * 2


@refuses("Dynamic shape operator", "x[x > 1]")
def mask(x):
    return x[x > 1] * 2


@refuses("Autograd runs inside the function: `Tensor.backward`", "loss.backward()")
def backward(x):
    loss = (x * WEIGHT).sum()
    loss.backward()
    return loss


@refuses("User-inserted graph break. Message: my words", "graph_break(")
def explicit(x):
    x = x + 1
    torch._dynamo.graph_break("my words")
    return x * 2


@refuses("User-inserted graph break. Message: my words", "graph_break(msg=")
def explicit_by_name(x):
    x = x + 1
    torch._dynamo.graph_break(msg="my words")
    return x * 2


@refuses("skip_frame()", "skip_frame()")
def skipping(x):
    x = x + 1
    torch._dynamo.skip_frame()
    return x * 2


@torch.compiler.disable(reason="it is old")
def disabled(x):
    return x * 7


@refuses("marked with `torch.compiler.disable`, so it runs eagerly. (reason: it is old)", "disabled(x + 1)")
def calls_a_disabled_function(x):
    return disabled(x + 1)


@refuses("a tensor gets other memory", "x.resize_(3)")
def fake_error(x):
    x = x + 1
    x.resize_(3)
    return x


class Thing:
    pass


@refuses("a special attribute of a class", "Thing.__len__ = len")
def write_that_cannot_be_rolled_back(x):
    x = x + 1
    Thing.__len__ = len
    return x


@refuses("`print` is a side effect", "(print(i), i)[1]")
def in_a_sort_key(x):
    return x * sorted([2, 1], key=lambda i: (print(i), i)[1])[0]


@refuses("coroutine", "return coroutine, x + 1")
def coroutine_as_result(x):
    async def inner():
        return 1

    coroutine = inner()
    return coroutine, x + 1


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("name", CASES)
def test_error(name, capsys):
    fn, construct, line = CASES[name]
    compiled = Captured(fn, fullgraph=True)
    for _ in range(2):  # an error does not make the function eager
        with pytest.raises(Unsupported) as raised:
            compiled.fn(X.clone())
        text = str(raised.value)
        reason, quoted = text.split("from user code:")
        places = quoted.splitlines()
        assert "fullgraph=True" in text
        assert construct in reason
        assert re.search(r"^  Hint: [A-Z].*\.$", reason, re.MULTILINE), "the way out"
        assert any(f'"{__file__}"' in place for place in places)
        assert any(line in place for place in places), text
    assert compiled.graphs == []
    assert capsys.readouterr().out == ""  # nothing has run


def test_all_frames_are_named():
    def inner(v):
        return v.sum().item()

    def outer(x):
        return x * inner(x + 1)

    with pytest.raises(Unsupported) as raised:
        Captured(outer, fullgraph=True).fn(X)
    names = re.findall(r"in \S*?(\w+)$", str(raised.value), re.MULTILINE)
    assert names == ["outer", "inner"]


def test_mistakes_are_the_programs_own():
    def mistaken(x, n):
        return torch.sin(x, x) if n else x + 1

    def failing(x, n):
        if n:
            raise ValueError(n)
        return x + 1

    for fn, error in ((mistaken, TypeError), (failing, ValueError)):
        compiled = Captured(fn, fullgraph=True)
        for n in (0, 1, 0):
            if n:
                with pytest.raises(error):
                    compiled.fn(X, n)
            else:
                assert same(compiled.fn(X, n), X + 1)
