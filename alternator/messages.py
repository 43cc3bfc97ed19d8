"""Why a trace ends: every reason with what happened, why, and what to do. docs/messages.md is made from this table.

The core gives one of its own reasons (csrc/base/abort.def) and a detail: a call, a class, an instruction, a text. A row
is for a reason of the core, and for details that match one of its patterns if it has any; the first row that fits wins.
Where TorchDynamo has a well-known phrase for the situation, `what` is that phrase.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import re
import traceback


@dataclasses.dataclass(frozen=True)
class Row:
    """A reason. Its texts may name {detail}, {name} (a call without its arguments) and {message} (their first text)."""

    id: str
    core: str  # reason of the core; "": none of its
    what: str
    why: str
    hints: tuple[str, ...] = ()
    details: tuple[str, ...] = ()  # patterns, as for file names; none: any


FUNDAMENTAL = "No tracer can take this away: the program itself has to be written differently, or the break stays."
OUTSIDE = "Do it before or after the compiled function."
CUSTOM_OP = "Make it an operator of torch with `torch.library.custom_op`: a graph calls it without looking inside."
IN_GRAPH = "If it does nothing but compute with tensors, mark it with `torch.compiler.allow_in_graph`."
REORDER = "List it in `torch._dynamo.config.reorderable_logging_functions`: its calls are made when the graph has run."
SKIPPED = "Attempted to call function marked as skipped"
LIBRARY_HINT = "It happens inside of {library}: what you can move or replace is the call in your own last line."
FEATURE = "It may be captured in the future; please tell if you need it."
VERBATIM = "Run the function without compiling it: it should fail in the same way."

ROWS = [
    # ---- What the program asked for ------------------------------------------------------------------------------
    Row(
        "GraphBreakCall",
        "MustRun",
        "Call to `torch._dynamo.graph_break()`",
        "User-inserted graph break. Message: {message}",
        ("Remove the `torch._dynamo.graph_break()` call.",),
        ("torch._dynamo.decorators.graph_break(*",),
    ),
    Row(
        "StepUnsupportedCall",
        "MustRun",
        "Call to `torch._dynamo.step_unsupported()`",
        "User-inserted step_unsupported: it is a break like any other here.",
        ("Remove the `torch._dynamo.step_unsupported()` call.",),
        ("torch._dynamo.decorators.step_unsupported(*",),
    ),
    Row(
        "ComptimeBreak",
        "UnsupportedTorch",
        "ComptimeContext graph break",
        "User-inserted graph break, in code that runs while tracing. Message: {message}",
        ("Remove the call of `comptime.graph_break()`.",),
        ("comptime.graph_break(*",),
    ),
    Row(
        "SkippedFrame",
        "SkippedFrame",
        "Call to `torch._dynamo.skip_frame()`",
        "The function asks not to be captured: it runs eagerly, and what it calls is captured on its own.",
        ("Remove the `torch._dynamo.skip_frame()` call.",),
    ),
    Row(
        "DisabledCall",
        "DisabledCall",
        "Skip calling `torch.compiler.disable()`d function",
        "`{name}` is marked with `torch.compiler.disable`: it runs eagerly. {message}",
        ("Remove the `torch.compiler.disable` from `{name}`.", OUTSIDE),
    ),
    # ---- Values of tensors ---------------------------------------------------------------------------------------
    Row(
        "DataDependentBranch",
        "DataDependentBranch",
        "Data-dependent branching",
        "The values of a tensor decide which way the program goes (e.g. `if x.sum() > 0:`), and while a graph "
        "is made its tensors have no values.",
        (
            "Use `torch.cond` to express the branch: a graph holds both of its ways.",
            "Compute both and choose with `torch.where`, or make it branchless (`torch.clamp`, `torch.nan_to_num`).",
            "Decide by something that is no tensor: a shape, a flag, a number of Python's.",
            FUNDAMENTAL,
        ),
    ),
    Row(
        "TensorItem",
        "MustRun",
        "Unsupported Tensor.item() call",
        "`Tensor.item()` makes a number of Python's from the value of a tensor, and while a graph is made its "
        "tensors have no values.",
        (
            "Go on computing with the tensor itself, without `.item()`.",
            "Take the number before or after the compiled function.",
        ),
        ("*.item(Tensor)", "*.item(Parameter)"),
    ),
    Row(
        "TensorValues",
        "MustRun",
        "Tensor data is read: `{name}`",
        "`{name}` hands the values of a tensor, or their address, to code outside of torch, and while a graph "
        "is made its tensors have no values.",
        ("Stay with tensors and torch's functions.", OUTSIDE, CUSTOM_OP),
        ("TensorBase.*(Tensor*", "torch.*Tensor.tolist(*", "*.numpy(Tensor*", "*__array__(Tensor*"),
    ),
    Row(
        "TensorScalar",
        "DataDependentOperator",
        "Data dependent operator",
        "A number of Python's is made from the values of a tensor (`float(x)`, `int(x)`, `bool(x)`, an index, "
        "`torch.equal`, a comparison in a sort), and while a graph is made its tensors have no values.",
        ("Go on computing with the tensor itself: `(x == y).all()` instead of `torch.equal(x, y)`.", OUTSIDE),
        ("*_local_scalar_dense*", "*is_nonzero*", "*equal *"),
    ),
    Row(
        "DynamicShape",
        "DataDependentOperator",
        "Dynamic shape operator",
        "The size of the result depends on the values of a tensor, and while a graph is made its tensors have "
        "no values.",
        (
            "Keep the size: `torch.where(mask, x, 0)` instead of `x[mask]`, `nonzero_static` instead of `nonzero`.",
            OUTSIDE,
        ),
    ),
    Row(
        "TensorPrinted",
        "UnsupportedTorch",
        "Tensor data is read: a text of it",
        "The text of a tensor shows its values, and while a graph is made its tensors have no values.",
        ("Print it before or after the compiled function.", "Print its shape or dtype instead."),
        ("a tensor is printed",),
    ),
    # ---- Calls ---------------------------------------------------------------------------------------------------
    Row(
        "Print",
        "MustRun",
        "Failed to trace builtin operator `print`",
        "`print` shows something to the world: it runs where it stands, not in a graph.",
        ("Leave it out, or move it behind the compiled function.", REORDER),
        ("print(*",),
    ),
    Row(
        "Files",
        "MustRun",
        SKIPPED,
        "`{name}` opens, reads or writes a file: that must happen at each call, and just there.",
        (OUTSIDE,),
        ("io.*", "open(*", "torch.serialization.*", "*.read(*", "pickle.*", "_pickle.*", "os.*", "posix.*"),
    ),
    Row(
        "TensorDeepCopy",
        "MustRun",
        "Attempted to copy.deepcopy a tensor",
        "`{name}` makes tensors that no graph knows.",
        ("Use `x.detach().clone()`.", OUTSIDE),
        ("torch._tensor.Tensor.__deepcopy__*",),
    ),
    Row(
        "Output",
        "MustRun",
        SKIPPED,
        "`{name}` shows something to the world: printing, logging and warnings run where they stand, not in a graph.",
        ("Leave it out, or move it behind the compiled function.", REORDER),
        ("logging.*", "warnings.*", "_warnings.*", "*.write(*", "*.flush(*"),
    ),
    Row(
        "OutputByC",
        "UnknownCall",
        SKIPPED,
        "`{name}` shows something to the world: printing, logging and warnings run where they stand, not in a graph.",
        ("Leave it out, or move it behind the compiled function.", REORDER),
        ("_warnings.*", "*.write()", "*.flush()"),
    ),
    Row(
        "RandomNumber",
        "UnknownCall",
        SKIPPED,
        "`{name}` draws a random number of Python's: it must be another one at each call.",
        ("Use `torch.rand` and its like, which a graph can do.", "Draw it outside, and pass it as an argument."),
        ("Random.*", "*random*"),
    ),
    Row(
        "Time",
        "UnknownCall",
        SKIPPED,
        "`{name}` asks for the time, or waits: that must happen at each call.",
        (OUTSIDE,),
        ("time.*", "datetime.*"),
    ),
    Row(
        "Profiler",
        "MustRun",
        "Unsupported context manager",
        "`{name}` belongs to a profiler, which has to see the program run. (A span that is entered and left in a graph "
        "is left out; this one was entered before.)",
        ("Profile from outside of the compiled function.",),
        ("torch.profiler.*", "torch.autograd.profiler.*"),
    ),
    Row(
        "Autograd",
        "MustRun",
        "Autograd runs inside the function: `{name}`",
        "`{name}` runs a backward pass, which is not part of a graph.",
        ("Compile the forward pass and call `backward()` outside: its backward pass is compiled too.",),
        ("torch.autograd.*", "torch._tensor.Tensor.backward(*"),
    ),
    Row(
        "LibraryCall",
        "MustRun",
        SKIPPED,
        "`{name}` has to run for real: it does what must not happen while a graph is made, or at another time.",
        (f"Avoid calling `{{name}}` here. {OUTSIDE}", CUSTOM_OP),
    ),
    Row(
        "CachedCall",
        "UnknownCall",
        "Call of a function with a cache: `{name}`",
        "`{name}` is wrapped by `functools.lru_cache` or `functools.cache`, and an argument is an object of a class, "
        "maybe `self`: what the cache has for it cannot be watched. Or the cache is full and would forget a result.",
        ("Call `{name}.__wrapped__`, the function itself.", "Call it outside, and pass what it gives as an argument."),
        ("*, which has a cache",),
    ),
    Row(
        "ContextExit",
        "UnknownCall",
        "Unsupported context manager",
        "The end of a `with` calls `{name}`, which is C code of which it is not known what it does.",
        ("Move the `with` to outside of the compiled function.",),
        ("*.__exit__()", "*.__enter__()"),
    ),
    Row(
        "UnknownCall",
        "UnknownCall",
        SKIPPED,
        "`{name}` is C code, a builtin or of an extension, of which it is not known what it reads and writes.",
        (OUTSIDE, CUSTOM_OP, IN_GRAPH),
    ),
    Row(
        "ContextManager",
        "UnsupportedContext",
        "Unsupported context manager",
        "`with` enters {detail}, whose `__enter__` or `__exit__` is C code of which it is not known what it does.",
        ("Move the `with` to outside of the compiled function.", "If there is a way to do the same in Python, use it."),
    ),
    # ---- Objects that were there before --------------------------------------------------------------------------
    Row(
        "IteratorOutside",
        "IteratorOutside",
        "Unsupported method call: `__next__` of an iterator from outside",
        "An iterator of type {detail}, which was there before, cannot be advanced on trial and put back.",
        ("Pass the container, or a list of its items, and iterate in the compiled function.",),
    ),
    Row(
        "WriteOutside",
        "WriteOutside",
        "Unsupported write to an object from outside",
        "An object that existed before is changed in a way that cannot be undone and done again later: {detail}.",
        ("Return the new value instead of storing it.", "Store it outside of the compiled function."),
    ),
    Row(
        "ObjectAddress",
        "UnknownRead",
        "The address of an object is used: `id()`",
        "An address is another one in each run, so a graph that depends on it could never be used again.",
        ("Compare objects with `is`.", OUTSIDE),
        ("the address of an object",),
    ),
    Row(
        "ClassInMotion",
        "UnknownRead",
        "A class cannot be watched",
        "CPython has run out of version numbers for classes, or the class changes all the time.",
        ("Do not change classes while the program runs.",),
        ("a class",),
    ),
    Row(
        "UnknownRead",
        "UnknownRead",
        "Something is read that cannot be watched: {detail}",
        "A graph is used again only while what the program read is as it was, and a change of this could not be seen.",
        ("Read it outside, and pass it as an argument.",),
    ),
    Row(
        "VaryingNumber",
        "VaryingNumber",
        "A number that varies: `{detail}`",
        "`{detail}` is another number each time; instead of a graph for each value, its use runs for real.",
        ("Compute with it outside of the compiled function.", "Pass it as a tensor: `torch.tensor(n)`."),
    ),
    Row(
        "VaryingClass",
        "VaryingClass",
        "A class that each call makes anew: `{detail}`",
        "`{detail}` is a class that this call has made, or an object of one; instead of a graph for each call, its use "
        "runs eagerly.",
        ("Define the class outside of the compiled function.",),
    ),
    Row(
        "AddressKept",
        "UnsupportedResult",
        "The address of an object is used: `id()`",
        "An address is another one in each run, so a graph that depends on it could never be used again.",
        ("Compare objects with `is`.", OUTSIDE),
        ("the address of an object",),
    ),
    Row(
        "Result",
        "UnsupportedResult",
        "Reconstruction failure",
        "The function leaves {detail} behind, which cannot be rebuilt when the graph has run.",
        ("Return tensors, numbers, containers and objects of Python classes.", OUTSIDE),
    ),
    # ---- Python's constructs -------------------------------------------------------------------------------------
    Row(
        "ClassDefinition",
        "UnsupportedInstruction",
        "LOAD_BUILD_CLASS bytecode not supported",
        "A class is defined in the compiled function, and making it runs code of its own that cannot be traced: its "
        "metaclass is no class, or a base or a descriptor is C code.",
        ("Move the class to outside of the compiled function.",),
        ("LOAD_BUILD_CLASS",),
    ),
    Row(
        "AsyncCode",
        "UnsupportedInstruction",
        "Unsupported async code",
        "`async with`, `async for` and `await` hand over to an event loop ({detail}).",
        ("Compile the functions that the coroutine calls.",),
        ("BEFORE_ASYNC_WITH", "GET_AITER", "GET_ANEXT", "GET_AWAITABLE", "ASYNC_GEN_WRAP", "END_ASYNC_FOR"),
    ),
    Row(
        "ImportInside",
        "UnsupportedInstruction",
        "Unsupported import",
        "A module is imported for the first time: its code runs, which must happen once and for real.",
        ("Import it at the top of the file.",),
        ("an import of*",),
    ),
    Row(
        "Construct",
        "UnsupportedInstruction",
        "Missing bytecode handler",
        "This construct is not captured yet: {detail}.",
        ("Write it in another way, or outside of the compiled function.", FEATURE),
    ),
    Row(
        "CallerInC",
        "CallerInC",
        "Unsupported break inside of C code",
        "Python code was called by C code ({detail}), which holds its own progress and cannot be entered again: "
        "the call as a whole runs for real.",
        ("Move what cannot be captured out of the callback.",),
    ),
    Row(
        "GeneratorInC",
        "GeneratorInC",
        "Unsupported break in a generator that C code resumes",
        "A generator was resumed by C code ({detail}), which holds its own progress and cannot be entered again.",
        ("Iterate over the generator in a Python loop.",),
    ),
    Row(
        "GeneratorEnd",
        "GeneratorEnd",
        "Unsupported end of a generator",
        "A generator that has not finished is dropped, and what its `finally` does has to happen just then.",
        ("Run the generator to its end, or close it.",),
    ),
    Row(
        "Finaliser",
        "Finaliser",
        "An object dies whose end runs code: {detail}",
        "A finaliser (`__del__`, a callback of a weak reference) runs where the last reference to its object goes "
        "away, so the instruction that drops it cannot be part of a graph.",
        ("Keep the object until the function returns.", "Release what it holds by a method, and not by its end."),
    ),
    Row(
        "RaisedByC",
        "RaisedByC",
        "Observed exception",
        "C code raises an exception: it runs for real, so that the words and the traceback are its own.",
        ("Test for the case before the call.",),
    ),
    Row(
        "LongTrace",
        "LongTrace",
        "A very long trace",
        "The loop has run very often without an end in sight; the trace ends at its next turn. {detail}",
        ("Compile the body of the loop.", "Use tensors of a higher dimension instead of a loop."),
    ),
    # ---- torch ---------------------------------------------------------------------------------------------------
    Row(
        "TensorClass",
        "UnsupportedTorch",
        "Unsupported tensor: {detail}",
        "Graphs have ordinary tensors so far, no sparse or nested ones and no subclasses.",
        ("Convert it outside of the compiled function.", FEATURE),
        ("a tensor of class *", "* gives a tensor that is none of the trace's"),
    ),
    Row(
        "ForeignTensor",
        "UnsupportedTorch",
        "A tensor of unknown origin",
        "The function uses {detail}, so no guard could tell whether it is the same one next time.",
        ("Pass the tensor as an argument, or keep it on a module.",),
        ("a tensor that the trace did not get*",),
    ),
    Row(
        "AutogradState",
        "UnsupportedTorch",
        "Unsupported change of what autograd records",
        "What autograd knows of a tensor is not part of a graph: {detail}.",
        ("Call `requires_grad_()`, `detach_()`, `register_hook()` and `backward()` outside of the compiled function.",),
        (
            "*autograd*",
            "a new tensor requires grad",
            "the gradient of*",
            "*grad_fn*",
        ),
    ),
    Row(
        "TensorAttribute",
        "UnsupportedTorch",
        "Unsupported attribute of a tensor",
        "A graph cannot do this with an attribute of a tensor: {detail}.",
        ("Do it outside of the compiled function.", "Keep such things beside the tensor, in an object or a dict."),
        ("*attribute*of a tensor*",),
    ),
    Row(
        "TorchScope",
        "UnsupportedTorch",
        "Unsupported context manager",
        "A scope of torch's state is entered and left in a way that a graph cannot express: {detail}.",
        ("Enter and leave it in the same function, with `with`.",),
        ("*scope of torch's state*",),
    ),
    Row(
        "TensorCopied",
        "UnsupportedTorch",
        "Attempted to copy.deepcopy a tensor",
        "{detail}: that makes a tensor which no graph knows.",
        ("Use `x.detach().clone()`.",),
        ("a tensor is copied*", "torch.tensor of a tensor*", "new_tensor of a tensor", "a tensor is pickled"),
    ),
    Row(
        "UnsupportedTorch",
        "UnsupportedTorch",
        "Unsupported use of torch",
        "This use of torch is not captured yet: {detail}.",
        (OUTSIDE, FEATURE),
    ),
    Row(
        "NoFake",
        "NoFake",
        "NotImplementedError when running on fake tensors",
        "torch cannot tell what this call gives without computing it: {detail}",
        (OUTSIDE, "An operator of your own needs `register_fake`."),
    ),
    Row(
        "Mistake",
        "TorchException",
        "{error} when making fake tensor call",
        "torch raised an exception, most likely because of a mistake in the program: {detail}",
        (VERBATIM, "Look at the shapes, dtypes and arguments of the call that is underlined."),
    ),
    # ---- Too many graphs ----------------------------------------------------------------------------------------
    Row(
        "RecompileLimit",
        "",
        "Recompile limit reached",
        "What the function depends on was another thing at each call, so it was captured again and again: {detail}.",
        (
            "`ALTERNATOR_LOGS=recompiles` (or `TORCH_LOGS=recompiles`) shows the reason of each recompilation.",
            "Pass numbers that vary as tensors, and keep shapes to a few.",
            "`torch._dynamo.config.recompile_limit` is the limit.",
        ),
    ),
    # ---- The rest ------------------------------------------------------------------------------------------------
    Row(
        "UserException",
        "UserException",
        "Observed exception",
        "The function raises an exception: it runs for real, so that the traceback is its own.",
    ),
    Row(
        "BackendFailed",
        "BackendFailed",
        "Backend compiler exception",
        "The backend failed: {detail}",
        ('Try `backend="eager"`: if that works, it is the backend\'s own fault.',),
    ),
    Row(
        "ChangedMeanwhile",
        "ChangedMeanwhile",
        "What the trace read changed while the graph was compiled",
        "Compiling the graph changed what the function depends on, again and again: {detail}.",
        ("Set up what the function reads before the first call.",),
    ),
    Row(
        "OutOfResources",
        "OutOfResources",
        "Memory or stack ran out while the function was captured",
        "{detail}: it is tried again at another call.",
        ("Compile a smaller part.",),
    ),
    Row(
        "StaticShapes",
        "StaticShapes",
        "Sizes are constants after all",
        "Something cannot be done with symbolic sizes: the function is captured with the sizes of this call. {detail}",
        ("Nothing needs to be done; other sizes are other graphs.",),
    ),
    Row("Internal", "Internal", "Alternator itself failed", "{detail}", ("Please report it, with the program.",)),
    Row("Testing", "Testing", "A test gave the trace up", "It asked for it."),
]
BY_CORE = {}
for row in ROWS:
    BY_CORE.setdefault(row.core, []).append(row)

TEXT = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"|, which is disabled: (.*)")


def find_row(reason, detail) -> Row:
    for row in BY_CORE.get(reason, ()):
        if not row.details or any(fnmatch.fnmatchcase(detail, pattern) for pattern in row.details):
            return row
    return Row(reason, reason, reason, "{detail}")


def explain(reason, detail):
    """Say what a reason of the core means: the texts of an event `Break`."""
    row = find_row(reason, detail)
    name = detail.partition("(")[0]
    quoted = TEXT.search(detail)
    message = next((text for text in quoted.groups() if text is not None), None) if quoted else None
    error = detail.partition(":")[0] if re.match(r"\w+(Error|Exception)\b", detail) else "Exception"
    fill = {"detail": detail, "name": name, "message": message, "error": error}
    if row.id == "DisabledCall":
        fill["message"] = f"(reason: {message})" if message else ""
    return {
        "reason": row.id,
        "what": row.what.format(**fill),
        "why": row.why.format(**fill).strip(),
        "hints": tuple(hint.format(**fill) for hint in row.hints),
    }


def describe(stop) -> str:
    """Write what, why and what to do, in TorchDynamo's layout: programs and people look for it."""
    lines = [stop.what, f"  Explanation: {stop.why}", *(f"  Hint: {hint}" for hint in stop.hints)]
    if stop.detail and not any(stop.detail in text for text in (stop.what, stop.why)):
        lines.append(f"  Detail: {stop.detail}")
    return "\n".join(lines)


