"""Runs the test suites of pure-Python packages natively and interpreted, and compares the outcome of every test.

    ./dev packages                    all of them
    ./dev packages attrs toolz        some
    ./dev packages --rerun-native     do not reuse stored native results

The source distributions, a virtual environment of their own and the results are kept in build/packages/.
Ends with 1 if a test passes natively and not interpreted.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import venv
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from child import clean_environment, restore_signals, run_child  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "build" / "packages"
PLUGINS = Path(__file__).resolve().parent / "plugins"
PYTHON = HOME / "venv" / "bin" / "python"
NATIVE, INTERPRETED = "native", "interpreted"
LIMITS = {NATIVE: 1800, INTERPRETED: 7200}


@dataclass(frozen=True)
class Package:
    """A package whose source distribution holds its tests."""

    name: str
    version: str
    tests: tuple[str, ...]
    options: tuple[str, ...] = ()

    @property
    def requirement(self) -> str:
        return f"{self.name}=={self.version}"


PACKAGES = [
    Package("attrs", "25.4.0", ("tests",), ("-p", "without_deadline")),
    Package("more-itertools", "10.8.0", ("tests",)),
    Package("toolz", "1.0.0", ("toolz", "tlz")),
    Package("jinja2", "3.1.6", ("tests",)),
    # The pager's output is read while it is still being written: those tests fail now and then, natively too.
    Package("click", "8.2.1", ("tests",), ("-k", "not echo_via_pager")),
    Package("sympy", "1.14.0", ("sympy/core/tests",)),
]

# What the suites need besides the packages themselves; pinned, so that the same tests run everywhere.
TEST_REQUIREMENTS = [
    "pytest==8.4.2",
    "hypothesis==6.148.2",
    "cloudpickle==3.1.2",
    "pympler==1.1",
    "trio==0.32.0",
    "markupsafe==3.0.3",
    "mpmath==1.3.0",
]


def run_pip(*arguments: str) -> None:
    subprocess.run([PYTHON, "-m", "pip", "--disable-pip-version-check", *arguments], check=True)


def prepare_environment(packages: list[Package]) -> None:
    """Make the virtual environment and install what is pinned, unless that was done before."""
    if not PYTHON.exists():
        HOME.mkdir(parents=True, exist_ok=True)
        venv.create(PYTHON.parents[1], with_pip=True)
    wanted = TEST_REQUIREMENTS + [package.requirement for package in packages]
    listed = subprocess.run([PYTHON, "-m", "pip", "freeze"], check=True, capture_output=True, text=True).stdout
    installed = {normalize(line) for line in listed.splitlines()}
    missing = [requirement for requirement in wanted if normalize(requirement) not in installed]
    if missing:
        run_pip("install", "--quiet", *missing)


def normalize(requirement: str) -> str:
    return requirement.strip().lower().replace("_", "-")


def fetch_source(package: Package) -> Path:
    """Download and unpack the source distribution; the directory with its tests."""
    sources = HOME / "sources"
    stem = f"{package.name.replace('-', '_')}-{package.version}"
    unpacked = sources / stem
    if not unpacked.exists():
        # Only the package itself as source: its build tools may come as wheels.
        run_pip(
            "download", "--quiet", "--no-deps", "--no-binary", package.name, "-d", str(sources), package.requirement
        )
        shutil.unpack_archive(sources / f"{stem}.tar.gz", sources)
        configuration = unpacked / "pyproject.toml"
        if not (configuration.exists() and "[tool.pytest" in configuration.read_text()):
            # Else pytest would go up the directories and find the configuration of this project.
            (unpacked / "pytest.ini").write_text("[pytest]\n")
    return unpacked


@dataclass
class SuiteResult:
    """The outcomes of one run: for every test name how often it passed, failed, was skipped."""

    outcomes: Counter[tuple[str, str]]
    seconds: float

    def count(self, outcome: str) -> int:
        return sum(number for (_, how), number in self.outcomes.items() if how == outcome)


def results_file(package: Package, mode: str) -> Path:
    return HOME / "results" / f"{package.name}-{package.version}.{mode}.xml"


def run_suite(package: Package, source: Path, mode: str) -> SuiteResult:
    report = results_file(package, mode)
    report.unlink(missing_ok=True)
    interpret = [] if mode == NATIVE else ["-m", "alternator", "interpret"]
    options = ["-q", "-p", "no:cacheprovider", f"--junitxml={report}", *package.options]
    command = [str(PYTHON), *interpret, "-m", "pytest", *options, *package.tests]
    env = clean_environment(PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1")
    env["PYTHONPATH"] = ":".join(filter(None, [env.get("PYTHONPATH"), str(PLUGINS)]))
    ended = run_child(command, report.with_suffix(""), source, env, LIMITS[mode])
    if not report.exists():
        how = "took too long" if ended.timed_out else f"ended with {ended.exit_code}"
        print(f"{package.name}, {mode}: {how} without a report\n{ended.out[-1000:]}\n{ended.err[-2000:]}", flush=True)
    return read_report(report)


def read_report(report: Path) -> SuiteResult:
    """Read a JUnit report; a missing one is an empty result."""
    outcomes: Counter[tuple[str, str]] = Counter()
    seconds = 0.0
    if report.exists():
        tree = ElementTree.parse(report)
        for case in tree.iter("testcase"):
            # Addresses in the names of parametrised tests differ from run to run.
            name = re.sub(r"0x[0-9a-f]+", "0x", f"{case.get('classname')}::{case.get('name')}")
            outcomes[name, find_outcome(case)] += 1
        seconds = sum(float(suite.get("time", 0)) for suite in tree.iter("testsuite"))
    return SuiteResult(outcomes, seconds)


def find_outcome(case: ElementTree.Element) -> str:
    for tag in ("error", "failure", "skipped"):
        if case.find(tag) is not None:
            return tag
    return "passed"


def load_or_run_native(package: Package, source: Path, rerun: bool) -> SuiteResult:
    report = results_file(package, NATIVE)
    return read_report(report) if report.exists() and not rerun else run_suite(package, source, NATIVE)


def find_lost(native: SuiteResult, interpreted: SuiteResult) -> list[str]:
    """The tests that passed more often natively than interpreted."""
    return sorted(
        name
        for (name, outcome), number in native.outcomes.items()
        if outcome == "passed" and interpreted.outcomes[name, "passed"] < number
    )


def print_row(package: Package, mode: str, result: SuiteResult) -> None:
    counts = "  ".join(f"{result.count(how):5} {how}" for how in ("passed", "failure", "error", "skipped"))
    print(f"{package.requirement:<24} {mode:<12} {counts}  {result.seconds:7.1f} s", flush=True)


def compare_package(package: Package, arguments: argparse.Namespace) -> list[str]:
    """Run both and print them; the tests that were lost."""
    source = fetch_source(package)
    native = load_or_run_native(package, source, arguments.rerun_native)
    print_row(package, NATIVE, native)
    if not native.count("passed"):
        raise SystemExit(f"{package.name}: no test passes natively, there is nothing to compare")
    if arguments.native_only:
        return []
    interpreted = run_suite(package, source, INTERPRETED)
    print_row(package, INTERPRETED, interpreted)
    return find_lost(native, interpreted)


def main() -> int:
    restore_signals()
    names = [package.name for package in PACKAGES]
    parser = argparse.ArgumentParser(prog="./dev packages", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(names)}")
    parser.add_argument("--rerun-native", action="store_true", help="do not reuse stored native results")
    parser.add_argument("--native-only", action="store_true", help="run nothing interpreted")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(names):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    chosen = [package for package in PACKAGES if package.name in (arguments.names or names)]
    prepare_environment(chosen)
    lost = {package.name: compare_package(package, arguments) for package in chosen}
    for name, tests in lost.items():
        for test in tests[:30]:
            print(f"lost in {name}: {test}")
        if len(tests) > 30:
            print(f"lost in {name}: … and {len(tests) - 30} more")
    total = sum(map(len, lost.values()))
    print(f"tests that pass natively and not interpreted: {total or 'none'}")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
