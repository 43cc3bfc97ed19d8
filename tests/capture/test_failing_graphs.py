"""Graphs that write to what is there before, and then fail over a value: everything is as after eager execution.

The program runs eagerly in place of such a graph, from the region's start. What the graph wrote is put back first, or,
where the values that decide are inputs, they are looked at before the graph runs.
"""

import pytest
import torch

from alternator.compiling import find_backend
from capture.agreement import Captured, outcome, same

pytestmark = pytest.mark.capture

BACKENDS = ["eager", "aot_eager"]


class Compiled(Captured):
    def __init__(self, fn, backend):
        self.backend = find_backend(backend)
        super().__init__(fn)

    def keep(self, module, examples):
        self.graphs.append(module)
        return self.backend(module, examples)


class Steps:
    def __init__(self):
        self.count = 0
        self.log = []

    def add(self, text):
        self.count += 1
        self.log.append(text)


def write_and_look_up(x, table, i, steps):
    x.add_(1)
    steps.add("written")
    y = table[i]
    steps.add("looked up")
    return y * x.sum()


def write_and_look_up_what_was_computed(x, table, i, steps):
    x.add_(1)
    steps.add("written")
    y = table[i * 2 - i]
    steps.add("looked up")
    return y * x.sum()


def write_through_data(x, table, i, steps):
    x.data.mul_(3)
    steps.add("written")
    return table[i + 0]


def write_a_part(x, table, i, steps):
    x[1:].mul_(2)
    steps.add("a part")
    x[0] = 7
    steps.add("the rest")
    return torch.gather(table, 0, i + 0)


def write_a_view(x, table, i, steps):
    view = x.view(2, 1)
    view.add_(2)
    steps.add(view.shape)
    return table.index_select(0, i + 0) + x.sum()


def write_what_is_looked_up(x, table, i, steps):
    table.add_(1)
    steps.add("first")
    table.index_add_(0, i + 0, torch.ones(1))
    steps.add("second")
    return table * 2


def catch_the_failure(x, table, i, steps):
    x.add_(1)
    steps.add("written")
    try:
        y = table[i + 0]
    except IndexError:
        steps.add("caught")
        y = table[:1] * 10
    x.mul_(2)
    return y + x[0]


def divide_integers(x, table, i, steps):
    x.add_(1)
    steps.add("written")
    return torch.arange(5, 6) // (7 - i)


def assert_by_a_tensor(x, table, i, steps):
    x.add_(1)
    steps.add("written")
    torch._assert_async((i < 3).all(), "too large")
    steps.add("asserted")
    return x + 1


def write_twice_on_the_way(x, table, i, steps):
    x.add_(1)
    steps.add("one")
    y = table[i]
    x.add_(1)
    steps.add("two")
    return y + table[i - 1 + 1]


def draw_and_write(x, table, i, steps):
    x.copy_(torch.rand(2))
    steps.add("drawn")
    y = torch.randn(1)
    return table[i + 0] * y


PROGRAMS = [
    write_and_look_up,
    write_and_look_up_what_was_computed,
    write_through_data,
    write_a_part,
    write_a_view,
    write_what_is_looked_up,
    catch_the_failure,
    divide_integers,
    assert_by_a_tensor,
    write_twice_on_the_way,
    draw_and_write,
]


def run(function, index, seed):
    torch.manual_seed(seed)
    given = torch.zeros(2), torch.arange(3.0), torch.tensor([index]), Steps()
    found = outcome(function, given, __file__)
    x, table = given[:2]
    return found, (x._version, table._version), (given[3].count, given[3].log), torch.get_rng_state()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_everything_is_as_after_eager_execution(program, backend):
    compiled = Compiled(program, backend)
    for seed, index in enumerate((1, 7, 2, 7, 0)):
        found, expected = run(compiled, index, seed), run(program, index, seed)
        if backend == "eager":
            assert same(found, expected)
        else:  # the counters of what is written in several steps are the backend's
            assert same((found[0], *found[2:]), (expected[0], *expected[2:]))
    assert len(compiled.graphs) == 1


def test_a_history_that_the_graph_began_is_put_back():
    def program(x, weight, i, log):
        x.mul_(weight)
        log.append(x.requires_grad)
        return weight[i + 0]

    compiled = Captured(program)
    for index in (0, 9, 1):
        results = []
        for function in (compiled, program):
            x, weight, log = torch.ones(2), torch.full((2,), 3.0, requires_grad=True), []
            found = outcome(function, (x, weight, torch.tensor([index]), log), __file__)[0]
            x.sum().backward()
            results.append((found[:2], x._version, log, weight.grad))
        assert same(*results)


