"""How the families write their programs: a row of a table becomes a case.

    row(name, arguments, body, space)

`arguments` is text such as "i=1, s=slice(0, 2)": parameters behind `x`, a tensor of 3 by 4, and what they are. `body`
is lines, or an expression, which is returned behind a tensor operation. `space` is what stands before the program.
Names in PIECES are defined where a program mentions them. `stop()` is a break that leaves things on the stack.
"""

import ast
import re

from capture.perturbing import Case

MODULES = "collections contextlib copy dataclasses enum functools itertools math operator re sys torch types weakref"

PIECES = {
    "Point": 'Point = collections.namedtuple("Point", "a b")',
    "Record": """
@dataclasses.dataclass
class Record:
    name: str = "r"
    values: list = dataclasses.field(default_factory=list)
    best: object = None
""",
    "Frozen": """
@dataclasses.dataclass(frozen=True, order=True)
class Frozen:
    a: int
    b: str = "b"
""",
    "Color": """
class Color(enum.Enum):
    RED = 1
    BLUE = 2
    GREEN = "g"
""",
    "Level": """
class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2
""",
    "Flags": """
class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()
""",
    "Thing": """
class Thing:
    kind = "thing"
    def __init__(self, **values):
        self.__dict__.update(values)
    def scaled(self, t, by=2):
        return t * by
""",
    "Key": """
class Key:
    salt = 0
    def __init__(self, n):
        self.n = n
    def __eq__(self, other):
        return isinstance(other, Key) and self.n == other.n
    def __hash__(self):
        return hash(self.n) + self.salt
    def __lt__(self, other):
        return self.n < other.n
    def __repr__(self):
        return f"Key({self.n})"
""",
    "Holder": """
class Holder:
    scale = 2
    sizes = [1, 2]
    def __init__(self, n):
        self.n = n
""",
    "Slots": """
class Slots:
    __slots__ = ("a", "b")
    def __init__(self, a, b):
        self.a, self.b = a, b
""",
    "Name": """
class Name(str):
    pass
""",
    "Count": """
class Count(int):
    pass
""",
    "Row": """
class Row(list):
    pass
""",
    "Labels": """
class Labels(tuple):
    pass
""",
    "Table": """
class Table(dict):
    pass
""",
    "Manager": """
class Manager:
    def __init__(self, log, *swallow):
        self.log, self.swallow = log, swallow
    def __enter__(self):
        self.log.append("in")
        return len(self.log)
    def __exit__(self, kind, error, trace):
        self.log.append(kind and kind.__name__)
        return kind is not None and issubclass(kind, self.swallow)
""",
    "stop": """
def stop(value=None):
    print(end="")
    return value
""",
    "join_all": """
def join_all(*args, **kwargs):
    return args, kwargs
""",
}


def find_pieces(text):
    """List the definitions that a text needs, in the order of PIECES."""
    words, wanted = set(re.findall(r"\w+", text)), set()
    while missing := {name for name in PIECES if name in words and name not in wanted}:
        wanted |= missing
        words |= {word for name in missing for word in re.findall(r"\w+", PIECES[name])}
    return [PIECES[name].strip("\n") for name in PIECES if name in wanted]


def write_text(arguments, body, space=""):
    """Return the text of a program."""
    keywords = ast.parse(f"f({arguments})", mode="eval").body.keywords
    names = [keyword.arg for keyword in keywords]
    values = [ast.unparse(keyword.value) for keyword in keywords]
    space, body = space.strip("\n"), body.strip("\n")
    if "return" not in body and "\n" not in body and ";" not in body:
        body = f"y = x + 1\nreturn y, {body}"
    body = re.sub(r"; (?=\S)", "\n", body) if "\n" not in body and ":" not in body.split("return")[0] else body
    body = "\n".join("    " + line if line else line for line in body.splitlines())
    # The first tensor of every program; a program that names another x in its arguments has that one.
    first = [] if "x" in names else [("x", "torch.arange(12.0).reshape(3, 4)")]
    pairs = [*first, *zip(names, values, strict=True)]
    pieces = find_pieces(f"{arguments}\n{body}\n{space}")
    modules = [
        m for m in MODULES.split() if re.search(rf"\b{m}\b", "\n".join([arguments, body, space, *pieces, "torch"]))
    ]
    return "\n".join(
        [
            f"import {', '.join(modules)}",
            *pieces,
            *([space] if space else []),
            f"def program({', '.join(name for name, _ in pairs)}):",
            body,
            "def make():",
            f"    return [{', '.join(value for _, value in pairs)}]",
            "",
        ]
    )


class Family(list):
    """A list of cases with a name."""

    def __init__(self, name):
        super().__init__()
        self.name = name

    def row(self, name, arguments, body, space=""):
        self.append(Case(f"{self.name}: {name}", write_text(arguments, body, space)))

    def document(self, text):
        """Blocks of lines: `=== name | arguments`, the space and `---` if there is one, and the body."""
        for block in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]:
            head, _, rest = block.partition("\n")
            name, _, arguments = head.partition(" |")
            space, _, body = rest.rpartition("---\n")
            self.row(name.strip(), arguments.strip(), body, space)

    def rows(self, text):
        """A row a line: `name | arguments | body`."""
        for line in filter(None, map(str.strip, text.strip().splitlines())):
            self.row(*(part.strip() for part in line.split(" | ", 2)))
