"""What perturbation and campaigns found, made small: each name tells the kind of the mistake.

A row is a program (families/writing.py has the format) and the calls that showed it: CALL, or a change of one leaf.
They stay here when the mistake is mended, so that it does not come back.
"""

from capture.families.writing import Family

CALL = ("call",)
found = Family("found")
STEPS = {}


def row(name, steps, arguments, body, space=""):
    found.row(name, arguments, body, space)
    STEPS[found[-1].name] = [CALL, *steps, CALL]


# ---- values that C code looks at without a guard ---------------------------------------------------------------------
row("index that is a list", [("args[1][0]", "+1")], "i=[0, 1]", "return x[:, i] * 2")
row("index that is a slice", [("args[1].stop", "+1")], "i=slice(0, 2)", "return x[..., i] * 2")
row("index of a plain list", [("args[1].stop", "+1")], "s=slice(2)", "return x + sum([1, 2, 3, 4][s])")
row("index that is stored to", [("args[1][0]", "+1")], "i=[0, 1]", "x[:, i] = 7\nreturn x + 1")
row(
    "index that is augmented", [("args[2][0]", "+1")], "u=slice(1, None), b=[0, 2]", "y = x * 1\ny[u, b] += 2\nreturn y"
)
row("index behind a break", [("args[1]", "+1")], "n=2", "stop()\nreturn x[:, :n] * 2")
row("items of a slice's new value", [("args[2]", "longer")], "a=[1, 2], v=[8, 9]", "a[0:1] = v\nreturn x + 1")
row("an item of a slice's new value", [("args[2][0]", "None")], "a=[1, 2], v=[8, 9]", "a[0:1] = v\nreturn x + 1")
row("base of int()", [("args[2]", "0")], "s='12', b=16", "int(s, b)")
row("named tuple as text", [("args[1][0]", "0")], "p=Point(1, [2])", "str(p)")
row("named tuple as text, deep", [("args[1][1][0]", "0")], "p=Point(1, [2])", "f'{p!r:>30}'")
row("named tuple behind percent", [("args[1][0]", "+1")], "p=Point(1, 2)", "'%s-%s' % p")
row("named tuple in a template", [("args[1][1]", "None")], "p=Point(1, [2])", "'{p.a} {p.b[0]}'.format(p=p)")
row("named tuple's class in a template", [("Point.a", "another")], "p=Point(1, [2])", "'{p.a}'.format(p=p)")
row("named tuple that is unpacked", [("args[1][0]", "+1")], "p=Point(1, 2)", "'%s-%s-%s' % (*p, stop(3))")

row(
    "number that is called behind a break",
    [("fn", "another result")],
    "",
    """
try:
    stop()
    return fn("sin")(x)
except TypeError as error:
    return x * 2, type(error).__name__
""",
    "def fn(name):\n    return getattr(torch, name)",
)

row(
    "defaults on the stack behind a break",
    [CALL, ("args[1]", "longer")],
    "s='b'",
    """
stop()
def inner(t, i=s, *, k=x.dim()):
    return t + k, i
return inner(x)
""",
)
row("named tuple that is made, behind percent", [("args[1][1][0]", "+1")], "b=[1, [2]]", "'%s-%s' % Point(b, 1)")
row("named tuple by an item in a template", [("args[1][0]", "+1")], "p=Point(1, 2)", "'{0[0]}'.format(p)")

row("number stored by an index that is a named tuple", [("args[2]", "+1")], "q=Point(0, [1]), m=-1",
    "y = x * 1\ny[q] = m\nreturn y")  # fmt: skip
row("class of a number that int() gives back", [("args[1]", "None")], "n=2", "k = [int(n)]\nreturn x + 1")
row("class of what a list is searched for", [("Record.__eq__", "another result"), CALL, ("args[1][1].name", "longer")],
    "a=[Record('a'), Record('b')], v=Record('b')", "y = x + 1\nstop()\nreturn y * 2 if v not in a else y")  # fmt: skip
row("class of a member in a format", [("Level.__format__", "another")], "m=Level.LOW", "f'{m:{m}}'")

# ---- numbers that change and become NaN, which has no copy -----------------------------------------------------------
NAN = [("h", "nan"), CALL]
row("NaN in a global, for torch", NAN, "", "return x * h", "h = 2.5")
row("NaN in a global, as a result", NAN, "", "return x * 2, h", "h = 2.5")
row(
    "NaN that an operation gives",
    [("h", "+1"), ("h", "0")],
    "",
    "return x * 2, (h * 1e308) * 10 - (h * 1e308) * 10",
    "h = 0.0",
)
row("NaN from an iterator behind a break", [("args[1][1]", "nan"), CALL], "a=[1.5, 2.5]",
    "for i in a:\n    stop()\n    x = x * i\nreturn x")  # fmt: skip
row("NaN in a match", NAN, "", "match [h]:\n    case [i]:\n        return x * i", "h = 2.5")

# ---- identity --------------------------------------------------------------------------------------------------------
row("NaN in its list", [("v", "fresh"), ("a", "in place: append")], "", "return x + (v in a) + a.count(v)",
    "v = float('nan')\na = [v]")  # fmt: skip
