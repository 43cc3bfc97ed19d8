"""The layout's rules: who may include whom, who may know a Python version or torch, and how long a file may be.

Each rule is a function from a checkout to a list of offences, and is tried on a made-up offender as well: a rule that
finds nothing anywhere would be no rule.
"""

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent

# A folder of csrc/ includes itself and what stands before it. `dump` prints what the others make and `api` offers it
# to Python, so it stands just before `api`.
FOLDERS = "base py interp torch source journal guard exit record region dump api".split()
SOURCE_SUFFIXES = {".cpp", ".c", ".h", ".def"}
TORCH_HEADERS = ("torch/", "ATen/", "c10/", "caffe2/")
MAX_LINES = 850

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)
# A string is matched too, and kept: what looks like a comment inside one is none.
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")', re.DOTALL)


def list_core_sources(checkout):
    return sorted(p for p in (checkout / "csrc").rglob("*") if p.suffix in SOURCE_SUFFIXES)


def read_code(path):
    """Return a C++ file's text without its comments."""
    return COMMENT_OR_STRING.sub(lambda match: match[1] or " ", path.read_text())


def folder_of(checkout, path):
    """Return the folder of csrc/ that a file stands in; files directly in csrc/ have none."""
    parts = path.relative_to(checkout / "csrc").parts
    return parts[0] if len(parts) > 1 else None


def list_includes(checkout, path):
    """Return (header as written, the folder of csrc/ it belongs to or None) for each include of a file."""
    found = []
    for header in INCLUDE.findall(read_code(path)):
        target = next((t for t in (checkout / "csrc" / header, path.parent / header) if t.is_file()), None)
        found.append((header, target and folder_of(checkout, target.resolve())))
    return found


def find_unknown_folders(checkout):
    return [
        f"{path.relative_to(checkout)}: the design has no folder '{folder_of(checkout, path) or 'csrc/'}'"
        for path in list_core_sources(checkout)
        if folder_of(checkout, path) not in FOLDERS
    ]


def find_upward_includes(checkout):
    offences = []
    for path in list_core_sources(checkout):
        own = folder_of(checkout, path)
        for header, folder in list_includes(checkout, path):
            if own in FOLDERS and folder in FOLDERS and FOLDERS.index(folder) > FOLDERS.index(own):
                offences.append(f"{path.relative_to(checkout)}: {own}/ must not include {header}")
    return offences


def find_version_knowledge(checkout):
    return [
        f"{path.relative_to(checkout)}: {word} belongs in csrc/py/"
        for path in list_core_sources(checkout)
        if folder_of(checkout, path) != "py"
        for word in ("PY_VERSION_HEX", "PY_MAJOR_VERSION", "PY_MINOR_VERSION", "Py_BUILD_CORE", "pycore_")
        if word in read_code(path)
    ]


def find_torch_includes(checkout):
    return [
        f"{path.relative_to(checkout)}: {header} may be included in csrc/torch/ only"
        for path in list_core_sources(checkout)
        if folder_of(checkout, path) != "torch"
        for header, folder in list_includes(checkout, path)
        if folder is None and header.startswith(TORCH_HEADERS)
    ]


# Pointers that CPython gets: (what hands one over, the words that may stand there). Functions of CPython's own and
# functions that are `noexcept` themselves need no wrapper; pybind11 has a boundary of its own.
HANDED_OVER = [
    (re.compile(r'\{\s*"\w+",\s*([^,{}]+),\s*METH_\w+'), r"as_method<.+>\(\)"),
    (
        re.compile(r"\{\s*Py_(?:tp|nb|sq|mp|am|bf)_(?!doc|members|methods|getset)\w+,\s*([^{}]+)\}"),
        r"as_slot<.+>\(\)|.*\(Py\w+\)",
    ),
    (re.compile(r"PyCapsule_New\([^;]*,\s*(\w+(?:<\w+>)?)\)"), r"boundary<.+>|nullptr"),
    (re.compile(r"Py_AddPendingCall\(\s*([^,]+),"), r"boundary<.+>"),
    (re.compile(r"vectorcall = ([^;]+);"), r"boundary<.+>"),
    (re.compile(r"PyMODINIT_FUNC \w+\(\) \{([^}]*)\}"), r"\s*return alternator::boundary<.+>\(\);\s*"),
]


def find_ways_past_the_boundary(checkout):
    return [
        f"{path.relative_to(checkout)}: {' '.join(found.split())} is not behind base/boundary.h"
        for path in list_core_sources(checkout)
        if path.name != "boundary.h"
        for pattern, allowed in HANDED_OVER
        for found in pattern.findall(read_code(path))
        if not re.fullmatch(allowed, found.strip() if "MODINIT" not in pattern.pattern else found, re.DOTALL)
    ]


# A static inside a function whose initialiser calls something, unless base/once.h or the compiler makes it. C++ locks
# such a static: a thread that loses the GIL in the initialiser, and one that waits for it with the GIL, wait for ever.
LOCKED_STATIC = re.compile(
    r"^[ \t]+static (?!constexpr|constinit|thread_local constinit|inline)([^;(]*?)(?: =|\{)(.*?);$", re.M | re.S
)
PREPROCESSOR = re.compile(r"^[ \t]*#.*(?:\\\n.*)*$", re.MULTILINE)
# They run no Python code, and run without the GIL.
WITHOUT_PYTHON = {
    ("csrc/torch/facts.cpp", "const at::Context& context"),
    ("csrc/torch/fake_tensor.cpp", "c10::Allocator* const allocator"),
    ("csrc/torch/meta_kernel.cpp", "const std::unordered_map<std::string, c10::KernelFunction> table"),
}


