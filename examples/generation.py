"""A generation loop with a cache that grows. Run with ./dev demo examples/generation.py.

Each length of a growing cache is a shape of its own, and each shape a graph of its own (docs/guide/shapes.md). So the
cache here is made once, as long as it will ever be, and filled in place: one graph for the prompt, one for all other
tokens.
"""

import torch
from torch import nn

import alternator

alternator.install()

WIDTH, HEADS, LONGEST, WORDS = 32, 4, 24, 50


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("keys", torch.zeros(1, HEADS, LONGEST, WIDTH // HEADS))
        self.register_buffer("values", torch.zeros(1, HEADS, LONGEST, WIDTH // HEADS))

    def forward(self, x, places):
        q, k, v = (part.view(1, -1, HEADS, WIDTH // HEADS).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        self.keys.index_copy_(2, places, k)
        self.values.index_copy_(2, places, v)
        seen = torch.arange(LONGEST) <= places[:, None]  # what is not filled yet is not looked at
        y = nn.functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen)
        return x + self.out(y.transpose(1, 2).flatten(2))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Embedding(LONGEST, WIDTH)
        self.layers = nn.ModuleList(Attention() for _ in range(2))

    def forward(self, ids, places):
        x = self.words(ids) + self.places(places)
        for layer in self.layers:
            x = layer(x, places)
        return x[:, -1] @ self.words.weight.T


torch.manual_seed(0)
model = Decoder().eval()
step = torch.compile(model, backend="aot_eager")

with torch.no_grad():
    ids = torch.tensor([[7, 3, 11, 5]])
    places = torch.arange(ids.shape[1])
    generated = []
    while len(generated) < 16:
        following = step(ids, places).argmax(-1, keepdim=True)
        generated.append(following.item())
        ids, places = following, places[-1:] + 1
    print(generated)