def test_a_view_of_another_tensor_and_its_base_keep_their_history():
    def program(x, weight, i, log):
        x.mul_(weight)
        log.append("written")
        return weight[i + 0]

    compiled = Captured(program)
    for index in (0, 9, 1):
        results = []
        for function in (compiled, program):
            weight = torch.full((2,), 3.0, requires_grad=True)
            base = (weight * 2).repeat(2)
            log = []
            found = outcome(function, (base[:2], weight, torch.tensor([index]), log), __file__)[0]
            base.sum().backward()
            results.append((found[:2], base, log, weight.grad))
        assert same(*results)


def train_and_look_up(norm, table, x, labels, log):
    y = norm(x)
    log.append("normalised")
    return torch.nn.functional.cross_entropy(y @ table, labels)


@pytest.mark.parametrize("backend", BACKENDS)
def test_running_statistics_and_labels_out_of_range(backend):
    compiled = Compiled(train_and_look_up, backend)
    for label in (1, 5, 2):
        results = []
        for function in (compiled, train_and_look_up):
            torch.manual_seed(3)
            norm = torch.nn.BatchNorm1d(4)
            given = norm, torch.randn(4, 3), torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, label]), []
            found = outcome(function, given, __file__)[0]
            results.append((found[:2], dict(norm.named_buffers()), given[-1]))
        assert same(*results)
    assert len(compiled.graphs) == 1


@pytest.mark.parametrize("inference", [False, True])
def test_tensors_of_inference_mode(inference):
    with torch.inference_mode(inference):
        compiled = Captured(write_and_look_up_what_was_computed)
        for seed, index in enumerate((1, 7, 2)):
            results = []
            for function in (compiled, write_and_look_up_what_was_computed):
                given = torch.zeros(2), torch.arange(3.0), torch.tensor([index]), Steps()
                results.append((outcome(function, given, __file__), given[3].count))
            assert same(*results)


def test_sizes_that_change():
    def program(x, table, i, log):
        x.add_(1)
        log.append("written")
        return table[i + 0] * x.sum()

    compiled = Captured(program)
    for size, index in ((3, 1), (4, 1), (5, 9), (6, 2), (7, 8)):
        results = []
        for function in (compiled, program):
            x, log = torch.zeros(size), []
            found = outcome(function, (x, torch.arange(float(size)), torch.tensor([index]), log), __file__)[0]
            results.append((found, x, log))
        assert same(*results)


# ---- What is kept, and what it costs ---------------------------------------------------------------------------------


def kept_of(compiled):
    (counts,) = compiled.fn.counts()
    return counts["copied"], counts["looked_at"]


def test_nothing_is_kept_if_nothing_can_fail_after_the_write():
    def program(x, table, i):
        y = table[i]
        x.add_(y.sum())
        return x * 2

    compiled = Captured(program)
    compiled(torch.ones(2), torch.arange(3.0), torch.tensor([1]))
    assert kept_of(compiled) == (0, 0)


def test_an_optimizer_keeps_nothing():
    weights = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
    optimizer = torch.optim.AdamW(weights)
    for weight in weights:
        weight.grad = torch.ones(3)
    compiled = Captured(optimizer.step)
    for _ in range(3):
        compiled()
    assert all((counts["copied"], counts["looked_at"]) == (0, 0) for counts in compiled.fn.counts())


def test_indices_that_are_inputs_are_looked_at_and_nothing_is_copied():
    def program(cache, keys, position, table, token):
        x = table[token] + keys
        for one in cache:
            one.index_copy_(0, position, x)
            x = x + one.sum(0)
        return x

    for backend in BACKENDS:
        compiled = Compiled(program, backend)
        cache = [torch.zeros(8, 4) for _ in range(3)]
        compiled(cache, torch.ones(1, 4), torch.tensor([2]), torch.ones(5, 4), torch.tensor([1]))
        assert kept_of(compiled) == (0, 1 if backend == "eager" else 2)


def test_indices_that_are_computed_are_checked_once():
    """The first look-up would have failed over the same indices."""

    def program(cache, keys, past):
        position = torch.arange(1) + past
        x = keys
        for one in cache:
            one[position] = x
            x = x + one.sum(0)
        return x

    compiled = Captured(program)
    cache = [torch.zeros(8, 4) for _ in range(3)]
    compiled(cache, torch.ones(1, 4), torch.tensor(2))
    assert kept_of(compiled) == (8 * 4 * 4, 0)  # of the first one


def test_the_part_that_is_written_is_kept():
    def program(x, table, i):
        x[2:4].add_(1)
        return table[i * 1]

    compiled = Captured(program)
    compiled(torch.ones(1000), torch.arange(3.0), torch.tensor([1]))
    assert kept_of(compiled) == (2 * 4, 0)
