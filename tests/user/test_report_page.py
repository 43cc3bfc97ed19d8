"""The report in a real browser: every section is filled, clicks and keys work, and it looks like something."""

import json

import numpy as np
import pytest
import torch

import alternator
from user.browser import Browser, find_browser

pytestmark = [
    pytest.mark.capture,
    pytest.mark.no_asan,  # the browser's own processes
    pytest.mark.skipif(find_browser() is None, reason="no browser: install Debian's package `chromium`"),
]
SECTIONS = ("overview", "source", "breaks", "graphs", "guards", "recompiles", "timeline")
WARN = {False: (0xA8, 0x43, 0x00), True: (0xF0, 0xA0, 0x67)}
GRAPH_0 = {False: (0x36, 0x70, 0xB3), True: (0x6A, 0xA5, 0xE6)}
GRAPH_1 = {False: (0x2D, 0x82, 0x63), True: (0x5D, 0xBF, 0x9B)}


def noisy(x, n):
    y = x.sin() + n
    print("</script><script>document.title = 'broken'</script>", end="")  # <img src=x onerror=alert(1)>
    return y.cos()


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 4))

    def forward(self, x):
        return x + self.inner(x)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "page.html"
    model = torch.nn.Sequential(*[Block() for _ in range(50)])
    with alternator.report(path, title="<script>document.title = 'broken'</script>"), torch.no_grad():
        compiled = alternator.compile(noisy, backend="eager")
        for n in (1, 1, 2, 3):
            compiled(torch.ones(3), n)
        alternator.compile(model, backend="eager")(torch.ones(2, 4))
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture
def count(browser):
    return lambda selector: browser.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length")


def text(browser, selector="#content"):
    return browser.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")


def test_sections_are_filled(browser, page, count):
    browser.open(page)
    assert count(".tile") == 8
    assert text(browser, ".tile").startswith("4\ngraphs")
    filled = {
        "source": (".lane.on", ".row.broken", ".note", ".cause"),
        "breaks": (".card", ".hints li", ".frames li"),
        "graphs": (".drawing .node", ".edge"),
        "guards": ("tbody tr", "code.guard"),
        "recompiles": (".trail li", "tbody tr"),
        "timeline": (".bar.capture", ".bar.calls", ".recompiled", "tbody tr"),
    }
    for section, selectors in filled.items():
        browser.click(f"#tab-{section}")
        assert browser.evaluate("location.hash") == f"#{section}"
        for selector in selectors:
            assert count(selector) > 0, (section, selector)
    assert browser.errors == []
    assert browser.requests == [f"file://{page}"]


def test_programs_text_is_text(browser, page):
    browser.open(page)
    assert text(browser, "#program") == "<script>document.title = 'broken'</script>"
    assert "broken" not in browser.evaluate("document.title").split("</script>")[-1]
    for section in SECTIONS:
        browser.go(section)
        assert browser.evaluate("document.querySelectorAll('#content script, #content img, #content b').length") == 0
    browser.go("source")
    assert "</script><script>" in text(browser, ".row.broken code")
    assert browser.errors == []


def test_modules_open_and_close(browser, page, count):
    browser.open(page, "#graphs/5")
    before = count("g.module")
    assert before == 50
    browser.click('g.module[data-key="m0"]')
    assert count("g.module.open") == 1 and count("g.module") == before + 1
    browser.click('g.module.open[data-key="m0"] .head')
    assert count("g.module.open") == 0
    browser.evaluate("[...document.querySelectorAll('.tools button')].find(b => b.innerText === 'Open all').click()")
    browser.settle()
    shown = count("g.node")
    assert shown == 50 * 4 + 2  # three operations and the sum in each block, input and output
    overlap = """(() => {
        const boxes = [...document.querySelectorAll("g.node > rect")].map(n => n.getBoundingClientRect());
        let found = 0;
        for (const a of boxes) for (const b of boxes)
            if (a !== b && a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) found++;
        return found; })()"""
    assert browser.evaluate(overlap) == 0
    browser.evaluate("document.querySelector('.tools input').click()")
    browser.settle()
    assert count("g.node") == shown + 50 * 4  # weights and biases
    assert browser.evaluate(overlap) == 0
    assert browser.errors == []


def test_a_node_leads_to_its_line(browser, page, count):
    browser.open(page, "#graphs/1")
    browser.click("g.node.call")
    assert "sin" in text(browser, ".particulars")
    browser.click(".particulars a.place")
    assert browser.evaluate("location.hash").startswith("#source/")
    assert "y = x.sin() + n" in text(browser, ".row.target")
    browser.click(".row.broken + .note a[href^='#breaks/']")
    assert count(".card.target") == 1


