"""The examples run, and print on Alternator what they print eagerly."""

import runpy
import sys
import warnings
from pathlib import Path

import pytest
import torch

import alternator

pytestmark = [pytest.mark.capture, pytest.mark.no_asan]  # a model of transformers: many minutes
EXAMPLES = sorted(path for path in (Path(__file__).parents[2] / "examples").glob("*.py"))
# How many graphs each has: an example that captures nothing would agree with itself.
GRAPHS = {
    "breaks": range(5, 9),
    "compile": [1],
    "generation": [2],
    "interpret": [0],
    "training": [1],
    "transformer": [1],
}


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    def run(path, eagerly):
        monkeypatch.setenv("TORCHDYNAMO_DISABLE", str(int(eagerly)))
        monkeypatch.setattr(sys, "argv", [str(path), str(tmp_path / "report.html")])
        torch._dynamo.reset()
        with alternator.installed(), warnings.catch_warnings():
            warnings.simplefilter("error")
            before = alternator.frames_translated()
            runpy.run_path(str(path), run_name="__main__")
        return capsys.readouterr().out, alternator.frames_translated() - before

    yield run
    alternator.uninstall()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_same_output(run, path):
    found, graphs = run(path, False)
    assert found.strip()
    assert graphs in GRAPHS[path.stem]
    if "alternator.install()" in path.read_text():
        assert run(path, True) == (found, 0)


def test_every_example_is_known():
    assert set(GRAPHS) == {path.stem for path in EXAMPLES}
