"""Where in the program torch assumed something of a size: for the message when the program promised another thing.

Torch's ShapeEnv notes a place for each assumption, from a tracing context of TorchDynamo's that is not there. The
program's own frames are on Python's stack while it is traced: the innermost of them is the place.
"""

from __future__ import annotations

import dataclasses
import sys

from torch._guards import SLoc
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError, ShapeEnv

from alternator.events import find_library, make_frame
from alternator.messages import quote_frame


class Place(SLoc):
    """A place of torch's, with the code and the instruction of the program that led there."""

    site = None


class PlacedShapeEnv(ShapeEnv):
    """A ShapeEnv whose assumptions have places in the program."""

    def _get_stack_summary(self, is_debug=False, framework_loc=None):
        found, debug = super()._get_stack_summary(is_debug, framework_loc)
        place = Place(found.framework_loc, found.maybe_user_loc)
        place.site = find_site(sys._getframe(1))
        return place, debug


def find_site(frame):
    """Find the innermost frame of the user's: its code and instruction, or None."""
    while frame is not None:
        if find_library(frame.f_code.co_filename) is None:
            return frame.f_code, frame.f_lasti
        frame = frame.f_back
    return None


def find_sites(env, text):
    """List the sites of assumptions on the symbols whose sources a text names."""
    named = {symbol for symbol, sources in env.var_to_sources.items() if any(s.name in text for s in sources)}
    places = [guard.sloc for guard in env.guards if named & guard.expr.free_symbols]
    places += [place for symbol, place in env.replacements_slocs.items() if symbol in named]
    return list(dict.fromkeys(place.site for place in places if getattr(place, "site", None) is not None))


def make_violation(error, env) -> ConstraintViolationError:
    """Add the user's lines to torch's message of a promise that the program does not keep."""
    text = str(error)
    frames = [make_frame(code, offset) for code, offset in find_sites(env, text)]
    # The whole line: an instruction that is recorded before it runs is not yet the frame's.
    quoted = [quote_frame(dataclasses.replace(frame, column=None)) for frame in frames]
    if quoted:
        text = "\n".join([text, "", "The size is used as a constant, or limited, here:", *dict.fromkeys(quoted)])
    return ConstraintViolationError(text)
