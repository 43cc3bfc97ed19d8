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
    """A reason. Its texts may name {detail}, {name} (a call without its arguments) and {message} (their first text).

    What {detail} and {name} say is in the user's words: see `user_text` and `user_name`.
    """

    id: str
    core: str  # reason of the core; "": none of its
    what: str
    why: str
    hints: tuple[str, ...] = ()
    details: tuple[str, ...] = ()  # patterns, as for file names; none: any


FUNDAMENTAL = "This break is fundamental: rewrite the branch or accept it."
OUTSIDE = "Do it before or after the compiled function."
CUSTOM_OP = "Wrap it with `torch.library.custom_op`: a graph calls such an operator without looking inside."
IN_GRAPH = "If it only computes with tensors, mark it with `torch.compiler.allow_in_graph`."
REORDER = "Add it to `torch._dynamo.config.reorderable_logging_functions`: it then runs after the graph."
NO_VALUES = "Tensors have no values while a graph is traced."
LIBRARY_HINT = "This happens inside {library}: move or replace the call on the last line of your own code."
FEATURE = "This may be supported later; please report it if you need it."
VERBATIM = "Run the function without compiling it: it should fail with the same error."

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
        "User-inserted `step_unsupported()`: Alternator treats it as an ordinary break.",
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
        "The function asks not to be captured. It runs eagerly; the functions it calls are captured on their own.",
        ("Remove the `torch._dynamo.skip_frame()` call.",),
    ),
    Row(
        "DisabledTorchCall",
        "DisabledCall",
        "Skip calling `torch.compiler.disable()`d function",
        "torch itself marks `{name}` with `torch.compiler.disable`, so it runs eagerly. {message}",
        (OUTSIDE,),
        ("torch.*",),
    ),
    Row(
        "DisabledCall",
        "DisabledCall",
        "Skip calling `torch.compiler.disable()`d function",
        "`{name}` is marked with `torch.compiler.disable`, so it runs eagerly. {message}",
        ("Remove the `torch.compiler.disable` from `{name}`.", OUTSIDE),
    ),
    # ---- Values of tensors ---------------------------------------------------------------------------------------
    Row(
        "DataDependentBranch",
        "DataDependentBranch",
        "Data-dependent branching",
        f"A tensor's value decides which way the program goes (e.g. `if x.sum() > 0:`). {NO_VALUES}",
        (
            "Use `torch.cond` to express the branch: the graph then contains both sides.",
            "Compute both sides and choose with `torch.where`, or use `torch.clamp` or `torch.nan_to_num`.",
            "Branch on a non-tensor: a shape, a flag or a Python number.",
            FUNDAMENTAL,
        ),
    ),
    Row(
        "TensorItem",
        "MustRun",
        "Unsupported Tensor.item() call",
        f"`Tensor.item()` converts a tensor's value to a Python number, which is unknown while tracing. {NO_VALUES}",
        (
            "Compute with the tensor itself, without `.item()`.",
            "Set `torch._dynamo.config.capture_scalar_outputs = True`: the graph then computes the number.",
            "Call `.item()` before or after the compiled function.",
        ),
        ("*.item(Tensor)", "*.item(Parameter)"),
    ),
    Row(
        "TensorValues",
        "MustRun",
        "Tensor data is read: `{name}`",
        f"`{{name}}` gives a tensor's values, or their address, to code outside torch. {NO_VALUES}",
        ("Use tensors and torch functions only.", OUTSIDE, CUSTOM_OP),
        ("TensorBase.*(Tensor*", "torch.*Tensor.tolist(*", "*.numpy(Tensor*", "*__array__(Tensor*"),
    ),
    Row(
        "TensorScalar",
        "DataDependentOperator",
        "Data dependent operator: a tensor's value as a Python number",
        "This converts a tensor's value to a Python number or bool (`float(x)`, `int(x)`, `bool(x)`, an index, a "
        f"comparison in a sort), which is unknown while tracing. {NO_VALUES}",
        (
            "Compute with the tensor itself, without `float()`, `int()` or `bool()`.",
            "For `float()` and `int()`, set `torch._dynamo.config.capture_scalar_outputs = True`: the graph then has "
            "the number.",
            OUTSIDE,
        ),
        ("*_local_scalar_dense*", "*is_nonzero*"),
    ),
    Row(
        "TensorsCompared",
        "DataDependentOperator",
        "Data dependent operator: tensors are compared",
        f"This compares the values of tensors and gives a Python bool, which is unknown while tracing. {NO_VALUES}",
        (
            "Use `(x == y).all()`, which is a tensor, instead of `torch.equal(x, y)`, and choose with `torch.where`.",
            OUTSIDE,
        ),
        ("*equal *",),
    ),
    Row(
        "GraphNumber",
        "DataDependentOperator",
        "Data dependent operator: a number that the graph computes",
        "The program needs the value of a number that the graph computes (from `.item()`, `int(x)` or `float(x)`). It "
        "is unknown while tracing: {detail}.",
        ("Do not branch on that number, and do not use it as an index or a key.", OUTSIDE),
        ("*a number that the graph computes*",),
    ),
    Row(
        "DynamicShape",
        "DataDependentOperator",
        "Dynamic shape operator",
        f"The size of the result depends on a tensor's values. {NO_VALUES}",
        (
            "Keep the size fixed: `torch.where(mask, x, 0)` for `x[mask]`, `torch.nonzero_static` for `nonzero`.",
            OUTSIDE,
        ),
    ),
    Row(
        "TensorPrinted",
        "UnsupportedTorch",
        "Tensor data is read: it is converted to a string",
        f"A tensor's string form shows its values. {NO_VALUES}",
        ("Print it before or after the compiled function.", "Print its shape or dtype instead."),
        ("a tensor is printed",),
    ),
    # ---- Calls ---------------------------------------------------------------------------------------------------
    Row(
        "Print",
        "MustRun",
        "Failed to trace builtin operator `print`",
        "`print` is a side effect, so it cannot be part of a graph.",
        ("Leave it out, or move it after the compiled function.", REORDER),
        ("print(*",),
    ),
    Row(
        "Files",
        "MustRun",
        "File access: `{name}`",
        "`{name}` opens, reads or writes a file. That must happen at each call, in the order of the program.",
        (OUTSIDE,),
        ("io.*", "open(*", "torch.serialization.*", "*.read(*", "pickle.*", "_pickle.*", "os.*", "posix.*"),
    ),
    Row(
        "TensorDeepCopy",
        "MustRun",
        "Attempted to copy.deepcopy a tensor",
        "`{name}` makes a tensor that the graph does not know.",
        ("Use `x.detach().clone()`.", OUTSIDE),
        ("torch._tensor.Tensor.__deepcopy__*",),
    ),
    Row(
        "Output",
        "MustRun",
        "Output or logging: `{name}`",
        "`{name}` is output, logging or a warning: a side effect, so it cannot be part of a graph.",
        ("Leave it out, or move it after the compiled function.", REORDER),
        ("logging.*", "warnings.*", "_warnings.*", "*.write(*", "*.flush(*"),
    ),
    Row(
        "OutputByC",
        "UnknownCall",
        "Output or logging: `{name}`",
        "`{name}` is output, logging or a warning: a side effect, so it cannot be part of a graph.",
        ("Leave it out, or move it after the compiled function.", REORDER),
        ("_warnings.*", "*.write()", "*.flush()"),
    ),
    Row(
        "RandomNumber",
        "UnknownCall",
        "Python random number: `{name}`",
        "`{name}` draws a random number, which must be a new one at each call.",
        (
            "Use `torch.rand` or a similar torch function: a graph can contain it.",
            "Draw it outside and pass it as an argument.",
        ),
        ("Random.*", "*random*"),
    ),
    Row(
        "Time",
        "UnknownCall",
        "Clock or sleep: `{name}`",
        "`{name}` reads the clock or waits. That must happen at each call.",
        (OUTSIDE,),
        ("time.*", "datetime.*"),
    ),
    Row(
        "Profiler",
        "MustRun",
        "Unsupported context manager",
        "`{name}` belongs to a profiler, which must see the program run. (A graph ignores a profiler span that "
        "begins and ends inside it. This one does not.)",
        ("Start and stop the profiler outside the compiled function.",),
        ("torch.profiler.*", "torch.autograd.profiler.*"),
    ),
    Row(
        "Autograd",
        "MustRun",
        "Autograd runs inside the function: `{name}`",
        "`{name}` runs a backward pass, which cannot be part of a graph.",
        ("Compile the forward pass and call `backward()` outside: the backward pass is compiled too.",),
        ("torch.autograd.*", "torch._tensor.Tensor.backward(*"),
    ),
    Row(
        "LibraryCall",
        "MustRun",
        "Call that must run eagerly: `{name}`",
        "`{name}` does something that must not happen while tracing, or at another time.",
        (f"Avoid calling `{{name}}` here. {OUTSIDE}", CUSTOM_OP),
    ),
    Row(
        "CachedCall",
        "UnknownCall",
        "Call of a function with a cache: `{name}`",
        "`{name}` has a cache (`functools.lru_cache` or `functools.cache`). An argument is an object whose cache entry "
        "no guard can check (maybe `self`), or the cache is full and would drop a result.",
        (
            "Call `{name}.__wrapped__`, the function without the cache.",
            "Call it outside and pass the result as an argument.",
        ),
        ("*, which has a cache",),
    ),
    Row(
        "ContextExit",
        "UnknownCall",
        "Unsupported context manager",
        "The end of a `with` block calls `{name}`, a C function whose side effects Alternator does not know.",
        ("Move the `with` statement outside the compiled function.",),
        ("*.__exit__()", "*.__enter__()"),
    ),
    Row(
        "UnknownCall",
        "UnknownCall",
        "Unknown C function: `{name}`",
        "`{name}` is a C function whose side effects Alternator does not know.",
        (OUTSIDE, CUSTOM_OP, IN_GRAPH),
    ),
    Row(
        "ContextManager",
        "UnsupportedContext",
        "Unsupported context manager",
        "The `with` statement enters {detail}. Its `__enter__` or `__exit__` is a C function whose side effects "
        "Alternator does not know.",
        ("Move the `with` statement outside the compiled function.", "Use a context manager written in Python."),
    ),
    # ---- Objects that were there before --------------------------------------------------------------------------
    Row(
        "IteratorOutside",
        "IteratorOutside",
        "Iterator from outside the function is advanced",
        "An iterator of type {detail} existed before the call. A trace cannot advance it and put it back.",
        ("Pass the container, or a list of its items, and iterate over that.",),
    ),
    Row(
        "WriteOutside",
        "WriteOutside",
        "Unsupported write to an object from outside",
        "An object that existed before the call is changed in a way that cannot be repeated after the graph: {detail}.",
        ("Return the new value instead of storing it.", "Store it outside the compiled function."),
    ),
    Row(
        "ObjectAddress",
        "UnknownRead",
        "The address of an object is used: `id()`",
        "An object's address differs in each run, so a graph that depends on it could not be reused.",
        ("Compare objects with `is`.", OUTSIDE),
        ("the address of an object",),
    ),
    Row(
        "ClassInMotion",
        "UnknownRead",
        "A class that keeps changing",
        "The class changes all the time, or CPython has no version numbers left for classes, so no guard can check it.",
        ("Do not change classes while the program runs.",),
        ("a class",),
    ),
    Row(
        "UnknownRead",
        "UnknownRead",
        "Read of something no guard can check: {detail}",
        "A graph is reused only while everything the program read is unchanged. A change of this would go unnoticed.",
        ("Read it outside and pass it as an argument.",),
    ),
    Row(
        "VaryingNumber",
        "VaryingNumber",
        "A number that changes at each call: `{detail}`",
        "`{detail}` has changed at each call. Instead of one graph per value, its use runs eagerly.",
        ("Compute with it outside the compiled function.", "Pass it as a tensor: `torch.tensor(n)`."),
    ),
    Row(
        "VaryingClass",
        "VaryingClass",
        "A class that is made anew at each call: `{detail}`",
        "`{detail}` is a class that this call made, or an instance of one. Instead of one graph per call, its use runs "
        "eagerly.",
        ("Define the class outside the compiled function.",),
    ),
    Row(
        "AddressKept",
        "UnsupportedResult",
        "The address of an object is used: `id()`",
        "An object's address differs in each run, so a graph that depends on it could not be reused.",
        ("Compare objects with `is`.", OUTSIDE),
        ("the address of an object",),
    ),
    Row(
        "Result",
        "UnsupportedResult",
        "Reconstruction failure",
        "The function returns or keeps {detail}, which cannot be rebuilt after the graph has run.",
        ("Return tensors, numbers, containers or instances of Python classes.", OUTSIDE),
    ),
    # ---- Python's constructs -------------------------------------------------------------------------------------
    Row(
        "ClassDefinition",
        "UnsupportedInstruction",
        "Unsupported class definition",
        "A class is defined in the compiled function, and making it runs code that cannot be traced: its metaclass is "
        "not a class, or a base class or a descriptor is C code.",
        ("Move the class outside the compiled function.",),
        ("LOAD_BUILD_CLASS",),
    ),
    Row(
        "AsyncCode",
        "UnsupportedInstruction",
        "Unsupported async code",
        "`async with`, `async for` and `await` give control to an event loop ({detail}).",
        ("Compile the functions that the coroutine calls.",),
        ("BEFORE_ASYNC_WITH", "GET_AITER", "GET_ANEXT", "GET_AWAITABLE", "ASYNC_GEN_WRAP", "END_ASYNC_FOR"),
    ),
    Row(
        "ImportInside",
        "UnsupportedInstruction",
        "Unsupported import",
        "A module is imported for the first time. Its code must run once, eagerly.",
        ("Import it at the top of the file.",),
        ("an import of*",),
    ),
    Row(
        "Construct",
        "UnsupportedInstruction",
        "Unsupported Python construct: {detail}",
        "Alternator cannot capture this Python construct yet.",
        ("Write it differently, or move it outside the compiled function.", FEATURE),
    ),
    Row(
        "CallerInC",
        "CallerInC",
        "Unsupported break inside C code",
        "C code ({detail}) called this Python code. C code cannot be interrupted and resumed, so the whole call runs "
        "eagerly.",
        ("Move what breaks out of the callback.",),
    ),
    Row(
        "GeneratorInC",
        "GeneratorInC",
        "Unsupported break in a generator that C code resumes",
        "C code ({detail}) resumed this generator. C code cannot be interrupted and resumed, so its call runs eagerly.",
        ("Iterate over the generator in a Python loop.",),
    ),
    Row(
        "GeneratorEnd",
        "GeneratorEnd",
        "Unsupported end of a generator",
        "A generator is dropped before it has finished, and its `finally` block must run at that moment.",
        ("Run the generator to its end, or call its `close()`.",),
    ),
    Row(
        "Finaliser",
        "Finaliser",
        "Dropping an object runs code: {detail}",
        "A finaliser (`__del__`, or the callback of a weak reference) runs when the last reference to its object goes "
        "away. So the instruction that drops that reference cannot be part of a graph.",
        ("Keep the object until the function returns.", "Release what it holds with a method instead of a finaliser."),
    ),
    Row(
        "RaisedByC",
        "RaisedByC",
        "Observed exception",
        "C code raises an exception. It runs eagerly, so that the message and the traceback are the program's own.",
        ("Test for this case before the call.",),
    ),
    Row(
        "LongTrace",
        "LongTrace",
        "A very long trace",
        "The loop has run very often while tracing, so the graph ends at its next turn. {detail}",
        ("Compile the body of the loop.", "Use one operation on a larger tensor instead of a loop."),
    ),
    # ---- torch ---------------------------------------------------------------------------------------------------
    Row(
        "TensorClass",
        "UnsupportedTorch",
        "Unsupported tensor: {detail}",
        "Graphs contain ordinary tensors only so far: no sparse or nested tensors, and not this class.",
        ("Convert it outside the compiled function.", FEATURE),
        ("a tensor of class *", "* gives a tensor that is none of the trace's"),
    ),
    Row(
        "ForeignTensor",
        "UnsupportedTorch",
        "A tensor of unknown origin",
        "The function uses {detail}. No guard can check whether it is the same tensor at the next call.",
        ("Pass the tensor as an argument, or store it on a module.",),
        ("a tensor that the trace did not get*",),
    ),
    Row(
        "AutogradState",
        "UnsupportedTorch",
        "Unsupported change of autograd state",
        "A graph cannot change a tensor's autograd state like this: {detail}.",
        ("Call `requires_grad_()`, `detach_()`, `register_hook()` and `backward()` outside the compiled function.",),
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
        "A graph cannot use a tensor's attribute like this: {detail}.",
        (OUTSIDE, "Store such data in an object or a dict, not on the tensor."),
        ("*attribute*of a tensor*",),
    ),
    Row(
        "TorchScope",
        "UnsupportedTorch",
        "Unsupported context manager",
        "A torch context (grad mode, autocast, ...) is entered or left in a way no graph can express: {detail}.",
        ("Enter and leave it in the same function, with `with`.",),
        ("*scope of torch's state*",),
    ),
    Row(
        "TensorCopied",
        "UnsupportedTorch",
        "Attempted to copy.deepcopy a tensor",
        "This makes a tensor that the graph does not know: {detail}.",
        ("Use `x.detach().clone()`.",),
        ("a tensor is copied*", "torch.tensor of a tensor*", "new_tensor of a tensor", "a tensor is pickled"),
    ),
    Row(
        "UnsupportedTorch",
        "UnsupportedTorch",
        "Unsupported use of torch",
        "This use of torch is not supported yet: {detail}.",
        (OUTSIDE, FEATURE),
    ),
    Row(
        "TensorKind",
        "NoFake",
        "Unsupported tensor layout or type",
        "A graph cannot contain this tensor: {detail}.",
        ("Convert it outside the compiled function.", FEATURE),
        ("*no fake can stand for*",),
    ),
    Row(
        "NoFake",
        "NoFake",
        "NotImplementedError when running on fake tensors",
        "torch cannot tell what this call returns without computing it: {detail}",
        (OUTSIDE, "If it is your own operator, register a fake for it with `register_fake`."),
    ),
    Row(
        "Mistake",
        "TorchException",
        "{error} when making fake tensor call",
        "torch raised an exception, most likely because of a mistake in the program: {detail}",
        (VERBATIM, "Check the shapes, dtypes and arguments of the underlined call."),
    ),
    # ---- Too many graphs ----------------------------------------------------------------------------------------
    Row(
        "RecompileLimit",
        "",
        "Recompile limit reached",
        "Something that the function depends on changed at each call, so it was compiled again and again: {detail}.",
        (
            "`ALTERNATOR_LOGS=recompiles` (or `TORCH_LOGS=recompiles`) shows the cause of each recompilation.",
            "Pass changing numbers as tensors, and use only a few different shapes.",
            "Raise the limit with `torch._dynamo.config.recompile_limit`.",
        ),
    ),
    # ---- The rest ------------------------------------------------------------------------------------------------
    Row(
        "UserException",
        "UserException",
        "Observed exception",
        "The function raises an exception. It runs eagerly, so that the traceback is the program's own.",
    ),
    Row(
        "BackendFailed",
        "BackendFailed",
        "Backend compiler exception",
        "The backend failed: {detail}",
        ('Try `backend="eager"`: if that works, the fault is in the backend.',),
    ),
    Row(
        "ChangedMeanwhile",
        "ChangedMeanwhile",
        "What the trace read changed while the graph was compiled",
        "Compiling the graph changed what the function depends on, several times: {detail}.",
        ("Initialise what the function reads before the first call.",),
    ),
    Row(
        "OutOfResources",
        "OutOfResources",
        "Memory or stack ran out while the function was captured",
        "{detail}. Capture is tried again at a later call.",
        ("Compile a smaller part of the program.",),
    ),
    Row(
        "StaticShapes",
        "StaticShapes",
        "Symbolic sizes given up",
        "Something does not work with symbolic sizes, so the function is captured with those of this call. {detail}",
        ("You need not do anything; each size gets its own graph.",),
    ),
    Row("Internal", "Internal", "Alternator itself failed", "{detail}", ("Please report it, with the program.",)),
    Row("Testing", "Testing", "A test ended the trace", "The test asked for it."),
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


