"""A fixed sample of the campaign (campaign.py), and that it finds what it has to find."""

import os
import random
import signal

import pytest
import torch

from capture import campaign, sources
from capture.perturbing import SETTINGS, Case, alternator

pytestmark = pytest.mark.capture

SHARES = 8
PROGRAMS = int(os.environ.get("ALTERNATOR_CAMPAIGN", "40"))  # a share


@pytest.mark.parametrize("share", range(SHARES))
@torch._dynamo.config.patch(SETTINGS)
def test_a_sample_of_programs(share):
    failed = []
    for seed in range(share * PROGRAMS, (share + 1) * PROGRAMS):
        verdict, details, steps = campaign.judge_seed(seed)
        if verdict != campaign.FINE:
            failed.append(f"==== seed {seed}: {verdict}\n{sources.write(seed).text}\n{steps}\n" + "\n".join(details))
    assert not failed, f"{len(failed)} of {PROGRAMS}\n" + "\n".join(failed)


@pytest.mark.full
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_many_programs(backend, tmp_path):
    out = tmp_path / "findings.txt"
    run = campaign.Campaign(10_000, 2000, 2, 3000, backend, str(out))
    assert run.findings == [], out.read_text()


def test_seeds_are_programs_that_differ():
    texts = {sources.write(seed).text for seed in range(320)}
    assert len(texts) > 300
    assert sources.write(7).text == sources.write(7).text


def test_most_programs_are_captured():
    captured = 0
    for seed in range(40):
        before = alternator.frames_translated()
        campaign.judge(sources.write(seed), [campaign.CALL])
        captured += alternator.frames_translated() > before
    assert captured > 25


def judge_badly(seed, backend):
    """Die, hang, fail or find something, as the seed says."""
    if seed == 3:
        os.kill(os.getpid(), signal.SIGUSR1)
    while seed == 5:
        pass
    if seed == 7:
        raise KeyError(seed)
    return ("another end", ["details"], []) if seed == 8 else (campaign.FINE, [], [])


def test_differences_crashes_and_hangs_are_found(monkeypatch, tmp_path):
    monkeypatch.setattr(campaign, "HANG_SECONDS", 8)  # more than a busy machine needs to start a worker
    monkeypatch.setattr(campaign, "judge_seed", judge_badly)
    out = tmp_path / "findings.txt"
    run = campaign.Campaign(0, 12, 2, 100, out=str(out), reduce=False)
    found = {seed: verdict for seed, verdict, _, _ in run.findings}
    assert found == {3: "killed by SIGUSR1", 5: "hang", 7: "the harness fails: KeyError", 8: "another end"}
    assert run.tried == 12
    assert "seed 8: another end\ndetails" in out.read_text()


STALE = """
import torch
def program(x, n, a):
    unused = [n, n]
    if n > 5:
        a.append(1)
    y = x + 1
    return y, n
def make():
    return [torch.ones(2), 2, [1]]
"""


def test_findings_are_made_small(monkeypatch):
    def compile_stale(program, backend, dynamic=None):
        first = []

        def call(*args):
            first.append(program(*args))
            return first[0]

        return call

    monkeypatch.setattr(alternator, "compile", compile_stale)
    steps = [("call",), ("args[2]", "longer"), ("args[1]", "+1")]
    verdict, details, steps = campaign.judge(Case("stale", STALE), steps, random.Random(1))
    assert verdict == "another outcome"
    text, steps, details = campaign.reduce_case(Case("stale", STALE), verdict, steps, details)
    assert steps == [("call",), ("args[1]", "+1")]
    assert "unused" not in text
    assert "append" not in text
    assert "args[1]: +1" in details[0]
