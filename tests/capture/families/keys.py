"""Keys of dicts and members of sets: tuples, frozensets, enums, numbers that are equal, NaN, objects with __eq__."""

from capture.families.writing import Family

keys = Family("key")
members = Family("member")

# A dict, and keys that may be in it.
TABLES = {
    "texts": ("d={'a': 1, 'b': 2, 'c': 3}", "k='b'"),
    "tuples": ("d={(0, 1): 1, (0, 2): 2, (1, (2, 3)): 3}", "k=(0, 2)"),
    "nested tuples": ("d={(1, (2, 'x')): 1, (1, (3, 'x')): 2}", "k=(1, (2, 'x'))"),
    "frozensets": ("d={frozenset([1, 2]): 1, frozenset([3]): 2}", "k=frozenset([2, 1])"),
    "numbers": ("d={1: 'one', 2: 'two', 0: 'zero'}", "k=1"),
    "floats": ("d={1.0: 'one', 0.5: 'half', -0.0: 'zero'}", "k=0.5"),
    "bools": ("d={True: 't', False: 'f'}", "k=True"),
    "an enum": ("d={Color.RED: 1, Color.BLUE: 2}", "k=Color.RED"),
    "an int enum": ("d={Level.LOW: 1, 2: 'two'}", "k=Level.HIGH"),
    "objects": ("d={Key(1): 'one', Key(2): 'two'}", "k=Key(2)"),
    "frozen records": ("d={Frozen(1): 'one', Frozen(2): 'two'}", "k=Frozen(2)"),
    "named tuples": ("d={Point(1, 2): 'p', Point(1, 3): 'q'}", "k=Point(1, 3)"),
    "texts of a class": ("d={Name('a'): 1, 'b': 2}", "k=Name('b')"),
    "None and Ellipsis": ("d={None: 1, ...: 2}", "k=None"),
    "types": ("d={int: 1, str: 2, float: 3}", "k=int"),
    "bytes": ("d={b'a': 1, b'b': 2}", "k=b'a'"),
    "dtypes": ("d={torch.float32: 1, torch.float64: 2}", "k=torch.float32"),
    "shapes": ("d={(3, 4): 1, (2, 2): 2}", "k=torch.Size([3, 4])"),
    "mixed": ("d={1: 'i', '1': 's', (1,): 't', None: 'n'}", "k='1'"),
}
for name, (table, key) in TABLES.items():
    arguments = f"{table}, {key}"
    keys.row(f"{name}, looked up", arguments, "y = x + 1\nreturn y, d[k]")
    keys.row(f"{name}, asked for", arguments, "y = x * 2\nreturn y + len(d) if k in d else y, d.get(k, 'none')")
    keys.row(f"{name}, written", arguments, "y = x + 1\nd[k] = y\nreturn d")
    keys.row(f"{name}, deleted behind a break", arguments, "y = x + 1\nstop()\ndel d[k]\nreturn y * 2, d")
keys.rows("""
    a key of two arguments | d={(0, 1): 5, (0, 2): 6}, i=0, j=1 | d[i, j]
    a key with a size | d={3: 5, 4: 6} | d[x.shape[0]]
    a key with a dtype | d={torch.float32: 5, torch.float64: 6} | x * d[x.dtype]
    a key of a shape | d={(3, 4): 5} | x * d.get(x.shape, 2)
    setdefault | d={'a': [1]}, k='a', v=2 | (d.setdefault(k, []).append(v), d)
    pop | d={'a': 1, 'b': 2}, k='a' | (d.pop(k, None), d)
    popitem | d={'a': 1, 'b': 2} | (d.popitem(), d)
    update | d={'a': 1}, e={'b': 2, 'a': 3} | (d.update(e), d)
    merged | d={'a': 1}, e={'b': 2, 'a': 3} | (d | e, {**e, **d})
    views | d={'a': 1, 'b': 2}, e={'b': 2, 'c': 3} | (d.keys() & e.keys(), d.items() - e.items(), d.keys() == e.keys())
    values | d={'a': [1], 'b': [2, 3]} | (sum(map(len, d.values())), [*d.values()])
    items in order | d={'b': 1, 'a': 2} | [(k, v) for k, v in d.items()]
    reversed | d={'b': 1, 'a': 2} | [*reversed(d)]
    compared | d={'b': 1, 'a': [2]}, e={'a': [2], 'b': 1} | (d == e, [*d] == [*e])
    a default dict | d=collections.defaultdict(list, a=[1]), k='b' | (d[k].append(3), d)
    a counter | d=collections.Counter('aab'), k='a' | (d[k], d.most_common(1), d['z'])
    an ordered dict | d=collections.OrderedDict(a=1, b=2), k='a' | (d.move_to_end(k), [*d.items()])
    a chain of maps | d={'a': 1}, e={'a': 2, 'b': 3}, k='b' | collections.ChainMap(d, e)[k]
    fromkeys | a=['x', 'y', 'x'], v=3 | dict.fromkeys(a, v)
    of pairs | a=[('x', 1), ('y', [2])] | dict(a)
    inverted | d={'a': 1, 'b': 2} | {v: k for k, v in d.items()}
    a dict of dicts | d={'a': {'b': {'c': 4}}}, k=('a', 'b', 'c') | functools.reduce(operator.getitem, k, d)
    a global table | k='a' | return x * scales[k]
    a missing key | d={'a': 1}, k='z' | d[k]
    a dict of a class | d=Table(a=1), k='a' | (d[k], len(d), type(d) is dict)
    globals as a dict | k='scales' | return x + len(globals()[k])
    a key by its hash | k=Key(3), n=3 | (hash(k) == hash(n), k == n)
""")
for case in keys:
    if "scales" in case.text:
        case.text = case.text.replace("def program", "scales = {'a': 2, 'b': 3}\ndef program", 1)
