"""Indices and slices: of tensors, lists, tuples, texts, ranges, deques and dicts; read, written, deleted."""

from capture.families.writing import Family

tensors = Family("tensor index")
containers = Family("container index")

# What stands between the brackets, and the arguments that it is made of.
INDICES = {
    "an int": ("i=1", "i"),
    "a negative int": ("i=-1", "i"),
    "two ints": ("i=0, j=1", "i, j"),
    "a list": ("i=[0, 2]", "i"),
    "a column list": ("i=[0, 1]", ":, i"),
    "a list of a list": ("i=[[0, 1], [2, 0]]", "i"),
    "lists in a tuple": ("i=([0, 1], [1, 2])", "i"),
    "two lists": ("i=[0, 1], j=[1, 2]", "i, j"),
    "a slice": ("i=slice(0, 2)", "i"),
    "a column slice": ("i=slice(0, 2)", "..., i"),
    "a tuple of slices": ("i=(slice(None), slice(1, 3))", "i"),
    "an int and a slice": ("i=(1, slice(0, 2))", "i"),
    "bounds": ("a=0, b=2", "a:b"),
    "column bounds": ("a=0, b=2", ":, a:b"),
    "a step": ("a=0, b=4, c=2", ":, a:b:c"),
    "a slice that is made": ("a=0, b=2", "slice(a, b), slice(None, b)"),
    "None": ("i=None", "i"),
    "None and an int": ("i=None, j=1", "i, j"),
    "Ellipsis": ("i=..., j=1", "i, j"),
    "a bool": ("i=True", "i"),
    "a list of bools": ("i=[True, False, True]", "i"),
    "a mask": ("i=torch.tensor([True, False, True])", "i"),
    "a tensor of ints": ("i=torch.tensor([2, 0])", "i"),
    "a tensor and a list": ("i=torch.tensor([2, 0]), j=[1, 3]", "i, j"),
    "a named tuple": ("i=Point(0, 1)", "i"),
    "an item of a dict": ("i={'k': [0, 1]}", ":, i['k']"),
    "an attribute": ("i=Thing(v=[0, 1])", ":, i.v"),
    "an item of a nested list": ("i=[[0, 1], (slice(0, 1), 2)]", "i[1]"),
    "a range": ("i=range(2)", "i"),
    "an enum's number": ("i=Level.LOW", "i"),
    "an int of a class": ("i=Count(1)", "i"),
    "a tuple of a class": ("i=Labels((0, 1))", "i"),
    "a sum of numbers": ("i=0, j=1", ":, i + j"),
    "an unpacked list": ("i=[0, 1]", "*i, None"),
}
USES = {
    "read": "return x[$] * 2",
    "written": "y = x * 1\ny[$] = 7\nreturn y",
    "written in place": "x[$] = 0.5\nreturn x + 1",
    "augmented": "y = x * 1\ny[$] += 3\nreturn y",
    "read behind a break": "y = x + 1\nstop()\nreturn y[$] * 2",
    "read before a break": "return [x[$], stop(x * 2), x[$] + 1]",
}

for what, (arguments, index) in INDICES.items():
    for use, body in USES.items():
        tensors.row(f"{what}, {use}", arguments, body.replace("$", index))

# A global, a default, a cell, an attribute that holds the index.
tensors.row("a global list", "", "return x[:, columns] * 2", "columns = [0, 1]")
tensors.row("a global slice", "", "return x[rows] * 2", "rows = slice(0, 2)")
tensors.row("a default", "", "return pick(x) * 2", "def pick(t, rows=[0, 1]):\n    return t[rows]")
tensors.row("a default slice", "", "return pick(x) * 2", "def pick(t, *, rows=slice(0, 2)):\n    return t[..., rows]")
tensors.row("a class attribute", "i=Thing()", "return x[i.columns] * 2\n", "Holder = 1")
tensors[-1].text = tensors[-1].text.replace('kind = "thing"', "columns = [0, 1]")
tensors.row(
    "a cell", "", "return pick(x) * 2", "def outer(rows):\n    return lambda t: t[:, rows]\npick = outer([0, 1])"
)
tensors.row("operator.getitem", "i=[0, 1]", "return operator.getitem(x, (slice(None), i)) * 2")
tensors.row("operator.itemgetter", "i=(slice(0, 1), [0, 1])", "return operator.itemgetter(i)(x) * 2")
tensors.row("the method", "i=(slice(0, 1), [0, 1])", "return x.__getitem__(i) * 2")
tensors.row("set by the method", "i=(slice(0, 1), [0, 1]), v=2.0", "x.__setitem__(i, v)\nreturn x * 2")
tensors.row("set to a list's item", "i=0, v=[1.0, 2.0]", "x[i] = v[i]\nreturn x * 2")
tensors.row("set to a tensor", "i=[0, 1], v=torch.ones(4)", "x[i] = v\nreturn x * 2")
tensors.row("of an index of a tensor", "i=[0, 2], j=[1, 0]", "return x[i][j] * 2")
tensors.row("index_select", "i=torch.tensor([0, 1]), d=1", "return x.index_select(d, i) * 2")
tensors.row("select and narrow", "d=1, i=1, n=2", "return x.select(d, i) * 2, x.narrow(d, i, n)")
tensors.row("in a loop", "i=[0, 1, 2]", "y = 0\nfor k in i:\n    y = y + x[:, k] * k\nreturn y")
tensors.row(
    "in a loop with a break", "i=[0, 1, 2]", "y = x\nfor k in i:\n    y = y + x[k, :k].sum()\n    stop()\nreturn y"
)
tensors.row("a comprehension", "i=[[0], [1, 2]]", "return [x[k] * 2 for k in i]")

