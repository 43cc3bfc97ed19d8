"""Breaks at all kinds of places: what is on the stack, in locals or half done when the program stops."""

from capture.families.writing import Family

breaks = Family("break")
breaks.document("""
=== operands | n=2, a=[1]
return x * n + stop(n) * a[0]
=== a call's arguments | a=[1], k={'b': 2}
return join_all(x * 2, a, stop(3), *a, **k)
=== a tuple half made | p=Point(1, [2])
return (p, x * 2, stop(4), p.b)
=== a dict half made | k='a', v=[1]
return {k: x * 2, 'z': stop(4), **{k: v}}
=== a list of lists | a=[[1], [2]]
return [[x * v[0], stop(v)] for v in a]
=== a slice | n=2
return (x + 1)[:n, slice(stop(0), n)] * 2
=== an index tuple | n=2, c=[0, 1]
y = x * 1
y[stop(1):n, c] = 7
return y
=== a format | n=2, p=Point(1, 2)
y = x + 1
return f'{n:>{stop(5)}} {p}', y * 2
=== a percent | p=Point(1, 2)
y = x + 1
return '%s-%s-%s' % (*p, stop(3)), y * 2
=== a comparison | n=2, m=3
y = x + 1
return y * 2 if n < stop(2) + 1 < m + 1 else y
=== an attribute's owner | o=Thing(n=1)
y = x + 1
o.n = stop(o.n) + 1
return y * o.n
=== an item's owner | d={'a': 1}, k='a'
y = x + 1
d[k] += stop(2)
return y * d[k]
=== a bound method | a=[1]
y = x + 1
a.append(stop(len(a)))
return y * a[-1], a
=== a loop over a list | a=[1, 2, 3]
for k in a:
    x = x * k
    stop()
    x = x + k
return x
=== a loop over a dict | d={'a': 1, 'b': 2}
for k, v in d.items():
    x = x * v
    stop()
    x = x + len(k)
return x
=== a loop over a range | n=3
for k in range(n):
    x = x * 2
    stop()
return x + k
=== loops in loops | a=[[1, 2], [3]]
for v in a:
    for w in v:
        stop()
        x = x * w
    x = x + len(v)
return x
=== enumerate and zip | a=[1, 2], b='ab'
for i, (p, q) in enumerate(zip(a, b)):
    x = x * p + i
    stop()
    x = x + len(q)
return x
=== a while | n=0, m=3
while n < m:
    n += 1
    x = x * n
    stop()
return x + n
=== a try | d={}, k='a'
y = x + 1
try:
    stop()
    y = y * d[k]
except KeyError:
    y = y * 3
return y
=== a handler | d={}, k='a'
y = x + 1
try:
    d[k]
except KeyError as e:
    stop()
    y = y * len(e.args)
return y
=== a finally | n=2, a=[]
try:
    y = x * n
finally:
    stop()
    a.append(n)
return y + 1, a
=== a with | a=[]
with Manager(a) as n:
    y = x * n
    stop()
    y = y + n
return y * 2, a
=== a with that swallows | a=[], v='z'
with Manager(a, ValueError):
    y = x * 2
    stop()
    int(v)
return y + len(a), a
=== no_grad |
with torch.no_grad():
    y = x * 2
    stop()
    z = y + 1
return z * 2, torch.is_grad_enabled()
=== a generator | n=2
def g(k):
    for i in range(k):
        yield x * i
        stop()
return [y + 1 for y in g(n)]
=== a generator's consumer | n=2
def g(k):
    for i in range(k):
        yield x * i
y = 0
for v in g(n):
    stop()
    y = y + v
return y
=== a comprehension | a=[1, 2]
return [stop(x * v) + v for v in a]
=== a nested call | a=[1, 2]
def f(t, k):
    stop()
    return t * k
return f(x, a[0]) + f(x, a[1])
=== a closure | n=2
def f(t):
    nonlocal n
    n += 1
    stop()
    return t * n
return f(x) + f(x), n
=== a recursion | n=2
def f(t, k):
    if k == 0:
        return t
    stop()
    return f(t * 2, k - 1) + k
return f(x, n)
=== a match | v={'a': [1, 2]}
y = x + 1
match v:
    case {'a': [p, *q]} if stop(True):
        y = y * p + len(q)
return y
=== a sort's key | a=[3, 1, 2]
y = x + 1
return y * 2, sorted(a, key=lambda v: stop(v))
=== a property | o=Lazy(3)
class Lazy:
    def __init__(self, n):
        self._n = n

    @property
    def n(self):
        print(end='')
        return self._n
---
return x * o.n + o.n
=== a default argument | n=2
def f(t, k=stop(n)):
    return t * k
return f(x) + f(x, n)
=== numbers that are moved | n=2, m=3
k = n
stop()
y = x * 2
j = (k, m)
stop()
return y + 1, j, k + m
=== floats that are moved | f=2.5, g=2.5
k = f
stop()
y = x * 2
return y, k is f, f is g, k == g
=== texts that are moved | s='ab', t='ab'
k = s
stop()
y = x * 2
return y, k is s, s == t, k + t
=== tensors that are moved | t=torch.ones(4)
k = [t, t]
stop()
y = x + k[0]
k[1].add_(1)
return y, k, k[0] is t
=== views that are moved |
v = x[0]
stop()
v.add_(1)
return x * 2, v
=== a shape that is moved |
s = x.shape
stop()
y = x * 2
return y.reshape(s[::-1]), s
=== an item() in the middle | n=2
y = x * n
k = int(y.sum().item())
return y + k, k
=== a branch by data | n=2
y = x * n
if y.sum() > 10:
    y = y + n
return y
=== a list of sizes | a=[1, 2]
y = [x * k for k in a]
stop()
return torch.cat(y).sum(), [t.shape for t in y]
""")

FAMILIES = [breaks]
