"""The documentation is true: its code runs and prints what it says, links lead somewhere, pages are up to date."""

import contextlib
import importlib.util
import io
import re
from pathlib import Path

import pytest

import alternator

pytestmark = [pytest.mark.capture]
CHECKOUT = Path(__file__).parents[2]
PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]
# ```python, and what it prints in a ```text right behind it; ```python norun is shown only.
BLOCK = re.compile(r"^```(\w+)[ ]?(norun)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#]+)(?:#[^)]*)?\)")
HAS_CODE = [page for page in PAGES if re.search(r"^```python$", page.read_text(), re.MULTILINE)]
OWN_PAGES = [page for page in HAS_CODE if page.name != "api.md"]


def name_of(page):
    return str(page.relative_to(CHECKOUT))


def find_blocks(page):
    """List (code, expected output or None, number of its first line)."""
    text = page.read_text()
    found = []
    for match in BLOCK.finditer(text):
        language, shown_only, body = match.groups()
        if language == "python":
            found.append([body, None, text.count("\n", 0, match.start()) + 2, shown_only, match.end()])
        elif language == "text" and found and found[-1][4] + 1 == match.start():
            found[-1][1] = body
    return [(body, expected, line) for body, expected, line, shown_only, _ in found if not shown_only]


def matches(expected, printed):
    pattern = ".*".join(map(re.escape, expected.strip().split("...")))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


@pytest.mark.parametrize("page", OWN_PAGES, ids=name_of)
def test_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = find_blocks(page)
    assert blocks
    script = tmp_path / f"{page.stem}.py"
    # Explanations show source: each line stands in the file where it stands in the page.
    lines = []
    for body, _, first in blocks:
        lines += [""] * (first - 1 - len(lines)) + body.splitlines()
    script.write_text("\n".join(lines) + "\n")
    names = {"__name__": "__main__"}
    try:
        for body, expected, first in blocks:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile("\n" * (first - 1) + body, str(script), "exec"), names)
            if expected is not None:
                assert matches(expected, printed.getvalue()), f"{page}:{first} prints\n{printed.getvalue()}"
    finally:
        alternator.uninstall()
        alternator.set_threads("wait")  # a page chooses otherwise


def test_expected_output_can_differ():
    assert matches("a\n...\nc", "a\nb\nc\n") and not matches("a\nb", "a\nc")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links(page):
    for target in LINK.findall(page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_api_reference_is_up_to_date():
    spec = importlib.util.spec_from_file_location("api", CHECKOUT / "tools" / "api.py")
    api = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(api)
    assert api.PAGE.read_text() == api.write_page(), "docs/api.md is out of date: run ./dev docs"
