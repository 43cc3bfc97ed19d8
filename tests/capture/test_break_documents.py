"""The examples of TorchDynamo's documents on graph breaks, in our own words: what is skipped or split there."""

import contextlib
import io
import warnings

import pytest
import torch

from alternator.errors import Unsupported
from capture.agreement import Captured, same
from capture.breaking import Programs, X

pytestmark = pytest.mark.capture

programs = Programs()
graph_break = torch._dynamo.graph_break


def plus_one(x):
    return x + 1


def plus_two(x):
    return x + 2


# ---- What TorchDynamo skips ----------------------------------------------------------------------------------------


@programs.add(2)  # it runs for real; what it calls is captured
def function_that_skips_itself(x):
    x = plus_one(x)
    torch._dynamo.skip_frame()
    return plus_two(x)


@programs.add(2)
def function_with_a_part_that_skips_itself(x):
    x = plus_one(x)

    def problematic():
        y = x * 3
        torch._dynamo.skip_frame()
        return y

    y = problematic()
    return plus_two(x) + y


@programs.add(2)
def part_that_skips_itself_and_takes_keywords(x):
    def problematic(x, *, by):
        torch._dynamo.skip_frame("too hard")
        return x * by

    return plus_two(problematic(plus_one(x), by=3))


@programs.add(2)
def part_that_skips_itself_in_a_sort_key(x):
    def key(i):
        torch._dynamo.skip_frame()
        return -i

    x = plus_one(x)
    return plus_two(x) * sorted([1, 2], key=key)[0]


@programs.add(2)
def in_one_turn_of_a_loop(x):
    for i in range(5):
        x = x + 1
        if i == 3:
            graph_break()
    return x


@programs.add(2)
def in_one_of_five_calls_of_a_closure(x):
    def inner(i):
        nonlocal x
        x = x + 1
        if i == 3:
            graph_break()

    inner(0)
    inner(1)
    inner(2)
    inner(3)
    inner(4)
    return x


class Manager:
    def __enter__(self):
        pass

    def __exit__(self, kind, error, trace):
        pass


@programs.add(2)
def in_a_context_manager(x):
    with Manager():
        x = x + 1
        graph_break()
        return x + 1


@programs.add(2)
def between_two_context_managers(x):
    with Manager():
        x = x + 1
    graph_break()
    with Manager():
        return x + 1


@programs.add(2)
def in_context_managers_that_torch_knows(x):
    with contextlib.nullcontext(), torch.no_grad():
        x = x + 1
        graph_break()
        return x + 1


@programs.add(2)
def in_a_try(x):
    try:
        x = x + 1
        graph_break()
        return x + 1
    except Exception:
        pass


@programs.add(2)
def between_two_tries(x):
    with contextlib.suppress(Exception):
        x = x + 1
    graph_break()
    try:
        return x + 1
    except Exception:
        pass


# ---- Common breaks -------------------------------------------------------------------------------------------------


@programs.add(0)
def mistake_of_the_program(x):
    return torch.sin(x, x)


@programs.add(2)
def branch_and_item(x):
    y = x.sum()
    if y > 0:
        return x + y.item()
    return x - y.item()


WEIGHT = torch.full((2, 3), 0.5)
POSITIVE = (WEIGHT.sum() > 0).item()


@programs.add(2)
def branch_over_a_global_tensor(x):
    return x + WEIGHT if WEIGHT.sum() > 0 else x - WEIGHT


@programs.add(1)
def branch_over_a_global_number(x):
    return x + WEIGHT if POSITIVE else x - WEIGHT


@programs.add(2)
def branch_over_an_argument(x):
    return x + 1 if x.sum() > 0 else x - 1


@programs.add(2)
def print_after_a_change_in_place(x):
    x += 1
    print("log!")
    return torch.sin(x)


@programs.add(2)
def save(x):
    y = x**2 / 2
    torch.save(y, io.BytesIO())
    return y**3 / 6


@programs.add(2)
def break_in_a_callee(x):
    def callee(x):
        y = x.sin()
        graph_break()
        return y.sin()

    return callee(x.sin())


@programs.add(2)
def toy_example(a):
    b = a - 4
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


# ---- One graph -----------------------------------------------------------------------------------------------------


@programs.add(1, lambda: (iter([torch.tensor(1.0), torch.tensor(2.0), torch.tensor(3.0)]),))
def iterator_that_came_in(x, items):
    return next(items) + next(items) + x


@programs.add(1, lambda: ([torch.tensor(1.0), torch.tensor(2.0)],))
def iterator_over_what_came_in(x, items):
    iterator = iter(items)
    return next(iterator) + next(iterator) + x


@torch.library.custom_op("alternator_documents::square", mutates_args=())
def square(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy() ** 2)


@square.register_fake
def _(x):
    return x.new_empty(x.size())


@programs.add(1)
def custom_operator(x):
    return square(x) + 1


@pytest.mark.parametrize("name", programs)
def test_programs(name):
    programs.check(name)


def test_one_graph_or_an_error():
    for name in ("iterator_that_came_in", "iterator_over_what_came_in", "custom_operator"):
        fn, _, make = programs[name]
        assert same(Captured(fn, fullgraph=True).fn(X, *make()), fn(X, *make()))
    with pytest.raises(Unsupported, match=r"graph_break\(\)"):
        Captured(programs["break_in_a_callee"][0], fullgraph=True).fn(X)


def test_parts_compiled_one_by_one():
    first = Captured(lambda x: x**2 / 2, fullgraph=True)
    second = Captured(lambda y: y**3 / 6, fullgraph=True)

    def whole(x):
        y = first.fn(x)
        torch.save(y, io.BytesIO())
        return second.fn(y)

    for _ in range(2):
        assert same(whole(X), programs["save"][0](X))
    assert len(first.graphs) == len(second.graphs) == 1


def test_a_skipped_function_is_said_to_be_so():
    compiled = Captured(programs["function_with_a_part_that_skips_itself"][0])
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        compiled.fn(X)
    assert any("skip_frame" in text for text in compiled.breaks)