# Plain containers: what it is, an index of each kind, and what is done with it.
HOLDERS = {
    "list": "a=[[1], [2, 3], [4], [5]]",
    "tuple": "a=((1,), (2, 3), (4,), (5,))",
    "text": "a='abcdef'",
    "bytes": "a=b'abcdef'",
    "range": "a=range(1, 9, 2)",
    "deque": "a=collections.deque([1, 2, 3, 4])",
    "named tuple": "a=Point(3, [4])",
    "list of a class": "a=Row([1, 2, 3, 4])",
}
KINDS = {
    "int": ("i=1", "i"),
    "negative": ("i=-1", "i"),
    "bool": ("i=True", "i"),
    "slice": ("i=slice(1, 3)", "i"),
    "bounds": ("i=1, j=3", "i:j"),
    "step": ("i=-1", "::i"),
}
for holder, held in HOLDERS.items():
    for kind, (arguments, index) in KINDS.items():
        if holder != "deque" or ":" not in index and "slice" not in arguments:
            containers.row(f"{holder} by {kind}", f"{held}, {arguments}", f"a[{index}]")
for holder in ("list", "list of a class"):
    for kind, (arguments, index) in KINDS.items():
        many = ":" in index or "slice" in arguments
        containers.row(
            f"{holder} written by {kind}",
            f"{HOLDERS[holder]}, {arguments}, v=[8, 9]",
            f"y = x + 1\na[{index}] = v\nreturn y, a" if index != "::i" else "y = x + 1\na[::i] = a\nreturn y, a",
        )
        containers.row(
            f"{holder} deleted by {kind}", f"{HOLDERS[holder]}, {arguments}", f"y = x + 1\ndel a[{index}]\nreturn y, a"
        )
        if not many:
            containers.row(
                f"{holder} augmented by {kind}",
                f"a={'Row' if 'class' in holder else ''}([1, 2, 3, 4]), {arguments}",
                f"y = x + 1\na[{index}] += 5\nreturn y, a",
            )
containers.rows("""
    sum of a slice | s=slice(2) | return x + sum([1, 2, 3, 4][s])
    indices of a slice | s=slice(None, None, -1), n=4 | s.indices(n)
    parts of a slice | s=slice(1, 5, 2) | (s.start, s.stop, s.step)
    slices compared | s=slice(1, 5), t=slice(1, 5) | (s == t, s != t, s is t)
    a slice in a list | s=[slice(1, 3), 0] | ([1, 2, 3, 4][s[0]], s[1])
    a slice in a dict | s={'k': slice(1, 3)} | 'abcdef'[s['k']]
    a slice made of a list | s=[1, 3] | 'abcdef'[slice(*s)]
    a range sliced | r=range(10), s=slice(1, 9, 3) | r[s]
    a range with bounds | n=7, m=2 | [*range(m, n)][m:n]
    nested | a=[[1, [2, 3]], [4]], i=0, j=1 | a[i][j][i]
    islice | a=[1, 2, 3, 4], i=1, j=3 | [*itertools.islice(a, i, j)]
    itemgetter of a slice | a=[1, 2, 3, 4], s=slice(1, 3) | operator.itemgetter(s)(a)
    itemgetter of several | a=[1, 2, 3, 4], i=(0, 2) | operator.itemgetter(*i)(a)
    index in a tuple of a list | a=([1, 2], [3, 4]), i=(0, 1) | a[i[0]][i[1]]
    text by a number that is computed | s='abcdef', n=2 | s[n + 1:][:n]
    unpacked with a star | a=[1, 2, 3, 4] | (lambda p, *q: (p, q))(*a[1:])
    position of a text | s='abcabc', c='c', n=3 | (s.find(c, n), s.count(c), s.index(c))
    position in a list | a=[1, 2, 1, 3], v=1, n=1 | (a.index(v, n), a.count(v))
    pop by an index | a=[1, 2, 3, 4], i=1 | (a.pop(i), a)
    insert by an index | a=[1, 2, 3, 4], i=1, v='v' | (a.insert(i, v), a)
    a size of a tensor | i=1 | (x.shape[i], x.shape[:i], x.size(i), x.stride(i))
    sizes as an index | a=[0, 1, 2, 3, 4] | a[x.shape[0]:]
    a list of tensors | a=[torch.ones(2), torch.zeros(3)], i=0 | a[i] + 1
    a dict of lists of tensors | d={'k': [torch.ones(2), torch.zeros(3)]}, k='k', i=1 | d[k][i] * 2
    a tuple of tensors by a slice | a=(torch.ones(2), torch.zeros(2), torch.ones(2)), s=slice(0, 2) | torch.stack(a[s])
""")

FAMILIES = [tensors, containers]
