"""Programs with breaks: a register of functions with the number of graphs that they make, and the check of one."""

import contextlib
import io
import traceback
import warnings

import torch

from capture.agreement import Captured, same

X = torch.arange(6.0).reshape(2, 3)


def stop():
    """Be a break: the output is an effect."""
    print("stop")


def places_of(error):
    """Tell the functions and lines that an exception came through."""
    return [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]


class Programs(dict):
    """name -> (function (x, *args), graphs of the first call, what makes the other arguments)."""

    def add(self, graphs, make=tuple):
        def register(fn):
            self[fn.__name__] = (fn, graphs, make)
            return fn

        return register

    def check(self, name):
        """Compare four calls with eager's; graphs are made by the first only, unless another input needs others."""
        fn, graphs, make = self[name]
        compiled = Captured(fn)
        counts = []
        for x in (X, X, X, X + 1):
            expected = run(fn, x.clone(), make())
            found = run(compiled.fn, x.clone(), make())
            assert same(found, expected), f"{name}\n compiled: {found}\n eager:    {expected}\n {compiled.breaks}"
            counts.append(len(compiled.graphs))
        assert counts[:3] == [graphs] * 3, (counts, compiled.breaks, compiled.said)
        return compiled


def run(fn, x, args):
    """Return the result or exception, the argument afterwards, the output, and what is left of iterators."""
    torch.manual_seed(0)
    with contextlib.redirect_stdout(io.StringIO()) as output, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = fn(x, *args)
        except Exception as error:
            lines = [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
            result = type(error).__name__, str(error), [line for line in lines if line[0] not in ("run", "__call__")]
    rest = [list(arg) for arg in args if hasattr(arg, "__next__")]
    return result, x, output.getvalue(), rest
