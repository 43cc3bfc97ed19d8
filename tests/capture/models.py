"""Small models of the usual kinds, for tests that run them often."""

import warnings

import pytest
import torch


def make_transformers():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("transformers")


def size(layers):
    return {"hidden_size": 32, "num_hidden_layers": layers, "num_attention_heads": 4, "intermediate_size": 64}


def make_bert(t, layers):
    return t.BertModel(t.BertConfig(vocab_size=100, **size(layers))), (make_ids(),), {}


def make_gpt2(t, layers):
    config = t.GPT2Config(vocab_size=100, n_embd=32, n_layer=layers, n_head=4, bos_token_id=1, eos_token_id=1)
    return t.GPT2Model(config), (make_ids(),), {"use_cache": False}


def make_llama(t, layers):
    return t.LlamaModel(t.LlamaConfig(vocab_size=100, **size(layers))), (make_ids(),), {"use_cache": False}


def make_vit(t, layers):
    config = t.ViTConfig(image_size=16, patch_size=8, **size(layers))
    return t.ViTModel(config), (torch.randn(2, 3, 16, 16),), {}


def make_resnet(t, layers):
    config = t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    return t.ResNetModel(config), (torch.randn(2, 3, 16, 16),), {}


def make_ids():
    return torch.randint(0, 100, (2, 8))


MODELS = {"bert": make_bert, "gpt2": make_gpt2, "llama": make_llama, "vit": make_vit, "resnet": make_resnet}


def make_model(name, layers=1):
    """Return a model that is not training, arguments and keyword arguments."""
    torch.manual_seed(0)
    model, args, kwargs = MODELS[name](make_transformers(), layers)
    return model.eval(), args, kwargs
