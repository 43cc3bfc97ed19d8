"""The line in a terminal that says what a long compilation is doing."""

import os
import pty
import re
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.capture
PROGRAM = """
    import sys, time, torch, alternator

    def slow(module, examples):
        time.sleep(0.6)
        return module.forward

    def fn(x):
        y = x.sum()
        return x * y.item()

    alternator.compile(fn, backend=slow)(torch.ones(3))
    print("done", file=sys.stderr)
"""
LINE = re.compile(r"alternator: slow compiles 1 operations of fn \(script.py:8\)(, 1 graphs so far)?, \d s")


def run(tmp_path, terminal=True, **settings):
    """Run the program; return what it writes to its terminal, or to a pipe."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(PROGRAM))
    unwanted = ("CI", "TERM", "ALTERNATOR_PROGRESS")
    environment = {name: value for name, value in os.environ.items() if name not in unwanted}
    environment |= {"TERM": "xterm", "COLUMNS": "100"} | settings
    reader, writer = pty.openpty() if terminal else os.pipe()
    with subprocess.Popen([sys.executable, "-P", script], env=environment, stderr=writer) as process:
        os.close(writer)
        found = b""
        try:
            while part := os.read(reader, 4096):
                found += part
        except OSError:  # the end of a terminal
            pass
    os.close(reader)
    assert process.returncode == 0, found
    return found.decode()


def show(text):
    """Give the lines as a terminal shows them in the end."""
    return [line.rpartition("\x1b[K")[2].strip() for line in text.split("\n")]


def test_in_a_terminal(tmp_path):
    text = run(tmp_path, ALTERNATOR_PROGRESS="0.2")
    assert LINE.search(text), text
    assert "1 graphs so far" in text
    assert [line for line in show(text) if line] == ["done"]


@pytest.mark.parametrize(
    "settings",
    [{"ALTERNATOR_PROGRESS": "0"}, {"CI": "true", "ALTERNATOR_PROGRESS": "0.2"}],
    ids=["off", "CI"],
)
def test_not_where_nobody_looks(tmp_path, settings):
    assert run(tmp_path, **settings).strip() == "done"


def test_not_in_pipes(tmp_path):
    assert run(tmp_path, terminal=False, ALTERNATOR_PROGRESS="0.2") == "done\n"
