"""Subclasses of torch.Tensor: their `__torch_function__` is the program's code, and sees the program's calls alone."""

import io
import logging

import pytest
import torch
import torch._dynamo

import alternator
from alternator import events

pytestmark = pytest.mark.capture
seen = []


class Noting(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        seen.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class NotingParameter(torch.nn.Parameter):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        seen.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def add(x, y):
    return x + y


def many(x, y):
    z = y * 2
    if x.shape[0] > 1:
        z = z + x.sum()
    return z, [x, y], {"x": x}


def hold(x, y):
    return y + 1, x


def make(cls, size=2):
    with torch._C.DisableTorchFunction():
        return torch.ones(size).as_subclass(cls)


def record(function, *args):
    seen.clear()
    function(*args)
    found = list(seen)
    seen.clear()
    return found


@pytest.mark.parametrize("mark", [None, torch._dynamo.mark_dynamic])
@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [add, many, hold])
@pytest.mark.parametrize("cls", [Noting, NotingParameter])
def test_it_sees_the_programs_calls(cls, program, backend, dynamic, mark):
    compiled = alternator.compile(program, backend=backend, dynamic=dynamic)
    for size in (2, 3, 4, 2):
        x, y = make(cls, size), torch.ones(size)
        if mark is not None:
            mark(x, 0)
        expected = record(program, x, y)
        assert record(compiled, x, y) == expected


def test_nor_do_explanations_events_and_logs_ask_it():
    x, y = make(Noting), torch.ones(2)
    expected = record(many, x, y)
    assert record(lambda: alternator.explain(many)(x, y)) in (expected, expected * 2)
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    with events.listen(lambda event: text.write(repr(type(event)))):
        logging.getLogger("alternator").addHandler(handler)
        try:
            for size in (2, 3):
                x, y = make(Noting, size), torch.ones(size)
                compiled = alternator.compile(many, backend="eager", dynamic=True)
                expected = record(many, x, y)
                assert record(compiled, x, y) == expected
        finally:
            logging.getLogger("alternator").removeHandler(handler)
