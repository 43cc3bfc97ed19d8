"""Star-arguments, and functions and methods of Python that look into containers of containers."""

from capture.families.writing import Family

stars = Family("star-arguments")
builtin = Family("builtin")

SEQUENCES = {
    "a list": "a=[1, [2], 3]",
    "a tuple": "a=(1, (2,), 3)",
    "a list of a class": "a=Row([1, 2, 3])",
    "a tuple of a class": "a=Labels((1, 2, 3))",
    "a named tuple": "a=Point(1, [2])",
    "a set": "a={1, 2}",
    "a dict's keys": "a={'p': 1, 'q': 2}",
    "a text": "a='abc'",
    "a range": "a=range(3)",
    "a deque": "a=collections.deque([1, 2])",
    "an iterator": "a=iter([1, 2, 3])",
    "a map": "a=map(abs, [-1, 2])",
    "a zip": "a=zip([1, 2], 'ab')",
    "tensors": "a=[torch.ones(2), torch.zeros(2)]",
}
for name, arguments in SEQUENCES.items():
    stars.row(f"{name}, called", arguments, "join_all(*a)")
    stars.row(f"{name}, in a list", arguments, "y = x + 1\nstop()\nreturn y * 2, [0, *a], (*a, 1)")
MAPPINGS = {
    "a dict": "a={'p': 1, 'q': [2]}",
    "an ordered dict": "a=collections.OrderedDict(p=1, q=2)",
    "a dict of a class": "a=Table(p=1, q=2)",
    "a default dict": "a=collections.defaultdict(int, p=1)",
    "a dict of tensors": "a={'p': torch.ones(2)}",
    "a record's dict": "a=vars(Thing(p=1, q=[2]))",
}
for name, arguments in MAPPINGS.items():
    stars.row(f"{name}, called", arguments, "join_all(1, **a)")
    stars.row(f"{name}, merged", arguments, "y = x + 1\nstop()\nreturn y * 2, {'z': 0, **a}, dict(**a)")
stars.rows("""
    both | a=[1, (2,)], b={'k': [3]} | join_all(*a, **b)
    two lists | a=[1], b=(2, 3) | join_all(*a, *b, 4)
    two dicts | a={'p': 1}, b={'q': 2} | join_all(**a, **b)
    two dicts with the same key | a={'p': 1}, b={'p': 2} | join_all(**a, **b)
    too many | a=[1, 2, 3] | (lambda p, q, r: (p, q, r))(*a)
    named by a dict | a={'p': 1, 'q': 2} | (lambda p, q=5, **rest: (p, q, rest))(**a)
    positional and named | a=[1], b={'q': 2} | (lambda p, /, q, *, r=3: (p, q, r))(*a, **b)
    nested calls | a=[1, 2] | join_all(*join_all(*a)[0], *a)
    sizes of a tensor | a=[2, 6] | x.reshape(*a)
    sizes as a tuple | a=(4, 3) | x.view(a)
    torch with a dict | a={'dim': 0, 'keepdim': True} | x.sum(**a)
    torch with a nested list | a=[[0, 1], True] | x.sum(*a)
    torch.cat of a list | a=[torch.ones(1, 4), torch.zeros(2, 4)] | torch.cat([x, *a])
    torch.stack of a tuple | a=(torch.ones(2), torch.zeros(2)), d=0 | torch.stack(a, d)
    torch.full with a list | a=[2, 3], v=1.5 | torch.full(a, v)
    permute | a=(1, 0) | x.permute(*a)
    transposed by names | a={'dim0': 0, 'dim1': 1} | x.transpose(**a)
    print with stars | a=['a', 1], b={'sep': '-'} | print(*a, **b)
    max of stars | a=[3, 1, 2] | max(*a)
    zip of stars | a=[(1, 2), (3, 4)] | [*zip(*a)]
    chain of stars | a=[[1], [2, 3]] | [*itertools.chain(*a)]
    partial with stars | a=[1], b={'k': 2} | functools.partial(join_all, *a, **b)(3)
    a method by stars | a=[[3], 1] | [5].__add__(*a[:1])
    unpacking | a=[1, (2, [3, 4])] | (lambda p, q: (p, *q))(*a)
    kwargs that are changed | a={'p': 1} | (lambda **k: (k.update(z=1), k))(**a)
    args that are kept | a=[[1], [2]] | (lambda *k: k)(*a)
""")
stars.row("unpacked to names", "a=[1, 2, 3, 4]", "p, *q, r = a\nreturn x + p, q, r")
stars.row("unpacked in depth", "a=[1, (2, [3, 4])]", "p, (q, (r, *s)) = a\nreturn x + p + q + r, s")
stars.row("unpacked in a loop", "a=[(1, 'a'), (2, 'b')]", "y = x\nfor n, s in a:\n    y = y * n + len(s)\nreturn y")
stars.row(
    "a function's own stars",
    "a=[1, 2], b={'k': 3}",
    "return f(x, *a, **b)",
    "def f(t, *p, k=1, **q):\n    return t * k + sum(p), q",
)
stars.row(
    "defaults and stars",
    "a=[1]",
    "return f(x, *a)",
    "def f(t, p=1, q=[2], *r, s=(3,)):\n    return t * p + q[0] + s[0]",
)
stars.document("""
=== a wrapper | a=[2], b={'q': 3}
def wrapper(f):
    @functools.wraps(f)
    def inner(*p, **q):
        return f(*p, **q), len(p), [*q]
    return inner
@wrapper
def wrapped(t, p, q=1):
    return t * p + q
---
return wrapped(x, *a, **b)
""")

