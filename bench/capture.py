"""Graph capture, Alternator beside TorchDynamo, in one run; ratios are TorchDynamo's figure by ours.

    ./dev bench capture [--layers N] [--only NAME] [--quick] [--json PATH] [--plot PATH]

capture   a call right after a reset, with a backend that compiles nothing; without the run of the graph
warm      a call whose graph does nothing: guards, fetching of inputs, rebuilding of the result
cold      the same with 64 MB touched in between, so that nothing is in the caches
real      a call with the backend "eager", by a plain eager call (1.00: as fast)
first     the first call in a process of its own, with all that it imports
held      memory that a captured graph keeps, in KB, in that process
peak      the most memory that process had after its first capture, in MB
guards    what a warm call of ours checks: guards, and the words of memory that they come down to

Times are the CPU time of the calling thread, the best of several runs: on a busy machine the clock on the wall measures
the others. --quick leaves out what takes long: first, held and peak, and how capture grows with the number of layers.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import torch

import alternator
from alternator import _capture

sys.path.insert(0, str(Path(__file__).parent))

import _cases as cases

clock = time.thread_time
GROWTH = (12, 24, 48, 96)


class NoOp:
    """A backend that keeps the first outputs, and counts; what it takes itself is no part of a capture."""

    def __init__(self):
        self.clear()

    def clear(self):
        self.graphs = self.operations = 0
        self.spent = 0.0

    def __call__(self, module, examples):
        start = clock()
        self.graphs += 1
        self.operations += sum(node.op.startswith("call_") for node in module.graph.nodes)
        outputs = None

        def run(*inputs):
            nonlocal outputs
            if outputs is None:
                start = clock()
                outputs = module.forward(*inputs)
                self.spent += clock() - start
            return outputs

        self.spent += clock() - start
        return run


def find_engine(name):
    if name == "alternator":
        return alternator.compile, alternator.reset
    return torch.compile, torch._dynamo.reset


def time_calls(call, count, repeats=5):
    best = math.inf
    for _ in range(repeats):
        start = clock()
        for _ in range(count):
            call()
        best = min(best, (clock() - start) / count)
    return best


def time_capture(engine, name, layers, repeats=3):
    """Return the seconds of a capture after a reset and where they went, the backend and the compiled function."""
    compile, reset = find_engine(engine)
    fn, args, kwargs = cases.make(name, layers)
    backend = NoOp()
    compiled = compile(fn, backend=backend)
    compiled(*args, **kwargs)
    best, profile = math.inf, {}
    for _ in range(repeats):
        reset()
        gc.collect()
        backend.clear()
        _capture.take_profile()
        start = clock()
        compiled(*args, **kwargs)
        seconds = clock() - start - backend.spent
        if seconds < best:
            best, profile = seconds, _capture.take_profile()
    return best, profile, backend, compiled, lambda: compiled(*args, **kwargs)


def time_cold(call):
    """Time calls between which 64 MB are touched."""
    junk = bytearray(64 << 20)
    best = math.inf
    for _ in range(10):
        for i in range(0, len(junk), 64):
            junk[i] ^= 1
        start = clock()
        call()
        best = min(best, clock() - start)
    return best


def time_real(engine, name, layers):
    """Return the seconds of a warm call with the backend "eager" and of a plain call."""
    compile, reset = find_engine(engine)
    reset()
    fn, args, kwargs = cases.make(name, layers)
    compiled = compile(fn, backend="eager")
    for _ in range(3):
        compiled(*args, **kwargs)
        fn(*args, **kwargs)
    compiled_best = plain_best = math.inf
    for _ in range(10):
        plain_best = min(plain_best, time_calls(lambda: fn(*args, **kwargs), 3, 1))
        compiled_best = min(compiled_best, time_calls(lambda: compiled(*args, **kwargs), 3, 1))
    return compiled_best, plain_best


def count_guards(compiled):
    rows = getattr(compiled, "_captured_call", compiled).counts()
    return {
        "guards": sum(row["guards"] for row in rows),
        "words": sum(row["words"] for row in rows),
        "walked": sum(row["walked"] for row in rows),
    }


def measure(engine, name, layers):
    capture, profile, backend, compiled, call = time_capture(engine, name, layers)
    row = {"capture": capture, "graphs": backend.graphs, "operations": backend.operations}
    if engine == "alternator":
        row |= count_guards(compiled) | {"profile": profile}
    for _ in range(10):
        call()
    row["warm"] = time_calls(call, 100)
    row["cold"] = time_cold(call)
    row["real"], row["eager"] = time_real(engine, name, layers)
    return row


# ---- Processes of their own ----------------------------------------------------------------------------------------


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run_child(engine, name, layers):
    """In a process of its own: the first capture, then what five more graphs of the same function keep."""
    warnings.simplefilter("ignore")
    compile, _ = find_engine(engine)
    fn, args, kwargs = cases.make(name, layers)
    with torch.no_grad():
        backend = NoOp()
        start = clock()
        compile(fn, backend=backend)(*args, **kwargs)
        first = clock() - start - backend.spent
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # in KB
        kept = [compile(fn, backend=NoOp()) for _ in range(6)]
        kept[0](*args, **kwargs)
        gc.collect()
        before = resident()
        for compiled in kept[1:]:
            compiled(*args, **kwargs)
        gc.collect()
        held = max(0, resident() - before) / 5
    print(json.dumps({"first": first, "held": held, "peak": peak}))


def start_child(engine, name, layers):
    command = [sys.executable, "-P", __file__, "--child", engine, name, str(layers)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    if done.returncode:
        raise SystemExit(f"{engine}, {name}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


# ---- The tables ----------------------------------------------------------------------------------------------------


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def print_table(rows, names):
    header = f"{'':12}{'capture ms':>12}{'theirs':>9}{'ratio':>8}{'warm µs':>10}{'theirs':>9}{'ratio':>8}"
    header += (
        f"{'cold':>8}{'real':>7}{'theirs':>8}{'first':>8}{'held KB':>9}{'theirs':>8}{'peak MB':>9}{'theirs':>8}"
        "  graphs, operations; guards, words"
    )
    print(header)
    for name in names:
        a, b = rows[name]["alternator"], rows[name]["torchdynamo"]
        line = f"{name:12}{a['capture'] * 1e3:12.1f}{b['capture'] * 1e3:9.0f}{b['capture'] / a['capture']:7.1f}x"
        line += (
            f"{a['warm'] * 1e6:10.1f}{b['warm'] * 1e6:9.1f}{b['warm'] / a['warm']:7.1f}x{b['cold'] / a['cold']:7.1f}x"
        )
        line += f"{a['real'] / a['eager']:7.2f}{b['real'] / b['eager']:8.2f}"
        if "first" in a:
            line += f"{b['first'] / a['first']:7.1f}x{a['held'] / 1024:9.0f}{b['held'] / 1024:8.0f}"
            line += f"{a['peak'] / 1024:9.0f}{b['peak'] / 1024:8.0f}"
        else:
            line += " " * 42
        line += f"  {a['graphs']}, {a['operations']} / {b['graphs']}, {b['operations']}; {a['guards']}, {a['words']}"
        print(line)


def print_profile(rows, names):
    """Print where our captures went, in hundredths."""
    phases = list(rows[names[0]]["alternator"]["profile"])
    print(f"\n{'capture, %':12}" + "".join(f"{phase:>9}" for phase in phases))
    for name in names:
        profile = rows[name]["alternator"]["profile"]
        total = sum(profile.values()) or 1.0
        print(f"{name:12}" + "".join(f"{100 * profile[phase] / total:9.0f}" for phase in phases))


def summarise(rows, names):
    found = {}
    for kind in ("capture", "warm", "cold", "first"):
        pairs = [(rows[name]["alternator"], rows[name]["torchdynamo"]) for name in names]
        if all(kind in a for a, _ in pairs):
            found[kind] = mean([b[kind] / a[kind] for a, b in pairs])
    return found


def plot(rows, growth, path):
    """Draw the ratios, and how capture grows with the number of layers."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2 if growth else 1, figsize=(14, 5), squeeze=False)
    names = list(rows)
    for offset, kind in enumerate(("capture", "warm")):
        ratios = [rows[n]["torchdynamo"][kind] / rows[n]["alternator"][kind] for n in names]
        axes[0][0].bar([i + 0.4 * offset for i in range(len(names))], ratios, width=0.4, label=kind)
    axes[0][0].set_xticks(range(len(names)), names, rotation=60)
    axes[0][0].set(yscale="log", ylabel="times faster than TorchDynamo")
    axes[0][0].legend()
    for engine, points in growth.items():
        axes[0][1].plot(list(points), [seconds * 1e3 for seconds in points.values()], "o-", label=engine)
    if growth:
        axes[0][1].set(xlabel="layers (llama)", ylabel="capture, ms", yscale="log")
        axes[0][1].legend()
    figure.tight_layout()
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--only", choices=[*cases.CASES], action="append")
    parser.add_argument("--models", action="store_true", help="the models alone")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--plot")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return run_child(*options.child[:2], int(options.child[2]))
    warnings.simplefilter("ignore")
    chosen = options.only or list(cases.MODELS if options.models else cases.CASES)
    rows = {name: {} for name in chosen}
    growth = {}
    # All of ours first: TorchDynamo patches Module for good when it is first used.
    with torch.no_grad():
        for engine in ("alternator", "torchdynamo"):
            for name in chosen:
                rows[name][engine] = measure(engine, name, options.layers)
            if not options.quick:
                growth[engine] = {n: time_capture(engine, "llama", n, repeats=1)[0] for n in GROWTH}
    if not options.quick:
        for engine in ("alternator", "torchdynamo"):
            for name in chosen:
                child = start_child(engine, name, options.layers)
                rows[name][engine] |= {kind: child[kind] for kind in ("first", "held", "peak")}
    print_table(rows, chosen)
    print_profile(rows, chosen)
    means = summarise(rows, [name for name in chosen if name in cases.MODELS] or chosen)
    print("geometric mean over the models:", ", ".join(f"{kind} {value:.1f}x" for kind, value in means.items()))
    for engine, points in growth.items():
        print(f"{engine}: capture by layers:", ", ".join(f"{n}: {s * 1e3:.0f} ms" for n, s in points.items()))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"cases": rows, "means": means, "growth": growth}, file, indent=1)
    if options.plot:
        plot(rows, growth, options.plot)


if __name__ == "__main__":
    main()
