"""The report: what was captured of a program, as one HTML file that can be opened anywhere.

collecting.py   listens to events and keeps them as plain data, bounded
graphs.py       a graph as data: nodes, edges, modules, code
sources.py      the files of the program, and what happened in which line
page.py         data + page.html, page.css, *.js -> one file
"""

from __future__ import annotations

import atexit
import os
import sys
import threading

from alternator.reporting.collecting import Collector
from alternator.reporting.page import write_page

DEFAULT_PATH = "alternator-report.html"


def report(path: str | os.PathLike[str] = DEFAULT_PATH, *, title: str | None = None) -> Report:
    """Watch what is captured from now on, and write it to `path` as one self-contained HTML page.

    Around code, the page is written when the block is left, also by an exception:

        with alternator.report("report.html"):
            compiled(x)

    Called by itself, at the top of a program or in a notebook, it watches until the program ends and the page is
    written then; `write()` on the result writes what was seen so far, as often as wanted, and `close()` ends it early.

    What `alternator.compile` made is seen, and what `torch.compile` made while Alternator is installed. The same for a
    whole program without an edit: `python -m alternator report SCRIPT`.
    """
    return Report(path, title)


class Report:
    """A report in the making: what `alternator.report()` returns.

    `path` is where it is written to, `title` what stands at its top, `status` how the program ended, if that is to be
    shown.
    """

    def __init__(self, path: str | os.PathLike[str] = DEFAULT_PATH, title: str | None = None) -> None:
        self.path = os.path.abspath(path)
        self.title = title or os.path.basename(sys.argv[0] or "") or "Python session"
        self.status: str | int | None = None
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._open = True
        self._collector = Collector()
        atexit.register(self.close)

    def write(self, path: str | os.PathLike[str] | None = None) -> str:
        """Write what was seen so far, to `path` or where the report goes, and return the file's whole name."""
        path = os.path.abspath(path or self.path)
        with self._lock:
            write_page(path, self._collector.collect(self.title, self.status))
        return path

    def close(self) -> None:
        """Write the page and watch no more. A second call does nothing, nor does one in a forked process."""
        if self._open and os.getpid() == self._process:
            self._open = False
            atexit.unregister(self.close)
            self._collector.stop()
            self.write()

    def __enter__(self) -> Report:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
