"""State: globals, defaults, cells, attributes of functions and modules, iterators that go on, settings of torch."""

from capture.families.writing import Family

state = Family("state")
state.document("""
=== global number |
scale = 2
---
return x * scale
=== global number written |
count = 0
---
global count
count += 1
return x * count
=== global list | v=3
log = []
---
log.append(v)
return x * len(log)
=== global of a function |
scale = 2
def f(t):
    return t * scale
---
return f(x)
=== global that hides a builtin | a=[1, 2]
def len(v):
    return 9
---
return x * len(a) + max(a)
=== default that is a list |
def f(t, kept=[]):
    kept.append(len(kept))
    return t + len(kept)
---
return f(x)
=== default that is a dict |
def f(t, *, opts={'k': [2]}):
    return t * opts['k'][0]
---
return f(x)
=== cell |
def outer(n, m):
    def f(t):
        return t * n + m[0]
    return f
f = outer(2, [3])
---
return f(x)
=== cell that is written |
def outer(n):
    def f(t):
        nonlocal n
        n += 1
        return t * n
    return f
f = outer(2)
---
return f(x), f(x)
=== cell shared by two |
def outer(n):
    def add(k):
        nonlocal n
        n += k
    def read():
        return n
    return add, read
add, read = outer(1)
---
add(2)
return x * read()
=== closure from an argument | f=(lambda n: lambda t: t * n)(3)
return f(x)
=== closure with a break inside | n=3
def f(t):
    stop()
    return t * n
y = f(x + 1)
n += 1
return f(y)
=== function with attributes |
def f(t):
    return t * f.scale
f.scale = 2
f.calls = 0
---
f.calls += 1
return f(x) * f.calls
=== decorated function |
def count(g):
    def inner(*a):
        inner.n += 1
        return g(*a)
    inner.n = 0
    return inner
@count
def f(t, k):
    return t * k
---
return f(x, 2)
=== cached function | n=3
@functools.lru_cache
def f(n):
    return n * 2
---
return x * f(n)
=== partial as a global |
f = functools.partial(torch.add, alpha=3, other=2)
---
return f(x)
=== recursion | n=3
def f(t, n):
    return t if n <= 0 else f(t * 2, n - 1) + n
---
return f(x, n)
=== a module's attribute |
settings = types.ModuleType('settings')
settings.scale, settings.sizes = 2, [1]
---
return x * settings.scale + settings.sizes[0]
=== a module's function |
settings = types.ModuleType('settings')
settings.f = lambda t: t * 3
---
return settings.f(x)
=== grad mode |
y = x * 2
return y, torch.is_grad_enabled(), y.requires_grad
=== grad mode set | b=False
with torch.set_grad_enabled(b):
    y = x * 2
return y, torch.is_grad_enabled()
=== default dtype |
return torch.ones(2) * 2, torch.get_default_dtype()
=== random numbers | n=2
return torch.rand(n) + x.sum()
=== random numbers of Python | n=2
import random
---
return x * random.random(), random.randint(0, n)
=== a stack of settings |
stack = [1]
---
stack.append(2)
y = x * stack[-1]
stack.pop()
return y
=== a registry of functions | k='a'
registry = {}
def register(f):
    registry[f.__name__] = f
    return f
@register
def a(t):
    return t * 2
@register
def b(t):
    return t + 2
---
return registry[k](x)
=== a counter object | c=itertools.count(3)
return x * next(c) + next(c)
=== an iterator that goes on | i=iter([1, 2, 3])
y = x * next(i)
stop()
return y + next(i), [*i]
=== a generator that goes on | g=f(3)
def f(n):
    while True:
        yield n
        n += 1
---
return x * next(g) + next(g)
=== environment |
import os
---
return x * int(os.environ.get('NOT_THERE', '2'))
=== annotations | n=1
def f(a: int, b: str) -> None: pass
---
return x * len(f.__annotations__)
=== doc and name |
def f():
    'text'
---
return x * len(f.__name__) + len(f.__doc__ or '')
""")

FAMILIES = [state]
