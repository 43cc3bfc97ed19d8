"""The runners' own logic: reading what regrtest and pytest report, and noticing what got worse."""

import os
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from child import Ended, clean_environment, run_child  # noqa: E402
from packages import find_lost, read_report  # noqa: E402
from regrtest_result import find_differences, read_result  # noqa: E402

PASSING = """\
Using random seed: 1
0:00:00 load avg: 0.10 Run 1 test sequentially
0:00:00 load avg: 0.10 [1/1] test_mod
test_a (test.test_mod.Case.test_a) ... ok
test_b (test.test_mod.Case.test_b)
What it is for ... ok
test_c (test.test_mod.Case.test_c) ... some output
and more, which is not ok at all
Child (4711) ended
ok
test_d (test.test_mod.Case.test_d) ... skipped 'no "d" here'
test_e (test.test_mod.Case.test_e) ... expected failure
doc (mod)
Doctest: mod.doc ... ok

----------------------------------------------------------------------
Ran 6 tests in 0.001s

OK (skipped=1, expected failures=1)

== Tests result: SUCCESS ==

1 test OK.

Total duration: 1 sec
Total tests: run=1,006 skipped=1
Total test files: run=1/1
Result: SUCCESS
"""

FAILING = (
    PASSING.replace("test_a) ... ok", "test_a) ... \n  test_a (test.test_mod.Case.test_a) (i=1) ... FAIL")
    .replace("is for ... ok", "is for ... ERROR")
    .replace("SUCCESS", "FAILURE")
    .replace("1 test OK", "1 test failed")
)


def read(out, exit_code=0, err="", timed_out=False):
    return read_result("test_mod", Ended(exit_code, 1.0, timed_out, out, err))


def test_reads_every_outcome():
    result = read(PASSING)
    assert (result.state, result.run, result.skipped) == ("passed", 1006, 1)
    assert result.tests == {
        "test.test_mod.Case.test_a": "ok",
        "test.test_mod.Case.test_b": "ok",
        "test.test_mod.Case.test_c": "ok",
        "test.test_mod.Case.test_d": "skipped",
        "test.test_mod.Case.test_e": "expected failure",
        "mod.doc": "ok",
    }


def test_counts_tests_without_a_total():
    out = "".join(line for line in PASSING.splitlines(True) if not line.startswith("Total tests"))
    assert (read(out).run, read(out).skipped) == (6, 1)


@pytest.mark.parametrize(
    ("ended", "state"),
    [
        ({"out": PASSING, "exit_code": -signal.SIGSEGV}, "crashed"),
        ({"out": PASSING, "timed_out": True}, "timeout"),
        ({"out": "", "exit_code": 1, "err": "Timeout (0:10:00)!\nThread 0x1 (most recent call first):\n"}, "timeout"),
        ({"out": PASSING.replace("Result: SUCCESS", "").replace("== Tests result: SUCCESS ==", "")}, "failed"),
        ({"out": FAILING, "exit_code": 2}, "failed"),
        ({"out": "test_mod skipped -- no\n\n1 test skipped:\n    test_mod\n\nResult: SUCCESS\n"}, "skipped"),
        ({"out": "test_mod skipped -- net\n\nResult: NO TESTS RAN\n", "exit_code": 4}, "no_tests"),
        ({"out": PASSING.replace("1 test OK", "1 test altered the execution environment")}, "env_changed"),
    ],
)
def test_finds_the_state(ended, state):
    assert read(**ended).state == state


def test_equal_runs_do_not_differ():
    assert find_differences(read(PASSING), read(PASSING)) == []


def test_failures_differ_with_their_tests():
    differences = find_differences(read(PASSING), read(FAILING, exit_code=2))
    assert differences == [
        "natively passed, interpreted failed",
        "test.test_mod.Case.test_a: FAIL",
        "test.test_mod.Case.test_b: ERROR",
    ]


def test_fewer_tests_differ_though_all_pass():
    fewer = PASSING.replace("run=1,006", "run=1,005").replace("test_a (test.test_mod.Case.test_a) ... ok\n", "")
    differences = find_differences(read(PASSING), read(fewer))
    assert differences == ["1006 tests run natively, 1005 interpreted", "test.test_mod.Case.test_a: did not run"]


def test_more_skips_differ():
    more = PASSING.replace("skipped=1", "skipped=2").replace("test_a) ... ok", "test_a) ... skipped 'not here'")
    differences = find_differences(read(PASSING), read(more))
    assert differences == ["1 tests skipped natively, 2 interpreted", "test.test_mod.Case.test_a: skipped"]


def test_a_changed_environment_differs():
    changed = PASSING.replace("1 test OK", "1 test altered the execution environment")
    assert find_differences(read(PASSING), read(changed)) == ["natively passed, interpreted env_changed"]
    assert find_differences(read(changed), read(PASSING)) == []


def test_native_failures_are_compared_by_test():
    native = read(FAILING, exit_code=2)
    assert find_differences(native, read(FAILING, exit_code=2)) == []
    worse = FAILING.replace("\nok\n", "\nFAIL\n")
    assert find_differences(native, read(worse, exit_code=2)) == ["test.test_mod.Case.test_c: FAIL"]


def test_a_crash_loses_the_tests_that_did_not_run():
    begun = PASSING[: PASSING.index("and more")]
    differences = find_differences(read(PASSING), read(begun, exit_code=-11))
    assert differences[0] == "natively passed, interpreted crashed (signal 11)"
    assert "test.test_mod.Case.test_c: no outcome" in differences
    assert "mod.doc: did not run" in differences


def write_report(path, cases):
    body = "".join(f'<testcase classname="m" name="{name}">{inner}</testcase>' for name, inner in cases)
    path.write_text(f'<testsuites><testsuite time="1.5">{body}</testsuite></testsuites>')
    return read_report(path)


def test_finds_lost_tests_of_packages(tmp_path):
    native = write_report(
        tmp_path / "native.xml",
        [("a[0x7f01]", ""), ("b", ""), ("c", "<failure/>"), ("d", ""), ("d", ""), ("e", ""), ("f", "")],
    )
    interpreted = write_report(
        tmp_path / "interpreted.xml",
        [
            ("a[0x7f02]", ""),
            ("b", "<error/>"),
            ("c", "<failure/>"),
            ("d", ""),
            ("d", "<failure/>"),
            ("e", "<skipped/>"),
        ],
    )
    assert native.count("passed") == 6
    assert find_lost(native, interpreted) == ["m::b", "m::d", "m::e", "m::f"]
    assert find_lost(native, native) == []
    assert len(find_lost(native, read_report(tmp_path / "absent.xml"))) == 5


def test_a_child_that_hangs_is_killed_with_its_children(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    grandchild = (
        "import time; fifo = open('fifo', 'wb', 0); fifo.write(b'started'); time.sleep(60); fifo.write(b'survived')"
    )
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grandchild!r}])"
    ended = run_child([sys.executable, "-c", program], tmp_path / "log", tmp_path, clean_environment(), 5)
    assert ended.timed_out and ended.exit_code == -signal.SIGKILL
    os.set_blocking(reader, True)
    with open(reader, "rb") as stream:
        # Ends when the last writer is gone.
        assert stream.read() == b"started"