# Names of the core and of Python's and torch's inner modules, as users write them.
USER_NAMES = [
    (r"^TensorBase\.|^torch\._C\.TensorBase\.|^torch\._tensor\.Tensor\.", "Tensor."),
    (r"^torch\.serialization\.", "torch."),
    (r"^torch\._dynamo\.decorators\.", "torch._dynamo."),
    (r"^torch\.profiler\.profiler\.", "torch.profiler."),
    (r"^torch\.(optim|nn\.modules|utils\.data)\.\w+\.", r"torch.\1."),
    (r"^torch\.nn\.modules\.", "torch.nn."),
    (r"^_?[Rr]andom\.Random\.|^Random\.", "random."),
    (r"^_(warnings|pickle|io|thread|collections|functools|operator|json|csv|socket|struct)\.", r"\1."),
    (r"^(posix|nt)\.", "os."),
    (r"^__main__\.", ""),
]
# Instructions, as what a program has.
CONSTRUCTS = {
    "ASYNC_GEN_WRAP": "an asynchronous generator",
    "BEFORE_ASYNC_WITH": "`async with`",
    "CHECK_EG_MATCH": "`except*`",
    "END_ASYNC_FOR": "`async for`",
    "GET_AITER": "`async for`",
    "GET_ANEXT": "`async for`",
    "GET_AWAITABLE": "`await`",
    "LOAD_BUILD_CLASS": "a class definition",
    "MATCH_KEYS": "`match` with a mapping pattern",
    "PREP_RERAISE_STAR": "`except*`",
}
NO_FAKE = re.compile(r"(?:[\w:.]+: )?no fake can stand for (a result|a tensor) of (the class|layout|type) (.*)")


