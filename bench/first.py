"""The first call in a fresh process, Alternator beside TorchDynamo: with caches on disk that are empty, and warm.

    ./dev bench first [--quick] [--only NAME] [--backend NAME] [--train] [--repeat N] [--json PATH]

Each figure is the CPU time of the first call of a compiled model in a process of its own: capture, the backend, and the
run of what it made. All threads of the process count; the C++ compiler that Inductor starts is another process, and
counted apart (`cc`). Imports that a program makes itself are not part of it: torch, torch._dynamo, transformers and the
backend are imported before. What is imported in the middle of the call is. The best of several processes is taken,
engines in turn. The ratio is ours by theirs: less is better.

--quick takes models of 2 layers, and one process each: for a look, not for a number to quote. --train adds the backward
pass. The exit status is 1 if a cache that should hit does not.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

ENGINES = ("alternator", "torchdynamo")
BACKENDS = ("eager", "aot_eager", "inductor")
GOALS = {"empty": 0.8, "warm": 0.6}
HITS = ("fxgraph_cache_hit", "autograd_cache_hit")
MISSES = ("fxgraph_cache_miss", "fxgraph_cache_bypass", "autograd_cache_miss", "autograd_cache_bypass")


# ---- In a process of its own ---------------------------------------------------------------------------------------


def count_caches():
    from torch._dynamo.utils import counters

    found = {**counters["inductor"], **counters["aot_autograd"]}
    return {key: found[key] for key in (*HITS, *MISSES) if found.get(key)}


def run_child(engine, name, layers, backend, train):
    warnings.simplefilter("ignore")
    import _cases as cases
    import torch
    import torch._dynamo

    if engine == "alternator":
        import alternator

        compile = alternator.compile
    else:
        compile = torch.compile
    if backend == "inductor":
        importlib.import_module("torch._inductor.compile_fx")
    torch._dynamo.lookup_backend(backend)
    model, args, kwargs = cases.make(name, layers)
    compiled = compile(model, backend=backend)
    with contextlib.nullcontext() if train else torch.no_grad():
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.process_time()
        result = compiled(*args, **kwargs)
        if train:
            result.last_hidden_state.sum().backward()
        seconds = time.process_time() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    compiler = after.ru_utime + after.ru_stime - children.ru_utime - children.ru_stime
    print(json.dumps({"seconds": seconds, "compiler": compiler, "caches": count_caches()}))


# ---- The processes -------------------------------------------------------------------------------------------------


def start_child(folder, *args):
    env = os.environ | {"TORCHINDUCTOR_CACHE_DIR": folder, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    command = [sys.executable, "-P", __file__, "--child", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, args))}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(name, layers, backend, train, repeat):
    """Run all processes of one row; return state of the caches -> engine -> the figures of its best process."""
    found = {}
    for _ in range(repeat):
        for engine in ENGINES:
            with tempfile.TemporaryDirectory() as folder:
                for caches in ("empty", "warm") if backend == "inductor" else ("none",):
                    row = start_child(folder, engine, name, layers, backend, int(train))
                    best = found.setdefault(caches, {}).get(engine)
                    if best is None or row["seconds"] < best["seconds"]:
                        found[caches][engine] = row
    return found


def is_warm(row):
    return any(row["caches"].get(key) for key in HITS) and not any(row["caches"].get(key) for key in MISSES)


def print_row(name, backend, caches, rows):
    ours, theirs = rows["alternator"], rows["torchdynamo"]
    ratio = ours["seconds"] / theirs["seconds"]
    line = f"{name:8}{backend:12}{caches:8}{ours['seconds']:8.2f}{theirs['seconds']:9.2f}{ratio:8.2f}"
    line += f"{GOALS.get(caches, ''):>7}{ours['compiler']:7.1f}{theirs['compiler']:7.1f}"
    if caches == "warm":
        line += "  " + ", ".join(f"{key} {ours['caches'].get(key, 0)}" for key in HITS)
    print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--only", choices=["bert", "llama"], action="append")
    parser.add_argument("--backend", choices=BACKENDS, action="append")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        engine, name, layers, backend, train = options.child
        return run_child(engine, name, int(layers), backend, train == "1")
    layers, repeat = (2, 1) if options.quick else (options.layers, options.repeat)
    print(f"{'':8}{'backend':12}{'caches':8}{'ours, s':>8}{'theirs':>9}{'ratio':>8}{'goal':>7}{'cc':>7}{'theirs':>7}")
    rows, code = {}, 0
    for name in options.only or ["bert", "llama"]:
        for backend in options.backend or BACKENDS:
            found = rows[f"{name} {backend}"] = measure(name, layers, backend, options.train, repeat)
            for caches, engines in found.items():
                print_row(name, backend, caches, engines)
                if caches == "warm" and not is_warm(engines["alternator"]):
                    print(f"  warm caches do not hit: {engines['alternator']['caches']}")
                    code = 1
    if options.json:
        Path(options.json).write_text(json.dumps({"layers": layers, "train": options.train, "rows": rows}, indent=1))
    return code


if __name__ == "__main__":
    sys.exit(main())
