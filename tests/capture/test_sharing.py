"""Graphs belong to code: compiled methods of one function share regions, as far as guards allow."""

import gc
import weakref

import pytest
import torch
from torch._dynamo.testing import CompileCounter

import alternator
from alternator.sharing import tables
from capture.agreement import same

pytestmark = pytest.mark.capture
X = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))


class Block(torch.nn.Module):
    def __init__(self, size=8, index=0):
        super().__init__()
        self.linear = torch.nn.Linear(8, size)
        self.index = index

    def forward(self, x):
        return self.linear(x).relu()


class Numbered(Block):
    """Uses a number that is another one in every block, as a key."""

    names = tuple(f"layer {i}" for i in range(40))

    def forward(self, x):
        return self.linear(x) * len(self.names[self.index])


def compile_method(block, backend):
    return alternator.compile(block.forward, backend=backend)


def compile_module(block, backend):
    return alternator.compile(block, backend=backend)


@pytest.mark.parametrize("compile", [compile_method, compile_module])
def test_blocks_of_one_class_have_one_graph(compile):
    backend = CompileCounter()
    blocks = [Block() for _ in range(12)]
    compiled = [compile(block, backend) for block in blocks]
    for block, each in zip(blocks, compiled, strict=True):
        assert same(each(X), block(X))
    assert backend.frame_count == 1
    for block, each in zip(blocks, compiled, strict=True):  # each runs with its own parameters
        with torch.no_grad():
            block.linear.weight.add_(1)
        assert same(each(X), block(X))
    assert backend.frame_count == 1


def test_blocks_in_a_row():
    """The first block's input has no history, the others' has."""
    backend = CompileCounter()
    blocks = [Block() for _ in range(12)]
    compiled = [alternator.compile(block, backend=backend) for block in blocks]
    x = y = X
    for block, each in zip(blocks, compiled, strict=True):
        x, y = each(x), block(y)
    assert same(x, y) and backend.frame_count == 2
    x.sum().backward()
    grads = [block.linear.weight.grad.clone() for block in blocks]
    for block in blocks:
        block.zero_grad()
    y.sum().backward()
    assert same(grads, [block.linear.weight.grad for block in blocks])


def test_functions_made_anew_have_their_own_closures():
    backend = CompileCounter()

    def make(tensor, number):
        def function(x):
            return x * tensor + number

        return function

    kept = []
    for i in range(5):
        function = make(torch.full((8,), float(i)), 3)
        kept.append(alternator.compile(function, backend=backend))
        assert same(kept[-1](X), function(X))
    for number in (4, 5, 6):  # a closure with another number is another function
        function = make(torch.ones(8), number)
        kept.append(alternator.compile(function, backend=backend))
        assert same(kept[-1](X), function(X))
    assert same(kept[0](X), X * 0 + 3)


def test_closures_defaults_and_globals_are_those_of_the_function_that_is_called():
    def make(scale, default):
        def function(x, y=default, *, z=scale):
            nonlocal scale
            scale += 1
            return x * scale + y - z

        return function

    eager, compiled = [], []
    for numbers in ((1, 2), (1, 2), (3, 4), (1, 5)):
        eager.append(make(*numbers))
        compiled.append(alternator.compile(make(*numbers), backend="eager"))
    for _ in range(3):
        for expected, found in zip(eager, compiled, strict=True):
            assert same(found(X), expected(X))


@pytest.mark.parametrize(
    "differ",
    [
        {"backend": CompileCounter()},
        {"fullgraph": True},
        {"dynamic": True},
    ],
)
def test_options_are_not_mixed(differ):
    backend = CompileCounter()
    options = {"backend": backend, "fullgraph": False, "dynamic": False}

    block = Block()
    one = alternator.compile(block.forward, **options)
    other = alternator.compile(block.forward, **(options | differ))
    one(X), other(X)
    total = backend.frame_count + (differ["backend"].frame_count if "backend" in differ else 0)
    assert total == 2


