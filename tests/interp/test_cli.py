"""`python -m alternator interpret` runs a program as `python` does: same output, same errors, same exit code."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from .outcome import ADDRESS

pytestmark = pytest.mark.semantics
ENTRY = ("-m", "alternator", "interpret")


@pytest.fixture
def place(tmp_path):
    """A folder with scripts, modules and a package, which is also the current folder of the processes."""
    files = {
        "pkg/__init__.py": "print('package', __name__)",
        "pkg/__main__.py": "import sys\nfrom . import part\n"
        "print(__name__, __package__, __spec__.name, part.value, sys.argv[1:])",
        "pkg/part.py": "value = 42",
        "pkg/bad.py": "def f():\n    return [1, 2][5]\n\nf()\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def write_script(place, text, name="script.py"):
    (place / name).write_text(textwrap.dedent(text))
    return name


def run_python(place, *args, stdin="", env=None):
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", **(env or {}))
    return subprocess.run(
        [sys.executable, *args], cwd=place, input=stdin, capture_output=True, text=True, env=environment, timeout=300
    )


def run_both(place, *args, **options):
    """Run natively and interpreted; assert that nothing but the engine differs; return the native result."""
    native = run_python(place, *args, **options)
    interpreted = run_python(place, *ENTRY, *args, **options)
    assert describe(interpreted) == describe(native)
    return native


def describe(result):
    # Natively `python -m` goes through runpy and says so in tracebacks: how we start a module is our own affair.
    errors = "".join(line for line in result.stderr.splitlines(keepends=True) if '"<frozen runpy>"' not in line)
    return {"exit code": result.returncode, "output": result.stdout, "errors": ADDRESS.sub("0x?", errors)}


def test_script_is_main(place):
    script = write_script(
        place,
        """
        import __main__, sys, os
        print(__name__, __file__, __package__, __spec__, __doc__, __loader__ is None)
        print(sys.argv, sys.path[0] == os.path.dirname(os.path.abspath(__file__)))
        print(__main__.__dict__ is globals(), sys.modules["__main__"] is __main__)
        print(__builtins__ is sys.modules["builtins"])
        print(sorted(name for name in globals() if not name.startswith("__")))
        """,
    )
    result = run_both(place, script, "a", "--flag", "b c", "-m", "--")
    assert result.stdout.startswith(f"__main__ {place / 'script.py'} None None None")
    assert "['script.py', 'a', '--flag', 'b c', '-m', '--']" in result.stdout


def test_script_is_interpreted(place):
    """Every frame: the module, functions, other modules, callbacks, finalisers at exit."""
    write_script(place, "import alternator\nloaded = alternator.is_interpreting()\n", "other.py")
    script = write_script(
        place,
        """
        import alternator, atexit, other
        seen = [alternator.is_interpreting(), other.loaded]
        def f():
            seen.append(alternator.is_interpreting())
            return 0
        f()
        sorted([1], key=lambda _: f())
        class A:
            seen.append(alternator.is_interpreting())
            def __del__(self):
                seen.append(alternator.is_interpreting())
        A()
        print(seen)
        """,
    )
    assert "False" not in run_python(place, *ENTRY, script).stdout
    assert run_python(place, *ENTRY, script).stdout == "[" + ", ".join(["True"] * 6) + "]\n"
    assert "True" not in run_python(place, script).stdout


def test_absolute_and_relative_paths(place):
    (place / "sub").mkdir()
    write_script(
        place, "import sys, neighbour\nprint(__file__, sys.argv[0], neighbour.x, sys.path[0])\n", "sub/script.py"
    )
    write_script(place, "x = 'neighbour'\n", "sub/neighbour.py")
    run_both(place, "sub/script.py")
    run_both(place, os.path.join("sub", "..", "sub", "script.py"))
    assert "neighbour" in run_both(place, str(place / "sub" / "script.py")).stdout


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("print('fine')", 0),
        ("import sys; sys.exit()", 0),
        ("import sys; sys.exit(None)", 0),
        ("import sys; sys.exit(7)", 7),
        ("import sys; sys.exit(-1)", 255),
        ("import sys; sys.exit(256 + 3)", 3),
        ("import sys; sys.exit('a message')", 1),
        ("import sys; sys.exit((1, 2))", 1),
        ("raise SystemExit(True)", 1),
        ("raise SystemExit([])", 1),
        ("exit(4)", 4),
        ("import os, sys; print('flushed', flush=True); os._exit(9)", 9),
        ("import threading, sys; threading.Thread(target=sys.exit, args=(3,)).start()", 0),
    ],
)
def test_exit_codes(place, text, code):
    script = write_script(place, f"print('start')\ntry:\n    {text}\nfinally:\n    print('finally')\n")
    assert run_both(place, script).returncode == code


ERRORS = {
    "uncaught": """
        def outer(x):
            return inner(
                x,
            ) + 1

        def inner(x):
            return {"a": 1}[x]

        outer("b")
        """,
    "module level": "x = 1\ny = x + 'a'\n",
    "chained": """
        try:
            try:
                int("x")
            except ValueError as error:
                raise KeyError("second") from error
        finally:
            [].pop()
        """,
    "through C": "sorted([1, 0], key=lambda x: 1 / x)\n",
    "group": """
        try:
            raise ExceptionGroup("several", [ValueError(1), ExceptionGroup("inner", [TypeError(2)])])
        except* ValueError:
            raise OSError("in handler")
        """,
    "notes": """
        error = ValueError("noted")
        error.add_note("first note")
        raise error
        """,
    "suggestion": "import collections\ncollections.namedtupel\n",
    "name suggestion": "value_of_something = 1\nprint(value_of_somethin)\n",
    "recursion": """
        import sys
        sys.setrecursionlimit(120)
        def f(n):
            return f(n + 1)
        f(0)
        """,
    "generator": """
        def gen():
            yield 1
            yield 1 / 0

        for x in gen():
            print(x)
        """,
    "class body": "class A:\n    x = 1\n    y = x.missing\n",
    "exec": "exec('def f():\\n    return missing\\nf()')\n",
    "import": "import broken\n",
    "excepthook": """
        import sys
        def hook(kind, value, tb):
            names = []
            while tb:
                names.append(tb.tb_frame.f_code.co_name)
                tb = tb.tb_next
            print("hook", kind.__name__, value, names)
        sys.excepthook = hook
        def f():
            raise ValueError("hooked")
        f()
        """,
    "unraisable": """
        class A:
            def __del__(self):
                raise ValueError("in del")
        A()
        """,
    "thread": """
        import threading
        def f():
            raise ValueError("in thread")
        thread = threading.Thread(target=f, name="worker")
        thread.start()
        thread.join()
        """,
    "warning": """
        import warnings
        def f():
            warnings.warn("careful", stacklevel=2)
        f()
        """,
    "print_exc and print_stack": """
        import traceback
        def f():
            traceback.print_stack()
            try:
                1 / 0
            except ZeroDivisionError:
                traceback.print_exc()
        f()
        """,
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_look_as_natively(place, name):
    """Byte for byte on stderr: no frame of ours is shown."""
    write_script(place, "def f():\n    raise RuntimeError('broken module')\n\nf()\n", "broken.py")
    script = write_script(place, ERRORS[name].lstrip("\n"))
    result = run_both(place, script)
    assert result.stderr or name == "excepthook"


def test_syntax_errors_of_the_script(place):
    script = write_script(place, "print('never')\ndef f(:\n    pass\n")
    result = run_both(place, script)
    assert result.returncode == 1
    assert "SyntaxError" in result.stderr
    bad_encoding = place / "encoding.py"
    bad_encoding.write_bytes(b"x = '\xff'\n")
    run_both(place, "encoding.py")


def test_encodings_and_empty_files(place):
    (place / "latin.py").write_bytes("# -*- coding: latin-1 -*-\nprint('\u00e9' == chr(233))\n".encode("latin-1"))
    (place / "bom.py").write_bytes(b"\xef\xbb\xbfprint('bom')\n")
    (place / "empty.py").write_text("")
    assert run_both(place, "latin.py").stdout == "True\n"
    assert run_both(place, "bom.py").stdout == "bom\n"
    assert run_both(place, "empty.py").stdout == ""


def test_future_flags_are_not_inherited(place):
    script = write_script(place, "def f(x: undefined_name): ...\n")
    assert "NameError" in run_both(place, script).stderr


def test_modules(place):
    assert run_both(place, "-m", "pkg", "x", "-y").stdout == "package pkg\n__main__ pkg pkg.__main__ 42 ['x', '-y']\n"
    assert "IndexError" in run_both(place, "-m", "pkg.bad").stderr
    write_script(
        place, "import sys\nprint(__name__, __spec__.name, sys.argv[0] == __file__, sys.path[0])\n", "single.py"
    )
    run_both(place, "-m", "single", "a")
    assert run_both(place, "-m", "json.tool", "--compact", stdin='{"a": [1, 2]}').stdout == '{"a":[1,2]}\n'
    run_both(place, "-m", "unittest", "--help")


def test_standard_input(place):
    script = write_script(place, "import sys\nfirst = input()\nprint(first, sys.stdin.read().split())\n")
    assert run_both(place, script, stdin="one\ntwo three\n").stdout == "one ['two', 'three']\n"


def test_missing_script(place):
    result = run_python(place, *ENTRY, "no_such_script.py")
    assert result.returncode == 2
    assert "no_such_script.py" in result.stderr
    assert "No such file" in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_script_that_is_a_folder(place):
    (place / "folder").mkdir()
    result = run_python(place, *ENTRY, "folder")
    assert result.returncode != 0
    assert "folder" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("module", ["no_such_module_here", "pkg.no_such_part", "no_such_package.part"])
def test_missing_module(place, module):
    result = run_python(place, *ENTRY, "-m", module)
    assert result.returncode == 1  # as `python -m` does
    assert module.split(".")[-1] in result.stderr or module.split(".")[0] in result.stderr
    assert "Traceback" not in result.stderr


def test_missing_module_inside_of_the_program_is_its_own_error(place):
    script = write_script(place, "import no_such_module_here\n")
    result = run_both(place, script)
    assert result.returncode == 1
    assert "Traceback" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [[], ["interpret"], ["interpret", "-m"], ["no_such_command"], ["interpret", "--no-such-option", "x.py"]],
)
def test_usage(place, arguments):
    result = run_python(place, "-m", "alternator", *arguments)
    assert result.returncode == 2
    assert "usage" in result.stderr.lower()
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["report", "--help"], ["interpret", "-h"]])
def test_help(place, arguments):
    result = run_python(place, "-m", "alternator", *arguments)
    assert result.returncode == 0
    assert "interpret" in result.stdout or arguments[0] == "report"
    assert result.stdout.startswith("usage: python -m alternator ")


def test_options_of_python_hold(place):
    script = write_script(place, "import sys\nassert False\nprint(sys.flags.optimize, __debug__, sys.warnoptions)\n")
    native = run_python(place, "-O", "-W", "error", script)
    interpreted = run_python(place, "-O", "-W", "error", *ENTRY, script)
    assert (
        (interpreted.stdout, interpreted.returncode) == (native.stdout, native.returncode) == ("1 False ['error']\n", 0)
    )


def test_keyboard_interrupt(place):
    script = write_script(
        place,
        """
        import os, signal
        def f():
            os.kill(os.getpid(), signal.SIGINT)
            while True:
                pass
        f()
        """,
    )
    result = run_both(place, script)
    assert result.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in result.stderr


def test_closed_output(place):
    script = write_script(place, "import sys\nfor i in range(100000):\n    print(i)\n")
    codes = []
    for entry in ((), ENTRY):
        process = subprocess.Popen(
            [sys.executable, *entry, script], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        process.stdout.readline()
        process.stdout.close()
        codes.append((process.wait(300), "BrokenPipeError" in process.stderr.read()))
        process.stderr.close()
    assert codes[0] == codes[1]


def test_pickle_and_multiprocessing_find_main(place):
    script = write_script(
        place,
        """
        import multiprocessing, pickle
        class A:
            def __init__(self, x):
                self.x = x
        def double(a):
            return A(a.x * 2)
        if __name__ == "__main__":
            print(pickle.loads(pickle.dumps(A(3))).x, A.__module__)
            for method in ("fork", "spawn"):
                with multiprocessing.get_context(method).Pool(1) as pool:
                    print(method, [a.x for a in pool.map(double, [A(1), A(2)])])
        """,
    )
    assert run_both(place, script).stdout == "3 __main__\nfork [2, 4]\nspawn [2, 4]\n"


def test_at_exit(place):
    script = write_script(
        place,
        """
        import atexit, threading
        class Late:
            def __del__(self):
                print("del")
        late = Late()
        atexit.register(print, "atexit")
        print("end")
        threading.Thread(target=print, args=("thread",)).start()
        """,
    )
    assert run_both(place, script).stdout.split() == ["end", "thread", "atexit", "del"]


def test_inspection_of_source(place):
    """Modules that look for the program's source and frames find what they find natively."""
    script = write_script(
        place,
        """
        import inspect, linecache, sys
        def f():
            return [(frame.function, frame.lineno) for frame in inspect.stack()]
        print(f())
        print(inspect.getsource(f))
        print(sys._getframe().f_back, sys._getframe().f_code.co_name, sys._getframe().f_code.co_filename)
        """,
    )
    run_both(place, script)
