"""Writes programs that compose the families: indices, keys, formats, star-arguments, match, classes, containers.

Forms are templates: $n a number, $f a float, $s a text, $l a list, $p a tuple, $d a dict, $z a set, $o an object, $u a
slice, $i what indexes a tensor, $k a key, $v anything, $c a condition, $t a tensor. What the program reads stands in
arguments, globals, defaults, cells or attributes, as drawn. `write(number)` draws everything from number(low, high).
"""

import re

from capture.families.writing import MODULES, find_pieces
from capture.perturbing import Case

# What there is: name -> (kinds, values to begin with).
NAMES = {
    "n": ("n k v", ["2", "0", "1", "3", "True", "Count(2)"]),
    "m": ("n k v", ["1", "2", "-1", "Level.LOW"]),
    "f": ("f v", ["0.5", "2.0", "-0.0", "float('nan')", "1e30"]),
    "h": ("f v", ["0.5", "2.5", "float('inf')"]),
    "s": ("s k v", ["'ab'", "'b'", "'a b'", "Name('ab')"]),
    "w": ("s k v", ["'a'", "'k'", "'%s:%s'", "'{0} {0!r}'"]),
    "a": ("l v", ["[1, 2, 3]", "[0, 1]", "[2, [1], 3]", "Row([1, 2])", "[True, False, True]"]),
    "b": ("l v", ["[[1], [2, 3]]", "[(1, 'a'), (2, 'b')]", "['a', 'b']", "[0.5, 2, None]"]),
    "p": ("p k v", ["(1, 2)", "(0, (1, 'x'))", "Point(1, 2)", "Labels((1, 2))", "(slice(0, 2), 1)"]),
    "q": ("p k v", ["(1, 2)", "()", "Point(0, [1])", "('a', 1)"]),
    "d": ("d v", ["{'a': 1, 'b': 2}", "{1: 'one', 2: 'two'}", "{'k': [1, 2], 'a': {'b': 3}}", "{(1, 2): 3, 'ab': 4}"]),
    "e": ("d v", ["{'a': 5, 'c': 6}", "collections.OrderedDict(b=1, a=2)", "{True: 1, 2.0: 2, None: 3}", "Table(a=1)"]),
    "z": ("z v", ["{1, 2, 3}", "{'a', 'b'}", "frozenset([1, 2])"]),
    "o": (
        "o v",
        ["Thing(n=1, a=[1, 2], s='ab')", "Slots(1, [2])", "Record('ab', [1, 2])", "types.SimpleNamespace(n=2, a=[3])"],
    ),
    "c": ("v k", ["Color.RED", "Level.HIGH", "Flags.A", "None"]),
    "u": ("u v", ["slice(0, 2)", "slice(None, None, -1)", "slice(1, None)", "slice(-2, None)"]),
    "y": (
        "t",
        [
            "torch.ones(3, 4)",
            "torch.arange(12.0).reshape(4, 3).t()",
            "torch.ones(4)",
            "torch.ones(3, 4, requires_grad=True)",
        ],
    ),
    "r": ("v k", ["Key(1)", "Frozen(1)", "1", "float('nan')"]),
}