# ---- Frames --------------------------------------------------------------------------------------------------------


def summarize(frames) -> traceback.StackSummary:
    """Make a traceback's entries of frames."""
    entries = [
        traceback.FrameSummary(
            *(frame.file, frame.line, frame.function),
            lookup_line=False,
            end_lineno=frame.end_line,
            colno=frame.column,
            end_colno=frame.end_column,
        )
        for frame in frames
    ]
    return traceback.StackSummary.from_list(entries)


def quote_frame(frame) -> str:
    """Write a frame as tracebacks do, the expression underlined."""
    head = f'  File "{frame.file}", line {frame.line}, in {frame.function}'
    source = frame.source
    text = source.strip()
    if not text:
        return head
    begin, end = find_columns(frame, source)
    shift = len(source) - len(source.lstrip())
    marks = " " * (begin - shift) + "^" * (end - begin) if end > begin >= shift else ""
    return "\n".join([head, f"    {text}", f"    {marks}"] if marks else [head, f"    {text}"])


def find_columns(frame, source):
    """Find the columns of the expression in its first line, in characters."""
    if frame.column is None or frame.end_column is None:
        return 0, 0
    encoded = source.encode()
    begin = len(encoded[: frame.column].decode(errors="replace"))
    if frame.end_line != frame.line:
        return begin, len(source.rstrip())
    return begin, len(encoded[: frame.end_column].decode(errors="replace"))


