"""Exceptions of the public API."""

from __future__ import annotations

import linecache


class CaptureError(RuntimeError):
    """Base of what Alternator itself raises."""


class Unsupported(CaptureError):
    """`fullgraph=True`, or `error_on_graph_break`, and the function cannot be captured as one graph.

    `except torch._dynamo.exc.Unsupported` catches it as well: before the first one is raised, that class becomes its
    base. Not earlier, because torch._dynamo takes seconds to import.
    """

    def __init__(self, message, kind=""):
        RuntimeError.__init__(self, message)
        # What programs read from TorchDynamo's.
        self.msg = message
        self.gb_type = kind
        self.real_stack = []
        self.skip_frame = False
        self.category = "unimplemented"
        self.logged = False


def make_unsupported(message, kind=""):
    """Make the exception, with TorchDynamo's among its bases."""
    from torch._dynamo.exc import Unsupported as theirs

    if not issubclass(Unsupported, theirs):
        Unsupported.__bases__ = (theirs, CaptureError)
    return Unsupported(message, kind)


def quote_frames(text):
    """Format the places (file:line in function) behind the first line of a text as tracebacks do."""
    reason, *places = text.splitlines()
    return "\n".join([reason, *map(quote_place, filter(None, places))])


def quote_place(place):
    where, _, name = place.rpartition(" in ")
    file, _, line = where.rpartition(":")
    source = linecache.getline(file, int(line)).strip() if line.isdecimal() else ""
    return f'  File "{file}", line {line}, in {name}' + (f"\n    {source}" if source else "")
