"""The report: what a page says of a program, when it is written, and how large it may become."""

import json
import os
import re
import subprocess
import sys
import textwrap

import pytest
import torch

import alternator
from alternator.reporting import collecting, graphs, page

pytestmark = [pytest.mark.capture]
X = torch.arange(6.0).reshape(2, 3)
DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def read(path):
    """Read the data out of a page."""
    with open(path, encoding="utf-8") as file:
        return json.loads(DATA.search(file.read())[1])


def file_of(data, place):
    return data["files"][place[0]]["path"]


def broken(x, n):
    y = x.sin()  # in the first graph
    print("</script><b onclick='alert(1)'>", end="")
    return y.cos() + n  # in the second graph


def line_of(text):
    with open(__file__) as file:
        return next(number for number, line in enumerate(file, 1) if text in line and "line_of" not in line)


@pytest.fixture
def data(tmp_path, capsys):
    compiled = alternator.compile(broken, backend="eager")
    with alternator.report(tmp_path / "page.html", title="<i>&amp;"):
        for n in (1, 1, 2):
            compiled(X, n)
    return read(tmp_path / "page.html")


def test_graphs_and_lines(data):
    captures = [capture for capture in data["captures"] if capture["graph"] is not None]
    assert len(captures) == 3
    assert [capture["operations"] for capture in captures] == [1, 2, 2]
    (file,) = [file for file in data["files"] if file["path"] == __file__]
    assert captures[0]["id"] in file["covered"][str(line_of("# in the first graph"))]
    assert captures[1]["id"] in file["covered"][str(line_of("# in the second graph"))]
    assert file["library"] is None
    first, text = file["parts"][0]
    assert first == 1 and text == open(__file__).read()
    nodes = data["graphs"][captures[0]["graph"]]["nodes"]
    assert [node[2] for node in nodes] == ["L['x']", ".sin", "output"]
    assert nodes[1][3] == "f32[2, 3]" and nodes[1][5] == [0]
    assert nodes[1][6][1] == line_of("# in the first graph")


def test_breaks(data):
    (group,) = [group for group in data["breaks"] if group["count"] and not group["idle"]]
    assert group["count"] == 1  # captured once; further calls run the graphs
    assert file_of(data, group["place"]) == __file__
    assert group["place"][1] == line_of('print("</script>')
    assert group["hints"] and group["why"]
    (file,) = [file for file in data["files"] if file["path"] == __file__]
    assert group["number"] in file["breaks"][str(group["place"][1])]


def test_recompiles_and_guards(data):
    (row,) = data["recompiles"]
    assert "was 1, is now 2" in row["reason"]
    texts = [guard["text"] for guard in data["guards"]]
    assert any("== 1" in text for text in texts) and any("type(L['n']) is int" in text for text in texts)


def test_calls_are_counted(data):
    counts = {capture["id"]: data["calls"].get(str(capture["id"]), [0])[0] for capture in data["captures"]}
    assert sorted(counts.values()) == [1, 2, 3]
    assert sum(bar[3] for bar in data["callBars"]) == 6


def test_nothing_of_the_program_ends_the_script(tmp_path, data):
    text = (tmp_path / "page.html").read_text()
    assert "</script><b" not in text
    assert "<title>&lt;i&gt;&amp;amp; - Alternator report</title>" in text
    assert text.count("</script>") == 2
    assert not re.search(r"(?:src|href)\s*=\s*[\"']?https?:|url\((?!#)|@import", DATA.sub("", text))


def test_written_when_the_block_raises(tmp_path):
    with pytest.raises(ZeroDivisionError):
        with alternator.report(tmp_path / "page.html"):
            alternator.compile(lambda x: x.sin(), backend="eager")(X)
            1 / 0
    assert len(read(tmp_path / "page.html")["graphs"]) == 1


def test_written_so_far(tmp_path):
    report = alternator.report(tmp_path / "page.html")
    try:
        compiled = alternator.compile(lambda x: x.sin(), backend="eager")
        assert read(report.write())["captures"] == []
        compiled(X)
        assert len(read(report.write())["captures"]) == 1
        other = report.write(tmp_path / "more" / "other.html")
        assert len(read(other)["captures"]) == 1
    finally:
        report.close()
    compiled(X[:1])
    report.close()
    assert len(read(tmp_path / "page.html")["captures"]) == 1
    assert sorted(os.listdir(tmp_path)) == ["more", "page.html"]


def test_nothing_is_kept_alive(tmp_path):
    import gc
    import weakref

    class Scale(torch.nn.Module):
        def forward(self, x):
            return x * 2

    with alternator.report(tmp_path / "page.html"):
        module = Scale()
        compiled = alternator.compile(module, backend="eager")
        compiled(X)
        gone = weakref.ref(module)
        del module, compiled
        gc.collect()
        assert gone() is None


