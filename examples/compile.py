"""A model captured as a torch.fx graph: run with ./dev demo."""

import torch

import alternator

model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).eval()


def show(module, examples):  # a backend: any callable that takes a graph module and its inputs
    print(module.code)
    return module.forward


compiled = alternator.compile(model, backend=show)
x = torch.randn(3, 4)
assert torch.equal(compiled(x), model(x))  # captured, then run as a graph
assert torch.equal(compiled(x), model(x))  # guards hold: the graph runs and nothing else
print("graphs captured:", alternator.frames_translated())
