"""The command line: `alternator COMMAND ...`, or `python -m alternator COMMAND ...`."""

from __future__ import annotations

import difflib
import functools
import importlib.machinery
import io
import linecache
import os
import runpy
import signal
import sys
import types

from alternator import _C

VARIABLES = {
    "ALTERNATOR": "1: programs run on Alternator without `alternator run`, also those that a program starts",
    "ALTERNATOR_LOGS": "logs to show, such as graph_breaks,recompiles (docs/logs.md)",
    "ALTERNATOR_PROGRESS": "0: no progress line; another number: the seconds after which it appears",
    "ALTERNATOR_THREADS": "eager: a thread does not wait while another one compiles; wait: it does",
    "TORCHDYNAMO_DISABLE": "1: torch.compile returns what it is given",
}
PROGRAM = """
  SCRIPT [args]      a file, or a folder or archive with a __main__.py
  -m MODULE [args]   a module, as with `python -m`
  - [args]           the program is read from standard input"""


class Command:
    """A command: its one-line text, what stands in its usage, and its help below that."""

    def __init__(self, text, usages, more="", variables=()):
        self.text, self.usages, self.more, self.variables = text, usages, more, variables

    def write_usage(self, program, name) -> str:
        first, *rest = (f"{program} {name} {usage}".rstrip() for usage in self.usages)
        return "\n".join([f"usage: {first}", *(f"       {usage}" for usage in rest)])

    def write_help(self, program, name) -> str:
        parts = [self.write_usage(program, name), self.text]
        parts += [self.more.strip("\n")] if self.more else []
        if self.variables:
            rows = (f"  {variable:22} {VARIABLES[variable]}" for variable in self.variables)
            parts.append("\n".join(["environment variables:", *rows]))
        return "\n\n".join(parts)


PROGRAMS = ("SCRIPT [args]", "-m MODULE [args]", "- [args]")
COMMANDS = {
    "run": Command("Run a program with torch.compile on Alternator.", PROGRAMS, PROGRAM, VARIABLES),
    "report": Command(
        "Run a program that way, and write a page that shows what was captured.",
        [f"[-o FILE] {usage}" for usage in PROGRAMS],
        f"{PROGRAM}\n\noptions:\n  -o, --output FILE  where the page goes; alternator-report.html if not given",
        VARIABLES,
    ),
    "interpret": Command("Run a program with every frame in Alternator's loop, without torch.", PROGRAMS, PROGRAM),
    "doctor": Command("Check Python, torch, the compiler and a small capture, and say what is wrong.", [""]),
    "explain-reason": Command(
        "Show what a reason in a message means and what to do; without ID: list all.",
        ["[ID]"],
        "  ID  such as TensorItem: it stands at the end of each message",
    ),
}


def find_program_name() -> str:
    """Tell what the user has typed."""
    return "alternator" if os.path.basename(sys.argv[0]) in ("alternator", "alternator.exe") else "python -m alternator"


def write_help(program) -> str:
    rows = "\n".join(f"  {name:15} {command.text}" for name, command in COMMANDS.items())
    return f"""usage: {program} COMMAND ...
       {program} COMMAND --help
       {program} --version

Graph capture for PyTorch, in TorchDynamo's place.

commands:
{rows}"""


def fail(usage, text) -> int:
    print(f"{usage}\nalternator: error: {text}", file=sys.stderr)
    return 2


def run_command() -> int:
    """Run the command `alternator`, which an installed package has: as `python -m alternator`, from any folder."""
    program = find_program_name()
    if not sys.flags.safe_path:
        sys.path[0] = os.getcwd()  # as for `python -m`; a script's own folder replaces it
    return main(sys.argv[1:], program)


def main(arguments: list[str], program: str = "python -m alternator") -> int:
    """Run a command line; return the exit status."""
    first, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if first in ("-h", "--help"):
        print(write_help(program))
        return 0
    if first in ("-V", "--version"):
        print(write_version())
        return 0
    command = COMMANDS.get(first)
    if command is None:
        return fail(write_help(program), f"there is no command {first!r}" if first else "which command?")
    if rest and rest[0] in ("-h", "--help"):
        print(command.write_help(program, first))
        return 0
    usage = command.write_usage(program, first)
    if first == "explain-reason":
        return explain_reason(usage, rest)
    if first == "doctor":
        return fail(usage, "`doctor` takes no arguments") if rest else run_doctor()
    return run_program(usage, first, rest)


def write_version() -> str:
    import importlib.metadata

    import alternator

    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch = "not installed"
    return f"alternator {alternator.__version__} (Python {sys.version.split()[0]}, torch {torch})"


def run_doctor() -> int:
    from alternator.doctor import examine

    return examine()


def explain_reason(usage, arguments) -> int:
    """Print a row of the table of reasons."""
    from alternator import messages

    rows = {row.id: row for row in messages.ROWS}
    if not arguments:
        print("\n".join(f"{row.id:20} {row.what}" for row in rows.values()))
        return 0
    for name in arguments:
        row = {key.lower(): value for key, value in rows.items()}.get(name.lower())
        if row is None:
            close = difflib.get_close_matches(name, rows, 1)
            hint = f" Did you mean {close[0]}?" if close else ""
            return fail(usage, f"there is no reason {name!r}.{hint} Without an ID, all are listed.")
        print(messages.write_row(row))
    return 0


