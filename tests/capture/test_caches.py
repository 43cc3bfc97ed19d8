"""functools.lru_cache: what is in a cache is used, and what a call would put there is there afterwards."""

import functools
import typing

import pytest
import torch

import alternator
from capture.agreement import Captured

pytestmark = pytest.mark.capture


class World:
    """Functions with caches of their own, and what they look at."""

    def __init__(self, **options):
        self.factor = 2.0
        self.calls = calls = []
        cache = functools.lru_cache(**options)

        @cache
        def number(n, *rest, **named):
            return n * self.factor + len(rest) + len(named)

        @cache
        def noted(n):
            calls.append(n)
            return n + 1

        @cache
        def table(n):
            return torch.arange(n) * 1.0

        @cache
        def items(n):
            return [n]

        @cache
        def fibonacci(n):
            return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

        @cache
        def drawn(n):
            torch.rand(n)
            return n

        self.caches = {f.__name__: f for f in (number, noted, table, items, fibonacci, drawn)}
        vars(self).update(self.caches)


def use_number(world, x):
    return x * world.number(3) + world.number(4, 5) + world.number(4, by=5) + world.number(3)


def use_noted(world, x):
    return x * world.noted(3) + world.noted(3)


def use_table(world, x):
    first, second = world.table(3), world.table(3)
    assert first is second
    return x + first, second


def change_table(world, x):
    world.table(3).add_(1)
    return x + world.table(3)


def use_items(world, x):
    found = world.items(3)
    found.append(len(found))
    return x * len(found), found


def use_fibonacci(world, x):
    return x * world.fibonacci(12)


def use_drawn(world, x):
    return x * world.drawn(3) + torch.rand(3)


PROGRAMS = [use_number, use_noted, use_table, change_table, use_items, use_fibonacci, use_drawn]


def do_nothing(world):
    pass


def forget(world):
    for cache in world.caches.values():
        cache.cache_clear()


def change_factor(world):
    world.factor = 3.0


def change_and_forget(world):
    world.factor = 3.0
    world.number.cache_clear()


def remember_something_else(world):
    world.factor = 7.0
    world.number.cache_clear()
    world.number(3)
    world.factor = 2.0


def fill(world):
    for n in range(10):
        for cache in world.caches.values():
            cache(n)


CHANGES = [do_nothing, forget, change_factor, change_and_forget, remember_something_else, fill]


@pytest.mark.parametrize("options", [{}, {"maxsize": None}, {"maxsize": 2}, {"maxsize": 0}, {"typed": True}], ids=str)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_cache(program, change, options):
    if options == {"maxsize": 0} and program is use_table:
        pytest.skip("its assertion does not hold")
    ours, theirs = World(**options), World(**options)
    # A cache that is full forgets something: a call that would put a result there is a break.
    compiled = alternator.compile(program, backend="eager", fullgraph=options != {"maxsize": 2})
    for step in range(5):
        if step == 3:
            change(ours)
            change(theirs)
        torch.manual_seed(step)
        expected = program(theirs, torch.ones(3))
        torch.manual_seed(step)
        torch.testing.assert_close(compiled(ours, torch.ones(3)), expected, rtol=0, atol=0)
        assert ours.calls == theirs.calls
        for name, cache in ours.caches.items():
            if options != {"maxsize": 0}:
                assert cache.cache_info() == theirs.caches[name].cache_info()


def test_cache_holds_what_the_graph_made():
    world = World()
    compiled = Captured(use_table)
    _, first = compiled.fn(world, torch.ones(3))
    assert world.table(3) is first
    _, second = compiled.fn(world, torch.ones(3))
    assert second is first
    assert len(compiled.graphs) == 2  # one that makes it, and one that gets it


def test_number_is_no_reason_for_another_graph():
    world = World()
    compiled = Captured(use_number)
    for _ in range(3):
        compiled.fn(world, torch.ones(3))
    assert len(compiled.graphs) == 1
    assert world.number.cache_info().misses == 3


def test_break_inside_of_a_cached_function():
    @functools.cache
    def broken(n):
        torch._dynamo.graph_break()
        return n + 1

    compiled = Captured(lambda x: (x + 1) * broken(2))
    for _ in range(3):
        assert torch.equal(compiled.fn(torch.ones(2)), torch.full((2,), 6.0))
    assert broken.cache_info().misses == 1


def test_keys_that_cannot_be_watched():
    class Owner:
        @functools.cache
        def number(self, n):
            return n + 1

    @functools.cache
    def count(items):
        return 1

    owner = Owner()
    compiled = Captured(lambda x, owner: (x + 1) * owner.number(2))
    for each in (owner, owner, Owner()):
        assert torch.equal(compiled.fn(torch.ones(2), each), torch.full((2,), 6.0))
    with pytest.raises(TypeError, match="unhashable"):
        alternator.compile(lambda x: x * count([1]), backend="eager")(torch.ones(2))


def test_subscripts_of_typing():
    def program(x):
        return typing.cast(typing.Optional[torch.Tensor], x) * len(typing.get_args(typing.Union[int, str, None]))

    compiled = Captured(program, fullgraph=True)
    assert torch.equal(compiled.fn(torch.ones(2)), torch.full((2,), 3.0))
    assert len(compiled.graphs) == 1
