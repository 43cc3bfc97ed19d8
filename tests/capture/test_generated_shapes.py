"""Generated programs that compute with sizes and numbers: eager = compiled, over calls with other ones.

./dev python --flavour=checked tests/capture/test_generated_shapes.py FIRST_SEED LAST_SEED [BACKEND]
"""

import random
import sys

import pytest
import torch

import alternator

pytestmark = pytest.mark.capture

LEAVES = ["x.shape[0]", "x.shape[1]", "n", "x.size(-1)", "x.numel()", "3"]
NUMBERS = [
    "($ + $)",
    "($ * 2)",
    "($ // 3)",
    "($ % 4)",
    "max($, $)",
    "abs($ - $)",
    "-$",
    "int($)",
    "sum([$, $])",
]
STATEMENTS = [
    "v = $\nout.append(v + 1)",
    "y = y * $",
    "y = y + torch.ones($ % 7 + 1, 2).sum()",
    "if $ < $:\n    y = y + 2",
    "if $ == $ or not $:\n    y = y - 1",
    "y = y.reshape(-1)[: abs($) + 1]",
    "y = torch.cat([y.reshape(-1), x.reshape(-1)])",
    "y = y.reshape(-1, 1).expand(-1, $ % 3 + 1)",
    "out.append((y.shape, [$], {'a': $}, y.shape == x.shape))",
    "for i in range($ % 4):\n    y = y + i",
    "out.append(f'{$} {[$]}')",
    "out.append($ in ($, 3, 4))",
    "torch._dynamo.graph_break()",
    "out.append({$: 1}.get($))",
    "out.append($ / 3)\ny = y / ($ * 1.5 + 100)",
    "x.mul_(1 + $)",
    "out.append([$, 1] == [$, $])\nout.append(len(y))",
    "state['n'] = state['n'] + $",
    "y = y + torch.tensor([float(state['n'] % 5), 1.0]).sum()",
]


def write_number(choose, depth=0):
    text = choose(LEAVES) if depth > 1 or choose([True, False]) else choose(NUMBERS)
    return fill(choose, text, depth + 1)


def fill(choose, text, depth=0):
    while "$" in text:
        text = text.replace("$", write_number(choose, depth), 1)
    return text


def write_program(choose):
    lines = []
    for _ in range(choose(range(3, 9))):
        lines += fill(choose, choose(STATEMENTS)).splitlines()
    body = "".join(f"    {line}\n" for line in lines)
    return f"def program(x, n, state):\n    out, y = [], x\n{body}    return y.sum(), y, out\n"


def same(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.allclose(a, b, atol=1e-4, rtol=1e-4, equal_nan=True)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and same(list(a.values()), list(b.values()))
    return type(a) is type(b) and a == b


def outcome(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return type(error).__name__


def check(seed, backend):
    choose = random.Random(seed).choice
    text = write_program(choose)
    names = {"torch": torch}
    exec(text, names)
    program = names["program"]
    compiled = alternator.compile(program, backend=backend, dynamic=choose([None, None, True]))
    expected_state, found_state = {"n": 1}, {"n": 1}
    for call in range(7):
        rows, columns, n = choose(range(1, 7)), choose([3, 3, 4]), choose([2, 3, 4, 5, 0, 1, 7])
        x = choose([torch.randn(rows, columns), torch.randn(rows, columns), torch.randn(columns, rows).t()])
        y = x.clone(memory_format=torch.preserve_format)
        expected = outcome(program, x, n, expected_state)
        found = outcome(compiled, y, n, found_state)
        case = f"seed {seed}, call {call} with {tuple(x.shape)}, {n}:\n{text}\n{expected}\n{found}"
        assert same(found, expected), case
        assert same([y, found_state], [x, expected_state]), case


@pytest.mark.filterwarnings("ignore:alternator")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("seed", range(30))
def test_generated(seed, backend):
    check(seed, backend)


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        check(number, (sys.argv[3:] or ["eager"])[0])