FORMS = {
    "n": [
        "len($l)",
        "$n + $n",
        "x.shape[0]",
        "len($s)",
        "len($d)",
        "$l[$n]",
        "$n % 3",
        "sum([$n, $n])",
        "max($n, $n)",
        "int($c)",
        "len(f'{$v}')",
        "$d.get($k, $n)",
        "getattr($o, 'n', $n)",
        "x.dim()",
        "(lambda k: 0 if torch.is_tensor(k) else hash(k))($n) % 5",  # that of a tensor is its address
        "$s.count('a')",
        "$l.count($v)",
        "stop($n)",
    ],
    "f": ["$f + $n", "$f * 2", "float($n)", "round($f, 1)", "math.sqrt(abs($f))", "min($f, $f)", "stop($f)"],
    "s": [
        "$s + $s",
        "f'{$v}'",
        "f'{$v!r:>{$n}}'",
        "'%s' % ($v,)",
        "'%s|%s' % $p",
        "'{} {}'.format($v, $v)",
        "str($v)",
        "repr($v)",
        "$s.upper()",
        "'-'.join(map(str, $l))",
        "$s[$u]",
        "$s[$n:]",
        "$s % $p",
        "$s.format($v)",
        "f'{$f:.{$n}f}'",
        "stop($s)",
    ],
    "l": [
        "[*$l, $v]",
        "$l[$u]",
        "$l + $l",
        "sorted($l, key=str)",
        "[i for i in $l]",
        "list($d)",
        "list($p)",
        "$l * $n",
        "[*map(str, $l)]",
        "[*zip($l, $l)]",
        "list(enumerate($l, $n))",
        "$l[::-1]",
        "[*itertools.chain($l, $p)]",
        "list($d.values())",
        "copy.copy($l)",
        "sorted($z, key=str)",
    ],
    "p": [
        "($v, $v)",
        "tuple($l)",
        "$p + $p",
        "$p[$u]",
        "(*$l, $n)",
        "Point($v, $v)",
        "divmod($n, 2)",
        "join_all(*$l, **$d)",
        "join_all($v, k=$v)",
        "tuple($d.items())",
        "x.shape",
    ],
    "d": [
        "{**$d, 'z': $v}",
        "$d | $d",
        "dict($d)",
        "{i: $n for i in $p}",
        "dict.fromkeys($p, $v)",
        "dict(zip('ab', $l))",
        "{$k: $v}",
        "vars($o)",
        "collections.Counter($s)",
        "copy.deepcopy($d)",
    ],
    "z": ["{*$p}", "$z | {$n}", "$z & {1, 2}", "set($p)", "$z - {$k}", "frozenset($p)"],
    "o": ["copy.copy($o)", "Thing(n=$n, a=$l)", "Record($s, $l)"],
    "u": ["slice($n)", "slice(0, $n)", "slice(None, None, $n or 1)"],
    "i": [
        "$n % 3",
        "$u",
        ":, $u",
        "..., $n % 3",
        "$n % 3, $u",
        ":, [0, $n % 3]",
        "$l",
        ":, $l",
        "$p",
        "None, $u",
        "[0, 1], :",
        "$u, $l",
        "None",
        "x > $n",
    ],
    "k": ["$s", "$n", "$p", "($n, $n)", "$c", "$f", "None", "frozenset([$n])"],
    "v": [
        "$n",
        "$f",
        "$s",
        "$l",
        "$p",
        "$d",
        "$z",
        "$o",
        "$k",
        "$c",
        "$u",
        "[$v]",
        "($v,)",
        "{'a': $v}",
        "$d[$k]",
        "$l[$n]",
        "$p[$n]",
        "stop($v)",
        "type($v)",
    ],
    "c": [
        "$n > $n",
        "$k in $d",
        "$v in $l",
        "$v == $v",
        "$l == $l",
        "$f == $f",
        "$v is $v",
        "isinstance($v, (int, str))",
        "not $l",
        "$d == $d",
        "$s in $s",
        "$n in $z",
        "$p == $p",
        "$p < $p",
        "any($l)",
        "all($p)",
        "hasattr($o, 'n')",
        "$s.startswith($s)",
        "$f in [$f]",
        "$z <= {1, 2, 3}",
        "$o is $o",
    ],
    "t": [
        "$t + $n",
        "$t * 2",
        "$t[$i] * 2",
        "$t * $f",
        "$t.sum($n % 2)",
        "$t + $t",
        "torch.relu($t)",
        "$t.reshape(-1)[$u]",
        "torch.cat([$t, $t])",
        "torch.full([2, $n % 3 + 1], $f)",
        "torch.tensor([$n, $n]).float()",
        "getattr(torch, 'sin')($t)",
        "torch.stack([$t, $t]).mean(0)",
        "stop($t)",
    ],
}
STATEMENTS = """
out.append($v)
---
out.append($v)
---
x = $t
---
out.append($t)
---
y2 = $t * 1
y2[$i] = $n
out.append(y2)
---
y2 = $t * 1
y2[$i] += $f
out.append(y2)
---
x = x + $n if $c else x - 1
---
$lv.append($v)
---
$dv[$k] = $v
---
$dv.update(zz=$n)
---
$lv[$u] = $l
---
$lv[$n] = $v
---
del $lv[$n]
---
$dv.pop($k, None)
---
$ov.n = $n
---
i, *j = $l
out.append((i, j))
---
out.append([i for i in $l if $c])
---
out.append({i: $v for i in $p})
---
print($v)
---
stop()
---
torch._dynamo.graph_break()
---
x.add_($n)
---
out.append(f'{$v} {$v!r:>12} {$n:{$n}}')
---
out.append('%s-%s' % $p)
---
out.append('{0[0]} {1}'.format($p, $v))
---
out.append(sorted($b_, key=len))
---
assert $c, $s
---
if $c:
    x = x * 2
else:
    out.append($v)
---
for i in $l:
    x = x + 1
    out.append(i)
---
for i, j in $d.items():
    x = x * 2
    out.append((i, j))
---
for i in range($n % 3):
    x = x + i
    stop()
---
match $v:
    case int(i) | [i, *_]:
        out.append(i)
    case {'a': i, **j}:
        out.append((i, j))
    case (i, j):
        x = x + 1
    case str() as i if $c:
        out.append(i)
    case _:
        x = -x
---
match $p:
    case (1, i):
        out.append(i)
    case [i, [*j]] | [i, (j, _)]:
        out.append((i, j))
    case Point(a=i):
        x = x * i
---
try:
    out.append($d[$k])
except (KeyError, TypeError) as error:
    out.append(repr(error))
---
try:
    out.append($v)
    x = $t
except Exception as error:
    out.append((type(error).__name__, str(error)))
---
def inner(t, i=$v, *j, k=$n, **g):
    return t + k, i, j, g
out.append(inner($t, *$l))
---
def inner(t):
    return t * $n
x = inner(x)
---
class Inner:
    i = $v
    def f(self, t):
        return t + 1, self.i
out.append(Inner().f(x)[1])
---
with contextlib.suppress(Exception):
    x = $t
    out.append($v)
""".strip().split("\n---\n")