def find_locked_statics(checkout):
    return [
        f"{path.relative_to(checkout)}: `static {declared}` has a lock of C++: use py/names.def or base/once.h"
        for path in list_core_sources(checkout)
        for declared, initialiser in LOCKED_STATIC.findall(PREPROCESSOR.sub("", read_code(path)))
        if re.search(r"\w\s*\(|\bnew\b", initialiser)
        if (str(path.relative_to(checkout)), declared) not in WITHOUT_PYTHON
    ]


def find_long_files(checkout):
    sources = list_core_sources(checkout)
    for folder in ("alternator", "tests", "bench", "examples"):
        sources += sorted(p for p in (checkout / folder).rglob("*") if p.suffix in SOURCE_SUFFIXES | {".py"})
    sources += [p for p in (checkout / "dev", checkout / "CMakeLists.txt") if p.exists()]
    lengths = ((path, len(path.read_text().splitlines())) for path in sources)
    return [f"{path.relative_to(checkout)}: {n} lines, split it" for path, n in lengths if n > MAX_LINES]


# A rule, and a checkout (path: text) with exactly one offence, in the first file.
RULES = {
    "unknown folder": (find_unknown_folders, {"csrc/helpers/a.h": "", "csrc/base/b.h": ""}),
    "upward include": (
        find_upward_includes,
        {
            "csrc/py/frame.cpp": '#include "interp/loop.h"\n#include "py/frame.h"',
            "csrc/interp/loop.h": "",
            "csrc/py/frame.h": "",
        },
    ),
    "upward include, relative": (
        find_upward_includes,
        {"csrc/base/ref.h": '# include "../py/frame.h"', "csrc/py/frame.h": '#include "base/ref.h"'},
    ),
    "version": (
        find_version_knowledge,
        {
            "csrc/interp/loop.cpp": 'const char* s = "// no comment"; // fine: pycore_\n#if PY_VERSION_HEX > 0',
            "csrc/py/frame.cpp": "#if PY_VERSION_HEX > 0",
            "csrc/interp/other.cpp": "/* says\n PY_VERSION_HEX */",
        },
    ),
    "internal header": (
        find_version_knowledge,
        {"csrc/base/ref.h": '#include "internal/pycore_frame.h"', "csrc/py/f.h": '#include "internal/pycore_frame.h"'},
    ),
    "torch header": (
        find_torch_includes,
        {
            "csrc/guard/list.cpp": '#include <torch/torch.h>\n#include "torch/fake.h"',
            "csrc/torch/fake.h": "#include <ATen/ATen.h>",
        },
    ),
    "method past the boundary": (
        find_ways_past_the_boundary,
        {
            "csrc/api/a.cpp": 'PyMethodDef rows[] = {{"reset", reset, METH_NOARGS, nullptr}};',
            "csrc/api/b.cpp": 'PyMethodDef rows[] = {{"reset", as_method<reset>(), METH_NOARGS, nullptr}};',
        },
    ),
    "slot past the boundary": (
        find_ways_past_the_boundary,
        {
            "csrc/api/a.cpp": "PyType_Slot slots[] = {{Py_tp_clear, reinterpret_cast<void*>(clear)}};",
            "csrc/api/b.cpp": "PyType_Slot slots[] = {{Py_tp_clear, as_slot<clear>()}, {Py_tp_doc, doc},"
            " {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)}};",
        },
    ),
    "pointer past the boundary": (
        find_ways_past_the_boundary,
        {
            "csrc/api/a.cpp": "self->vectorcall = call;",
            "csrc/api/b.cpp": "self->vectorcall = boundary<call>;",
        },
    ),
    "name behind a lock": (
        find_locked_statics,
        {
            "csrc/record/a.cpp": 'void f() {\n  static PyObject* const name = PyUnicode_InternFromString("x");\n}',
            "csrc/record/b.cpp": "void f() {\n  static constinit Once<int> one;\n  static constexpr int two = g();\n"
            '  static const char* three = "3";\n}\nstatic int four = g();',
        },
    ),
    "names behind a lock": (
        find_locked_statics,
        {"csrc/py/a.h": "void f() {\n  static PyObject* const names[] = {make(1),\n    make(2)};\n}"},
    ),
    "import behind a lock": (
        find_locked_statics,
        {"csrc/py/a.cpp": "int f() {\n  static auto* const one = [] {\n    return PyImport_Import(x);\n  }();\n}"},
    ),
    "object behind a lock": (
        find_locked_statics,
        {"csrc/torch/a.cpp": "int f() {\n    static auto* one = new Thing;\n    static std::mutex mutex;\n}"},
    ),
    "long file": (find_long_files, {"tests/test_a.py": "pass\n" * 851, "csrc/base/a.def": "X\n" * 850}),
}


@pytest.mark.parametrize("name", RULES)
def test_checkout_keeps(name):
    find, _ = RULES[name]
    assert find(CHECKOUT) == []


@pytest.mark.parametrize("name", RULES)
def test_rule_finds_offender(name, tmp_path):
    find, files = RULES[name]
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (offence,) = find(tmp_path.resolve())
    assert offence.startswith(next(iter(files)))


def test_there_is_something_to_check():
    assert len(list_core_sources(CHECKOUT)) > 5
