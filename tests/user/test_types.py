"""What type checkers, dir() and help() tell of the package."""

import pathlib
import pydoc
import subprocess
import sys

import pytest

import alternator

pytestmark = pytest.mark.capture
PROGRAM = pathlib.Path(__file__).with_name("typed_program.py")
WRONG = {
    "import alternator\nalternator.compile(len, fullgraph='no')\n": "call-overload",
    "import alternator\nalternator.compile(len, bakend='eager')\n": "call-overload",
    "import alternator\nalternator.set_threads('sometimes')\n": "arg-type",
    "import alternator\nx: str = alternator.frames_translated()\n": "assignment",
    "from alternator import events\nevents.listen(3)\n": "arg-type",
}


def run_mypy(tmp_path, *files):
    pytest.importorskip("mypy")
    # Not in the checkout: its alternator/ would come before the build.
    command = [sys.executable, "-P", "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), *map(str, files)]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)


def test_a_users_program_is_typed(tmp_path):
    done = run_mypy(tmp_path, PROGRAM)
    assert done.returncode == 0, done.stdout + done.stderr
    for number, text in enumerate(WRONG):
        (tmp_path / f"wrong_{number}.py").write_text(text)
    done = run_mypy(tmp_path, *(f"wrong_{number}.py" for number in range(len(WRONG))))
    for number, code in enumerate(WRONG.values()):
        said = [line for line in done.stdout.splitlines() if line.startswith(f"wrong_{number}.py:") and "error" in line]
        assert said and said[-1].endswith(f"[{code}]"), done.stdout


def test_the_program_names_the_whole_api():
    text = PROGRAM.read_text()
    for name in set(alternator.__all__) - {"install", "uninstall"}:
        assert f"alternator.{name}" in text or f"import {name}" in text, name


def test_public_names_are_found():
    assert set(alternator.__all__) <= set(dir(alternator))
    assert alternator.events.listen is not None
    shown = pydoc.plain(pydoc.render_doc(alternator))
    assert "alternator.compile(model)" in shown
    for name in set(alternator.__all__) - {"events"}:
        assert pydoc.getdoc(getattr(alternator, name)), name
        assert name in shown


def test_the_package_says_that_it_has_types():
    assert (pathlib.Path(alternator.__file__).parent / "py.typed").exists()
