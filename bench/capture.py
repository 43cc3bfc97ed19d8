"""Graph capture, Alternator beside TorchDynamo, in one process and one run; ratios are TorchDynamo's time by ours.

    ./dev bench capture [--layers N] [--only NAME] [--json PATH]

capture   a call right after a reset, with a backend that compiles nothing
warm      a call whose graph does nothing: guards, fetching of inputs, rebuilding of the result
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings

import torch

import alternator

REPEATS = 5


class NoOp:
    """A backend whose graph runs once and from then on gives what it gave: what is left is the engine's own work."""

    def __init__(self):
        self.graphs = 0
        self.operations = 0

    def __call__(self, module, examples):
        self.graphs += 1
        self.operations = sum(node.op.startswith("call_") for node in module.graph.nodes)
        outputs = None

        def run(*inputs):
            nonlocal outputs
            if outputs is None:
                outputs = module.forward(*inputs)
            return outputs

        return run


def make_models(layers):
    from transformers import BertConfig, BertModel, GPT2Config, GPT2Model, LlamaConfig, LlamaModel

    size = {"hidden_size": 32, "num_hidden_layers": layers, "num_attention_heads": 4, "intermediate_size": 64}
    gpt2 = GPT2Config(vocab_size=100, n_embd=32, n_layer=layers, n_head=4, bos_token_id=1, eos_token_id=1)
    ids = torch.randint(0, 100, (2, 16))
    x = torch.randn(8)
    return {
        "x + 1": (lambda x: x + 1, (x,), {}),
        "bert": (BertModel(BertConfig(vocab_size=100, **size)).eval(), (ids,), {}),
        "gpt2": (GPT2Model(gpt2).eval(), (ids,), {"use_cache": False}),
        "llama": (LlamaModel(LlamaConfig(vocab_size=100, **size)).eval(), (ids,), {"use_cache": False}),
    }


def measure(compile, reset, fn, args, kwargs):
    """Return the seconds of a capture, the seconds of a warm call, graphs and operations."""
    backend = NoOp()
    compiled = compile(fn, backend=backend)
    compiled(*args, **kwargs)
    capture = math.inf
    for _ in range(2):
        reset()
        backend.graphs = 0
        start = time.perf_counter()
        compiled(*args, **kwargs)
        capture = min(capture, time.perf_counter() - start)
    graphs = backend.graphs
    warm = math.inf
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(100):
            compiled(*args, **kwargs)
        warm = min(warm, (time.perf_counter() - start) / 100)
    return {"capture": capture, "warm": warm, "graphs": graphs, "operations": backend.operations}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--only")
    parser.add_argument("--json")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, ratios = {}, {"capture": [], "warm": []}
    header = f"{'':8}{'capture ms: ours':>18}{'theirs':>10}{'ratio':>8}{'warm µs: ours':>16}{'theirs':>9}{'ratio':>7}"
    print(f"{header}  graphs, operations")
    models = make_models(options.layers)
    # All of ours first: TorchDynamo patches Module for good when it is first used.
    chosen = {name: model for name, model in models.items() if options.only in (None, name)}
    with torch.no_grad():
        ours = {n: measure(alternator.compile, alternator.reset, *m) for n, m in chosen.items()}
        theirs = {n: measure(torch.compile, torch._dynamo.reset, *m) for n, m in chosen.items()}
    for name in chosen:
        a, b = ours[name], theirs[name]
        for kind in ratios:
            ratios[kind].append(b[kind] / a[kind])
        print(
            f"{name:8}{a['capture'] * 1e3:18.1f}{b['capture'] * 1e3:10.0f}{ratios['capture'][-1]:7.1f}x"
            f"{a['warm'] * 1e6:16.1f}{b['warm'] * 1e6:9.1f}{ratios['warm'][-1]:6.1f}x  "
            f"{a['graphs']}, {a['operations']} / {b['graphs']}, {b['operations']}"
        )
        rows[name] = {"ours": a, "torchdynamo": b}
    means = {kind: math.exp(sum(map(math.log, values)) / len(values)) for kind, values in ratios.items()}
    print(f"geometric mean: capture {means['capture']:.1f}x, warm {means['warm']:.1f}x")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"models": rows, "means": means}, file, indent=1)


if __name__ == "__main__":
    main()
