"""`./dev bench interp`: how fast our loop runs ordinary Python, compared with CPython's own.

Each program of `programs/` runs in this one process in three modes, on the same function objects:

    native       no frame-evaluation hook is installed
    handed       the hook is installed but nobody interprets: it hands every frame straight to CPython's loop
    interpreted  every frame runs in our loop

The modes are interleaved and each has its best time taken, so that what else the machine does falls on all alike.
docs/internals/bench.md says why it is done this way and how to read the numbers. Times are reported, never judged;
results that differ are an error.
"""

import argparse
import ctypes
import gc
import importlib.util
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

PROGRAMS_DIR = Path(__file__).resolve().parent / "programs"
PROGRAMS = ("nbody", "richards", "deltablue", "generators", "calls")
MODES = ("native", "handed", "interpreted")
BUILD = os.environ.get("ALTERNATOR_FLAVOUR")  # set by ./dev

# A repetition is a number of timed runs, after a warm-up: untimed runs, natively and then in the repetition's mode.
# Short runs, and the best of many, are what other processes disturb the least.
RUN_SECONDS = 0.05
RUNS = 6
WARM_UP_RUNS = 2


class Mode(NamedTuple):
    """A way to run a function: `wrap` makes the callable to be timed, `switch` is entered around it."""

    name: str
    wrap: Callable
    switch: Callable[[], AbstractContextManager]
    hooked: bool
    interprets: bool


class Result(NamedTuple):
    """What was measured of one program: the seconds of each timed `run(n)` of each mode."""

    program: str
    n: int
    checksum: object
    seconds: dict

    def best(self, mode):
        return min(self.seconds[mode])

    def ratio(self, mode):
        return self.best(mode) / self.best("native")


class BenchError(Exception):
    """The measurement would be worthless: a wrong result, or not the mode it should be."""


