"""Classes: attributes, properties, descriptors, hooks of attribute access, classes made inside, metaclasses."""

from capture.families.writing import Family

classes = Family("class")
classes.document("""
=== attribute of the class | o=Box(3)
class Box(Holder):
    pass
---
return x * o.scale + o.sizes[0] + Box.scale
=== attribute that hides | o=Box(3)
class Box(Holder):
    pass
---
o.scale = 5
return x * o.scale + Box.scale
=== attribute written | o=Box(3)
class Box(Holder):
    pass
---
o.n += 1
Box.scale = o.n
return x * o.n
=== attribute that is missing | o=Box(3)
class Box(Holder):
    pass
---
return x * getattr(o, 'm', 1) + hasattr(o, 'k')
=== inherited | o=Sub(3)
class Box(Holder):
    pass
class Sub(Box):
    pass
---
return x * o.scale + o.n
=== super | o=Sub(3)
class Box(Holder):
    def f(self, t):
        return t * self.scale
class Sub(Box):
    scale = 3
    def f(self, t):
        return super().f(t) + self.n
---
return o.f(x)
=== property | o=Box(3)
class Box(Holder):
    @property
    def twice(self):
        return self.n * 2
    @twice.setter
    def twice(self, v):
        self.n = v // 2
---
o.twice = 8
return x * o.twice
=== cached property | o=Box(3)
class Box(Holder):
    @functools.cached_property
    def once(self):
        return self.n * 2
---
return x * o.once + o.once
=== class method | o=Box(3)
class Box(Holder):
    count = 0
    @classmethod
    def make(cls, n):
        cls.count += 1
        return cls(n + cls.scale)
---
return x * o.make(2).n + Box.count
=== static method | o=Box(3)
class Box(Holder):
    @staticmethod
    def f(n, by=[3]):
        return n * by[0]
---
return x * o.f(2) + Box.f(o.n)
=== __getattr__ | o=Box(3)
class Box(Holder):
    extra = {'other': 4}
    def __getattr__(self, name):
        return self.extra[name]
---
return x * o.n + o.other
=== __getattribute__ | o=Box(3)
class Box(Holder):
    def __getattribute__(self, name):
        value = object.__getattribute__(self, name)
        return value * 2 if name == 'n' else value
---
return x * o.n
=== __setattr__ | o=Box(3)
class Box(Holder):
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value + Box.scale)
---
o.n = 4
return x * o.n
=== descriptor | o=Box(3)
class Desc:
    shift = 1
    def __get__(self, o, cls):
        return o.n + self.shift
    def __set__(self, o, v):
        o.n = v
class Box(Holder):
    d = Desc()
---
o.d = 4
return x * o.d
=== operators | o=Box(3), p=Box(4)
class Box(Holder):
    def __add__(self, other):
        return Box(self.n + other.n * self.scale)
    def __lt__(self, other):
        return self.n < other.n
---
return x * (o + p).n + (o < p) + (o == p)
=== reflected operators | o=Box(3)
class Box(Holder):
    def __rmul__(self, other):
        return self.n * other
---
return x * (2 * o)
=== length and truth | o=Box(3)
class Box(Holder):
    def __len__(self):
        return self.n
---
return x * len(o) if o else x
=== __bool__ | o=Box(3)
class Box(Holder):
    def __bool__(self):
        return self.n > self.scale
---
return x * 2 if o else x
=== __contains__ and __getitem__ | o=Box(3), k=1
class Box(Holder):
    def __getitem__(self, k):
        return self.sizes[k]
    def __contains__(self, k):
        return k in self.sizes
---
return x * o[k] + (k in o)
=== __iter__ | o=Box(3)
class Box(Holder):
    def __iter__(self):
        return iter(self.sizes)
---
y = x
for k in o:
    y = y * k
return y, [*o]
=== __next__ | o=Box(3)
class Box(Holder):
    def __iter__(self):
        return self
    def __next__(self):
        self.n -= 1
        if self.n < 0:
            raise StopIteration
        return self.n
---
return x * sum(o)
=== __call__ | o=Box(3)
class Box(Holder):
    def __call__(self, t, by=1):
        return t * self.n + by
---
return o(x, by=2)
=== __index__ | o=Box(1)
class Box(Holder):
    def __index__(self):
        return self.n
---
return x[o] * [1, 2, 3][o]
=== __float__ and __int__ | o=Box(3)
class Box(Holder):
    def __float__(self):
        return self.n * 1.5
    def __int__(self):
        return self.n
---
return x * float(o) + int(o)
=== __enter__ | o=Box(3)
class Box(Holder):
    def __enter__(self):
        self.n += 1
        return self.n
    def __exit__(self, *e):
        self.n += 10
---
with o as k:
    y = x * k
return y + o.n
=== __del__ is not asked | o=Box(3)
class Box(Holder):
    pass
---
o = None
return x * 2
=== __init_subclass__ | n=2
class Base:
    def __init_subclass__(cls, tag):
        cls.tag = tag
---
class Sub(Base, tag=n):
    pass
return x * Sub.tag
=== __class_getitem__ | n=2
class Base:
    k = 3
    def __class_getitem__(cls, n):
        return n * cls.k
---
return x * Base[n]
=== __new__ | n=2
class Base:
    k = 3
    def __new__(cls, n):
        self = object.__new__(cls)
        self.n = n + cls.k
        return self
---
return x * Base(n).n
=== metaclass | n=2
class Meta(type):
    k = 3
    @property
    def twice(cls):
        return cls.n * 2
    def __len__(cls):
        return cls.k
class Base(metaclass=Meta):
    n = 4
---
return x * Base.twice + len(Base)
=== metaclass with __instancecheck__ | n=2
class Meta(type):
    kinds = (int,)
    def __instancecheck__(cls, v):
        return type(v) in cls.kinds
class Base(metaclass=Meta):
    pass
---
return x * isinstance(n, Base)
=== made inside | n=2
class Inner:
    k = n
    def f(self, t):
        return t * self.k
return Inner().f(x)
=== made inside and given out | n=2
class Inner:
    k = n
    def __init__(self, t):
        self.t = t
return Inner(x * 2)
=== record made inside | n=2, m='a'
@dataclasses.dataclass
class R:
    k: int = n
    m: str = 'z'
r = R(m=m)
return x * r.k, f'{r}', r == R(n, m)
=== named tuple made inside | n=2
P = collections.namedtuple('P', 'a b')
p = P(x * n, n)
return p.a, p.b, P._fields
=== function made inside | n=2
def f(t, by=n):
    return t * by + n
return f(x), f.__defaults__
=== class in an argument | c=Box
class Box(Holder):
    pass
---
return x * c(3).n + c.scale
=== method in an argument | f=Box(3).f
class Box(Holder):
    def f(self, t):
        return t * self.n + self.scale
---
return f(x)
=== methods of a table | d={'f': Box.f, 'g': Box(4).f}, k='g'
class Box(Holder):
    def f(self, t):
        return t * self.n
---
return d[k](x) if k == 'g' else d[k](Box(1), x)
=== record with a default | r=Record('n')
r.values.append(x * 2)
return r
=== record with a factory | n=1
r = Record(n)
r.values.append(x * 2)
return r, Record().values
=== slots | o=Slots(2, [3])
o.a += 1
return x * o.a + o.b[0], hasattr(o, 'c')
=== an empty slot | o=Slots(2, 3)
del o.b
return x * o.a, hasattr(o, 'b')
=== enum | c=Color.RED
return x * len(c.name), c is Color.RED, c.value, Color(2)
=== enum by name | n='RED'
return x * 2, Color[n], [m.name for m in Color]
=== enum with a method | c=Kind.A
class Kind(enum.Enum):
    A = 2
    B = 3
    def apply(self, t):
        return t * self.value
---
return c.apply(x)
=== flags | f=Flags.A
return x * (2 if f & Flags.A else 3), f | Flags.B, Flags.B in f
=== __dict__ is read | o=Box(3)
class Box(Holder):
    pass
---
return x * o.__dict__['n'], vars(o)
=== __dict__ is written | o=Box(3), v=5
class Box(Holder):
    pass
---
o.__dict__['n'] = v
o.__dict__.update(m=1)
return x * o.n + o.m
=== __class__ is read | o=Box(3)
class Box(Holder):
    pass
---
return x * o.__class__.scale, type(o).__name__
=== __class__ is written | o=Box(3)
class Box(Holder):
    pass
class Sub(Box):
    scale = 7
---
o.__class__ = Sub
return x * o.scale
=== order of methods | o=D()
class A:
    k = 1
    def f(self):
        return 1
class B(A):
    k = 2
class C(A):
    def f(self):
        return 3
class D(B, C):
    pass
---
return x * o.k + o.f(), [c.__name__ for c in D.__mro__]
=== abstract classes | v=[1]
import collections.abc
from collections.abc import Sized
---
return x * isinstance(v, collections.abc.Sequence) + isinstance(v, Sized)
=== module of torch | m=torch.nn.Linear(4, 2)
torch.manual_seed(0)
---
return m(x) * 2
=== module with settings | m=Net(2)
class Net(torch.nn.Module):
    k = 2
    def __init__(self, n):
        super().__init__()
        self.n = n
        self.register_buffer('b', torch.ones(4))
        self.names = ['a', 'b']
    def forward(self, t):
        return t * self.n + self.b * self.k + len(self.names) + self.training
---
return m(x)
=== module in a list | m=torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.Identity()])
for f in m:
    x = f(x - 5)
return x
=== module in a dict | m=torch.nn.ModuleDict({'a': torch.nn.ReLU(), 'b': torch.nn.Identity()}), k='a'
return m[k](x - 5) + len(m)
=== sequential | m=torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Flatten(0))
return m(x - 5)
=== dropout | m=torch.nn.Dropout(0.5)
return m(x)
""")

FAMILIES = [classes]
