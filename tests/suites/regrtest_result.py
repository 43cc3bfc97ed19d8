"""What one regrtest run of one module did, read from its output; and what two such runs differ in.

The output of `python -m test -v MODULE`, as far as it is read here:

    test_x (test.test_mod.Case.test_x) ... ok             a test and its outcome on one line, or
    test_y (test.test_mod.Case.test_y)                    its name, the first line of its docstring,
    What it is for ... some output of the test            whatever the test prints,
    FAIL                                                  and the outcome at the end of a later line
      test_z (test.test_mod.Case.test_z) (i=1) ... FAIL   a failed sub-test
    Ran 3 tests in 0.001s
    Total tests: run=3 failures=1                         (not in the first releases of 3.11)
    Result: FAILURE
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from child import Ended

# In brackets stands a dotted name; tests print such things as "Child (4711) exited".
TEST_NAME = re.compile(r"^(?:  )?(\w+) \(([A-Za-z_<][\w.<>-]*)\)(.*)$")
OUTCOME = re.compile(r"(?:^|\W)(ok|FAIL|ERROR|skipped (?:'.*'|\".*\")|expected failure|unexpected success)$")
RESULT = re.compile(r"^(?:== Tests result: (.*) ==|Result: (.*)|Tests result: (.*))$", re.MULTILINE)
RAN = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)
TOTAL = re.compile(r"^Total tests: run=([\d,]+)(?:.* skipped=([\d,]+))?", re.MULTILINE)
# In the order in which one outcome hides another, for tests that report more than one (sub-tests, equal names).
SEVERITY = ["ok", "expected failure", "skipped", "unexpected success", "FAIL", "ERROR", "no outcome"]


@dataclass
class ModuleResult:
    """One run of one module. `state` is one of passed, env_changed, skipped, no_tests, failed, crashed, timeout."""

    module: str
    state: str
    exit_code: int
    seconds: float
    run: int = 0
    skipped: int = 0
    tests: dict[str, str] = field(default_factory=dict)

    @property
    def succeeded(self) -> bool:
        return self.state in ("passed", "env_changed")


def may_be_chance(result: ModuleResult) -> bool:
    """Tell whether a bad result may come from the machine's load, so that it deserves a second run.

    A crash or a hang never does: one that happens now and then is a bug that happens now and then.
    """
    return result.state not in ("crashed", "timeout")


def find_state(ended: Ended) -> str:
    if ended.timed_out or re.search(r"^Timeout \(\d+:\d\d:\d\d\)!$", ended.err, re.MULTILINE) and ended.exit_code == 1:
        return "timeout"
    if ended.exit_code < 0:
        return "crashed"
    results = ["".join(groups) for groups in RESULT.findall(ended.out)]
    last = results[-1] if results else ""
    # The exit code alone is not enough: a test that calls os._exit(0) in the wrong process would look fine.
    if ended.exit_code == 0 and last == "SUCCESS":
        if re.search(r"^1 test skipped", ended.out, re.MULTILINE):
            return "skipped"
        if re.search(r"^1 test altered the execution environment", ended.out, re.MULTILINE):
            return "env_changed"
        return "passed"
    return "no_tests" if last == "NO TESTS RAN" else "failed"


def find_tests(out: str) -> dict[str, str]:
    """The outcome of every test that was started, by its dotted name."""
    tests: dict[str, str] = {}
    current = None
    for line in out.splitlines():
        if named := TEST_NAME.match(line):
            method, owner, line = named.groups()
            current = owner if owner.endswith("." + method) else f"{owner}.{method}"
            tests.setdefault(current, "no outcome")
        if current is None or not (ended := OUTCOME.search(line)):
            continue
        outcome = "skipped" if ended[1].startswith("skipped") else ended[1]
        known = tests[current]
        if known == "no outcome" or SEVERITY.index(outcome) > SEVERITY.index(known):
            tests[current] = outcome
    return tests


def read_result(module: str, ended: Ended) -> ModuleResult:
    tests = find_tests(ended.out)
    result = ModuleResult(module, find_state(ended), ended.exit_code, round(ended.seconds, 2), tests=tests)
    if totals := TOTAL.findall(ended.out):
        run, skipped = totals[-1]
        result.run = int(run.replace(",", ""))
        result.skipped = int(skipped.replace(",", "") or 0)
    else:
        result.run = sum(map(int, RAN.findall(ended.out)))
        result.skipped = sum(outcome == "skipped" for outcome in tests.values())
    return result


def lost_tests(native: ModuleResult, interpreted: ModuleResult) -> list[str]:
    """The tests that pass natively and not interpreted, with what happened to them."""
    return [
        f"{name}: {interpreted.tests.get(name, 'did not run')}"
        for name, outcome in native.tests.items()
        if outcome == "ok" and interpreted.tests.get(name) != "ok"
    ]


def find_differences(native: ModuleResult, interpreted: ModuleResult) -> list[str]:
    """What is worse interpreted than natively; empty when the two agree.

    A module that fails natively is compared test by test; one that hangs or crashes natively is not compared.
    """
    if native.state in ("timeout", "crashed"):
        return []
    differences = []
    if native.state != "failed" and interpreted.state not in (native.state, "passed"):
        how = f" (signal {-interpreted.exit_code})" if interpreted.state == "crashed" else ""
        differences.append(f"natively {native.state}, interpreted {interpreted.state}{how}")
    if interpreted.run != native.run:
        differences.append(f"{native.run} tests run natively, {interpreted.run} interpreted")
    if interpreted.skipped > native.skipped:
        differences.append(f"{native.skipped} tests skipped natively, {interpreted.skipped} interpreted")
    return differences + lost_tests(native, interpreted)
