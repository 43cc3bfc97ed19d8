"""Writes docs/api.md from the docstrings of the public names: `./dev docs`.

What is public is what `alternator.__all__` says, and of a class what has a docstring and no underscore. A docstring is
text with indented code, as usual; both come out as Markdown.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import textwrap
import types
from pathlib import Path

import alternator

PAGE = Path(__file__).resolve().parents[1] / "docs" / "api.md"
HEAD = """# API reference

Made from docstrings by `./dev docs`; do not edit. The guide: [guide/start.md](guide/start.md).
"""
# Sections of the page, in order: every name of alternator.__all__ is in one of them.
SECTIONS = {
    "Compiling": ["compile", "reset", "set_threads", "Unsupported"],
    "In torch.compile's place": ["install", "uninstall", "installed"],
    "Looking at what happened": ["explain", "report", "set_logs", "set_progress", "frames_translated"],
    "What happened, as data": ["events"],
    "The interpreter": ["interpret", "is_interpreting"],
}
# Classes that are documented with the function that gives one: name of the function -> module, class.
RESULTS = {"explain": ("alternator.explaining", "Explanation"), "report": ("alternator.reporting", "Report")}


def write_page() -> str:
    """Write the whole page."""
    named = [name for names in SECTIONS.values() for name in names]
    missing = set(alternator.__all__) ^ set(named)
    if missing:
        raise SystemExit(f"tools/api.py: SECTIONS and alternator.__all__ disagree about {', '.join(sorted(missing))}")
    parts = [HEAD]
    for title, names in SECTIONS.items():
        parts.append(f"## {title}\n")
        for name in names:
            if inspect.ismodule(getattr(alternator, name)):
                parts.append(write_module(name, getattr(alternator, name)))
                continue
            parts.append(write_entry(f"alternator.{name}", getattr(alternator, name), 3))
            if name in RESULTS:
                module, result = RESULTS[name]
                __import__(module)
                parts.append(write_entry(f"{module}.{result}", getattr(sys.modules[module], result), 3, made_by=name))
    return "\n".join(parts)


def write_module(name, module) -> str:
    """Write a module of data: its text, `listen`, and a table of its dataclasses with their fields."""
    parts = [f"### `alternator.{name}`\n", write_text(inspect.getdoc(module)), ""]
    parts.append(write_entry(f"alternator.{name}.listen", module.listen, 3))
    rows = ["| class | what it is | it has |", "|---|---|---|"]
    for title, thing in vars(module).items():
        if dataclasses.is_dataclass(thing) and title != "Listener":
            inherited = {f.name for base in thing.__mro__[1:-1] for f in dataclasses.fields(base)}
            own = [f"`{f.name}`" for f in dataclasses.fields(thing) if f.name not in inherited]
            own += [f"`{key}`" for key, value in vars(thing).items() if isinstance(value, property)]
            text = " ".join(thing.__doc__.split())
            rows.append(f"| `{title}` | {text} | {', '.join(own)} |")
    return "\n".join([*parts, *rows, ""])


def write_entry(title, thing, level, made_by=None) -> str:
    if not inspect.getdoc(thing):
        raise SystemExit(f"tools/api.py: {title} has no docstring")
    heading = f"{'#' * level} `{title}{'' if made_by else write_signature(thing)}`\n"
    parts = [heading, write_text(inspect.getdoc(thing)), ""]
    if inspect.isclass(thing):
        members = {name: member for name, member in vars(thing).items() if is_member(name, member)}
        plain = [f"`{name}`" for name, member in members.items() if not member.__doc__ and isinstance(member, property)]
        if plain:
            parts.append(f"It has {', '.join(plain)}, which say what they are.\n")
        parts += [write_entry(name, member, level + 1) for name, member in members.items() if member.__doc__]
    return "\n".join(parts)


def is_member(name, member) -> bool:
    return not name.startswith("_") and isinstance(member, types.FunctionType | property)


def write_signature(thing) -> str:
    if isinstance(thing, property):
        return ""
    if inspect.isclass(thing) and issubclass(thing, BaseException):
        return ""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    parameters = [p.replace(annotation=p.empty) for name, p in signature.parameters.items() if name != "self"]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


def write_text(docstring) -> str:
    """Turn a docstring into Markdown: indented blocks become code."""
    out = []
    for block in docstring.split("\n\n"):
        if all(line.startswith("    ") or not line for line in block.split("\n")):
            if out and out[-1].startswith("```python"):  # a blank line inside of code
                out[-1] = out[-1].removesuffix("\n```") + "\n\n" + textwrap.dedent(block) + "\n```"
            else:
                out.append(f"```python\n{textwrap.dedent(block)}\n```")
        else:
            out.append(block)
    return "\n\n".join(out)


if __name__ == "__main__":
    PAGE.write_text(write_page())
    print(PAGE)
