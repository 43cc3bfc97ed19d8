"""The seven models of the package transformers, in small, with random weights."""

import warnings

import pytest
import torch

WIDTH = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
WORDS = {"vocab_size": 100}
ATTENTION = {"attention_dropout": 0.1}
# name: (class, configuration, what to pass)
MODELS = {
    "bert": ("Bert", {**WORDS, **WIDTH}, ("input_ids",)),
    "gpt2": ("GPT2", {**WORDS, "n_embd": 32, "n_head": 4, "bos_token_id": 1, "eos_token_id": 1}, ("input_ids",)),
    "llama": ("Llama", {**WORDS, **WIDTH, **ATTENTION}, ("input_ids",)),
    "t5": (
        *("T5", {**WORDS, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_heads": 4}),
        ("input_ids", "decoder_input_ids"),
    ),
    "vit": ("ViT", {"image_size": 32, "patch_size": 8, "hidden_dropout_prob": 0.1, **WIDTH}, ("pixel_values",)),
    "resnet": ("ResNet", {"embedding_size": 8}, ("pixel_values",)),
    "mixtral": (
        *("Mixtral", {**WORDS, "num_key_value_heads": 2, "num_local_experts": 4, **WIDTH, **ATTENTION}),
        ("input_ids",),
    ),
}


def make_model(name, layers=1):
    """Make a small model with random weights, and inputs for it, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers")
    family, options, inputs = MODELS[name]
    size = {"gpt2": {"n_layer": layers}, "t5": {"num_layers": layers}}.get(name, {"num_hidden_layers": layers})
    if name == "resnet":
        size = {"hidden_sizes": [8, 16], "depths": [(layers + 1) // 2] * 2}
    torch.manual_seed(0)
    model = getattr(transformers, f"{family}Model")(getattr(transformers, f"{family}Config")(**options, **size))
    ids = torch.randint(0, 100, (2, 16))
    values = {name: torch.randn(2, 3, 32, 32) if name == "pixel_values" else ids for name in inputs}
    if name in ("gpt2", "llama", "t5", "mixtral"):
        values["use_cache"] = False
    return model, values