NESTED = "a=[[3, 1], [2], [2, 5]]"
builtin.rows(f"""
    sorted | {NESTED} | (sorted(a), sorted(a, key=len), sorted(a, key=lambda v: v[-1], reverse=True))
    min and max | {NESTED}, d=7 | (min(a), max(a, key=len), max([], default=d))
    sum of lists | {NESTED} | (sum(a, []), sum(map(len, a)))
    any and all | a=[[], 0, None, 'x'] | (any(a), all(a), any(a[:3]))
    zip and enumerate | {NESTED}, n=1 | ([*zip(a, a[1:])], [*enumerate(a, n)])
    map and filter | {NESTED}, n=1 | ([*map(len, a)], [*filter(lambda v: len(v) > n, a)])
    reversed and sliced | {NESTED} | ([*reversed(a)], a[::-1])
    copies | {NESTED} | (copy.copy(a), copy.deepcopy(a), a.copy(), list(a))
    isinstance | v=1, t=(int, (str, float)) | (isinstance(v, t), issubclass(type(v), t))
    numbers | v=-7, w=2 | (abs(v), divmod(v, w), v // w, v % w, pow(v, w), v ** w, v << w, v & w, ~v)
    floats | v=7.5, w=2 | (divmod(v, w), round(v), int(v), v.is_integer(), float(w), v // w)
    math | v=2.5, n=5 | (math.floor(v), math.ceil(v), math.sqrt(v), math.factorial(n), math.log(v))
    math of lists | a=[3.0, 4.0] | (math.prod(a), math.fsum(a), math.hypot(*a), math.dist(a, [0, 0]))
    math of ints | a=12, b=18 | (math.gcd(a, b), math.lcm(a, b), math.isqrt(a), math.comb(b, 2))
    math that is undefined | v=2.0 | (math.isnan(v), math.isinf(v), math.copysign(1, v), math.trunc(v))
    complex numbers | v=1 + 2j | (v.real, v.imag, abs(v), v.conjugate(), v * v)
    bit length | v=37 | (v.bit_length(), v.to_bytes(2, 'big'), int.from_bytes(b'ab', 'big'))
    product | a=[[1, 2], 'ab'] | [*itertools.product(*a)]
    combinations | a=[1, [2], 3], n=2 | ([*itertools.combinations(a, n)], [*itertools.permutations(a, n)])
    accumulate | a=[1, 2, 3], f=max | ([*itertools.accumulate(a)], [*itertools.accumulate(a, f)])
    groupby | a=['aa', 'b', 'cc'] | [(k, [*g]) for k, g in itertools.groupby(a, len)]
    zip_longest | {NESTED}, v=0 | [*itertools.zip_longest(*a, fillvalue=v)]
    chain | {NESTED} | [*itertools.chain.from_iterable(a)]
    takewhile | a=[1, 2, 5, 1], n=4 | [*itertools.takewhile(lambda v: v < n, a)]
    dropwhile | a=[1, 2, 5, 1], n=4 | [*itertools.dropwhile(lambda v: v < n, a)]
    repeat and count | n=3, v=[1] | ([*itertools.repeat(v, n)], next(itertools.count(n)))
    cycle | a=[1, 2], n=5 | [*itertools.islice(itertools.cycle(a), n % 7)]
    pairwise and compress | a=[1, 2, 3], b=[1, 0, 1] | ([*itertools.pairwise(a)], [*itertools.compress(a, b)])
    starmap | a=[(1, 2), (3, 4)] | [*itertools.starmap(operator.add, a)]
    tee | a=[1, 2] | [[*i] for i in itertools.tee(a, 2)]
    reduce | {NESTED}, v=[0] | functools.reduce(lambda p, q: p + q, a, v)
    partial | n=2, k=3 | functools.partial(lambda p, q, r=1: (p, q, r), n, r=k)(5)
    partial from outside | f=functools.partial(max, 3, key=abs) | (f(-5), f.args)
    itemgetter | {NESTED}, i=1 | sorted(a, key=operator.itemgetter(0)) + [operator.itemgetter(i)(a)]
    attrgetter | o=Thing(p=Thing(q=3), r=[1]) | operator.attrgetter('p.q', 'r')(o)
    methodcaller | s='abc', m='upper' | getattr(s, m)()
    operators | a=5, b=3 | (operator.add(a, b), operator.lt(a, b), operator.mod(a, b), operator.index(a))
    operators on lists | a=[1], b=[2, 3] | (operator.concat(a, b), operator.contains(b, 2), operator.countOf(b, 3))
    in-place operators | a=[1], b=[2] | (operator.iadd(a, b), a)
    truth | a=[[], (), '', 0, None, [0]] | [bool(v) for v in a]
    chained comparison | a=1, b=2, c=3 | (a < b < c, a < b > c, a == b != c)
    a counter of pairs | a=['p', 'q', 'p'] | (collections.Counter(a), collections.Counter(a) - collections.Counter('p'))
    a deque | a=[1, 2, 3], n=2 | (collections.deque(a, n), collections.deque(a).pop())
    a deque turned | d=collections.deque([1, 2, 3]), n=1 | (d.rotate(n), d.appendleft(0), [*d])
    a named tuple replaced | p=Point(1, [2]), v=5 | (p._replace(a=v), p._asdict(), p._fields, Point._make([1, v]))
    a named tuple as a tuple | p=Point(1, [2]) | (p == (1, [2]), len(p), p[0], p + (3,))
    a record replaced | r=Record('n', [1]), v='m' | (dataclasses.replace(r, name=v), dataclasses.astuple(r))
    a record's fields | r=Record('n', [1]) | ([f.name for f in dataclasses.fields(r)], dataclasses.asdict(r))
    iter with a sentinel | a=[1, 2, 0, 3], v=0 | [*iter(a.pop, v)]
    next with a default | a=[], v=5 | next(iter(a), v)
    type of a value | v=1 | (type(v), type(v) is int, type(v).__name__)
    callable | f=len, v=3 | (callable(f), callable(v))
    vars and dir | o=Thing(p=1, q=2) | (vars(o), 'p' in dir(o))
    hasattr | o=Thing(p=1), n='p' | (hasattr(o, n), getattr(o, 'q', n))
    setattr | o=Thing(p=1), n='p', v=3 | (setattr(o, n, v), o.p)
    delattr | o=Thing(p=1, q=2), n='p' | (delattr(o, n), vars(o))
    bytes | a=[1, 2] | (bytes(a), bytearray(a), b'a' * a[0])
    list methods | a=[1, 2], v=3 | (a.append(v), a.extend([v, v]), a.remove(1), a.reverse(), a)
    list sorted in place | a=[[3], [1, 2], []], r=True | (a.sort(key=len, reverse=r), a)
    list times a number | a=[[1]], n=3 | a * n
    list plus list | a=[1], b=[[2]] | a + b
    list augmented | a=[1], b=(2, 3) | (a.__iadd__(b), a)
    a list cleared | a=[1, 2] | (a.clear(), a)
    range | a=1, b=9, c=3 | ([*range(a, b, c)], len(range(b)), 4 in range(a, b))
    sum of floats | a=[0.1, 0.2, 0.3], s=1 | sum(a, s)
    sum of tensors | a=[torch.ones(2), torch.zeros(2)] | sum(a)
    max of sizes | a=[torch.ones(2), torch.zeros(3)] | max(t.shape[0] for t in a)
    sorted by a tensor's size | a=[torch.ones(3), torch.zeros(2)] | sorted(a, key=lambda t: t.numel())[0] * 2
    slots | o=Slots(1, [2]) | (o.a, o.b)
    simple namespace | o=types.SimpleNamespace(p=1, q=[2]) | (o.p, o.q, vars(o))
    mapping proxy | d={{'p': 1}} | (types.MappingProxyType(d)['p'], len(types.MappingProxyType(d)))
""")

FAMILIES = [stars, builtin]
