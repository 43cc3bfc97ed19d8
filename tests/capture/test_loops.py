"""Whole loops compiled: training with breaks in every step, and greedy generation with a growing cache."""

import gc
import warnings

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


def make_training(optimizer):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    data = TensorDataset(torch.randn(40, 8), torch.randint(0, 4, (40,)))
    return model, optimizer(model.parameters(), lr=0.05), DataLoader(data, batch_size=8)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_training(optimizer, capsys):
    expected = train(*make_training(optimizer))
    printed = capsys.readouterr().out
    compiled = Captured(train)
    graphs = []
    for _ in range(2):
        # Optimizers ask whether they are compiled and then compute in another order.
        assert compiled.fn(*make_training(optimizer)) == pytest.approx(expected, rel=1e-5)
        assert capsys.readouterr().out.count("step") == printed.count("step")
        graphs.append(len(compiled.graphs))
    assert 0 < graphs[0] == graphs[1]  # captures stop


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
    expected = train(*make_training(torch.optim.SGD))
    compiled = Captured(train)
    compiled.fn(*make_training(torch.optim.SGD))
    arguments = make_training(torch.optim.SGD)
    collecting(every)
    assert compiled.fn(*arguments) == pytest.approx(expected, rel=1e-5)


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
