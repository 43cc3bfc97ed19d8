"""A fixed sample of CPython's own regression tests, interpreted: as good as natively, module by module.

`./dev cpython-tests` runs all of them, with everything that is slow.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from child import restore_signals  # noqa: E402
from cpython import INTERPRETED, NATIVE, STORE, Runner, is_left_out, read_lists  # noqa: E402
from regrtest_result import find_differences  # noqa: E402

LISTS = read_lists()


@pytest.fixture(scope="module")
def runner():
    restore_signals()
    # A store of its own: here no resource is switched on, so these are not the results of a full run.
    return Runner(
        store=STORE / "sample", ignored_tests=LISTS.ignored_tests, limits={NATIVE: 300, INTERPRETED: 900}
    )


def test_sample_is_large_enough():
    assert len(set(LISTS.sample)) == len(LISTS.sample) >= 60
    assert not [module for module in LISTS.sample if is_left_out(module, LISTS) or module in LISTS.exceptions]


@pytest.mark.parametrize("module", LISTS.sample)
def test_module(runner, module):
    native = runner.load_or_run(module, NATIVE)
    assert native.succeeded, f"{module} is in the sample and does not pass natively: {native.state}"
    interpreted = runner.run(module, INTERPRETED)
    differences = find_differences(native, interpreted)
    # Some tests depend on the machine's load, so that both get a second chance.
    if differences:
        native, interpreted = runner.run(module, NATIVE), runner.run(module, INTERPRETED)
        differences = find_differences(native, interpreted)
    assert not differences, f"\n{module}\n" + "\n".join(differences[:20]) + f"\nsee {runner.store / INTERPRETED}"