def test_classes_and_sizes_are_not_mixed():
    """They would need other graphs anyway: a static one each."""
    graphs = []

    def backend(module, examples):
        graphs.append(examples)
        return module

    class Other(Block):
        pass

    blocks = [Block(), Block(4), Block(5), Other(), torch.nn.Sequential(Block())]
    compiled = [alternator.compile(block, backend=backend) for block in blocks]
    for block, each in zip(blocks, compiled, strict=True):
        assert same(each(X), block(X))
    assert len(graphs) == 5
    assert all(type(example) is not torch.SymInt for examples in graphs for example in examples)


def test_no_block_uses_up_the_limit_of_others():
    """What differs from block to block cannot be a symbol here; every block gets its graph nonetheless."""
    backend = CompileCounter()
    blocks = [Numbered(index=i) for i in range(30)]
    compiled = [alternator.compile(block, backend=backend) for block in blocks]
    for _ in range(2):
        for block, each in zip(blocks, compiled, strict=True):
            assert same(each(X), block(X))
        count = backend.frame_count
    assert count == backend.frame_count  # nothing is compiled in the second round
    assert all(each._captured_call.regions() for each in compiled)


class Picky:
    def __init__(self, fails):
        self.fails = fails

    def run(self, x):
        if self.fails:
            raise ValueError("no")
        return x + 1


def test_a_method_that_is_given_up_is_no_matter_of_others():
    bad, good = (alternator.compile(Picky(fails).run, backend="eager") for fails in (True, False))
    for _ in range(12):
        with pytest.raises(ValueError, match="no"):
            bad(X)
        assert same(good(X), X + 1)


# ---- Lifetimes -----------------------------------------------------------------------------------------------------


def test_no_block_is_kept_by_the_others():
    backend = CompileCounter()
    blocks = [Block() for _ in range(3)]
    compiled = [alternator.compile(block, backend=backend) for block in blocks]
    for each in compiled:
        each(X)
    first, weight = weakref.ref(blocks[0]), weakref.ref(blocks[0].linear.weight)
    del blocks[0], compiled[0], each
    gc.collect()
    assert first() is None and weight() is None
    assert same(compiled[0](X), blocks[0](X)) and backend.frame_count == 1


def test_graphs_die_with_the_last_function():
    graphs = []

    def backend(module, examples):
        graphs.append(weakref.ref(module))
        return module.forward

    one, other = Block(), Block()
    compiled = [alternator.compile(block, backend=backend) for block in (one, other)]
    for each in compiled:
        each(X)
    (graph,) = graphs
    del each, compiled[0]
    gc.collect()
    assert graph() is not None
    backend_alive = weakref.ref(backend)
    del backend, compiled
    gc.collect()
    assert graph() is None and backend_alive() is None


def test_graphs_in_a_cycle_with_their_functions_are_collected():
    holder = {}

    def backend(module, examples):
        def run(*inputs, kept=holder):  # the graph holds the compiled functions
            return module.forward(*inputs)

        return run

    blocks = [Block(), Block()]
    holder["compiled"] = [alternator.compile(block, backend=backend) for block in blocks]
    for each in holder["compiled"]:
        each(X)
    seen = weakref.ref(blocks[0])
    holder = blocks = each = backend = None
    gc.collect()
    assert seen() is None


def test_tables_go_with_the_code():
    space = {}
    exec("class Adder:\n    def add(self, x):\n        return x + 1\n", space)
    compiled = alternator.compile(space["Adder"]().add, backend="eager")
    compiled(X)
    key = id(space["Adder"].add.__code__)
    assert key in tables
    del compiled, space
    gc.collect()
    assert key not in tables


def test_reset_forgets_what_is_shared():
    backend = CompileCounter()
    blocks = [Block() for _ in range(3)]
    compiled = [alternator.compile(block, backend=backend) for block in blocks]
    for round in (1, 2):
        for block, each in zip(blocks, compiled, strict=True):
            assert same(each(X), block(X))
        assert backend.frame_count == round
        alternator.reset()
        assert not any(each._captured_call.regions() for each in compiled)
