"""Exceptions of the public API."""

from __future__ import annotations

import typing

from alternator.messages import summarize, write

if typing.TYPE_CHECKING:
    from alternator.events import Break


class CaptureError(RuntimeError):
    """Base of what Alternator itself raises."""


class Unsupported(CaptureError):
    """`fullgraph=True`, or `error_on_graph_break`, and the function cannot be captured as one graph.

    `stop` is the event of the break, with its reason, hints and place:

        try:
            alternator.compile(fn, fullgraph=True)(x)
        except alternator.Unsupported as error:
            print(error.stop.reason, error.stop.place)

    `except torch._dynamo.exc.Unsupported` catches it as well: before the first one is raised, that class becomes its
    base. Not earlier, because torch._dynamo takes seconds to import.
    """

    stop: Break | None  # the event of the break: reason, what, why, hints, frames
    msg: str
    gb_type: str

    def __init__(self, message: str, stop: Break | None = None) -> None:
        RuntimeError.__init__(self, message)
        self.stop = stop
        # What programs read from TorchDynamo's.
        self.msg = message
        self.gb_type = stop.what if stop is not None else ""
        self.real_stack = summarize(stop.user_frames) if stop is not None else []
        self.skip_frame = False
        self.category = "unimplemented"
        self.logged = False


def make_unsupported(stop, cause):
    """Make the exception for a break, with TorchDynamo's among its bases."""
    from torch._dynamo.exc import Unsupported as theirs

    if not issubclass(Unsupported, theirs):
        Unsupported.__bases__ = (theirs, CaptureError)
    return Unsupported(f"{write(stop)}\n\n{cause}", stop)
