"""Breaks, and the page that shows them. Run with ./dev demo examples/breaks.py and open the file that it names.

`statistics` needs the value of a tensor and prints: neither can be part of a graph. Alternator runs these two
instructions for real and captures everything around them, inside the loop as well. `better_statistics` computes the
same in one graph.
"""

import sys
import tempfile

import torch

import alternator

alternator.install()


def statistics(batches):
    total = torch.zeros(3)
    for number, batch in enumerate(batches):
        scaled = (batch - batch.mean(0)) / batch.std(0)
        if scaled.max() > 2.5:  # a break: the value decides which way to go
            scaled = scaled.clamp(max=2.5)
        print(f"batch {number}")  # a break: it has to appear now
        total = total + scaled.square().sum(0)
    return total / len(batches)


def better_statistics(batches):
    total = torch.zeros(3)
    for batch in batches:
        scaled = (batch - batch.mean(0)) / batch.std(0)
        scaled = torch.where(scaled.max() > 2.5, scaled.clamp(max=2.5), scaled)
        total = total + scaled.square().sum(0)
    return total / len(batches)


torch.manual_seed(0)
batches = [torch.randn(32, 3) for _ in range(3)]
path = sys.argv[1] if len(sys.argv) > 1 else f"{tempfile.gettempdir()}/alternator-breaks.html"

with alternator.report(path, title="examples/breaks.py"):
    split = torch.compile(statistics, backend="eager")
    whole = torch.compile(better_statistics, backend="eager", fullgraph=True)
    for compiled in (split, whole):
        print(", ".join(f"{value:.4f}" for value in compiled(batches).tolist()))

print(f"the report is in {path}", file=sys.stderr)
