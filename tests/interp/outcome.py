"""Runs a function and records everything about the run that a program could notice.

An `Outcome` holds plain, comparable data only (no object of the program survives in it), so that the outcome of a
native run and of an interpreted one can be compared with `==`. Comparison is strict:

  result     structure, exact types, aliasing between mutable parts, floats bit by bit
  error      type, arguments, notes, the chain (cause, context, suppression, groups) and every traceback entry:
             function, line and columns. Entries above the function itself (the test, a wrapper) are cut off.
  arguments  what the arguments look like afterwards; the log that programs append to is one of them
  output     what was printed to stdout and stderr
  ignored    exceptions that could only be reported (`__del__`, weakref callbacks), through `sys.unraisablehook`
  warned     warnings with their category and line
"""

import contextlib
import difflib
import gc
import io
import operator
import pprint
import re
import struct
import sys
import types
import warnings
from dataclasses import dataclass, field

ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
# The attributes in which built-in exceptions keep more than their arguments.
EXCEPTION_FIELDS = (
    "name",
    "path",
    "value",
    "code",
    "errno",
    "filename",
    "lineno",
    "offset",
    "start",
    "end",
    "reason",
    "msg",
)


@dataclass(frozen=True)
class Outcome:
    result: object
    error: object
    arguments: object
    output: str = ""
    ignored: tuple = ()
    warned: tuple = ()

    @property
    def raised(self):
        """The name of the exception's type, or None."""
        return self.error["type"] if self.error else None


@dataclass
class Reports:
    """What a run wrote to the process's channels instead of returning it."""

    output: io.StringIO = field(default_factory=io.StringIO)
    ignored: list = field(default_factory=list)
    warned: list = field(default_factory=list)


def call_directly(fn, *args):
    return fn(*args)


def make_log():
    """The arguments of most programs: a fresh log."""
    return ([],)


def record(fn, make_args=make_log, run=call_directly, capture=True, vague=()):
    """Run `fn` on fresh arguments by `run(fn, *args)` and return its Outcome.

    `capture=False` leaves the process-wide channels alone, for use in several threads at once. Of exceptions of the
    types in `vague` the innermost position is left out.
    """
    args = make_args()
    reports = Reports()
    result = error = None
    freezer = Freezer(getattr(fn, "__code__", None), vague)
    with capture_reports(reports) if capture else contextlib.nullcontext():
        try:
            result = run(fn, *args)
        except BaseException as raised:
            error = raised
        # Still inside: a collection now could run a finaliser that writes to the log.
        frozen_error = freezer.freeze_exception(error) if error is not None else None
        frozen_result, frozen_args = freezer.freeze(result), freezer.freeze(args)
    outcome = Outcome(
        frozen_result,
        frozen_error,
        frozen_args,
        ADDRESS.sub("0x?", reports.output.getvalue()),
        tuple(reports.ignored),
        tuple((w.category.__name__, freezer.freeze(str(w.message)), w.lineno) for w in reports.warned),
    )
    # The traceback holds this frame and this frame holds the exception: without this the program's objects live until
    # a collection.
    del error, result, args, freezer
    return outcome


@contextlib.contextmanager
def capture_reports(reports):
    """Collect what is printed, warned and ignored; automatic collections are off: their timing is not promised."""
    hook, collecting = sys.unraisablehook, gc.isenabled()

    def note_unraisable(unraisable):
        freezer = Freezer(None)
        where = getattr(unraisable.object, "__qualname__", type(unraisable.object).__qualname__)
        reports.ignored.append((where, unraisable.err_msg, freezer.freeze_exception(unraisable.exc_value)))

    with contextlib.redirect_stdout(reports.output), contextlib.redirect_stderr(reports.output):
        with warnings.catch_warnings(record=True) as reports.warned:
            warnings.simplefilter("always")
            sys.unraisablehook = note_unraisable
            gc.disable()
            try:
                yield
            finally:
                sys.unraisablehook = hook
                if collecting:
                    gc.enable()


def describe_difference(expected, actual, names=("native", "interpreted")):
    """A diff of two outcomes for an assertion message; empty if they are equal."""
    texts = [pprint.pformat(vars(outcome), width=110, sort_dicts=False).splitlines() for outcome in (expected, actual)]
    return "\n".join(difflib.unified_diff(*texts, *names, lineterm="", n=2))


