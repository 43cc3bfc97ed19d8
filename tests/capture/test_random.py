"""The random generator: seeds, states of it, and draws, in the order of the program."""

import pytest
import torch
from torch import nn

import alternator
from capture.agreement import Captured, same

pytestmark = pytest.mark.capture

X = torch.linspace(0, 1, 6)


class Stochastic(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout(0.5)

    def forward(self, x, seed):
        torch.manual_seed(seed)
        return self.dropout(x) * torch.rand(6)


MODEL = Stochastic()


# ---- Programs, with the number of graphs ---------------------------------------------------------------------------


def seed_first(x):
    torch.manual_seed(3)
    return x + torch.rand(6), torch.randn(3)


def seed_behind_other_work(x):
    y = x * 2
    torch.random.manual_seed(4)
    return y + torch.rand(6)


def seed_last(x):
    y = x + torch.rand(6)
    torch.manual_seed(5)
    return y * 2


def seed_between_draws(x):
    y = x + torch.rand(6)
    torch.manual_seed(6)
    return y * torch.rand(6)


def seed_twice(x):
    torch.manual_seed(7)
    torch.manual_seed(8)
    y = torch.rand(6) + x
    torch.manual_seed(9)
    torch.manual_seed(10)
    return y


def seed_alone(x):
    torch.manual_seed(11)
    return x


def seed_and_normal_numbers(x):
    torch.manual_seed(12)
    y = torch.randn(1) + x  # numbers come in pairs
    torch.manual_seed(13)
    return y, torch.randn(1)


def seed_with_other_numbers(x):
    torch.manual_seed(True)
    torch.manual_seed(2.9)
    torch.manual_seed(-5)
    return torch.rand(6) * x


def generator_is_the_default_one(x):
    generator = torch.manual_seed(14)
    y = x + torch.rand(6)
    return y, generator is torch.default_generator, [generator]


def state_is_read(x):
    state = torch.get_rng_state()
    return x + torch.rand(6), state, state.sum()


def state_is_read_behind_a_seed(x):
    before = torch.get_rng_state()
    torch.manual_seed(15)
    return x + torch.rand(6), before, torch.get_rng_state()


def state_is_put_back(x):
    state = torch.get_rng_state()
    y = torch.rand(6)
    torch.set_rng_state(state)
    return x + y


def state_is_put_back_and_drawn_from(x):
    state = torch.get_rng_state()
    y = torch.rand(6)
    torch.set_rng_state(state)
    return x + y, torch.rand(6)


def state_is_set(x, state=torch.Generator().manual_seed(16).get_state()):  # noqa: B008
    torch.set_rng_state(state)
    return x * torch.rand(6)


def state_is_put_back_before_a_draw(x):
    state = torch.get_rng_state()
    torch.manual_seed(17)
    torch.set_rng_state(state)
    return x + torch.rand(6)


def state_is_changed(x):
    state = torch.get_rng_state()
    state = state.clone()
    y = torch.rand(6)
    torch.set_rng_state(state)
    return x + y


def forked(x):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(18)
        y = torch.rand(6)
    return x + y


def forked_and_drawn_from(x):
    y = torch.rand(6)
    with torch.random.fork_rng():
        torch.manual_seed(19)
        y = y + torch.rand(6)
    return x + y * torch.rand(6)


def dropout(x):
    torch.manual_seed(20)
    return nn.functional.dropout(x, 0.5), nn.functional.dropout(x, 0.0)


def dropout_that_is_off(x):
    y = nn.functional.dropout(x, 0.5, training=False)
    torch.manual_seed(21)
    return y + torch.rand(6)


def in_a_loop(x):
    for seed in range(3):
        torch.manual_seed(seed)
        x = x + torch.rand(6)
    return x


def in_a_module(x):
    return MODEL(x, 5)


def in_checkpoint(x):
    def inner(x):
        torch.manual_seed(22)
        return x * torch.rand(6)

    return torch.utils.checkpoint.checkpoint(inner, x, use_reentrant=False)


GRAPHS = {
    seed_first: 1,
    seed_behind_other_work: 1,
    seed_last: 1,
    seed_between_draws: 2,
    seed_twice: 1,
    seed_alone: None,
    seed_and_normal_numbers: 1,
    seed_with_other_numbers: 1,
    generator_is_the_default_one: 1,
    state_is_read: 1,
    state_is_read_behind_a_seed: 1,
    state_is_put_back: 1,
    state_is_put_back_and_drawn_from: 1,
    state_is_set: 1,
    state_is_put_back_before_a_draw: 1,
    state_is_changed: None,
    forked: 1,
    forked_and_drawn_from: None,
    dropout: 1,
    dropout_that_is_off: 1,
    in_a_loop: 2,
    in_a_module: 1,
    in_checkpoint: None,
}


@pytest.mark.parametrize("program", GRAPHS, ids=lambda program: program.__name__)
def test_program(program):
    compiled = Captured(program)
    for call in range(3):
        results, states = [], []
        for run in (program, compiled):
            torch.manual_seed(100 + call)
            torch.randn(1)
            results.append(run(X))
            states.append((torch.get_rng_state(), torch.initial_seed()))
        assert same(results[1], results[0])
        assert same(states[1], states[0])
    assert GRAPHS[program] is None or len(compiled.graphs) == GRAPHS[program], compiled.breaks


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiling_does_not_set_the_generator(backend):
    """With inductor the numbers are others than eager's, but the same in every call."""

    def program(x):
        torch.manual_seed(3)
        y = x * torch.rand(6)
        torch.manual_seed(4)
        return y

    compiled = alternator.compile(program, backend=backend, fullgraph=True)
    found = []
    for seed in range(3):
        torch.manual_seed(seed)
        found.append(compiled(X))
        assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(4)))
    assert same(found[1:], found[:1] * 2)
    assert backend == "inductor" or same(found[0], program(X))


