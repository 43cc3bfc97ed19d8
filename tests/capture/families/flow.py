"""Flow: generators, comprehensions, exceptions, context managers, loops."""

from capture.families.writing import Family

flow = Family("flow")
flow.document("""
=== generator | n=3
def g(k):
    for i in range(k):
        yield x * i
return [*g(n)]
=== generator with send | a=[1, 2]
def g():
    got = 0
    while True:
        got = yield x * (got or 1)
k = g()
next(k)
return [k.send(v) for v in a]
=== generator that returns | n=2
def g():
    yield 1
    return n
def h():
    r = yield from g()
    yield r * 2
return x * sum(h())
=== generator that is closed | a=[]
def g():
    try:
        yield 1
        yield 2
    finally:
        a.append('end')
k = g()
y = x * next(k)
k.close()
return y, a
=== generator that gets an exception | a=[]
def g():
    try:
        yield 1
    except ValueError as e:
        a.append(str(e))
        yield 5
k = g()
y = x * next(k)
return y * k.throw(ValueError('bad')), a
=== generator expression | a=[1, 2, 3], n=2
return x * sum(v * n for v in a if v != n)
=== generator given out | n=3
return (x * i for i in range(n))
=== comprehensions | a=[[1, 2], [3]]
return [x * w for v in a for w in v], {w: x + w for v in a for w in v}, {w for v in a for w in v}
=== comprehension with a condition | a=[1, None, 2]
return [x * v if v else x for v in a if v is not None or len(a) > 2]
=== walrus | a=[1, 2, 3]
return x * (n := len(a)) + n, [m for v in a if (m := v * 2) > 2]
=== while with else | n=3, m=5
while n < m:
    n += 1
    x = x * 2
    if n == 9:
        break
else:
    x = x + 1
return x, n
=== for with else | a=[1, 2], v=2
for k in a:
    x = x * k
    if k == v:
        break
else:
    x = -x
return x
=== continue and break | a=[1, 0, 2, 9, 3]
for k in a:
    if not k:
        continue
    if k > 8:
        break
    x = x * k
return x
=== a list that grows | a=[1, 2]
for k in a:
    if len(a) < 4:
        a.append(k + 1)
    x = x * k
return x, a
=== a dict that changes | d={'a': 1, 'b': 2}
for k in d:
    d[k] += 1
    x = x * d[k]
return x, d
=== exception caught | d={'a': 1}, k='z'
try:
    y = x * d[k]
except KeyError as e:
    y = x + len(e.args[0])
return y
=== exception of several kinds | v='a'
try:
    y = x * int(v)
except (TypeError, AttributeError):
    y = x + 1
except ValueError as e:
    y = x + len(str(e))
return y
=== exception with else and finally | v='3', a=[]
try:
    n = int(v)
except ValueError:
    n = 0
else:
    a.append('fine')
finally:
    a.append('end')
return x * n, a
=== exception that leaves | v=3
y = x + 1
if v > 2:
    raise ValueError(f'too large: {v}')
return y
=== exception chained | v='a'
try:
    int(v)
except ValueError as e:
    raise KeyError(v) from e
return x * 2
=== exception chained and hidden | v='a'
try:
    int(v)
except ValueError:
    raise KeyError(v) from None
return x * 2
=== exception in a handler | v='a', d={}
try:
    try:
        int(v)
    except ValueError:
        d[v]
except KeyError as e:
    return x * 2, type(e.__context__), e.args
return x
=== exception raised again | v='a'
try:
    try:
        int(v)
    except ValueError as e:
        e.add_note('seen')
        raise
except ValueError as e:
    return x * 2, e.__notes__
return x
=== exception in a finally | v=0
try:
    y = x * (1 // v)
finally:
    x = x + 1
return y
=== exception kept | v='a', a=[]
try:
    int(v)
except ValueError as e:
    a.append(e)
return x * 2, [type(e).__name__ for e in a]
=== exception of its own class | n=3
class Stop(Exception):
    def __init__(self, n, code=0):
        super().__init__(n)
        self.code = code
---
try:
    raise Stop(n, code=n + 1)
except Stop as e:
    return x * e.code, e.args
=== exception group | a=[1, 'b']
try:
    raise ExceptionGroup('g', [ValueError(a[0]), KeyError(a[1])])
except* ValueError as e:
    y = x * e.exceptions[0].args[0]
except* KeyError as e:
    z = str(e.exceptions[0])
return y, z
=== exception group that leaves | n=2
try:
    raise ExceptionGroup('g', [ValueError(n), TypeError(n)])
except* ValueError:
    x = x + 1
return x
=== assert | v=[1]
assert v, f'empty: {v}'
return x * len(v)
=== StopIteration | a=[1]
i = iter(a)
y = x * next(i)
try:
    next(i)
except StopIteration:
    y = y + 1
return y
=== an error of torch | n=5
try:
    return x.reshape(n, -1)
except RuntimeError:
    return x * 2
=== an index error of torch | i=9
try:
    return x[i]
except IndexError as e:
    return x * 2, str(e)
=== return in a finally | n=1
try:
    return x * n
finally:
    x.add_(1)
=== manager | a=[]
with Manager(a) as n:
    y = x * n
return y, a
=== manager that swallows | a=[], v='z'
with Manager(a, ValueError):
    int(v)
    a.append('no')
return x * len(a), a
=== two managers | a=[]
with Manager(a) as n, Manager(a) as m:
    y = x * n + m
return y, a
=== contextlib | a=[]
@contextlib.contextmanager
def held(v):
    a.append('in')
    try:
        yield v
    finally:
        a.append('out')
with held(3) as n:
    y = x * n
return y, a
=== suppress | d={}
with contextlib.suppress(KeyError):
    x = x * d['k']
return x + 1
=== exit stack | a=[], n=2
with contextlib.ExitStack() as s:
    for k in range(n):
        s.enter_context(Manager(a))
    s.callback(a.append, 'end')
    y = x * len(a)
return y, a
=== no_grad | b=True
with torch.no_grad() if b else contextlib.nullcontext():
    y = x * 2
return y
=== conditional expression | a=[], b={'k': 0}
return x * 2 if a or b['k'] else x - 1
=== short cuts | a=[], b=0, c='x'
return x * 2, a or b or c, a and c, not a
=== del of a name | n=1
y = x * n
del n
try:
    n
except NameError:
    y = y + 1
return y
=== swap | a=1, b=[2]
a, b = b, a
return x * b, a
=== augmented | a=[1], n=2
a += [n]
n **= 2
n //= 3
x = x * n
return x, a, n
=== nested functions | n=2
def f(t):
    def g(u):
        return u * n + k
    k = 3
    return g(t)
return f(x)
=== lambda in a loop | a=[1, 2]
fs = [lambda t, k=k: t * k for k in a]
return [f(x) for f in fs]
=== lambda that sees the last | a=[1, 2]
fs = [lambda t: t * k for k in a]
return [f(x) for f in fs]
=== a loop over sizes |
y = 0
for i in range(x.shape[0]):
    y = y + x[i] * i
return y
=== zip of unequal lists | a=[1, 2, 3], b=[4, 5]
for p, q in zip(a, b):
    x = x * p + q
return x
=== strict zip | a=[1, 2], b=[4, 5]
for p, q in zip(a, b, strict=True):
    x = x * p + q
return x
""")

FAMILIES = [flow]
