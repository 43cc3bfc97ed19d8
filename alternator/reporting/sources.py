"""The files of a program as the page shows them: their text, or the parts of it where something happened."""

from __future__ import annotations

import ast
import linecache
import os

MAX_FILE_LINES = 3_000  # of the user's own file that is shown as a whole
MAX_FUNCTION_LINES = 160  # of a function that is shown as a whole
MAX_TEXT = 2_000_000  # characters of all files together
CONTEXT = 5  # lines around a line of interest where not everything is shown


class Sources:
    """Files by number; and for each line what happened there."""

    def __init__(self, find_library):
        self.find_library = find_library
        self.numbers = {}  # file -> its number
        self.covered = {}  # file -> line -> numbers of captures
        self.broken = {}  # file -> line -> numbers of groups of breaks
        self.wanted = {}  # file -> further lines to show

    def number(self, file) -> int:
        return self.numbers.setdefault(file, len(self.numbers))

    def place(self, frame) -> list | None:
        """Give a frame's place as the page knows it: file, line, function, columns, library."""
        if frame is None:
            return None
        line = linecache.getline(frame.file, frame.line)
        same_line = frame.end_line in (None, frame.line)
        columns = [
            count_characters(line, column) if column is not None else None
            for column in (frame.column, frame.end_column if same_line else None)
        ]
        return [self.number(frame.file), frame.line, frame.function, *columns, frame.library]

    def cover(self, file, line, capture):
        self.number(file)
        self.covered.setdefault(file, {}).setdefault(line, set()).add(capture)

    def mark_break(self, file, line, group):
        self.number(file)
        self.broken.setdefault(file, {}).setdefault(line, set()).add(group)

    def want(self, file, line) -> int:
        """Show a line, and give its file's number."""
        self.wanted.setdefault(file, set()).add(line)
        return self.number(file)

    def collect(self, notes) -> list[dict]:
        """List the files in the order of their numbers; those with nothing in them have no text."""
        left = MAX_TEXT
        common = find_common_folder([file for file in self.numbers if self.find_library(file) is None])
        rows = []
        cut = 0
        for file in self.numbers:
            covered, broken = self.covered.get(file, {}), self.broken.get(file, {})
            library = self.find_library(file)
            lines = {*covered, *broken, *self.wanted.get(file, ())}
            parts = cut_out(linecache.getlines(file), lines, library) if lines else []
            size = sum(len(text) for _, text in parts)
            if size > left:
                parts, size, cut = [], 0, cut + 1
            left -= size
            rows.append(
                {
                    "path": file,
                    "name": name_file(file, library, common),
                    "library": library,
                    "parts": parts,
                    "covered": {line: sorted(captures) for line, captures in sorted(covered.items())},
                    "breaks": {line: sorted(groups) for line, groups in sorted(broken.items())},
                }
            )
        if cut:
            notes.append(f"The text of {cut} source files was left out: together they are longer than {MAX_TEXT:,}.")
        return rows


def count_characters(line, column) -> int:
    """Turn CPython's column, which counts UTF-8 bytes, into one that counts JavaScript's UTF-16 units."""
    text = line.encode()[:column].decode(errors="replace")
    return len(text.encode("utf-16-le")) // 2


def find_common_folder(files):
    folders = [os.path.dirname(file) for file in files if os.path.isabs(file)]
    return os.path.commonpath(folders) if folders else ""


def name_file(file, library, common):
    """Shorten a path: from the package on for a library's, from the common folder on for the user's own."""
    if library is not None and f"/{library}/" in file:
        return file[file.index(f"/{library}/") + 1 :]
    if common and file.startswith(common + os.sep):
        return file[len(common) + 1 :]
    return file


def cut_out(lines, wanted, library):
    """Cut the parts around lines of interest out of a file: [first line, text] each."""
    if not lines:
        return []
    if library is None and len(lines) <= MAX_FILE_LINES:
        return [[1, "".join(lines)]]
    functions = find_functions(lines)
    spans = sorted(find_span(line, functions, len(lines)) for line in wanted if line <= len(lines))
    parts = []
    for first, last in spans:
        if parts and first <= parts[-1][1] + 3:
            parts[-1][1] = max(parts[-1][1], last)
        else:
            parts.append([first, last])
    return [[first, "".join(lines[first - 1 : last])] for first, last in parts]


def find_functions(lines):
    """List the functions of a file as (first line, last line)."""
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return []
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    found = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return [(min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.end_lineno) for node in found]


def find_span(line, functions, last_line):
    """Find what to show of a line's surroundings: its function, or some lines if that is long or there is none."""
    around = [(first, last) for first, last in functions if first <= line <= last]
    first, last = max(around, default=(None, None), key=lambda span: span[0])
    if first is not None and last - first < MAX_FUNCTION_LINES:
        return first, last
    return max(line - CONTEXT, 1), min(line + CONTEXT, last_line)
