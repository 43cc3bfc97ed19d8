"""The commands of `alternator` besides running programs: version, help, doctor, reasons; standard input."""

import re
import subprocess
import sys

import pytest

from alternator import cli, doctor, messages

pytestmark = pytest.mark.capture


def run(*arguments, stdin=""):
    command = [sys.executable, "-P", "-m", "alternator", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=280)


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert re.fullmatch(r"alternator [\d.]+ \(Python 3\.\d+\.\d+, torch 2\.13\.0\S*\)\n", capsys.readouterr().out)


@pytest.mark.parametrize("typed, name", [("/bin/alternator", "alternator"), ("x/__main__.py", "python -m alternator")])
def test_the_programs_name_is_what_was_typed(typed, name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [typed, "--help"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert cli.run_command() == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"usage: {name} COMMAND")
    for command in cli.COMMANDS:
        assert f"\n  {command} " in printed


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_of_each_command(command, capsys):
    assert cli.main([command, "--help"], "alternator") == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"usage: alternator {command}")
    assert cli.COMMANDS[command].text in printed
    assert ("ALTERNATOR_LOGS" in printed) == (command in ("run", "report"))
    assert ("--output FILE" in printed) == (command == "report")


@pytest.mark.parametrize(
    "arguments", [["doctor", "x"], ["run"], ["report", "-o"], ["explain-reason", "TensorItm"], ["x"]]
)
def test_wrong_arguments(arguments, capsys):
    assert cli.main(arguments) == 2
    assert "alternator: error: " in capsys.readouterr().err


def test_a_reason_is_explained(capsys):
    assert cli.main(["explain-reason", "tensoritem"]) == 0
    row = messages.find_row("MustRun", "TensorBase.item(Tensor)")
    printed = capsys.readouterr().out
    for text in (row.id, row.what, row.why, *row.hints):
        assert text in printed
    assert cli.main(["explain-reason", "TensorItm"]) == 2
    assert "Did you mean TensorItem?" in capsys.readouterr().err
    assert cli.main(["explain-reason"]) == 0
    printed = capsys.readouterr().out
    assert all(row.id in printed for row in messages.ROWS)


PROGRAM = """\
import sys, torch

def fn(x):
    y = x + 1
    return y * y.sum().item()

print(torch.compile(fn, backend="eager")(torch.ones(2)), sys.argv, __name__, "__file__" in globals())
raise ValueError("mine")
"""


def test_a_program_from_standard_input(tmp_path):
    native = subprocess.run([sys.executable, "-", "a"], input=PROGRAM, capture_output=True, text=True, timeout=280)
    done = run("run", "-", "a", stdin=PROGRAM)
    assert done.stdout == native.stdout != ""
    assert done.returncode == native.returncode == 1
    assert done.stderr.splitlines()[-2:] == native.stderr.splitlines()[-2:]
    page = tmp_path / "page.html"
    assert run("report", "-o", str(page), "-", stdin=PROGRAM).returncode == 1
    assert "y * y.sum().item()" in page.read_text()
    wrong = run("run", "-", stdin="a b\n")
    assert (wrong.returncode, "SyntaxError" in wrong.stderr, "cli.py" in wrong.stderr) == (1, True, False)


def test_the_doctor_finds_nothing(capsys, monkeypatch):
    monkeypatch.delenv("TORCHDYNAMO_DISABLE", raising=False)
    monkeypatch.setitem(doctor.CHECKS, "inductor", lambda: "left out: it takes long")
    assert doctor.examine() == 0
    printed = capsys.readouterr().out
    assert printed.endswith("Everything works.\n")
    assert printed.count("  ok ") == len(doctor.CHECKS)


def fail_to_capture():
    raise doctor.Problem("broken", "mend it")


@pytest.mark.parametrize(
    "change, words, untried",
    [
        (lambda patch: patch.setenv("CXX", "no-such-compiler"), "no C++ compiler `no-such-compiler`", ["inductor"]),
        (lambda patch: patch.setenv("TORCHDYNAMO_DISABLE", "1"), "unset it", ["capture", "inductor"]),
        (lambda patch: patch.setattr(doctor, "TORCH", "2.0.0"), "pip install torch==2.0.0", ["extension", "capture"]),
        (lambda patch: patch.setattr(doctor, "PYTHON", (3, 10)), "needs CPython 3.10", []),
        (lambda patch: patch.setitem(doctor.CHECKS, "capture", fail_to_capture), "mend it", ["inductor"]),
    ],
    ids=["compiler", "disabled", "torch", "python", "capture"],
)
def test_the_doctor_says_what_is_wrong(change, words, untried, capsys, monkeypatch):
    monkeypatch.delenv("TORCHDYNAMO_DISABLE", raising=False)
    monkeypatch.setitem(doctor.CHECKS, "inductor", lambda: "left out: it takes long")
    change(monkeypatch)
    assert doctor.examine() == 1
    printed = capsys.readouterr().out
    assert words in printed and "  BAD  " in printed
    assert all(f"--   {name}" in printed for name in untried)


def test_the_doctor_knows_the_project(pytestconfig):
    assert f'"torch=={doctor.TORCH}"' in (pytestconfig.rootpath / "pyproject.toml").read_text()