class Writer:
    def __init__(self, number):
        self.number = number
        self.used = []  # a program reads few things, some of them more than once
        self.pool = [name for name in NAMES if number(0, 3) == 0] or ["n", "a"]

    def choose(self, options):
        return options[self.number(0, len(options) - 1)]

    def name_of(self, kind):
        fitting = [name for name in self.pool if kind in NAMES[name][0].split()]
        if not fitting:
            fitting = [name for name in NAMES if kind in NAMES[name][0].split()]
        name = self.choose(fitting)
        if name not in self.used:
            self.used.append(name)
        return name

    def fill(self, template, depth=0):
        def make(match):
            kind = match[1]
            if kind in ("lv", "dv", "ov"):
                return self.name_of(kind[0])
            if kind == "b_":
                return self.name_of("l")
            if "f'" in template and kind != "c":
                return self.name_of(kind)  # quotes do not nest
            return self.expression(kind, depth)

        return re.sub(r"\$(lv|dv|ov|b_|\w)", make, template)

    def expression(self, kind, depth):
        if kind == "t" and (depth > 1 or self.number(0, 2) == 0):
            return "x" if self.number(0, 2) else self.name_of("t")
        if kind in "ci" or depth < 2 and self.number(0, 2) == 0:
            forms = FORMS[kind] if depth < 3 else [form for form in FORMS[kind] if form.count("$") < 2]
            text = self.fill(self.choose(forms), depth + 1)
            return (
                text
                if kind == "i" or re.fullmatch(r"[\w.]+|[\w.]*\([^()]*\)|[\w.]*\[[^\[\]]*\]", text)
                else f"({text})"
            )
        return self.name_of(kind)


PLACES = ["argument", "argument", "argument", "argument", "global", "default", "cell", "attribute"]


def write(number):
    """Return a case."""
    writer = Writer(number)
    lines = []
    for _ in range(number(1, 4)):
        text = writer.fill(writer.choose(STATEMENTS))
        lines += text.splitlines()
    where = {name: writer.choose(PLACES) for name in writer.used}
    values = {name: writer.choose(NAMES[name][1]) for name in writer.used}
    if len(writer.used) > 1 and number(0, 9) == 0:  # the same object in two places
        one, two = writer.choose(writer.used), writer.choose(writer.used)
        where[one] = where[two] = "same"
    by = {place: [name for name in writer.used if where[name] == place] for place in {*PLACES, "same"}}
    parameters = ["x", *by["argument"], *by["same"], *(f"{name}={values[name]}" for name in by["default"])]
    head = [f"{name} = {values[name]}" for name in by["global"]]
    head += [f"held = types.SimpleNamespace({', '.join(f'{name}={values[name]}' for name in by['attribute'])})"]
    body = [f"    {name} = held.{name}" for name in by["attribute"]]
    body += ["    out = []", *("    " + line for line in lines), "    return x * 2, out"]
    function = [f"def program({', '.join(parameters)}):", *body]
    if by["cell"]:
        function = [f"def outer({', '.join(by['cell'])}):", *("    " + line for line in function), "    return program"]
        function.append(f"program = outer({', '.join(values[name] for name in by['cell'])})")
    given = ["torch.arange(12.0).reshape(3, 4)", *(values[name] for name in by["argument"])]
    make = ["def make():"]
    if by["same"]:
        make.append(f"    same = {values[by['same'][0]]}")
        given += ["same"] * len(by["same"])
    make.append(f"    return [{', '.join(given)}]")
    text = "\n".join([*head, *function, *make, ""])
    pieces = find_pieces(text)
    modules = [name for name in MODULES.split() if re.search(rf"\b{name}\b", "\n".join([text, *pieces, "torch types"]))]
    return Case("family", "\n".join([f"import {', '.join(modules)}", *pieces, text]))
