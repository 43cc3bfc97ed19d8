"""match statements, with every kind of pattern."""

from capture.families.writing import Family

match = Family("match")


def row(name, arguments, cases, space=""):
    lines = ["y = x + 1", "match v:"]
    for pattern, result in cases:
        lines += [f"    case {pattern}:", f"        return y * 2, {result}"]
    match.row(name, arguments, "\n".join([*lines, "return y - 1, 'none'"]), space)
    lines[1:1] = ["stop()"]
    match.row(f"{name}, behind a break", arguments, "\n".join([*lines, "return y - 1, 'none'"]), space)


row(
    "literals", "v=1", [("0", "'zero'"), ("1", "'one'"), ("'a' | 'b'", "'text'"), ("None", "'nothing'"), ("2.5", "'f'")]
)
row("True and None", "v=True", [("True", "'true'"), ("False", "'false'"), ("None", "'nothing'"), ("1", "'one'")])
row("sequences", "v=[1, 2]", [("[]", "0"), ("[a]", "a"), ("[a, b]", "(a, b)"), ("[a, b, c]", "(a, b, c)")])
row("a star", "v=[1, 2, 3]", [("[1, *rest]", "rest"), ("[*start, 9]", "start"), ("[first, *_, last]", "(first, last)")])
row("nested sequences", "v=(1, (2, [3]))", [("(a, (2, [b]))", "(a, b)"), ("(a, (b, c))", "(a, b, c)")])
row("a tuple of literals", "v=('add', 1, 2)", [("('add', a, b)", "a + b"), ("('neg', a)", "-a"), ("(op, *_)", "op")])
row("mappings", "v={'op': 'add', 'n': 1}", [("{'op': 'add', 'n': n}", "n"), ("{'op': op}", "op"), ("{}", "'empty'")])
row("the rest of a mapping", "v={'a': 1, 'b': 2}", [("{'a': 1, **rest}", "rest"), ("{**rest}", "rest")])
row("a mapping of a mapping", "v={'a': {'b': [1, 2]}}", [("{'a': {'b': [_, n]}}", "n"), ("{'a': {'b': n}}", "n")])
row(
    "classes",
    "v=1",
    [("bool()", "'b'"), ("int(n)", "n"), ("float() | complex()", "'f'"), ("str(s)", "s"), ("list()", "1")],
)
row(
    "a class with attributes",
    "v=Thing(p=1, q=[2])",
    [("Thing(p=1, q=[a])", "a"), ("Thing(p=p)", "p"), ("Thing()", "0")],
)
row("a record", "v=Record('n', [1, 2])", [("Record('n', [a, *_])", "a"), ("Record(name=n, best=None)", "n")])
row("a named tuple", "v=Point(1, [2])", [("Point(a=1, b=[b])", "b"), ("Point(a, b)", "(a, b)"), ("(a, b)", "'pair'")])
row("an enum", "v=Color.RED", [("Color.RED", "'red'"), ("Color.BLUE", "'blue'"), ("Color()", "'color'")])
row(
    "a constant of a class",
    "v=3",
    [("Limits.low", "'low'"), ("Limits.high", "'high'")],
    "class Limits:\n    low = 3\n    high = 4",
)
row("guards", "v=3, n=2", [("int(k) if k > n", "k"), ("int() if n == 2", "n"), ("_ if n", "'any'")])
row("alternatives with names", "v=['go', 'n']", [("['go', ('n' | 's') as d]", "d"), ("['stop' | 'wait', w]", "w")])
row("as", "v=[1, [2, 3]]", [("[a, [_, *_] as inner]", "(a, inner)"), ("[*all] as whole", "(all, whole)")])
row(
    "__match_args__",
    "v=Pen('red', 3)",
    [("Pen('red', n)", "n"), ("Pen(c)", "c")],
    """
class Pen:
    __match_args__ = ('color', 'size')
    def __init__(self, color, size):
        self.color, self.size = color, size
""",
)
row("a dict of a class", "v=Table(a=1)", [("{'a': 1}", "'one'"), ("{'a': n}", "n")])
row("texts are no sequences", "v='ab'", [("[a, b]", "(a, b)"), ("str()", "'text'"), ("bytes()", "'bytes'")])
row("negative and complex", "v=-1", [("-1", "'minus'"), ("1 + 2j", "'complex'"), ("-0.5", "'half'")])
row("a tensor's shape", "v=(3, 4)", [("(3, n)", "n"), ("(n,)", "n"), ("()", "0")])
row(
    "a list of records",
    "v=[Record('a'), Record('b', [1])]",
    [("[Record('a'), Record(n, [k])]", "(n, k)"), ("[*_]", "0")],
)
row("tensors", "v=[torch.ones(2), 3]", [("[torch.Tensor() as t, int(n)]", "t * n"), ("[int(n), *_]", "n")])
match.document("""
=== of a size |
match x.shape:
    case (3, 4):
        return x * 2
    case (n, _):
        return x + n
    case _:
        return x - 1
=== in a loop | v=[1, 'a', [2], None]
y = x
for item in v:
    match item:
        case int(n):
            y = y * n
        case str():
            y = y + 1
        case [k]:
            y = y - k
            stop()
        case _:
            y = -y
return y
""")

FAMILIES = [match]