def test_equal_graphs_are_kept_once(tmp_path):
    with alternator.report(tmp_path / "page.html"):
        for _ in range(3):
            alternator.compile(broken, backend="eager", fullgraph=False)(X, 1)
    data = read(tmp_path / "page.html")
    assert len([capture for capture in data["captures"] if capture["graph"] is not None]) == 6
    assert len(data["graphs"]) == 2


def test_what_is_too_much_is_left_out_and_said(tmp_path, monkeypatch):
    monkeypatch.setattr(collecting, "MAX_GUARDS", 3)
    monkeypatch.setattr(collecting, "MAX_GRAPHS", 1)
    monkeypatch.setattr(collecting, "MAX_CALLS", 2)
    monkeypatch.setattr(graphs, "MAX_CODE", 40)
    with alternator.report(tmp_path / "page.html"):
        compiled = alternator.compile(lambda x: x.sin() + 1, backend="eager")
        for _ in range(4):
            compiled(X)
        compiled(X[:1])
    data = read(tmp_path / "page.html")
    assert len(data["guards"]) == 3
    assert data["graphs"][0]["codeCut"] > 0 and len(data["graphs"][0]["code"]) == 40
    assert data["graphs"][1]["nodes"] == [] and data["graphs"][1]["nodesCut"] == 4
    notes = "\n".join(data["notes"])
    for words in ("guards were left out", "drawings of graphs were left out", "first 2 of 5 calls"):
        assert words in notes


def test_calls_merge():
    calls = [(1, i * 1e-3, 5e-4) for i in range(10_000)]
    bars, merged = collecting.merge_calls(calls, 10.0)
    assert merged and len(bars) <= collecting.SHOWN_CALLS
    assert sum(bar[3] for bar in bars) == 10_000
    assert bars[0][1] == 0 and bars[-1][2] == pytest.approx(9.9995)
    bars, merged = collecting.merge_calls(calls[:10], 10.0)
    assert not merged and bars == [[1, i / 1000, round(i / 1000 + 0.0005, 6), 1] for i in range(10)]


def test_large_model_stays_small(tmp_path):
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
    compiled = alternator.compile(model, backend="eager")
    with alternator.report(tmp_path / "page.html"), torch.no_grad():
        compiled(torch.randn(2, 5, 16))
    size = os.path.getsize(tmp_path / "page.html")
    assert size < 3_000_000
    data = read(tmp_path / "page.html")
    assert sum(len(graph["nodes"]) for graph in data["graphs"]) > 200


PROGRAM = """
import sys, threading, time, torch
@torch.compile(backend="eager")
def double(x):
    return x * 2
double(torch.ones(3))
def later():
    time.sleep(0.1)
    double(torch.ones(4))
threading.Thread(target=later).start()
print("arguments", sys.argv[1:])
if sys.argv[1] == "raise":
    raise ValueError("the program's own")
if sys.argv[1] == "exit":
    sys.exit(7)
"""


@pytest.mark.parametrize(("how", "status"), [("raise", 1), ("exit", 7), ("return", 0)])
def test_command_line(tmp_path, how, status):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(PROGRAM))
    output = tmp_path / "out.html"
    command = [sys.executable, "-P", "-m", "alternator", "report", "-o", str(output), str(script), how, "-o", "x"]
    found = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert found.returncode == status, found.stderr
    assert found.stdout == f"arguments ['{how}', '-o', 'x']\n"
    assert f"the report is in {output}" in found.stderr
    data = read(output)
    assert [capture["graph"] is not None for capture in data["captures"]] == [True, True]  # the thread's as well
    assert data["status"] == ("sys.exit()" if how == "exit" else status)
    assert data["title"].endswith(f"script.py {how} -o x")


def test_command_line_needs_a_file_name(tmp_path):
    command = [sys.executable, "-P", "-m", "alternator", "report"]
    for more, words in ((["-o"], "-o needs the name of a file"), ([], "which program?")):
        found = subprocess.run([*command, *more], capture_output=True, text=True, cwd=tmp_path)
        assert found.returncode == 2 and words in found.stderr
    found = subprocess.run([*command, "missing.py"], capture_output=True, text=True, cwd=tmp_path)
    assert found.returncode == 2 and "can't open file" in found.stderr
    assert os.listdir(tmp_path) == []


def test_page_parts_are_there():
    for name in (*page.SCRIPTS, "page.html", "page.css"):
        assert "</script" not in page.read(name) or name == "page.html"
