"""What the benchmarks of capture and of breaks share: a backend that computes nothing, and what there is to capture.

The cases are models of transformers with random weights, and functions that stress one thing. Each maker takes a number
of layers and gives a function or module, its arguments and keyword arguments.
"""

from __future__ import annotations

import functools
import types

import torch


def keep_first(module, examples):
    """Compile to what runs once and from then on gives what it gave: what is left is the engine's own work."""
    outputs = None

    def run(*inputs):
        nonlocal outputs
        if outputs is None:
            outputs = module.forward(*inputs)
        return outputs

    return run


def size(layers):
    return {"hidden_size": 32, "num_hidden_layers": layers, "num_attention_heads": 4, "intermediate_size": 64}


def make_ids(length=16):
    return torch.randint(0, 100, (2, length))


def make_bert(layers):
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(vocab_size=100, **size(layers))).eval(), (make_ids(),), {}


def make_gpt2(layers):
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(vocab_size=100, n_embd=32, n_layer=layers, n_head=4, bos_token_id=1, eos_token_id=1)
    return GPT2Model(config).eval(), (make_ids(),), {"use_cache": False}


def make_llama(layers):
    from transformers import LlamaConfig, LlamaModel

    return LlamaModel(LlamaConfig(vocab_size=100, **size(layers))).eval(), (make_ids(),), {"use_cache": False}


def make_t5(layers):
    from transformers import T5Config, T5Model

    config = T5Config(vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=layers, num_heads=4)
    ids = make_ids()
    return T5Model(config).eval(), (ids,), {"decoder_input_ids": ids, "use_cache": False}


def make_vit(layers):
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(image_size=16, patch_size=8, **size(layers))
    return ViTModel(config).eval(), (torch.randn(2, 3, 16, 16),), {}


def make_resnet(layers):
    from transformers import ResNetConfig, ResNetModel

    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[layers // 2] * 2, layer_type="basic")
    return ResNetModel(config).eval(), (torch.randn(2, 3, 16, 16),), {}


def make_mixtral(layers):
    from transformers import MixtralConfig, MixtralModel

    config = MixtralConfig(vocab_size=100, num_local_experts=4, num_key_value_heads=2, **size(layers))
    return MixtralModel(config).eval(), (make_ids(),), {"use_cache": False}


def make_decode(layers):
    """One token with a static cache."""
    from transformers import LlamaConfig, LlamaModel, StaticCache

    config = LlamaConfig(vocab_size=100, **size(layers))
    model = LlamaModel(config).eval()
    cache = StaticCache(config=config, max_cache_len=2048)  # every call of the benchmark adds a token
    ids = make_ids(8)
    with torch.no_grad():
        model(ids, past_key_values=cache, cache_position=torch.arange(8))
    return model, (ids[:, :1],), {"past_key_values": cache, "cache_position": torch.tensor([8]), "use_cache": True}


def make_small(layers):
    return lambda x: x + 1, (torch.randn(8),), {}


def make_adds(layers):
    def adds(x):
        for _ in range(5000):
            x = torch.add(x, 1)
        return x

    return adds, (torch.randn(8),), {}


def make_adam(layers):
    parameters = [torch.nn.Parameter(torch.randn(4, 4)) for _ in range(200)]
    for parameter in parameters:
        parameter.grad = torch.randn(4, 4)
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    optimizer.step()  # makes its state

    def step():
        optimizer.step()

    return step, (), {}


def make_mlp(layers):
    blocks = [m for _ in range(64) for m in (torch.nn.Linear(16, 16), torch.nn.ReLU())]
    return torch.nn.Sequential(*blocks), (torch.randn(2, 16),), {}


def make_breaks(layers):
    def breaks(x):
        for _ in range(3):
            x = x + 1
            torch._dynamo.graph_break()
        return x

    return breaks, (torch.randn(8),), {}


def make_attributes(layers):
    """Chains of 20 attributes, read 50 times."""
    root = types.SimpleNamespace(scale=2.0)
    for _ in range(20):
        root = types.SimpleNamespace(child=root)
    chain = ["child"] * 20

    def attributes(x):
        for _ in range(50):
            x = x * functools.reduce(getattr, chain, root).scale
        return x

    return attributes, (torch.randn(8),), {}


def make_config(layers):
    """An object with 500 attributes, each of which is read."""
    config = types.SimpleNamespace(**{f"option_{i}": i for i in range(500)})
    names = [f"option_{i}" for i in range(500)]

    def settings(x):
        return x * sum([getattr(config, name) for name in names])

    return settings, (torch.randn(8),), {}


MODELS = {
    "bert": make_bert,
    "gpt2": make_gpt2,
    "llama": make_llama,
    "t5": make_t5,
    "vit": make_vit,
    "resnet": make_resnet,
    "mixtral": make_mixtral,
}
OTHERS = {
    "x + 1": make_small,
    "decode": make_decode,
    "5000 adds": make_adds,
    "adam": make_adam,
    "mlp": make_mlp,
    "3 breaks": make_breaks,
    "attributes": make_attributes,
    "config": make_config,
}
CASES = MODELS | OTHERS


def make(name, layers):
    torch.manual_seed(0)
    return CASES[name](layers)
