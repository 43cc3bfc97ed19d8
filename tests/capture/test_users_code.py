"""Code as users write it: layers, losses, samplers, training steps. Eager and compiled agree, in gradients as well."""

import copy
import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from capture.agreement import Captured, outcome, same

pytestmark = pytest.mark.capture

CODE = {}  # name -> (make, graphs): make() returns a function or module, and one that makes the arguments of a call


def code(graphs=1):
    """`graphs`: how many the calls make together."""

    def register(make):
        CODE[make.__name__] = make, graphs
        return make

    return register


def noise(*shape, grad=False):
    return torch.randn(*shape, requires_grad=grad)


# ---- Layers --------------------------------------------------------------------------------------------------------


@code()
def lstm():
    return nn.LSTM(8, 16, 2, batch_first=True), lambda i: (noise(2, 5, 8),)


@code()
def cell_in_a_loop():
    cell = nn.GRUCell(4, 4)

    def run(x):
        state, outputs = torch.zeros(2, 4), []
        for t in range(x.size(1)):
            state = cell(x[:, t], state)
            outputs.append(state)
        return torch.stack(outputs, 1)

    return run, lambda i: (noise(2, 6, 4),)


@code()
def attention():
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    return lambda x: layer(x, x, x), lambda i: (noise(2, 5, 8),)


@code()
def encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return nn.TransformerEncoder(layer, 2), lambda i: (noise(2, 5, 8),)


@code()
def encoder_without_gradients():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval()
    return torch.no_grad()(lambda x: model(x)), lambda i: (noise(2, 5, 8),)


@code()
def convolutions_with_statistics():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return model, lambda i: (noise(2, 3, 8, 8),)


@code()
def normalised_weights():
    model = nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))
    )
    return model, lambda i: (noise(2, 4),)


@code()
def adapter_by_hooks():
    layer = nn.Linear(4, 4)
    down, up = nn.Parameter(noise(4, 2)), nn.Parameter(noise(2, 4))
    layer.register_forward_hook(lambda module, args, output: output + args[0] @ down @ up)
    layer.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    return layer, lambda i: (noise(2, 4),)


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 8, 3, 2, 1)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(8, 4, 2, 2), nn.ConvTranspose2d(8, 3, 2, 2)])

    def forward(self, x):
        skipped = []
        for layer in self.down:
            x = F.silu(layer(x))
            skipped.append(x)
        skipped.pop()
        for layer in self.up:
            x = layer(x)
            if skipped:
                x = torch.cat([x, skipped.pop()], 1)
        return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


@code()
def unet():
    return Unet(), lambda i: (noise(1, 3, 16, 16),)


class Registry(nn.Module):
    def __init__(self):
        super().__init__()
        self.by_name = nn.ModuleDict({name: nn.Linear(4, 4) for name in "abc"})
        self.in_order = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.scales = nn.ParameterList([nn.Parameter(noise(4)) for _ in range(2)])
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x, last="b"):
        self.seen += 1
        for name, layer in self.by_name.items():
            if name <= last:
                x = layer(x)
        for i, layer in enumerate(self.in_order):
            x = x + layer(x) * i
        for scale in self.scales:
            x = x * scale
        return x + self.seen


@code(3)
def layers_by_name():
    return Registry(), lambda i: (noise(2, 4), "abc"[i])


# ---- Functions -----------------------------------------------------------------------------------------------------


@code(None)  # whether all values are valid is asked in the middle
def distributions():
    def sample(mean, deviation):
        normal = torch.distributions.Normal(mean, deviation.exp())
        value = normal.rsample()
        distance = torch.distributions.kl_divergence(normal, torch.distributions.Normal(0.0, 1.0))
        return value, normal.log_prob(value).sum(-1), distance

    return sample, lambda i: (noise(3), noise(3))


@code(None)
def policy():
    def act(logits):
        choice = torch.distributions.Categorical(logits=logits)
        action = choice.sample()
        return action, choice.log_prob(action), choice.entropy()

    return act, lambda i: (noise(3, 5),)


@code()
def other_parameters():
    layer = nn.Linear(4, 4)

    def run(parameters, x):
        return torch.func.functional_call(layer, parameters, (x,))

    return run, lambda i: ({name: torch.randn_like(p) for name, p in layer.named_parameters()}, noise(2, 4))


