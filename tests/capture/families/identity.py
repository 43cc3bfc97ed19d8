"""Identity and sharing: `is`, NaN, id(), weak references, the same object in two places."""

from capture.families.writing import Family

identity = Family("identity")
identity.document("""
=== a float and a sentinel |
INF = float('inf')
def f(t, best=INF):
    return t if best is INF else t * 2
---
return f(x)
=== a float argument and a global | v=0.5
HALF = 0.5
---
return x * 2 if v is HALF else x
=== two floats | a=2.5, b=2.5
return x * 2 if a is b else x, a == b
=== two texts | a='some text', b='some text'
return x * 2 if a is b else x, a == b
=== two large ints | a=10 ** 20, b=10 ** 20
return x * 2 if a is b else x, a == b
=== two tuples | a=(1, [2]), b=(1, [2])
return x * 2 if a is b else x, a == b
=== two lists | a=[1], b=[1]
a.append(2)
return x * len(b), a is b
=== two dicts | a={'k': 1}, b={'k': 1}
a['k'] = 5
return x * b['k'], a is b
=== two sets | a={1}, b={1}
a.add(2)
return x * len(b), a is b
=== two objects | a=Thing(n=1), b=Thing(n=1)
a.n = 5
return x * b.n, a is b, a == b
=== two tensors | a=torch.ones(4), b=torch.ones(4)
a.add_(1)
return x * b, a is b
=== two views | a=torch.ones(4), b=torch.ones(4)
v = a[:2]
v.add_(1)
return x * b, v, a
=== a list in a list | a=[[1], [1]]
a[0].append(2)
return x * len(a[1]), a[0] is a[1]
=== a list in a tuple | a=([1], [1])
a[0].append(2)
return x * len(a[1])
=== a list in a dict | d={'a': [1], 'b': [1]}
d['a'].append(2)
return x * len(d['b'])
=== an object in two places | a=Thing(o=Thing(n=1)), b=Thing(o=Thing(n=1))
a.o.n = 4
return x * b.o.n
=== a global and an argument | a=[1]
shared = [1]
---
shared.append(2)
return x * len(a)
=== a default and an argument | a=[1]
def f(t, a, kept=[1]):
    kept.append(2)
    return t * len(a)
---
return f(x, a)
=== None | v=None
return x * 2 if v is None else x + v
=== a sentinel object | v=MISSING
MISSING = object()
---
return x * 2 if v is MISSING else x
=== Ellipsis and NotImplemented | v=...
return x * 2 if v is ... else x, v is NotImplemented
=== True and one | v=True
return x * 2 if v is True else x, v == 1, v is 1 if False else 0
=== a class | v=int
return x * 2 if v is int else x, v in (int, float)
=== an enum | v=Color.RED
return x * 2 if v is Color.RED else x
=== a function | v=len
return x * 2 if v is len else x
=== a method | o=Thing(n=1)
return x * 2, o.scaled == o.scaled, o.scaled is o.scaled
=== NaN with itself | v=float('nan')
return x + (v == v) + (v is v) + (v in [v]) + ([v] == [v])
=== NaN with another | v=float('nan'), w=float('nan')
return x + (v == w) + (v in [w]) + ((v,) == (w,))
=== NaN as a key | v=float('nan')
d = {v: 1}
return x + d.get(v, 5) + d.get(float('nan'), 7)
=== NaN in a list from outside | a=[float('nan'), 1.0]
return x + a.index(a[0]) + a.count(a[0]) + (a == list(a))
=== negative zero | v=-0.0
return x * v, v == 0.0, math.copysign(1, v), {0.0: 'z'}[v]
=== id | a=[1], b=[1]
return x * 2 if id(a) == id(b) else x
=== ids in a set | a=[[1], [1], [2]]
return x * len({id(v) for v in a})
=== ids of tensors | a=[torch.ones(2), torch.ones(2)]
return x * len({id(t) for t in a})
=== a memo by id | a=[Thing(n=1), Thing(n=1)]
memo = {}
for o in a:
    memo.setdefault(id(o), o).n += 1
return x * len(memo), [o.n for o in a]
=== a weak reference | o=Thing(n=2)
r = weakref.ref(o)
return x * r().n, r() is o
=== a weak reference from outside |
target = Thing(n=2)
ref = weakref.ref(target)
---
o = ref()
return x * (o.n if o is not None else 5)
=== a weak dict | o=Thing(n=2)
table = weakref.WeakKeyDictionary()
---
table[o] = 3
return x * table[o] + len(table)
=== copies are apart | a=[[1]]
b, c = copy.copy(a), copy.deepcopy(a)
a[0].append(2)
return x * len(b[0]) + len(c[0]), b[0] is a[0]
=== interned texts | a='ab', b='a'
return x * 2, (b + 'b') == a, sys.intern(b + 'b') is sys.intern(a)
=== small ints | a=5, b=7
return x * 2 if a + 2 is b else x
""")

FAMILIES = [identity]
