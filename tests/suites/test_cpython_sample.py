"""A fixed sample of CPython's own regression tests, interpreted: as good as natively, module by module.

`./dev cpython-tests` runs all of them, with everything that is slow.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from child import clean_environment, restore_signals, run_child  # noqa: E402
from cpython import INTERPRETED, NATIVE, PREFIX, STORE, Runner, has_regression_tests, is_left_out, read_lists  # noqa: E402
from regrtest_result import find_differences, may_be_chance  # noqa: E402

LISTS = read_lists()


@pytest.fixture(scope="module")
def runner():
    restore_signals()
    # A store of its own: here no resource is switched on, so these are not the results of a full run.
    return Runner(store=STORE / "sample", ignored_tests=LISTS.ignored_tests, limits={NATIVE: 120, INTERPRETED: 600})


def test_sample_is_large_enough():
    assert len(set(LISTS.sample)) == len(LISTS.sample) >= 60
    assert not [module for module in LISTS.sample if is_left_out(module, LISTS) or module in LISTS.exceptions]


@pytest.mark.parametrize(("mode", "answer"), [(NATIVE, "False"), (INTERPRETED, "True")])
def test_runs_are_what_they_are_called(tmp_path, mode, answer):
    # Else all modules would agree for the wrong reason.
    (tmp_path / "asking.py").write_text("import alternator\nprint(alternator.is_interpreting())\n")
    ended = run_child([*PREFIX[mode], "-m", "asking"], tmp_path / "log", tmp_path, clean_environment(), 120)
    assert (ended.out.strip(), ended.exit_code) == (answer, 0), ended.err


@pytest.mark.skipif(not has_regression_tests(), reason="this Python comes without its regression tests")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("module", LISTS.sample)
def test_module(runner, module):
    native = runner.load_or_run(module, NATIVE)
    if not native.run:
        pytest.skip(f"natively {native.state}, no test run: nothing to compare with")
    interpreted = runner.run(module, INTERPRETED)
    differences = find_differences(native, interpreted)
    if differences and may_be_chance(interpreted):
        differences = find_differences(runner.run(module, NATIVE), runner.run(module, INTERPRETED))
    assert not differences, "\n".join([module, *differences[:20], f"see {runner.store / INTERPRETED / module}.*"])