def quote_frames(stop, heading="from user code:") -> str:
    """Write the user's frames with the expressions underlined, and the calls of libraries that led to the break."""
    lines = [heading, *map(quote_frame, stop.user_frames)]
    behind = stop.library_frames
    if behind:
        names = " and ".join(dict.fromkeys(frame.library for frame in behind))
        lines += [f"which led, in {names}, to:", *map(quote_frame, behind[-2:])]
    return "\n".join(lines)


def write(stop, heading="from user code:") -> str:
    """Write all there is to say of a break."""
    parts = [describe(stop), quote_frames(stop, heading)] if stop.frames else [describe(stop)]
    return "\n\n".join([*parts, f"(reason: {stop.reason}; more: alternator explain-reason {stop.reason})"])


# ---- The page ------------------------------------------------------------------------------------------------------

INTRODUCTION = """# Why a function is split: every reason

Made from the table in `alternator/messages.py` by `python -m alternator.messages`; do not edit.

A *break* is an instruction that cannot be part of a graph. It runs for real, and a new graph begins behind it: nothing
is lost but speed. Under `fullgraph=True` a break is an error instead, `alternator.Unsupported`, which
`except torch._dynamo.exc.Unsupported` catches as well. Its `stop` has all that is said here as data: `reason`, `what`,
`why`, `hints`, `detail`, `frames`.

See the breaks of a function with `print(alternator.explain(fn)(*args))`, those of a program with
`ALTERNATOR_LOGS=graph_breaks`. Where a text below has `{name}`, a message has the name of what was called; `{detail}`
is what exactly it is about, `{message}` the program's own words, `{error}` the class of torch's exception.
"""


def write_row(row) -> str:
    """Write a row for a terminal."""
    lines = [row.id, f"  {row.what}", f"  {row.why}", *(f"  - {hint}" for hint in row.hints)]
    return "\n".join(lines)


def write_page() -> str:
    """Write docs/messages.md."""
    parts = [INTRODUCTION]
    for row in ROWS:
        lines = [f"## {row.id}", "", f"**{row.what}**", "", row.why]
        lines += ["", *(f"- {hint}" for hint in row.hints)] if row.hints else []
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(write_page(), end="")