def test_keyboard(browser, page, count):
    browser.open(page)
    browser.evaluate("document.getElementById('tab-overview').focus()")
    browser.press("ArrowRight")
    assert browser.evaluate("location.hash") == "#source"
    assert browser.evaluate("document.activeElement.id") == "tab-source"
    assert browser.evaluate("document.activeElement.getAttribute('aria-selected')") == "true"
    browser.go("graphs/5")
    browser.evaluate("document.querySelector('g.module[data-key=m0]').focus()")
    browser.press("Enter")
    assert count("g.module.open") == 1
    assert browser.evaluate("document.activeElement.dataset.key") == "m0"
    browser.press("Enter")
    assert count("g.module.open") == 0
    before = browser.evaluate("document.querySelector('.drawing > g').getAttribute('transform')")
    browser.press("+", "+")
    assert browser.evaluate("document.querySelector('.drawing > g').getAttribute('transform')") != before


def test_search_of_guards(browser, page, count):
    browser.open(page, "#guards")
    every = text(browser, "[role=status]")
    browser.evaluate("document.querySelector('input[type=search]').focus()")
    browser.send("Input.insertText", text="== 1")
    browser.settle()
    assert text(browser, "[role=status]") != every
    assert 0 < count("tbody tr") < 40
    shown = browser.evaluate("[...document.querySelectorAll('.guard')].map(guard => guard.innerText)")
    assert shown and all("== 1" in guard for guard in shown)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_screenshot(browser, page, dark, width):
    browser.open(page, "#source", dark=dark, width=width, height=1000)
    picture = browser.screenshot().astype(int)
    assert picture.shape == (1000, width, 3)
    ground = picture[4, width // 2]
    assert (ground.mean() < 60) == dark
    assert (np.abs(picture - ground).sum(2) > 60).mean() > 0.01  # not blank
    for colour in (GRAPH_0[dark], GRAPH_1[dark], WARN[dark]):
        assert (np.abs(picture - colour).sum(2) < 12).sum() > 40, colour
    wide = browser.evaluate("document.documentElement.scrollWidth")
    assert wide <= width, "the page as a whole does not scroll sideways"
    assert browser.errors == []


def test_narrow_pages_do_not_scroll_sideways(browser, page):
    for section in (*SECTIONS, "graphs/5", "graphs/5/code", "graphs/1/facts"):
        browser.open(page, f"#{section}", width=360, height=800)
        assert browser.evaluate("document.documentElement.scrollWidth") <= 360, section


def test_theme_button(browser, page):
    browser.open(page, dark=False)
    for theme in ("light", "dark", "auto"):
        browser.click("#theme")
        assert text(browser, "#theme") == f"Theme: {theme}"
        assert (browser.screenshot()[4, 640].mean() < 60) == (theme == "dark")


def test_contrast_of_numbers_on_graphs(browser, page):
    """Text on the colours of graphs can be read: WCAG's contrast of 4.5."""
    contrast = """(() => {
        const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
        const light = (text) => { const [r, g, b] = text.match(/\\d+/g).map((v) => linear(v / 255));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        const probe = document.body.appendChild(document.createElement("i"));
        return Array.from({length: 8}, (_, number) => {
            probe.style.background = `var(--graph-${number})`; probe.style.color = "var(--ground)";
            const style = getComputedStyle(probe);
            const [a, b] = [light(style.color), light(style.backgroundColor)].sort((a, b) => b - a);
            return (a + 0.05) / (b + 0.05); });
    })()"""
    for dark in (False, True):
        browser.open(page, dark=dark)
        assert min(browser.evaluate(contrast)) >= 4.5


def test_what_did_not_end(browser, tmp_path):
    """A backend that raises, and a function that never came back, leave rows without an end."""

    def refuse(module, examples):
        raise ValueError("not today")

    with alternator.report(tmp_path / "page.html") as report:
        with pytest.raises(Exception, match="not today"):
            alternator.compile(lambda x: x.sin(), backend=refuse)(torch.ones(2))

        def stop(module, examples):
            report.write(tmp_path / "middle.html")
            return module.forward

        alternator.compile(lambda x: x.sin(), backend=stop)(torch.ones(2))
    for name, number, words in (("page.html", 1, "failed: it raised"), ("middle.html", 2, "none seen")):
        for section in (*SECTIONS, f"graphs/{number}/facts"):
            browser.open(tmp_path / name, f"#{section}")
            assert text(browser).strip()
            assert browser.errors == [], (name, section)
        assert words in text(browser) and "1 operation" in text(browser)


def test_an_empty_page(browser, tmp_path):
    with alternator.report(tmp_path / "page.html"):
        pass
    browser.open(tmp_path / "page.html")
    assert "Nothing was captured" in text(browser)
    for section in SECTIONS:
        browser.go(section)
        assert text(browser).strip()
    assert browser.errors == []