def user_name(name) -> str:
    """Write the name of what was called as users know it."""
    for pattern, replacement in USER_NAMES:
        name = re.sub(pattern, replacement, name)
    return name


def user_text(detail) -> str:
    """Write a detail of the core without words that only the core knows."""
    if detail in CONSTRUCTS:
        return CONSTRUCTS[detail]
    if found := NO_FAKE.match(detail):
        return "{} has the {} {}".format(found[1], found[2].removeprefix("the "), found[3])
    return user_name(detail)


def explain(reason, detail):
    """Say what a reason of the core means: the texts of an event `Break`."""
    row = find_row(reason, detail)
    name = user_name(detail.partition("(")[0])
    quoted = TEXT.search(detail)
    message = next((text for text in quoted.groups() if text is not None), None) if quoted else None
    error = detail.partition(":")[0] if re.match(r"\w+(Error|Exception)\b", detail) else "Exception"
    fill = {"detail": user_text(detail), "name": name, "message": message, "error": error}
    if row.core == "DisabledCall":
        fill["message"] = f"(reason: {message})" if message else ""
    return {
        "reason": row.id,
        "what": row.what.format(**fill),
        "why": row.why.format(**fill).strip(),
        "hints": tuple(hint.format(**fill) for hint in row.hints),
    }


