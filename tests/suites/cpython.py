"""Runs CPython's own regression tests natively and interpreted, each module in a process of its own, and compares.

    ./dev cpython-tests                      every module
    ./dev cpython-tests --modules test_with test_json
    ./dev cpython-tests --only 'test_asyncio*'
    ./dev cpython-tests --failed             what differed last time
    ./dev cpython-tests --resume             what differed or was not run last time
    ./dev cpython-tests --report             compare what is stored, run nothing

Results are kept in build/cpython-tests/{native,interpreted}/: MODULE.json, and the output as MODULE.out and .err.
Native results are reused until --rerun-native, or until the Python version changes.
Ends with 1 if a module is worse interpreted than natively and is not one of the exceptions in cpython_modules.toml.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib.util
import json
import subprocess
import sys
import tempfile
import threading
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from child import clean_environment, restore_signals, run_child  # noqa: E402
from regrtest_result import ModuleResult, find_differences, may_be_chance, read_result  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
LISTS = Path(__file__).with_name("cpython_modules.toml")
STORE = ROOT / "build" / "cpython-tests"
MOST_EXCEPTIONS = 3
# The hard limit is this much behind regrtest's own, which dumps the tracebacks of all threads before it gives up.
GRACE = 60
NATIVE, INTERPRETED = "native", "interpreted"
# Not the virtual environment's python: some tests fail in an environment, or with setuptools in it. The extension is
# found through PYTHONPATH and needs nothing else.
PYTHON = sys._base_executable
# How a program is started in either mode, before its own `-m MODULE`.
PREFIX = {NATIVE: [PYTHON], INTERPRETED: [PYTHON, "-m", "alternator", "interpret"]}


@dataclass
class Lists:
    """cpython_modules.toml."""

    resources: str
    left_out: dict[str, str]
    ignored_tests: dict[str, list[str]]
    exceptions: dict[str, str]
    sample: list[str]


def read_lists() -> Lists:
    table = tomllib.loads(LISTS.read_text())
    if len(table["exceptions"]) > MOST_EXCEPTIONS:
        raise SystemExit(f"{LISTS.name}: more than {MOST_EXCEPTIONS} exceptions")
    return Lists(
        table["resources"], table["left_out"], table["ignored_tests"], table["exceptions"], table["sample"]["modules"]
    )


def has_regression_tests() -> bool:
    """Some distributions leave them out of their Python, but for test.support."""
    return importlib.util.find_spec("test.test_grammar") is not None


def check_extension() -> None:
    """Stop if the interpreted runs could not work at all."""
    command = [PYTHON, "-c", "import alternator"]
    tried = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, cwd=tempfile.gettempdir())
    if tried.returncode:
        raise SystemExit(f"{PYTHON} cannot import alternator; is this run by ./dev?\n{tried.stderr}")


def list_modules(lists: Lists) -> list[str]:
    """Every test module of this Python, but for those left out."""
    if not has_regression_tests():
        raise SystemExit(f"{PYTHON} comes without CPython's regression tests (the `test` package)")
    command = [PYTHON, "-m", "test", "--list-tests"]
    listed = subprocess.run(command, env=clean_environment(), check=True, capture_output=True, text=True)
    return [name for name in listed.stdout.split() if not is_left_out(name, lists)]


def is_left_out(module: str, lists: Lists) -> bool:
    return any(fnmatch.fnmatchcase(module, pattern) for pattern in lists.left_out)


@dataclass
class Runner:
    """Runs modules and keeps their results below `store`."""

    store: Path = STORE
    resources: str = ""
    ignored_tests: dict[str, list[str]] = field(default_factory=dict)
    memory: int = 12 << 30
    limits: dict[str, float] = field(default_factory=lambda: {NATIVE: 600, INTERPRETED: 1800})

    def command(self, module: str, mode: str, scratch: str) -> list[str]:
        # Without -j, regrtest runs the module in this very process; --randseed makes both runs draw the same numbers.
        options = ["-v", "--randseed", "20231204", "--timeout", str(self.limits[mode]), "--tempdir", scratch]
        use = ["-u", self.resources] if self.resources else []
        ignore = [word for pattern in self.ignored_tests.get(module, ()) for word in ("-i", pattern)]
        return [*PREFIX[mode], "-m", "test", *options, *use, *ignore, module]

    def run(self, module: str, mode: str) -> ModuleResult:
        with tempfile.TemporaryDirectory(prefix="cpython-tests-", ignore_cleanup_errors=True) as scratch:
            env = clean_environment(TMPDIR=scratch)
            command = self.command(module, mode, scratch)
            limit = self.limits[mode] + GRACE
            ended = run_child(command, self.store / mode / module, Path(scratch), env, limit, self.memory)
        result = read_result(module, ended)
        stored = {"python": sys.version, "resources": self.resources, **asdict(result)}
        self.file(module, mode).write_text(json.dumps(stored, indent=1))
        return result

    def file(self, module: str, mode: str) -> Path:
        return self.store / mode / f"{module}.json"

    def load(self, module: str, mode: str) -> ModuleResult | None:
        """The stored result, if there is one and it is of this Python and these resources."""
        try:
            stored = json.loads(self.file(module, mode).read_text())
        except (OSError, ValueError):
            return None
        if stored.pop("python") != sys.version or stored.pop("resources") != self.resources:
            return None
        return ModuleResult(**stored)

    def load_or_run(self, module: str, mode: str) -> ModuleResult:
        return self.load(module, mode) or self.run(module, mode)

    def compare_stored(self, module: str) -> list[str] | None:
        """The differences of the stored results; None if one of the two is missing."""
        native, interpreted = self.load(module, NATIVE), self.load(module, INTERPRETED)
        return find_differences(native, interpreted) if native and interpreted else None


class Progress:
    """One line per finished run."""

    def __init__(self, total: int):
        self.total = total
        self.done = 0
        self.lock = threading.Lock()

    def finished(self, module: str, results: list[ModuleResult], differences: list[str]) -> None:
        with self.lock:
            self.done += 1
            runs = "  ".join(f"{result.state:<11} {result.run:5} tests {result.seconds:7.1f} s" for result in results)
            mark = "  DIFFERS" if differences else ""
            print(f"[{self.done:3}/{self.total}] {module:<42} {runs}{mark}", flush=True)


def choose_modules(arguments: argparse.Namespace, runner: Runner, lists: Lists) -> list[str]:
    modules = arguments.modules or list_modules(lists)
    if arguments.only:
        modules = [module for module in modules if fnmatch.fnmatchcase(module, arguments.only)]
    if arguments.sample:
        modules = [module for module in modules if module in lists.sample]
    if arguments.failed:
        modules = [module for module in modules if runner.compare_stored(module)]
    if arguments.resume:
        modules = [module for module in modules if runner.compare_stored(module) != []]

    def expected_seconds(module: str) -> float:
        known = runner.load(module, NATIVE)
        return known.seconds if known else 0

    # The longest first, so that no worker is left alone with one of them at the end.
    return sorted(modules, key=expected_seconds, reverse=True)


def run_all(modules: list[str], runner: Runner, arguments: argparse.Namespace) -> None:
    progress = Progress(len(modules))

    def run_module(module: str) -> None:
        native = runner.run(module, NATIVE) if arguments.rerun_native else runner.load_or_run(module, NATIVE)
        if arguments.native_only:
            progress.finished(module, [native], [])
            return
        interpreted = runner.run(module, INTERPRETED)
        progress.finished(module, [native, interpreted], find_differences(native, interpreted))

    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(run_module, modules))


def retry_differing(modules: list[str], runner: Runner) -> list[str]:
    """Run what differs once more, both ways and one after the other; return what agrees now.

    Some tests depend on the machine's load. They are retried and named, not hidden.
    """
    agreeing = []
    for module in modules:
        if not runner.compare_stored(module) or not may_be_chance(runner.load(module, INTERPRETED)):
            continue
        print(f"once more, alone: {module}", flush=True)
        runner.run(module, NATIVE)
        runner.run(module, INTERPRETED)
        if not runner.compare_stored(module):
            agreeing.append(module)
    return agreeing


def report_native(modules: list[str], runner: Runner) -> None:
    """What natively does not pass, since that is compared less strictly or not at all."""
    by_state: dict[str, list[str]] = {}
    for module in modules:
        native = runner.load(module, NATIVE)
        by_state.setdefault(native.state if native else "not run", []).append(module)
    print(f"\nnatively: {', '.join(f'{len(names)} {state}' for state, names in sorted(by_state.items()))}")
    for state, names in sorted(by_state.items()):
        if state != "passed":
            print(f"  {state}: {' '.join(sorted(names))}")


def report_differences(modules: list[str], runner: Runner, lists: Lists) -> int:
    """Print the comparison; the number of modules that differ and are no exceptions."""
    compared = {module: runner.compare_stored(module) for module in modules}
    missing = [module for module, differences in compared.items() if differences is None]
    differing = {module: differences for module, differences in compared.items() if differences}
    for module, differences in sorted(differing.items()):
        print(f"\n{module}" + (f"  (exception: {lists.exceptions[module]})" if module in lists.exceptions else ""))
        for line in differences[:20]:
            print(f"    {line}")
        if len(differences) > 20:
            print(f"    … and {len(differences) - 20} more")
    if missing:
        print(f"\nnot compared, no result stored: {len(missing)} modules")
    unlisted = sorted(set(differing) - set(lists.exceptions))
    excepted = sorted(set(differing) & set(lists.exceptions))
    print(f"\ncompared: {len(compared) - len(missing)} modules; exceptions used: {' '.join(excepted) or 'none'}")
    print(f"modules that pass natively and not interpreted: {' '.join(unlisted) or 'none'}")
    return len(unlisted)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev cpython-tests", description=__doc__.splitlines()[0])
    parser.add_argument("-j", "--jobs", type=int, default=2, help="modules at a time (2)")
    parser.add_argument("--modules", nargs="+", metavar="MODULE", help="these modules, also ones that are left out")
    parser.add_argument("--only", metavar="PATTERN", help="modules whose name matches a shell pattern")
    parser.add_argument("--sample", action="store_true", help="the modules of the sample that `./dev test` runs")
    parser.add_argument("--failed", action="store_true", help="modules that differed last time")
    parser.add_argument("--resume", action="store_true", help="modules that have not agreed yet")
    parser.add_argument("--rerun-native", action="store_true", help="do not reuse stored native results")
    parser.add_argument("--native-only", action="store_true", help="run nothing interpreted")
    parser.add_argument("--report", action="store_true", help="compare the stored results, run nothing")
    parser.add_argument(
        "--timeout", type=float, default=600, help="seconds for a native run (600); interpreted 3 times"
    )
    parser.add_argument(
        "--memory", type=int, default=12, metavar="GIB", help="address space of a run; 0: unlimited (12)"
    )
    return parser.parse_args()


def main() -> int:
    restore_signals()
    arguments = parse_arguments()
    lists = read_lists()
    limits = {NATIVE: arguments.timeout, INTERPRETED: 3 * arguments.timeout}
    runner = Runner(
        resources=lists.resources, ignored_tests=lists.ignored_tests, memory=arguments.memory << 30, limits=limits
    )
    modules = choose_modules(arguments, runner, lists)
    flaky = []
    if not (arguments.native_only or arguments.report):
        check_extension()
    if not arguments.report:
        run_all(modules, runner, arguments)
        flaky = [] if arguments.native_only else retry_differing(modules, runner)
    report_native(modules, runner)
    if arguments.native_only:
        return 0
    if flaky:
        print(f"\ndiffered at first, agreed when run alone: {' '.join(flaky)}")
    return 1 if report_differences(modules, runner, lists) else 0


if __name__ == "__main__":
    sys.exit(main())