def test_gradient():
    def program(x):
        torch.manual_seed(3)
        y = nn.functional.dropout(x * 2, 0.5)
        torch.manual_seed(4)
        return y.sum()

    gradients = []
    for run in (program, Captured(program), alternator.compile(program, backend="aot_eager")):
        x = X.clone().requires_grad_()
        run(x).backward()
        gradients.append((x.grad, torch.get_rng_state()))
    assert same(gradients[1], gradients[0])
    assert same(gradients[2], gradients[0])


def test_the_seed_is_guarded():
    def program(x, seed):
        torch.manual_seed(seed)
        return x + torch.rand(6)

    compiled = Captured(program)
    for seed in (1, 2, 1, 2, 3):
        assert same(compiled(X, seed), program(X, seed))
    assert len(compiled.graphs) == 3


def test_a_seed_that_torch_refuses():
    def program(x, seed):
        y = x + 1
        torch.manual_seed(seed)
        return y * torch.rand(6)

    compiled = Captured(program)
    for seed in (1, 1 << 70, 1, 1 << 70, "no number", torch.tensor(3)):
        outcomes = []
        for run in (program, compiled):
            try:
                outcomes.append(run(X, seed))
            except (RuntimeError, ValueError) as error:
                outcomes.append((type(error), str(error)))
        assert same(outcomes[1], outcomes[0])


def test_a_state_that_torch_refuses():
    def program(x, state, log):
        log.append(1)
        torch.set_rng_state(state)
        return x * torch.rand(6)

    compiled = Captured(program)
    torch.manual_seed(0)
    right = torch.get_rng_state()
    for state in (right, torch.zeros_like(right), right[:100], right.long(), right):
        outcomes = []
        for run in (program, compiled):
            torch.manual_seed(1)
            log = []
            try:
                outcomes.append((run(X, state, log), log, torch.get_rng_state()))
            except (RuntimeError, TypeError) as error:
                outcomes.append((type(error), str(error), log, torch.get_rng_state()))
        assert same(outcomes[1], outcomes[0])


def test_a_graph_that_fails_leaves_the_seed_as_the_program_does():
    def program(x, index, log):
        y = x[index]
        log.append(1)
        torch.manual_seed(3)
        z = y + torch.rand(2)
        torch.manual_seed(4)
        return z

    compiled = Captured(program)
    for index in ([0, 1], [0, 99], [1, 2]):
        outcomes = []
        for run in (program, compiled):
            torch.manual_seed(2)
            log = []
            try:
                outcomes.append((run(X, torch.tensor(index), log), log, torch.get_rng_state()))
            except IndexError as error:
                outcomes.append((str(error), log, torch.get_rng_state()))
        assert same(outcomes[1], outcomes[0])
    assert len(compiled.graphs) == 1


def test_an_operator_of_the_users_may_draw():
    @torch.library.custom_op("alternator_test_random::draw", mutates_args=())
    def draw(x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand(6)

    draw.register_fake(lambda x: torch.empty_like(x))

    def program(x):
        y = draw(x)
        torch.manual_seed(3)
        return draw(y)

    compiled = Captured(program)
    for _ in range(2):
        results = []
        for run in (program, compiled):
            torch.manual_seed(1)
            results.append((run(X), torch.get_rng_state()))
        assert same(results[1], results[0])
    assert ["random numbers are drawn" in each for each in compiled.breaks] == [True]
