"""Whole loops compiled: training with breaks in every step, and greedy generation with a growing cache."""

import contextlib
import functools
import gc
import importlib
import warnings
from unittest import mock

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from capture.agreement import Captured

pytestmark = pytest.mark.capture


def train(model, optimizer, loader):
    losses, step = [], 0
    for _ in range(3):
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 10 == 0:
                print("step", step, round(loss.item(), 4))
            losses.append(loss.item())
            step += 1
    return losses


class Watched(TensorDataset):
    """Tells whenever an item is fetched: at the beginning of each step."""

    def __init__(self, tell, *tensors):
        super().__init__(*tensors)
        self.tell = tell

    def __getitem__(self, index):
        self.tell()
        return super().__getitem__(index)


def make_training(optimizer, tell):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    data = Watched(tell, torch.randn(40, 8), torch.randint(0, 4, (40,)))
    return model, optimizer(model.parameters(), lr=0.05), DataLoader(data, batch_size=8)


@contextlib.contextmanager
def steps_as_tensors():
    """Let eager Adam compute as it does when torch.compiler.is_compiling().

    Its step number is then not turned into a Python number: the corrections are computed in float32.
    """
    with mock.patch.object(importlib.import_module("torch.optim.adam"), "_get_value", lambda x: x):
        yield


# The graphs of a whole run, and the steps after which there are no new ones. The first step makes the state.
TRAINING = {
    "sgd": (torch.optim.SGD, contextlib.nullcontext, 2, 1),
    "momentum": (functools.partial(torch.optim.SGD, momentum=0.9), contextlib.nullcontext, 3, 2),
    "adam": (torch.optim.Adam, steps_as_tensors, 3, 2),
    "adamw": (torch.optim.AdamW, steps_as_tensors, 3, 2),
    "rmsprop": (torch.optim.RMSprop, contextlib.nullcontext, 3, 2),
}


@pytest.mark.parametrize("name", TRAINING)
def test_training(name, capsys, plain_optimizers):
    optimizer, like_compiled, most, settled = TRAINING[name]
    with like_compiled():
        expected = train(*make_training(optimizer, lambda: None))
    printed = capsys.readouterr().out
    compiled = Captured(train)
    counts = []
    for _ in range(2):
        assert compiled.fn(*make_training(optimizer, lambda: counts.append(len(compiled.graphs)))) == expected
        assert capsys.readouterr().out == printed
    counts = counts[::8]
    assert len(counts) == 30
    assert counts[settled:] == [most] * (30 - settled), counts
    assert compiled.said == []


@pytest.fixture
def collecting():
    """Collect garbage every few objects, with a callback in Python; yields the function that begins with it."""
    thresholds = gc.get_threshold()
    calls = []
    gc.callbacks.append(lambda phase, info: calls.append(phase))
    gc.collect()
    gc.freeze()
    yield lambda every: gc.set_threshold(every)
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    gc.callbacks.pop()
    assert calls


@pytest.mark.parametrize("every", [1, 2, 5])
def test_the_collector_calls_python_between_frames(every, collecting):
    expected = train(*make_training(torch.optim.SGD, int))
    compiled = Captured(train)
    compiled.fn(*make_training(torch.optim.SGD, int))
    arguments = make_training(torch.optim.SGD, int)
    collecting(every)
    assert compiled.fn(*arguments) == expected


def generate(model, ids, limit):
    cache, out, last = None, ids, ids
    while out.shape[1] < limit:
        result = model(last, past_key_values=cache, use_cache=True)
        cache = result.past_key_values
        last = result.logits[:, -1].argmax(-1, keepdim=True)
        out = torch.cat([out, last], dim=1)
        if (last == 2).all():
            break
    return out


def test_generation():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=50, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2, pad_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    ids = torch.tensor([[1, 5, 7]])
    compiled = Captured(generate)
    with torch.no_grad():
        for limit in (8, 14):
            assert torch.equal(compiled(model, ids, limit), generate(model, ids, limit))
    assert len(compiled.graphs) > 1


def unrolled(x, turns):
    for _ in range(turns):
        x = x + 1
    return x


def unrolled_while(x, turns):
    turn = 0
    while turn < turns:
        x = x + 1
        turn += 1
    return x


def break_in_every_turn(x, turns):
    for _ in range(turns):
        x = x + 1
        print(end="")
        x = x * 0.5
    return x


def break_in_every_turn_of_a_while(x, turns):
    turn = 0
    while turn < turns:
        x = x + 1
        print(end="")
        turn += 1
    return x


def number_of_every_turn(x, turns):
    for _ in range(turns):
        x = x * (x.sum().item() * 0) + x
    return x


def break_in_some_turns(x, turns):
    for turn in range(turns):
        x = x + 1
        if turn % 100 == 0:
            print(end="")
    return x


# The turns, and the most graphs: there are no more of them with more turns.
LOOPS = {
    unrolled: (2_000, 1),
    unrolled_while: (2_000, 1),
    break_in_every_turn: (10_000, 3),
    break_in_every_turn_of_a_while: (10_000, 6),  # its number is relied on twice, and then no more
    number_of_every_turn: (10_000, 6),
    break_in_some_turns: (10_000, 9),  # given up: no region fits the next hundred turns
}


@pytest.mark.parametrize("fn", LOOPS, ids=lambda fn: fn.__name__)
def test_long_loops(fn):
    turns, most = LOOPS[fn]
    compiled = Captured(fn)
    x = torch.ones(2, 3)
    expected = fn(x, turns)
    counts = []
    for _ in range(3):
        assert torch.equal(compiled(x, turns), expected)
        counts.append(len(compiled.graphs))
    assert 0 < counts[0] <= most
    assert counts[1] == counts[2] <= most + 1


def test_a_trace_that_grows_too_long_ends_at_the_head_of_a_loop():
    def program(x, turns):
        n = 0
        for turn in range(turns):
            n = (n + turn) % 7
            if turn % 1000 == 0:
                x = x + n
        return x

    compiled = Captured(program)
    x = torch.ones(2, 3)
    for _ in range(2):
        assert torch.equal(compiled(x, 50_000), program(x, 50_000))
    assert any("LongTrace" in text for text in compiled.breaks)
    assert len(compiled.graphs) <= 9
