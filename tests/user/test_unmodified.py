"""Unmodified programs print under `python -m alternator run` what they print eagerly."""

import os
import re
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.capture

TRAINING = """
import torch
torch.manual_seed(0)
layers = torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1)
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)

@torch.compile(backend="aot_eager")
def loss_of(x, y):
    return torch.nn.functional.mse_loss(model(x), y)

for step in range(5):
    x = torch.randn(4, 8)
    loss = loss_of(x, x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    print(step, loss.item(), scheduler.get_last_lr())
"""

STEP = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)

@torch.compile(backend="eager")
def train(x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()

for step in range(5):
    print(step, train(torch.randn(4, 8)).item(), scheduler.get_last_lr())
    scheduler.step()
"""

GENERATION = """
import torch, transformers
torch.manual_seed(0)
config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=100, n_positions=64, eos_token_id=None)
model = transformers.GPT2LMHeadModel(config).eval()
model.forward = torch.compile(model.forward, backend="eager")
ids = torch.randint(0, 100, (1, 5))
print(model.generate(ids, max_new_tokens=4, do_sample=False, pad_token_id=0).tolist())
"""


MODEL = """
import torch
from transformers import BertConfig, BertForSequenceClassification
torch.manual_seed(0)
sizes = dict(num_hidden_layers=2, num_attention_heads=2, hidden_size=32, intermediate_size=64)
model = BertForSequenceClassification(BertConfig(vocab_size=100, num_labels=3, **sizes)).eval()
ids = torch.randint(0, 100, (4, 12))
mask = torch.ones_like(ids)
mask[2:, 8:] = 0
compiled = torch.compile(model, backend="eager")
for rows in (4, 4, 2):
    output = compiled(input_ids=ids[:rows], attention_mask=mask[:rows], labels=torch.arange(rows) % 3)
    print(type(output).__name__, output.loss.item(), output.logits.tolist())
model.train()
loss = torch.compile(model, backend="aot_eager")(input_ids=ids, attention_mask=mask, labels=torch.zeros(4).long()).loss
loss.backward()
print(round(loss.item(), 4), all(parameter.grad is not None for parameter in model.parameters()))
"""

COUNT = """
import sys
if "alternator" in sys.modules:
    print("captured", sys.modules["alternator"].frames_translated(), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "program", [TRAINING, STEP, MODEL, GENERATION], ids=["training", "step", "model", "generation"]
)
def test_same_output(tmp_path, program):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(program) + COUNT)
    eagerly = os.environ | {"TORCHDYNAMO_DISABLE": "1"}
    expected = subprocess.run([sys.executable, "-P", str(script)], capture_output=True, text=True, env=eagerly)
    assert expected.returncode == 0, expected.stderr
    command = [sys.executable, "-P", "-m", "alternator", "run", str(script)]
    found = subprocess.run(command, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, expected.stdout), found.stderr
    assert "runs eagerly" not in found.stderr
    assert re.search(r"captured [1-9]", found.stderr) and "captured" not in expected.stderr