def describe(stop) -> str:
    """Write what, why and what to do, in TorchDynamo's layout: programs and people look for it."""
    return "\n".join([stop.what, f"  Explanation: {stop.why}", *(f"  Hint: {hint}" for hint in stop.hints)])


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


def name_library(library) -> str:
    """Name whose code it is in a sentence."""
    return "Python's standard library" if library == "python" else library


def quote_frames(stop, heading="from user code:") -> str:
    """Write the user's frames with the expressions underlined, and the calls of libraries that led to the break."""
    lines = [heading, *map(quote_frame, stop.user_frames)]
    behind = stop.library_frames
    if behind:
        names = " and ".join(dict.fromkeys(name_library(frame.library) for frame in behind))
        lines += [f"which led, in {names}, to:", *map(quote_frame, behind[-2:])]
    return "\n".join(lines)


def write(stop, heading="from user code:") -> str:
    """Write all there is to say of a break."""
    parts = [describe(stop), quote_frames(stop, heading)] if stop.frames else [describe(stop)]
    return "\n\n".join([*parts, f"(reason: {stop.reason}; more: alternator explain-reason {stop.reason})"])


# ---- The page ------------------------------------------------------------------------------------------------------

INTRODUCTION = """# Why a function is split: every reason

Made from the table in `alternator/messages.py` by `python -m alternator.messages`; do not edit.

A *break* is an instruction that cannot be part of a graph. It runs eagerly, and a new graph begins after it:
nothing is lost but speed. Under `fullgraph=True` a break is an error instead, `alternator.Unsupported`, which
`except torch._dynamo.exc.Unsupported` catches as well. Its `stop` has all that is said here as data: `reason`, `what`,
`why`, `hints`, `detail`, `frames`.

See the breaks of a function with `print(alternator.explain(fn)(*args))`, those of a program with
`ALTERNATOR_LOGS=graph_breaks`. Where a text below has `{name}`, a message has the name of what was called; `{detail}`
says what exactly, `{message}` is the program's own message, `{error}` is the class of torch's exception.
"""


def write_row(row) -> str:
    """Write a row for a terminal."""
    lines = [row.id, f"  {row.what}", f"  {row.why}", *(f"  - {hint}" for hint in row.hints)]
    return "\n".join(lines)


def write_page() -> str:
    """Write docs/messages.md."""
    index = [f"| [{row.id}](#{row.id.lower()}) | {row.what} |" for row in ROWS]
    parts = [INTRODUCTION, "\n".join(["| reason | what |", "|---|---|", *index]) + "\n"]
    for row in ROWS:
        lines = [f"## {row.id}", "", f"**{row.what}**", "", row.why]
        lines += ["", *(f"- {hint}" for hint in row.hints)] if row.hints else []
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(write_page(), end="")
