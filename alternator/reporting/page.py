"""Makes the page: the data and the files beside this one, in one HTML file that needs nothing else."""

from __future__ import annotations

import html
import json
import os
from pathlib import Path

FOLDER = Path(__file__).parent / "page"
# In the order in which they stand on each other.
SCRIPTS = ("base.js", "source.js", "layout.js", "drawing.js", "graphs.js", "tables.js", "timeline.js", "main.js")


def make_page(data) -> str:
    """Make the page as text."""
    parts = {
        "title": html.escape(f"{data['title']} - Alternator report"),
        "style": read("page.css"),
        "data": encode(data),
        "script": "\n".join(map(read, SCRIPTS)),
    }
    page = read("page.html")
    for name, text in parts.items():
        before, _, after = page.partition(f"[[{name}]]")  # once each: what is put in may hold such a mark itself
        parts[name] = before, text
        page = after
    return "".join(before + text for before, text in parts.values()) + page


def encode(data) -> str:
    """Write data as JSON that can stand in a <script>: nothing in it ends the element or begins a comment."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def read(name) -> str:
    return (FOLDER / name).read_text("utf-8")


def write_page(path, data) -> None:
    """Write the page; a reader never sees half of it."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    beside = f"{path}.{os.getpid()}.part"
    try:
        with open(beside, "w", encoding="utf-8") as file:
            file.write(make_page(data))
        os.replace(beside, path)
    finally:
        if os.path.exists(beside):
            os.unlink(beside)
