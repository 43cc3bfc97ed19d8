"""A transformers model (small, random weights: nothing is downloaded) behind an unmodified torch.compile call.

Run with ./dev demo examples/transformer.py. Without the two lines marked below, `python -m alternator run` does the
same.
"""

import torch
from transformers import BertConfig, BertForSequenceClassification

import alternator  # these two lines put Alternator in TorchDynamo's place

alternator.install()

torch.manual_seed(0)
config = BertConfig(
    num_hidden_layers=2, num_attention_heads=2, hidden_size=32, intermediate_size=64, vocab_size=100, num_labels=3
)
model = BertForSequenceClassification(config).eval()
compiled = torch.compile(model, backend="aot_eager")  # without `backend`: inductor, which makes machine code

batch = torch.randint(0, config.vocab_size, (4, 12))
mask = torch.ones_like(batch)
mask[2:, 8:] = 0  # two of the sentences are shorter

with torch.no_grad():
    for _ in range(2):  # the first call captures and compiles, the second one checks the guards and runs the graph
        logits = compiled(input_ids=batch, attention_mask=mask).logits
        for row in logits.tolist():
            print(" ".join(f"{value:+.4f}" for value in row))
