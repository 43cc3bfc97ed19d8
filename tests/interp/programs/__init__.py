"""Small programs, one concept each, in a module a family.

A program is a public function whose one parameter is `log`, a fresh list to which it appends what it sees; it may
return or raise anything. Programs are repeatable (whatever they change outside of themselves they put back),
deterministic, and short: each runs a few thousand instructions at most, since it is also re-created at every one of
them.

Names with a leading underscore are a family's own props.
"""

import importlib
import inspect
import pkgutil


def process_wide(program):
    """Mark a program that changes, for a moment, what other threads share (builtins, settings of `sys`)."""
    program.process_wide = True
    return program


def summarise(values):
    """Run-length form of a list, so that the logs of long loops stay short."""
    runs = []
    for value in values:
        if runs and runs[-1][0] == value:
            runs[-1][1] += 1
        else:
            runs.append([value, 1])
    return [tuple(run) for run in runs]


def collect_programs():
    """All programs as {family.name: function}, in the order in which they are written."""
    programs = {}
    for module_info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        for name, value in vars(module).items():
            own = inspect.isfunction(value) and value.__module__ == module.__name__
            if own and not name.startswith("_"):
                programs[f"{module_info.name}.{name}"] = value
    return programs
