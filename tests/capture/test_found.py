"""Programs that were once compiled wrongly (found_programs.py). Each runs in a process of its own: some crashed."""

import pytest

from capture import campaign, found_programs

pytestmark = pytest.mark.capture


@pytest.mark.parametrize("dynamic", [None, False], ids=["dynamic", "static"])
@pytest.mark.parametrize("name", found_programs.STEPS)
def test_found(name, dynamic):
    (case,) = [case for case in found_programs.found if case.name == name]
    verdict, details, _ = campaign.judge_apart(case, found_programs.STEPS[name], "eager", dynamic, seconds=60)
    assert verdict == campaign.FINE, f"{case.text}\n{details}"
