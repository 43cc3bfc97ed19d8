"""Models captured whole: one graph, TorchDynamo's operations, eager's values, gradients over training steps."""

import collections
import copy
import warnings

import pytest
import torch

import alternator
from capture.agreement import Captured, same

pytestmark = pytest.mark.capture

LAYERS = 3


def small_net():
    return torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 4)
    )


def small_conv():
    return torch.nn.Sequential(
        *(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.MaxPool2d(2)),
        torch.nn.Flatten(),
    )


NETS = {"net": (small_net, (6, 8)), "conv": (small_conv, (2, 3, 8, 8))}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", sorted(NETS))
def test_training_steps(name, backend):
    make, shape = NETS[name]
    torch.manual_seed(0)
    eager = make()
    model = copy.deepcopy(eager)
    compiled = alternator.compile(model, backend=backend)
    optimizers = [torch.optim.SGD(m.parameters(), 0.1, momentum=0.9) for m in (eager, model)]
    before = alternator.frames_translated()
    for step in range(5):
        x = torch.randn(shape)
        losses = []
        for call, optimizer in zip((eager, compiled), optimizers, strict=True):
            torch.manual_seed(step)
            loss = call(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            losses.append(loss)
        if backend == "eager":
            assert torch.equal(*losses)
        tolerance = {"rtol": 0, "atol": 0} if backend == "eager" else {}
        if "Dropout" not in str(eager) or backend == "eager":  # other backends draw other random numbers
            for a, b in zip(eager.parameters(), model.parameters(), strict=True):
                torch.testing.assert_close(a.grad, b.grad, **tolerance)
            for a, b in zip(eager.buffers(), model.buffers(), strict=True):
                torch.testing.assert_close(a, b, **tolerance)
        for optimizer in optimizers:
            optimizer.step()
    assert alternator.frames_translated() == before + 1
    eager.eval(), compiled.eval()
    assert torch.allclose(eager(x), compiled(x), atol=1e-5) or "Dropout" in str(eager)


def test_a_compiled_module_is_the_module():
    model = small_net()
    compiled = alternator.compile(model, backend="eager")
    # As torch.compile's module has it.
    assert list(compiled.state_dict()) == [f"_orig_mod.{name}" for name in model.state_dict()]
    compiled.eval()
    assert not model.training
    assert compiled.training is False
    assert list(compiled.parameters())[0] is next(model.parameters())
    compiled.extra = 3
    assert model.extra == 3
    del compiled.extra
    assert not hasattr(model, "extra")


def make_transformers():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers")
    size = {"hidden_size": 32, "num_hidden_layers": LAYERS, "num_attention_heads": 4, "intermediate_size": 64}
    gpt2 = transformers.GPT2Config(vocab_size=100, n_embd=32, n_layer=LAYERS, n_head=4, bos_token_id=1, eos_token_id=1)
    return {
        "bert": lambda: (transformers.BertModel(transformers.BertConfig(vocab_size=100, **size)), {}),
        "gpt2": lambda: (transformers.GPT2Model(gpt2), {"use_cache": False}),
        "llama": lambda: (
            transformers.LlamaModel(transformers.LlamaConfig(vocab_size=100, **size)),
            {"use_cache": False},
        ),
    }


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_transformers(name):
    torch.manual_seed(0)
    model, options = make_transformers()[name]()
    model.eval()
    ids = torch.randint(0, 100, (2, 16))
    compiled = Captured(model)
    with torch.no_grad():
        expected = model(ids, **options)
        for _ in range(2):
            found = compiled(ids, **options)
            assert type(found) is type(expected)
            assert same(dict(found), dict(expected))
    assert len(compiled.graphs) == 1, compiled.said
    theirs = capture_with_torchdynamo(model, ids, options)
    assert count_operations(compiled.graphs[0]) == count_operations(theirs)


# Nodes that compute nothing: TorchDynamo keeps the counting of API uses.
SILENT = {"_log_api_usage_once"}


def count_operations(module):
    names = [
        getattr(node.target, "__name__", node.target) for node in module.graph.nodes if node.op.startswith("call_")
    ]
    return collections.Counter(name for name in names if name not in SILENT)


def capture_with_torchdynamo(model, ids, options):
    graphs = []

    def keep(module, examples):
        graphs.append(module)
        return module.forward

    # TorchDynamo patches Module for good: every module made from then on is entered into a table of its own, which is a
    # write to the outside.
    init = torch.nn.Module.__init__
    try:
        with torch.no_grad():
            torch.compile(model, backend=keep)(ids, **options)
    finally:
        torch.nn.Module.__init__ = init
        torch._dynamo.reset()
    (module,) = graphs
    return module
