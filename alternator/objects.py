"""Compiled functions as objects: copies, pickles, their texts.

A compiled function is the function and how it was compiled; its graphs are made anew wherever it goes. One that stands
under its own name in a module, as a decorated function does, is pickled by that name, like any function. Everything
else is pickled as the function, by Python's own rules, and its settings: what Python cannot pickle, a lambda, is
Python's own error.
"""

from __future__ import annotations

import copy
import sys

from alternator import _capture

RECIPE = "_alternator_recipe"


def remember(compiled, make, fn, settings):
    """Note how a compiled function was made: `make(fn, settings)` makes another one."""
    setattr(compiled, RECIPE, (make, fn, settings))
    return compiled


def recipe_of(compiled):
    recipe = vars(compiled).get(RECIPE)
    if recipe is None:
        raise TypeError(f"cannot copy or pickle {compiled!r}")
    return recipe


def has_own_name(compiled):
    """Tell whether a module has it under its own name."""
    found = sys.modules.get(getattr(compiled, "__module__", None))
    for part in getattr(compiled, "__qualname__", "<locals>").split("."):
        found = getattr(found, part, None)
    return found is compiled


def rebuild(make, fn, settings):
    return make(fn, settings)


def reduce(self):
    return self.__qualname__ if has_own_name(self) else (rebuild, recipe_of(self))


def copy_deeply(self, memo):
    """A function's copy is itself; that of a bound method belongs to the copy of its object."""
    make, fn, settings = recipe_of(self)
    copied = copy.deepcopy(fn, memo)
    return self if copied is fn else make(copied, settings)


def describe(self):
    fn = vars(self).get(RECIPE, (None, self.__wrapped__, None))[1]
    text = repr(fn)
    return f"<compiled {text[1:-1] if text.startswith('<') and text.endswith('>') else text}>"


def prepare():
    """Give these to the core's class."""
    _capture.Captured.__reduce__ = reduce
    _capture.Captured.__copy__ = lambda self: self
    _capture.Captured.__deepcopy__ = copy_deeply
    _capture.Captured.__repr__ = describe


prepare()
