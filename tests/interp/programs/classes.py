"""Class statements, metaclasses, inheritance, super() and hooks of class creation."""
# ruff: noqa

import builtins

from . import process_wide


def simple_inheritance(log):
    class A:
        kind = "a"

        def __init__(self, x):
            self.x = x

        def describe(self):
            return f"{self.kind}:{self.x}"

    class B(A):
        kind = "b"

        def __init__(self, x, y):
            super().__init__(x)
            self.y = y

        def describe(self):
            return super().describe() + f":{self.y}"

    return A(1).describe(), B(1, 2).describe(), B.__mro__[1] is A, isinstance(B(0, 0), A)


def diamond_with_super(log):
    class Base:
        def go(self, path):
            return path + ["Base"]

    class Left(Base):
        def go(self, path):
            return super().go(path + ["Left"])

    class Right(Base):
        def go(self, path):
            return super(Right, self).go(path + ["Right"])

    class Bottom(Left, Right):
        def go(self, path):
            return super().go(path + ["Bottom"])

        @classmethod
        def make(cls):
            return super().__new__(cls)

        def __new__(cls, *args):
            log.append(super().__repr__.__name__)
            return super().__new__(cls)

    return Bottom().go([]), [c.__name__ for c in Bottom.__mro__]


def super_errors(log):
    class A:
        def no_arguments():
            super()

        def deleted(self):
            del self
            super()

        def rebound(self):
            self = 5
            super().x

        def missing_attribute(self):
            return super().nothing

    def outside(self):
        return super()

    for call in (A.no_arguments, A().deleted, A().rebound, A().missing_attribute, lambda: outside(1)):
        try:
            call()
        except (RuntimeError, TypeError, AttributeError) as e:
            log.append((type(e).__name__, str(e)))


def super_in_nested_function(log):
    class A:
        def f(self):
            return "A.f"

    class B(A):
        def f(self):
            def inner(this):
                return super().f()

            return inner(self), [super(B, self).f() for _ in range(2)], (lambda s: super(__class__, s).f())(self)

        def g(self):
            return [super().f() for _ in range(1)]

    log.append(B().f())
    return B().g()


def super_with_properties_and_classmethods(log):
    class A:
        @property
        def p(self):
            return "A.p"

        @classmethod
        def c(cls):
            return cls.__name__

        @staticmethod
        def s():
            return "A.s"

    class B(A):
        @property
        def p(self):
            return "B+" + super().p

        @classmethod
        def c(cls):
            return "B+" + super().c()

        def s(self):
            return "B+" + super().s()

    class C(B):
        pass

    return C().p, C.c(), C().s()


def metaclass_hooks(log):
    class Meta(type):
        @classmethod
        def __prepare__(mcs, name, bases, **options):
            log.append(("prepare", name, [b.__name__ for b in bases], options))
            return {"prepared": True}

        def __new__(mcs, name, bases, namespace, **options):
            log.append(("new", name, [k for k in namespace if not k.startswith("__")]))
            return super().__new__(mcs, name, bases, namespace)

        def __init__(cls, name, bases, namespace, **options):
            log.append(("init", name, options))
            super().__init__(name, bases, namespace)

        def __call__(cls, *args):
            log.append(("call", cls.__name__, args))
            return super().__call__(*args)

        def __len__(cls):
            return 7

    class A(metaclass=Meta, option=1):
        x = 1

    class B(A, option=2):
        def __init__(self, *args):
            log.append(args)

    return len(A), B(1, 2).prepared, type(B).__name__


def metaclass_conflict(log):
    class M1(type): ...

    class M2(type): ...

    class A(metaclass=M1): ...

    class B(metaclass=M2): ...

    class C(A, B): ...


def metaclass_derived_is_chosen(log):
    class M1(type): ...

    class M2(M1): ...

    class A(metaclass=M1): ...

    class B(metaclass=M2): ...

    class C(A, B): ...

    return type(C).__name__