keys.document("""
=== __missing__ | d=Lazy(a=1), k='b'
class Lazy(dict):
    start = 4
    def __missing__(self, key):
        self[key] = self.start
        return key * 2
---
d[k]
=== __eq__ that counts | d={Odd(1): 'a'}, k=Odd(1)
class Odd:
    def __init__(self, n):
        self.n, self.asked = n, 0
    def __hash__(self):
        return 1
    def __eq__(self, other):
        self.asked += 1
        return self.n == other.n
---
(d.get(k), k.asked, next(iter(d)).asked)
""")

# Membership, equality, order and hashes.
SETS = {
    "a list": "a=[1, 2, 3], v=2",
    "a list of texts": "a=['a', 'b'], v='a'",
    "a list of lists": "a=[[1], [2]], v=[2]",
    "a tuple": "a=(1, 'x', None), v=None",
    "a set": "a={1, 2, 3}, v=2",
    "a frozenset": "a=frozenset('ab'), v='a'",
    "a dict": "a={'p': 1, 'q': 2}, v='q'",
    "a text": "a='abc', v='bc'",
    "a range": "a=range(0, 9, 3), v=6",
    "a deque": "a=collections.deque([1, 2]), v=2",
    "an enum": "a=[Color.RED, Color.BLUE], v=Color.RED",
    "objects": "a=[Key(1), Key(2)], v=Key(2)",
    "floats": "a=[0.5, -0.0, 2.0], v=0.0",
    "NaN": "a=[float('nan')], v=float('nan')",
    "None": "a=[None, 0, False], v=0",
    "types": "a=(int, str), v=int",
    "named tuples": "a=[Point(1, 2), Point(2, 1)], v=Point(2, 1)",
    "records": "a=[Record('a'), Record('b', [1])], v=Record('b', [1])",
}
for name, arguments in SETS.items():
    members.row(f"in {name}", arguments, "return x + 1 if v in a else x - 1")
    members.row(f"not in {name} behind a break", arguments, "y = x + 1\nstop()\nreturn y * 2 if v not in a else y")
members.row("the very object in a list", "", "return x + (v in a) + a.count(v)", "v = float('nan')\na = [v]")
members.row("the very object compared in a list", "v=float('nan')", "return x + ([v] == [v])")
members.rows("""
    union | a={1, 2}, b={2, 3} | (a | b, a & b, a - b, a ^ b)
    methods with lists | a={1, 2}, b=[2, 3] | (a.union(b), a.intersection(b), a.difference(b), a.isdisjoint(b))
    subset | a={1, 2}, b={1, 2, 3} | (a <= b, a < b, b >= a, a == b)
    changed | a={1, 2}, v=5 | (a.add(v), a.discard(1), len(a))
    changed by another | a={1, 2}, b={2, 3} | (a.update(b), a.intersection_update({2, 3}), a)
    order of a set | a={3, 1, 2} | [*a]
    order of a set of texts | a={'p', 'q', 'r'} | sorted(a)
    a set made of a list | a=[3, 1, 3, 2] | ({*a}, len(set(a)))
    a frozenset made | a=[3, 1, 3, 2] | frozenset(a)
    tuples compared | a=(1, (2, [3])), b=(1, (2, [3])) | (a == b, a < b, a <= b)
    lists compared | a=[1, [2]], b=[1, [3]] | (a < b, a != b, max(a, b))
    dicts compared | a={'k': [1, {'z': 2}]}, b={'k': [1, {'z': 2}]} | a == b
    texts compared | a='abc', b='abd' | (a < b, a == b, a in b)
    mixed numbers | a=1, b=1.0, c=True | (a == b == c, hash(a) == hash(b) == hash(c))
    hash of a tuple | a=(1, (2, 3)) | hash(a) == hash((1, (2, 3)))
    hash of a frozenset | a=frozenset([1, 2]) | hash(a) == hash(frozenset([2, 1]))
    hash of a record | a=Frozen(3, 'c') | hash(a) == hash(Frozen(3, 'c'))
    sorted records | a=[Frozen(2), Frozen(1)] | sorted(a)
    smallest object | a=[Key(2), Key(1)] | min(a).n
""")

FAMILIES = [keys, members]
