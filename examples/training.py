"""A training loop: forward, loss, backward, optimizer and scheduler. Run with ./dev demo examples/training.py."""

import torch

import alternator

alternator.install()

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)


@torch.compile(backend="aot_eager")
def loss_of(x, y):
    return torch.nn.functional.mse_loss(model(x), y)


for step in range(10):
    x = torch.randn(16, 8)
    loss = loss_of(x, x.square().sum(1, keepdim=True))  # the graph's backward pass is compiled as well
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    scheduler.step()
    print(f"step {step}: loss {loss.item():7.2f}, next rate {scheduler.get_last_lr()[0]:.5f}")