def metaclass_is_a_function(log):
    def make(name, bases, namespace, **options):
        log.append((name, bases, sorted(k for k in namespace if k[0] != "_"), options))
        return "not a class at all"

    class A(metaclass=make, extra=5):
        x = 1

    return A


def class_statement_errors(log):
    class A: ...

    for bases in ((1,), (A, A), (object, A), (bool,), (type(None),), (int, str)):
        try:

            class B(*bases): ...

        except TypeError as e:
            log.append(str(e))

    class C(A, unknown=1): ...


def init_subclass(log):
    class Plugin:
        registry = {}

        def __init_subclass__(cls, /, key=None, **options):
            super().__init_subclass__(**options)
            log.append((cls.__name__, key))
            cls.registry[key] = cls

    class A(Plugin, key="a"): ...

    class B(A, key="b"): ...

    return {key: cls.__name__ for key, cls in Plugin.registry.items()}


def set_name(log):
    class Descriptor:
        def __set_name__(self, owner, name):
            log.append((owner.__name__, name))
            self.name = name

        def __get__(self, instance, owner):
            return self if instance is None else (self.name, type(instance).__name__)

    class A:
        x = Descriptor()
        y = z = Descriptor()

    return A().x, A().y


def set_name_fails(log):
    class Descriptor:
        def __set_name__(self, owner, name):
            raise KeyError(name)

    class A:
        x = Descriptor()


def mro_entries_and_class_getitem(log):
    class Generic:
        def __init__(self, base):
            self.base = base

        def __mro_entries__(self, bases):
            log.append(len(bases))
            return (self.base,)

    class Base:
        def __class_getitem__(cls, item):
            return f"{cls.__name__}[{item}]"

    class A(Generic(Base)): ...

    return [c.__name__ for c in A.__mro__], A[3], len(A.__orig_bases__)


def custom_mro(log):
    class Meta(type):
        def mro(cls):
            default = super().mro()
            return default[:1] + [Mixin] + default[1:] if "Mixed" in cls.__name__ else default

    class Mixin:
        def f(self):
            return "mixin"

    class Base(metaclass=Meta):
        def f(self):
            return "base"

    class Mixed(Base): ...

    return Mixed().f(), Base().f(), [c.__name__ for c in Mixed.__mro__]


def class_cell_is_set_before_init_subclass(log):
    class Base:
        def __init_subclass__(cls):
            log.append(cls.who())

    class A(Base):
        @staticmethod
        def who():
            return __class__.__name__

    return A.who()


def class_cell_not_propagated(log):
    class Meta(type):
        def __new__(mcs, name, bases, namespace):
            namespace.pop("__classcell__", None)
            return super().__new__(mcs, name, bases, namespace)

    class A(metaclass=Meta):
        def f(self):
            return __class__


@process_wide
def build_class_replaced(log):
    original = builtins.__build_class__

    def build(fn, name, *bases, **options):
        log.append((fn.__name__, name, [b.__name__ for b in bases], options))
        return original(fn, name, *bases, **options)

    builtins.__build_class__ = build
    try:

        class A(dict): ...

        class B(A, metaclass=type): ...

    finally:
        builtins.__build_class__ = original

    class C(A): ...

    return [c.__name__ for c in C.__mro__]


def class_decorators(log):
    def tag(value):
        def decorate(cls):
            log.append((value, cls.__name__))
            cls.tags = getattr(cls, "tags", ()) + (value,)
            return cls

        return decorate

    @tag("outer")
    @tag("inner")
    class A: ...

    return A.tags


def new_and_init(log):
    class A:
        def __new__(cls, *args, **kwargs):
            log.append(("new", args, kwargs))
            return super().__new__(cls)

        def __init__(self, *args, **kwargs):
            log.append(("init", args, kwargs))

    class Other:
        def __new__(cls):
            return 5

        def __init__(self):
            log.append("not called")

    class BadInit:
        def __init__(self):
            return 7

    A(1, k=2)
    log.append(Other())
    return BadInit()