@code()
def spectrum():
    def correlate(x):
        y = torch.fft.rfft(x)
        return torch.fft.irfft(y * y.conj(), n=x.size(-1)), y.abs(), torch.view_as_real(y)

    return correlate, lambda i: (noise(2, 8),)


@code()
def positions():
    def embed(x):
        depth = x.size(-1)
        table, place = torch.zeros(x.size(1), depth), torch.arange(0, x.size(1)).unsqueeze(1)
        rate = torch.exp(torch.arange(0, depth, 2) * -(math.log(10000.0) / depth))
        table[:, 0::2] = torch.sin(place * rate)
        table[:, 1::2] = torch.cos(place * rate)
        return x + table.unsqueeze(0)

    return embed, lambda i: (noise(2, 5, 8),)


@code()
def losses():
    def measure(x, target):
        return F.cross_entropy(x, target, label_smoothing=0.1), F.nll_loss(F.log_softmax(x, -1), target)

    return measure, lambda i: (noise(3, 5, grad=True), torch.tensor([0, 1, 2]))


@code()
def mixed_precision():
    layer = nn.Linear(4, 4)

    def run(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = layer(x)
        return y.float() + 1, y.dtype

    return run, lambda i: (noise(2, 4),)


@code(3)
def writing_by_index():
    def write(x, i):
        y = x.clone()
        y[i] = 5
        y[:, 1] += 2
        y[..., -1:] = y[..., :1]
        x[0, 0] = 9
        return y, y.t()[1]

    return write, lambda i: (noise(3, 4), i)


@code()
def reading_by_index():
    def read(x):
        return x[[0, 1], [1, 0]], x[:, None, ::2], x[..., torch.tensor([0, 1])], x[x.argmax() // 4]

    return read, lambda i: (noise(3, 4),)


@code()
def numbers_from_shapes():
    def split(x):
        half = math.ceil(x.shape[0] / 2)
        a, b = x.split([half, x.shape[0] - half])
        return a.sum() + b.sum(), divmod(*x.shape), max(x.size()), list(reversed(x.shape))

    return split, lambda i: (noise(5, 2),)


@dataclasses.dataclass
class Output:
    loss: torch.Tensor
    logits: torch.Tensor
    extra: dict = dataclasses.field(default_factory=dict)


@code()
def dataclass_as_dict():
    layer = nn.Linear(4, 4)

    def run(x):
        y = layer(x)
        output = Output(y.sum(), y)
        output.extra["mean"] = y.mean()
        return dataclasses.asdict(output)

    return run, lambda i: (noise(2, 4),)


CONFIG = {"activation": "gelu", "layers": [{"width": 4}, {"width": 8}]}
ACTIVATIONS = {"gelu": F.gelu, "relu": F.relu}


@code()
def configuration():
    def run(x):
        for i, layer in enumerate(CONFIG["layers"]):
            x = ACTIVATIONS[CONFIG["activation"]](x * layer["width"])
            name = f"layer{i}.{layer['width']:02d}"
            if name.endswith("08"):
                x = x + len(name.split("."))
        return x, name

    return run, lambda i: (noise(2, 3),)


@code()
def what_torch_names():
    def run(x):
        largest = x.max(dim=1)
        return largest.values + 1, largest.indices, torch.sort(x).indices, torch.linalg.svd(x)[1]

    return run, lambda i: (noise(3, 3),)


@code()
def trees():
    def double(tree):
        return torch.utils._pytree.tree_map(lambda leaf: leaf * 2 if torch.is_tensor(leaf) else leaf, tree)

    return double, lambda i: ({"a": noise(2), "b": [noise(1), (3, None)]},)


@code()
def random_numbers():
    def draw(x):
        return F.dropout(x, 0.5) + torch.rand_like(x) + torch.randint(0, 5, (3,)) + noise(3)

    return draw, lambda i: (noise(2, 3),)


@code(2)
def random_numbers_of_a_generator():
    generator = torch.Generator().manual_seed(1)

    def draw(x):
        return x * 2 + torch.randn(2, 3, generator=generator) * 3

    return draw, lambda i: (noise(2, 3),)


@code(1)
def mistakes_that_are_caught():
    def multiply(x, y):
        try:
            return x @ y
        except RuntimeError:
            return x.sum() + y.sum()

    return multiply, lambda i: (noise(2, 3), noise(4, 5) if i else noise(3, 2))


# ---- Training, sampling: with breaks -------------------------------------------------------------------------------


@code()
def averaged_weights():
    ours, theirs = nn.Linear(3, 3), nn.Linear(3, 3)

    @torch.no_grad()
    def average(decay):
        for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
            p.mul_(decay).add_(q, alpha=1 - decay)
        return [p.clone() for p in ours.parameters()]

    return average, lambda i: (0.9,)


@code()
def clipped_gradients():
    layer = nn.Linear(4, 4)
    layer(noise(2, 4)).pow(2).sum().backward()

    def clip():
        return nn.utils.clip_grad_norm_(layer.parameters(), 1.0), [p.grad.clone() for p in layer.parameters()]

    return clip, lambda i: ()


@code(None)
def training_step():
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach(), [p.detach().clone() for p in model.parameters()]

    return step, lambda i: (noise(3, 4), noise(3, 1))


@code(2)
def penalty_on_gradients():
    layer = nn.Linear(3, 1)

    def penalise(x):
        x = x.clone().requires_grad_(True)
        (gradient,) = torch.autograd.grad(layer(x).sum(), x, create_graph=True)
        return ((gradient.norm(dim=1) - 1) ** 2).mean()

    return penalise, lambda i: (noise(2, 3),)


@code(None)
def experts():
    def route(x, gate):
        chosen = torch.topk(gate.softmax(-1), 2).indices
        output = torch.zeros_like(x)
        for expert in range(3):
            rows = (chosen == expert).any(-1)
            if rows.any():
                output[rows] += x[rows] * (expert + 1)
        return output, F.one_hot(chosen, 3).sum()

    return route, lambda i: (noise(4, 3), noise(4, 3))


@code(2)
def until_it_converges():
    def balance(x):
        x, turns = x.exp(), 0
        while (x.sum(0) - 1).abs().max() > 1e-3 and turns < 20:
            x = x / x.sum(1, keepdim=True)
            x = x / x.sum(0, keepdim=True)
            turns += 1
        return x, turns

    return balance, lambda i: (noise(3, 3),)


@code(None)
def packed_sequences():
    model = nn.LSTM(4, 4, batch_first=True)

    def run(x):
        packed = nn.utils.rnn.pack_padded_sequence(x * 2, torch.tensor([5, 3]), batch_first=True)
        padded, lengths = nn.utils.rnn.pad_packed_sequence(model(packed)[0], batch_first=True)
        return padded + 1, lengths

    return run, lambda i: (noise(2, 5, 4),)


def run_calls(name, wrap):
    """Return what three calls and a fourth, like the first, have shown."""
    torch.manual_seed(0)
    fn, make_args = CODE[name][0]()
    calls = [make_args(i) for i in range(3)]
    called = wrap(fn)
    seen = []
    for i in (0, 1, 2, 0):
        args = copy.deepcopy(calls[i])
        torch.manual_seed(7)
        result, _ = outcome(called, args)
        values = result[1] if isinstance(result[1], (tuple, list)) else [result[1]]
        loss = sum(v.abs().sum() for v in values if isinstance(v, torch.Tensor) and v.requires_grad)
        if torch.is_tensor(loss):
            loss.backward()
        leaves = [*args, *(fn.parameters() if isinstance(fn, nn.Module) else ())]
        gradients = [leaf.grad for leaf in leaves if torch.is_tensor(leaf)]
        seen.append((torch.utils._pytree.tree_map(detach, result), args, copy.deepcopy(gradients), torch.rand(1)))
    return seen


def detach(leaf):
    return (leaf.detach(), leaf.requires_grad) if torch.is_tensor(leaf) else leaf


@pytest.mark.parametrize("name", CODE)
def test_users_code(name):
    captured = []

    def wrap(fn):
        captured.append(Captured(fn))
        return captured[0]

    expected, found = run_calls(name, lambda fn: fn), run_calls(name, wrap)
    for number, pair in enumerate(zip(expected, found, strict=True)):
        assert same(*pair), f"call {number}\n eager:    {pair[0]}\n compiled: {pair[1]}"
    assert captured[0].graphs
    if CODE[name][1] is not None:
        assert len(captured[0].graphs) == CODE[name][1], captured[0].breaks