def load_program(name):
    """Import a program by its file, so that no directory has to be put on the import path."""
    qualified = f"alternator_bench_{name}"
    if qualified not in sys.modules:
        spec = importlib.util.spec_from_file_location(qualified, PROGRAMS_DIR / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[qualified] = module
    return sys.modules[qualified]


def find_functions(program):
    """Yield the functions that the program's module and its classes define."""
    for value in vars(program).values():
        members = vars(value).values() if isinstance(value, type) else (value,)
        for member in members:
            function = getattr(member, "fget", None) or getattr(member, "__func__", member)
            if isinstance(function, FunctionType) and function.__module__ == program.__name__:
                yield function


def copy_code(code):
    """Return a copy of `code`, and of what is nested in it, as the compiler made it: nothing is specialised."""
    constants = (copy_code(c) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.replace(co_consts=tuple(constants))


def renew_code(program):
    """Make CPython forget what it learnt in earlier runs, of this or another mode. The function objects stay.

    CPython gives up its inlined calls (CALL_PY_EXACT_ARGS) while a hook is installed, and tries each again only after
    up to 4,096 executions: a native run after a hooked one would be slower than in a process without a hook.
    """
    for function in find_functions(program):
        function.__code__ = copy_code(function.__code__)


def call_as_is(function):
    return function


def make_mode(name):
    if name == "native":
        return Mode(name, wrap=call_as_is, switch=nullcontext, hooked=False, interprets=False)
    import alternator  # only here: the native side can be tried without the extension

    if name == "interpreted":
        return Mode(name, wrap=alternator.interpret, switch=nullcontext, hooked=True, interprets=True)

    @contextmanager
    def install_idle_hook():
        alternator._C.set_idle_hook(True)
        try:
            yield
        finally:
            alternator._C.set_idle_hook(False)

    return Mode(name, wrap=call_as_is, switch=install_idle_hook, hooked=True, interprets=False)


def is_hook_installed():
    """Ask CPython itself whether a frame-evaluation hook (PEP 523) stands in front of its loop."""
    api = ctypes.pythonapi
    api.PyInterpreterState_Get.restype = ctypes.c_void_p
    get_function = api._PyInterpreterState_GetEvalFrameFunc
    get_function.argtypes = [ctypes.c_void_p]
    get_function.restype = ctypes.c_void_p
    default = ctypes.cast(api._PyEval_EvalFrameDefault, ctypes.c_void_p).value
    return get_function(api.PyInterpreterState_Get()) != default


def is_interpreting():
    alternator = sys.modules.get("alternator")
    return alternator is not None and alternator.is_interpreting()


def check_mode(mode):
    with mode.switch():
        hooked, interprets = mode.wrap(is_hook_installed)(), mode.wrap(is_interpreting)()
    if hooked != mode.hooked:
        raise BenchError(f"{mode.name}: the hook is {'on' if hooked else 'off'} and should not be")
    if interprets != mode.interprets:
        raise BenchError(f"{mode.name}: our loop is {'in' if interprets else 'not in'} use")


def time_run(mode, run, n):
    """Return the CPU seconds that `run(n)` takes, and its checksum."""
    wrapped = mode.wrap(run)
    gc.collect()
    with mode.switch():
        start = time.process_time()
        checksum = wrapped(n)
        elapsed = time.process_time() - start
    return elapsed, checksum


def verify_checksums(program, mode):
    """Check `program` against the results that are known for it."""
    for n, expected in program.EXPECTED.items():
        _, checksum = time_run(mode, program.run, n)
        if checksum != expected:
            raise BenchError(f"{mode.name}: {program.__name__}.run({n}) is {checksum!r}, not {expected!r}")


def calibrate(mode, run):
    """Return the `n` for which `run(n)` takes about RUN_SECONDS."""
    n = 1
    while True:
        elapsed, _ = time_run(mode, run, n)
        if elapsed >= RUN_SECONDS / 2:
            return max(1, round(n * RUN_SECONDS / elapsed))
        n *= 2


def measure_program(name, modes, repeat):
    """Time a program in all the modes, interleaved; `modes` begin with the native one."""
    program = load_program(name)
    native = modes[0]
    for mode in modes:
        check_mode(mode)
        verify_checksums(program, mode)
    n = calibrate(native, program.run)
    _, expected = time_run(native, program.run, n)
    seconds = {mode.name: [] for mode in modes}
    for repetition in range(repeat):
        first = repetition % len(modes)  # no mode always follows the same one
        for mode in (*modes[first:], *modes[:first]):
            renew_code(program)
            for warm_up in (native, mode):
                for _ in range(WARM_UP_RUNS):
                    time_run(warm_up, program.run, n)
            for _ in range(RUNS):
                elapsed, checksum = time_run(mode, program.run, n)
                seconds[mode.name].append(elapsed)
                if checksum != expected:
                    raise BenchError(f"{mode.name}: {name}.run({n}) is {checksum!r}, natively {expected!r}")
    return Result(name, n, expected, seconds)


def print_row(cells):
    name, *numbers = cells
    print(f"{name:<12}" + "".join(f"{number:>16}" for number in numbers), flush=True)


def print_head(modes):
    ratios = [title for mode in modes[1:] for title in (f"{mode.name} ms", "/ native")]
    print(f"CPython {platform.python_version()}, build of Alternator: {BUILD or 'not named'}; best CPU time of a run")
    print_row(["program", "native ms", *ratios])


def print_result(result, modes):
    cells = [result.program, f"{result.best('native') * 1e3:.1f}"]
    for mode in modes[1:]:
        cells += [f"{result.best(mode.name) * 1e3:.1f}", f"{result.ratio(mode.name):.2f}x"]
    print_row(cells)


def average_ratios(results, modes):
    return {mode.name: statistics.geometric_mean(r.ratio(mode.name) for r in results) for mode in modes[1:]}


def print_averages(averages):
    if averages:
        print_row(["geomean", "", *(cell for ratio in averages.values() for cell in ("", f"{ratio:.2f}x"))])


def print_scatter(results):
    """Tell the reader how far the numbers can be trusted: on a quiet machine native runs differ by a few per cent."""
    scatter = max(statistics.median(r.seconds["native"]) / r.best("native") - 1 for r in results)
    print(f"native runs: median up to {scatter:.0%} above the best" + (" (a busy machine)" if scatter > 0.1 else ""))


def make_report(results, modes):
    """Return what `--json` writes; docs/internals/bench.md describes it."""
    return {
        "bench": "interp",
        "python": platform.python_version(),
        "machine": platform.machine(),
        "build": BUILD,
        "programs": {
            r.program: {
                "n": r.n,
                "checksum": r.checksum,
                "ms": {mode: [round(s * 1e3, 3) for s in samples] for mode, samples in r.seconds.items()},
                "best_ms": {mode: round(r.best(mode) * 1e3, 3) for mode in r.seconds},
                "ratio": {mode.name: round(r.ratio(mode.name), 4) for mode in modes[1:]},
            }
            for r in results
        },
        "geometric_mean": {name: round(ratio, 4) for name, ratio in average_ratios(results, modes).items()},
    }


def parse_arguments(argv):
    parser = argparse.ArgumentParser(prog="bench interp", description=__doc__.partition("\n")[0])
    parser.add_argument("--repeat", type=int, metavar="N", help="repetitions of each mode (5; 1 if --quick)")
    parser.add_argument("--only", action="append", choices=PROGRAMS, help="this program; may be given again")
    parser.add_argument("--quick", action="store_true", help="one repetition: for a look, not for a number to quote")
    parser.add_argument("--native-only", action="store_true", help="no other mode: needs no built extension")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the numbers to this file as well")
    arguments = parser.parse_args(argv)
    if arguments.repeat is not None and arguments.repeat < 1:
        parser.error("--repeat must be at least 1")
    return arguments


@contextmanager
def ignore_imported_objects():
    """Keep the collector from the objects that exist by now (torch's, it may be) while the runs are timed."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def main(argv=None):
    arguments = parse_arguments(argv)
    repeat = arguments.repeat or (1 if arguments.quick else 5)
    modes = [make_mode(name) for name in (MODES[:1] if arguments.native_only else MODES)]
    print_head(modes)
    results = []
    try:
        with ignore_imported_objects():
            for name in PROGRAMS:
                if not arguments.only or name in arguments.only:
                    results.append(measure_program(name, modes, repeat))
                    print_result(results[-1], modes)
    except BenchError as error:
        print(f"bench interp: {error}", file=sys.stderr)
        return 1
    print_averages(average_ratios(results, modes))
    print_scatter(results)
    if arguments.json:
        arguments.json.write_text(json.dumps(make_report(results, modes), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
