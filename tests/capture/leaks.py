"""Measures what captures, calls and threads leave behind. Run in a process of its own: leaks.py <measurement>.

Prints a line for each program: its name, blocks of memory per repetition, kilobytes of the whole process per 1000.
"""

import gc
import os
import sys
import threading
import warnings

import torch

import alternator

X = torch.arange(6.0)


def interpret(module, examples):
    """A backend that has no code written: torch.fx keeps the code of every graph for good, which is not ours."""
    return lambda *inputs: torch.fx.Interpreter(module).run(*inputs)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(6, 6)
        self.second = torch.nn.Linear(6, 6)
        self.last = None
        self.log = []

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


model = Model()


def whole(x, n=2):
    values = [model(x) * n, {"shape": x.shape}]
    return values[0] + values[1]["shape"][0]


def breaking(x, n=2):
    total = 0.0
    for i in range(3):
        x = model(x) + i
        total += x.sum().item()
    print(end="")
    return x * n + total


def generating(x, n=2):
    parts = (part * n for part in x.split(2))
    first = next(parts)
    print(end="")
    return torch.cat([first, *parts])


def raising(x, n=2):
    try:
        if n > 1:
            raise ValueError(x * n)
    except ValueError as error:
        print(end="")
        return error.args[0] + 1
    return x


def writing(x, n=2):
    model.last = {"x": x * n}
    model.log.append(model.last)
    print(end="")
    model.log.clear()
    return model.last["x"] + 1


PROGRAMS = [whole, breaking, generating, raising, writing]


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024


def measure(repeat, count):
    """Blocks that stay allocated for each of `count` repetitions, and the growth of the process."""
    repeat(count // 2)  # caches, specialised bytecode, arenas of memory
    gc.collect()
    blocks, kilobytes = sys.getallocatedblocks(), resident()
    repeat(count)
    gc.collect()
    return (sys.getallocatedblocks() - blocks) / count, (resident() - kilobytes) / count * 1000


def measure_captures(program, count):
    compiled = alternator.compile(program, backend=interpret)

    def repeat(times):
        for i in range(times):
            compiled(X)
            if i % 4 == 3:
                compiled(X, n=3)
            alternator.reset()

    return measure(repeat, count)


def measure_calls(program, count):
    compiled = alternator.compile(program, backend="eager")

    def repeat(times):
        for _ in range(times):
            compiled(X)

    with torch.no_grad():
        return measure(repeat, count)


def measure_functions(program, count):
    """Captured functions that come and go, with their regions."""

    def repeat(times):
        for _ in range(times):
            compiled = alternator.compile(program, backend=interpret)
            compiled(X)
            del compiled

    return measure(repeat, count)


def measure_threads(program, count):
    """Four threads compile and call; recompile and reset in between. Growth is measured over repetitions of it all."""
    compiled = alternator.compile(program, backend=interpret)
    wrong = []

    def work(number, times):
        for i in range(times):
            n = 1 + (i + number) % 5
            found, expected = compiled(X, n=n), program(X, n=n)
            if not torch.equal(found, expected):
                wrong.append((number, i, n))
            if i % 16 == number:
                alternator.reset()

    def repeat(times):
        threads = [threading.Thread(target=work, args=(number, times // 4)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    grown = measure(repeat, count)
    assert not wrong, wrong[:5]
    return grown


MEASUREMENTS = {
    "captures": (measure_captures, 500),
    "calls": (measure_calls, 100_000),
    "functions": (measure_functions, 200),
    "threads": (measure_threads, 400),
}


def main(name, divisor=1):
    warnings.simplefilter("error")
    gc.disable()
    function, count = MEASUREMENTS[name]
    # Threads that write to the same object see each other's values, as they do without us.
    for program in [program for program in PROGRAMS if name != "threads" or program is not writing]:
        gc.collect()
        gc.freeze()
        gc.enable()
        blocks, kilobytes = function(program, count // int(divisor))
        print(f"{program.__name__:12} {blocks:10.3f} {kilobytes:10.1f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