def list_traceback(error, program=None):
    """(function, line, columns) of each entry of a traceback, from the first frame that runs `program` on."""
    entries = []
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        positions = list(code.co_positions())[traceback.tb_lasti // 2]
        entries.append((code, (code.co_qualname, traceback.tb_lineno, positions)))
        traceback = traceback.tb_next
    start = next((index for index, (code, _) in enumerate(entries) if code is program), None)
    if start is None:
        # What except* raises anew has no entry of its own frame: then all that is there is above the program.
        start = len(entries) if entries and entries[0][0] is record.__code__ else 0
    return tuple(entry for _, entry in entries[start:])


class Freezer:
    """Turns objects into plain comparable data. Mutable objects are numbered as they are met, so aliasing shows."""

    def __init__(self, program, vague=()):
        self.program, self.vague = program, vague
        self.numbers = {}
        self.alive = []

    def freeze(self, value):
        kind = type(value)
        if value is None or value is Ellipsis or value is NotImplemented or kind in (bool, int, bytes):
            return (kind.__name__, value)
        if kind is str:
            return ("str", ADDRESS.sub("0x?", value))
        if kind is float:
            return ("float", struct.pack("<d", value).hex(), repr(value))
        if kind is complex:
            return ("complex", self.freeze(value.real), self.freeze(value.imag))
        if kind is tuple:
            return ("tuple", *[self.freeze(item) for item in value])
        if kind in (range, slice):
            return (kind.__name__, repr(value))
        return self.freeze_identity(value)

    def freeze_identity(self, value):
        """Freeze something that has an identity worth comparing."""
        if isinstance(value, type):
            return ("type", value.__qualname__, *[base.__qualname__ for base in value.__mro__[1:]])
        number = self.numbers.get(id(value))
        if number is not None:
            return ("again", number)
        number = self.numbers[id(value)] = len(self.numbers)
        self.alive.append(value)
        if isinstance(value, BaseException):
            return self.freeze_exception(value, number)
        return (type(value).__qualname__, number, *self.freeze_parts(value))

    def freeze_parts(self, value):
        match value:
            case types.FunctionType():
                return (value.__qualname__, self.freeze(value.__defaults__), self.freeze(value.__kwdefaults__))
            case types.MethodType():
                return (self.freeze(value.__func__), self.freeze(value.__self__))
            case types.BuiltinFunctionType() | types.ModuleType():
                return (value.__name__,)
            case types.CodeType():
                return (value.co_qualname, value.co_firstlineno)
            case types.FrameType():
                return (value.f_code.co_qualname, value.f_lineno)
            case types.GeneratorType():
                return (value.__qualname__, value.gi_running, value.gi_frame is None)
            case types.CellType():
                return self.freeze_cell(value)
        if type(value).__module__ == "builtins" and hasattr(type(value), "__next__"):
            return (operator.length_hint(value, -1),)
        return (*self.freeze_contents(value), *self.freeze_attributes(value))

    def freeze_cell(self, cell):
        try:
            return (self.freeze(cell.cell_contents),)
        except ValueError:
            return ("empty",)

    def freeze_contents(self, value):
        """What a container, or an object derived from a built-in type, holds as such."""
        if isinstance(value, dict):
            return tuple((self.freeze(key), self.freeze(dict.__getitem__(value, key))) for key in dict.__iter__(value))
        if isinstance(value, (set, frozenset)):
            return tuple(sorted((self.freeze(item) for item in value), key=repr))
        for kind in (list, tuple):
            if isinstance(value, kind):
                return tuple(self.freeze(item) for item in kind.__iter__(value))
        for kind in (str, bytes, bytearray, int, float):
            if isinstance(value, kind):
                return (repr(kind(value) if kind is not str else str.__str__(value)),)
        return ()

    def freeze_attributes(self, value):
        """The instance's own attributes, without running any code of the program."""
        frozen = []
        for base in type(value).__mro__:
            slots = base.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                member = base.__dict__.get(name)
                if isinstance(member, types.MemberDescriptorType):
                    with contextlib.suppress(AttributeError):
                        frozen.append((name, self.freeze(member.__get__(value))))
        try:
            attributes = object.__getattribute__(value, "__dict__")
        except AttributeError:
            attributes = None
        if type(attributes) is dict:
            frozen.extend((name, self.freeze(item)) for name, item in attributes.items())
        return tuple(frozen)

    def freeze_traceback(self, error):
        entries = list_traceback(error, self.program)
        if entries and isinstance(error, self.vague):
            return (*entries[:-1], (entries[-1][0], "somewhere"))
        return entries

    def freeze_exception(self, error, number=None):
        if number is None:
            if id(error) in self.numbers:
                return ("again", self.numbers[id(error)])
            number = self.numbers[id(error)] = len(self.numbers)
            self.alive.append(error)
        frozen = {
            "type": type(error).__qualname__,
            "number": number,
            "args": self.freeze(error.args),
            "fields": tuple((n, self.freeze(getattr(error, n))) for n in EXCEPTION_FIELDS if has_field(error, n)),
            "attributes": self.freeze_attributes(error),
            "traceback": self.freeze_traceback(error),
            "suppress": error.__suppress_context__,
        }
        for link in ("cause", "context"):
            linked = getattr(error, f"__{link}__")
            frozen[link] = self.freeze_exception(linked) if linked is not None else None
        if isinstance(error, BaseExceptionGroup):
            frozen["exceptions"] = tuple(self.freeze_exception(part) for part in error.exceptions)
        return frozen


def has_field(error, name):
    """Tell whether an exception's type (not the program's class) has the data descriptor `name`."""
    return any(
        isinstance(vars(base).get(name), types.MemberDescriptorType | types.GetSetDescriptorType)
        for base in type(error).__mro__
    )
