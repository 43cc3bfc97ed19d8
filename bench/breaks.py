"""The cost of a warm break: a loop with a break in each turn, Alternator beside TorchDynamo and plain eager execution.

    ./dev bench breaks [--json PATH]

TorchDynamo does not capture such a function: it gives up on a frame with a break in a loop and runs it eagerly, so its
column shows what is left of its own work. Per break: what a turn costs more than the same turn without the break, with
a graph that does nothing.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import time
import warnings
from pathlib import Path

import torch

import alternator

sys.path.insert(0, str(Path(__file__).parent))

from _cases import keep_first

REPEATS = 7
COUNTS = (1, 3, 10)


def with_breaks(x, count, stop):
    for _ in range(count):
        x = x + 1
        stop()
    return x


def without_breaks(x, count, stop):
    for _ in range(count):
        x = x + 1
    return x


def time_call(fn, *args):
    for _ in range(5):
        fn(*args)
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(200):
            fn(*args)
        best = min(best, (time.perf_counter() - start) / 200)
    return best


def measure(compile):
    stop = ctypes.pythonapi.Py_IsInitialized  # C code that no engine knows, and that does nothing
    x = torch.ones(4)
    rows = {}
    for count in COUNTS:
        broken = compile(with_breaks, backend=keep_first)
        whole = compile(without_breaks, backend=keep_first)
        a, b = time_call(broken, x, count, stop), time_call(whole, x, count, stop)
        rows[count] = {"call": a, "whole": b, "per break": (a - b) / count}
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with torch.no_grad():
        results = {
            "alternator": measure(alternator.compile),
            "torchdynamo": measure(torch.compile),
            "eager": measure(lambda fn, backend: fn),
        }
    print(f"{'breaks':>8}" + "".join(f"{name + ': call µs':>24}{'per break':>11}" for name in results))
    for count in COUNTS:
        row = "".join(
            f"{rows[count]['call'] * 1e6:24.1f}{rows[count]['per break'] * 1e6:11.2f}" for rows in results.values()
        )
        print(f"{count:8}{row}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
