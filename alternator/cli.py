"""The command line: `python -m alternator COMMAND ...`."""

from __future__ import annotations

import argparse
import functools
import importlib.machinery
import io
import os
import runpy
import signal
import sys
import types

from alternator import _C

USAGE = """python -m alternator run SCRIPT [args]
       python -m alternator run -m MODULE [args]
       python -m alternator report [-o FILE] SCRIPT [args]
       python -m alternator report [-o FILE] -m MODULE [args]
       python -m alternator interpret SCRIPT [args]
       python -m alternator interpret -m MODULE [args]"""
COMMANDS = {
    "run": "run a program with torch.compile on Alternator",
    "report": "run it that way and write a page that shows what was captured",
    "interpret": "run a program with every frame in our loop",
}


def run_command() -> int:
    """Run the command `alternator`, which an installed package has: as `python -m alternator`, from any folder."""
    if not sys.flags.safe_path:
        sys.path[0] = os.getcwd()  # as for `python -m`; a script's own folder replaces it
    return main(sys.argv[1:])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m alternator", usage=USAGE, allow_abbrev=False)
    explained = "; ".join(f"{name}: {text}" for name, text in COMMANDS.items())
    parser.add_argument("command", choices=list(COMMANDS), help=explained)
    parser.add_argument("program", nargs=argparse.REMAINDER, help="SCRIPT or -m MODULE, and its arguments")
    options = parser.parse_args(arguments)
    interpret = options.command == "interpret"
    page = None
    if options.command == "report":
        page, options.program = take_output(parser, options.program)
    if options.program and options.program[0] in ("-h", "--help"):
        parser.print_help()
        return 0
    if options.program and options.program[0].startswith("-") and options.program[0] not in ("-", "-m"):
        parser.error(f"{options.program[0]} is no option of `{options.command}`; those of the program stand behind it")
    if not options.program:
        parser.error("which program? Give a SCRIPT or -m MODULE")
    if options.program == ["-m"]:
        parser.error("-m needs the name of a module")
    if not interpret:
        from alternator import startup

        startup.watch()
    first, *rest = options.program
    run = (
        functools.partial(run_module, rest[0], rest[1:])
        if first == "-m"
        else functools.partial(run_script, first, rest)
    )
    if page is None or (first != "-m" and not os.path.exists(first)):
        return finish(run(interpret))
    return finish(run_with_report(page, " ".join(options.program), run))


def take_output(parser, program: list[str]) -> tuple[str, list[str]]:
    """Split `-o FILE` off a command: options of ours come before the program."""
    page = "alternator-report.html"
    while program and (program[0] in ("-o", "--output") or program[0].startswith(("-o=", "--output="))):
        _, given, value = program[0].partition("=")
        if not given and len(program) < 2:
            parser.error("-o needs the name of a file")
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