def singletons_and_caching_new(log):
    class Cached:
        instances = {}

        def __new__(cls, key):
            if key not in cls.instances:
                cls.instances[key] = super().__new__(cls)
            return cls.instances[key]

        def __init__(self, key):
            log.append(key)
            self.key = key

    return Cached(1) is Cached(1), Cached(1) is Cached(2)


def subclass_of_builtins(log):
    class Stack(list):
        def push(self, x):
            self.append(x)
            return self

        def __getitem__(self, i):
            log.append(i)
            return super().__getitem__(i)

    class Upper(str):
        def __new__(cls, text):
            return super().__new__(cls, text.upper())

        def __add__(self, other):
            return Upper(str.__add__(self, other))

    class Default(dict):
        def __missing__(self, key):
            log.append(("missing", key))
            return key * 2

    s = Stack().push(1).push(2)
    return s[0], s[-1], s, Upper("a") + "b", Default(a=1)["zz"], Default(a=1)["a"], Default().get("q")


def special_methods_are_looked_up_on_the_type(log):
    class A:
        def __len__(self):
            return 1

        def __getattr__(self, name):
            log.append(name)
            raise AttributeError(name)

        def __getattribute__(self, name):
            log.append(("get", name))
            return super().__getattribute__(name)

    a = A()
    a.__len__ = lambda: 99
    a.__iter__ = lambda: iter([1])
    log.append(len(a))
    try:
        iter(a)
    except TypeError as e:
        log.append(str(e))
    return a + 1


def operators_defined_after_creation(log):
    class A: ...

    a = A()
    for method, result in (("__add__", 1), ("__getitem__", 2), ("__call__", 3), ("__len__", 4), ("__contains__", True)):
        setattr(A, method, lambda self, *args, result=result: result)
    before = (a + 0, a[0], a(), len(a), 5 in a)
    del A.__add__, A.__call__
    for use in (lambda: a + 0, lambda: a()):
        try:
            use()
        except TypeError as e:
            log.append(str(e))
    return before


def abstract_and_virtual(log):
    import abc

    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self): ...

        @property
        @abc.abstractmethod
        def name(self): ...

    class Square(Shape):
        name = "square"

        def area(self):
            return 4

    Shape.register(int)
    log.append((Square().area(), isinstance(3, Shape), issubclass(bool, Shape), isinstance("x", Shape)))
    return Shape()


def dataclasses_and_enums(log):
    import dataclasses
    import enum

    @dataclasses.dataclass(order=True, frozen=True)
    class Point:
        x: int
        y: int = 0
        tags: list = dataclasses.field(default_factory=list, compare=False)

    class Color(enum.Enum):
        RED = 1
        GREEN = enum.auto()

        @property
        def lower(self):
            return self.name.lower()

    log.append(
        (
            Point(1),
            Point(1, 2) < Point(2),
            dataclasses.asdict(Point(3)),
            Color.RED.lower,
            Color(2).name,
            [c.name for c in Color],
        )
    )
    Point(1).x = 5


def named_tuples(log):
    import collections

    Pair = collections.namedtuple("Pair", "a b", defaults=[9])

    class Sub(Pair):
        __slots__ = ()

        def total(self):
            return self.a + self.b

    p = Sub(1)
    a, b = p
    return p, p.total(), p._replace(a=5), a, b, p[::-1], Pair(1, 2) == (1, 2)


def instance_class_is_changed(log):
    class A:
        def who(self):
            return "A", self.x

    class B:
        def who(self):
            return "B", self.x

    a = A()
    a.x = 1
    seen = [a.who()]
    a.__class__ = B
    seen.append(a.who())
    try:
        a.__class__ = int
    except TypeError as e:
        log.append(str(e))
    return seen


def bases_are_changed(log):
    class Old:
        def f(self):
            return "old"

    class New:
        def f(self):
            return "new"

    class A(Old): ...

    a = A()
    seen = [a.f() for _ in range(3)]
    A.__bases__ = (New,)
    seen.extend(a.f() for _ in range(3))
    return seen