def run_program(usage, name, program) -> int:
    """Run a script or module for `run`, `report` and `interpret`."""
    interpret = name == "interpret"
    page = None
    if name == "report":
        try:
            page, program = take_output(program)
        except ValueError as error:
            return fail(usage, str(error))
    if program and program[0].startswith("-") and program[0] not in ("-", "-m"):
        return fail(usage, f"{program[0]} is no option of `{name}`; options of the program come after its name")
    if not program:
        return fail(usage, "which program? Give a SCRIPT, -m MODULE, or - for standard input")
    if program == ["-m"]:
        return fail(usage, "-m needs the name of a module")
    if not interpret:
        from alternator import startup

        startup.watch()
    first, *rest = program
    if first == "-m":
        run = functools.partial(run_module, rest[0], rest[1:])
    else:
        run = functools.partial(run_stdin if first == "-" else run_script, first, rest)
    if page is None or (first not in ("-m", "-") and not os.path.exists(first)):
        return finish(run(interpret))
    return finish(run_with_report(page, " ".join(program), run))


def take_output(program: list[str]) -> tuple[str, list[str]]:
    """Split `-o FILE` off a command: options of ours come before the program."""
    page = "alternator-report.html"
    while program and (program[0] in ("-o", "--output") or program[0].startswith(("-o=", "--output="))):
        _, given, value = program[0].partition("=")
        if not given and len(program) < 2:
            raise ValueError("-o needs the name of a file")
        page, program = (value, program[1:]) if given else (program[1], program[2:])
    return page, program


def run_with_report(path: str, title: str, run) -> int | None:
    """Run a program; the report is written when the process ends, after the program's threads, however it ends."""
    import atexit

    from alternator.reporting import Report

    page = Report(path, title)
    atexit.unregister(page.close)

    def close():
        page.close()
        print(f"alternator: the report is in {page.path}", file=sys.stderr)

    atexit.register(close)
    page.status = "sys.exit()"  # which does not come back from run()
    page.status = status = run(False)
    if status is None:  # the process is about to end by a signal
        page.status = 130
        close()
    return status


def run_module(name: str, arguments: list[str], interpret: bool) -> int | None:
    """Run a module as `python -m` does."""
    sys.argv[:] = ["-m", *arguments]
    make_main_module()
    return _C.run_main(interpret, runpy._run_module_as_main, name)


def run_script(path: str, arguments: list[str], interpret: bool) -> int | None:
    """Run a script, or a folder or archive with a __main__.py, as `python` does."""
    sys.argv[:] = [path, *arguments]
    if os.path.isdir(path) or is_archive(path):
        replace_script_folder(path)
        make_main_module()
        return _C.run_main(interpret, runpy._run_module_as_main, "__main__", False)
    try:
        with io.open_code(os.path.abspath(path)):
            pass
    except OSError as error:
        shown = f"{sys.executable}: can't open file {os.path.abspath(path)!r}"
        print(f"{shown}: [Errno {error.errno}] {error.strerror}", file=sys.stderr)
        return 2
    replace_script_folder(os.path.dirname(os.path.realpath(path)))
    module = make_main_module()
    module.__file__ = os.path.join(os.getcwd(), path)  # absolute and, as the interpreter has it, not normalised
    module.__cached__ = None
    module.__loader__ = importlib.machinery.SourceFileLoader("__main__", module.__file__)
    return _C.run_main(interpret, module.__file__, module.__dict__)


def run_stdin(path: str, arguments: list[str], interpret: bool) -> int | None:
    """Run what standard input has, as `python -` does. Its lines are kept, for messages and the report."""
    sys.argv[:] = [path, *arguments]
    source = sys.stdin.read()
    linecache.cache["<stdin>"] = (len(source), None, source.splitlines(keepends=True), "<stdin>")
    replace_script_folder("")
    module = make_main_module()
    module.__file__ = "<stdin>"
    try:
        code = compile(source, "<stdin>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        sys.excepthook(type(error), error.with_traceback(None), None)
        return 1
    return _C.run_main(interpret, exec, code, module.__dict__)


def is_archive(path: str) -> bool:
    import zipfile  # costs 10 ms: only where a script has no source suffix

    return not path.endswith(".py") and zipfile.is_zipfile(path)


def replace_script_folder(folder: str) -> None:
    """Put the script's folder where the interpreter put the current one, for `-m alternator`."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


def make_main_module() -> types.ModuleType:
    """Give the program a __main__ of its own."""
    module = types.ModuleType("__main__")
    module.__builtins__ = sys.modules["builtins"]
    sys.modules["__main__"] = module
    return module


def finish(status: int | None) -> int:
    """Turn what run_main() says into the exit status of the process."""
    if status is None:  # interrupted: end as the interpreter does, by the signal itself
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
        return 130
    return status