row(
    "NaN compared in tuples",
    [("args[2]", "alias of args[1]")],
    "v=float('nan'), w=float('nan')",
    "return x + ((v,) == (w,))",
)
row("float that is another one", [("args[1]", "fresh")], "v=0.5", "return x * 2 if v is HALF else x", "HALF = 0.5")
row("text that is another one", [("args[1]", "fresh")], "a='some text', b='some text'", "return x * 2 if a is b else x")
row(
    "float that came through a break",
    [("args[1]", "fresh")],
    "f=2.5, g=2.5",
    "k = f\nstop()\nreturn x * 2, f is g, k is f",
)
row("key that is a tuple", [], "d={(1, 2): 3}", "return x + 1, [k for k in d], d")
row("key of an OrderedDict that is a tuple", [CALL], "d=collections.OrderedDict({(1, 2): 3, (4, 5): 6})",
    "return x + 1, [k for k in d], d")  # fmt: skip
row("key that is NaN", [("again",), ("args[2]", "fresh")], "d={1: 2}, v=float('nan')", "d[v] = v\nreturn x + 1")
row("items of a slice's new value are the same", [], "a=[1, 2], v=[[3], (4, 'a')]", "a[1:] = v\nreturn x * 2, a, v")

row("item that is taken out and put back", [("args[2]", "0"), CALL], "d=held, k=None",
    "d.pop(k, None)\nd[k] = 1\nreturn x + 1", "held = {'a': 1}")  # fmt: skip
row("dict that grows in a loop over it, behind a break", [], "d={'a': 1, 'b': 2}",
    "for k, v in d.items():\n    stop()\n    x = x + v\n    d[k + 'c'] = 3\nreturn x")  # fmt: skip
row("dict whose values change in a loop over it, behind a break", [("args[1]['b']", "+1")], "d={'a': 1, 'b': 2}",
    "for k, v in d.items():\n    stop()\n    x = x + v\n    d['b'] = 7\nreturn x, d")  # fmt: skip

row("number that was put into a list from outside, which is printed", [("args[2]", "0"), CALL], "n=1, m=1, a=[]",
    "a.append(n)\na.append(m)\nreturn x * 2, str(a)")  # fmt: skip
row("number that was put into a dict from outside, which is compared", [("args[2]", "0"), CALL], "n=1, m=1, d={}",
    "d['a'] = n\nd['b'] = m\nreturn x * 2, d == {'a': 1, 'b': 1}, f'{d}'")  # fmt: skip
row("__dict__ of a new object is on the stack at a break", [CALL], "o=Record('a', 1)",
    "x = x * 2\ny = Record.__new__(Record)\ny.__dict__.update(stop(o.__dict__))\n"
    "return x * 2, sorted(y.__dict__)")  # fmt: skip
row("__dict__ of a new object is kept over a break", [], "",
    "x = x * 2\ny = Record('a', 1)\nd = y.__dict__\nstop()\nd['name'] = 'b'\n"
    "return x * 2, y.name, d is vars(y)")  # fmt: skip
row("torch.tensor of tensors with several elements", [], "", "return x + 1, torch.tensor([x, x])")

# ---- exceptions ------------------------------------------------------------------------------------------------------
row("text of an exception of starmap", [("args[1][1]", "None")], "a=[(1, 2), (3, 4)]", "[*itertools.starmap(max, a)]")
row(
    "traceback of a graph that wrote and failed",
    [],
    "i=torch.tensor([9])",
    "y = x * 1\nstop()\ny[0] = 7\nreturn y[:, i] * 2",
)

row(
    "row of a tensor with a history is written to",
    [("args[0]", "requires_grad")],
    "",
    "y = x * 2\nfor row in y:\n    row.mul_(3)\nreturn y",
)

row("operator that refuses what its fake lets pass, after a write", [("args[0]", "bool"), CALL],
    "t=torch.ones(2), log=[]", "t[0] = 3\nlog.append(1)\nreturn torch.relu(x), t")  # fmt: skip

row("traceback where one of the running statistics is missing", [], "", "return norm(x + 1)",
    "norm = torch.nn.BatchNorm1d(4)\nnorm._buffers['running_mean'] = None")  # fmt: skip

row("star of something that has no items", [], "a=None, d={1: 2}",
    "try:\n    stop(*a, **d)\nexcept TypeError as error:\n    return x + 1, repr(error)")  # fmt: skip

row(
    "arguments that a function with a stand-in does not take",
    [],
    "a=[1], d={'key': 1}",
    """f = any
texts = []
for call in (lambda: f(), lambda: f(a, a), lambda: sorted(**d), lambda: sum(a, start=1, end=2)):
    try:
        call()
    except TypeError as error:
        texts.append(str(error))
return x + 1, texts""",
)

# ---- crashes ---------------------------------------------------------------------------------------------------------
row("index that contains itself", [], "b=[1]", "b[0] = b\nreturn (x + 1)[b]")
row("index that contains itself, stored to", [], "b=[1]", "y = x + 1\nb[0] = b\ny[b] = 2\nreturn y")

row("value that contains itself, stored to a tensor", [], "d={}", "y = x + 1\nd[1] = d\ny[[0, 1], :] = d\nreturn y")

# ---- the tracer fails ------------------------------------------------------------------------------------------------
row("size that changed and then is gone", [("args[0]", "transposed"), ("args[0]", "fewer dims")], "", "return x * 2")
