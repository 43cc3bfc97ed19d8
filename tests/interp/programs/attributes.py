"""Attribute access: descriptors, properties, slots, __getattr__, __getattribute__ and module attributes."""
# ruff: noqa

import types


def property_access(log):
    class Celsius:
        def __init__(self):
            self._t = 0

        @property
        def t(self):
            log.append("get")
            return self._t

        @t.setter
        def t(self, value):
            log.append(("set", value))
            if value < -273:
                raise ValueError("too cold")
            self._t = value

        @t.deleter
        def t(self):
            log.append("del")
            self._t = 0

    c = Celsius()
    c.t = 5
    c.t += 1
    del c.t
    log.append(c.t)
    c.t = -300


def property_errors(log):
    class A:
        @property
        def read_only(self):
            return 1

        write_only = property(None, lambda self, value: None)

        @property
        def fails(self):
            return self.not_there

    a = A()

    def assign():
        a.read_only = 2

    def delete():
        del a.read_only

    for action in (assign, delete, lambda: a.write_only, lambda: a.fails):
        try:
            action()
        except AttributeError as e:
            log.append((str(e), e.name))


def property_error_falls_back_to_getattr(log):
    class A:
        @property
        def p(self):
            log.append("property")
            raise AttributeError("inside")

        def __getattr__(self, name):
            log.append(("getattr", name))
            return 42

    return A().p


def data_and_non_data_descriptors(log):
    class Data:
        def __get__(self, instance, owner):
            return "data", instance is None

        def __set__(self, instance, value):
            log.append(value)

    class NonData:
        def __get__(self, instance, owner):
            return "non-data", instance is None

    class A:
        d = Data()
        n = NonData()

    a = A()
    log.append((a.d, a.n, A.d, A.n))
    a.d = 1
    a.n = 2
    vars(a)["d"] = "hidden"
    return a.d, a.n, vars(a)


def descriptor_on_metaclass(log):
    class Meta(type):
        @property
        def size(cls):
            return len(cls.__name__)

        def greet(cls):
            return f"hello {cls.__name__}"

        shared = "meta"

    class A(metaclass=Meta):
        shared = "class"

    try:
        A().size
    except AttributeError as e:
        log.append(str(e))
    return A.size, A.greet(), A.shared, Meta.shared


def getattr_hook(log):
    class Proxy:
        def __init__(self, target):
            self.target = target

        def __getattr__(self, name):
            log.append(name)
            return getattr(self.target, name)

    p = Proxy("text")
    log.append(p.upper())
    log.append(p.target)
    return p.nothing


def getattribute_hook(log):
    class Strict:
        x = 1

        def __getattribute__(self, name):
            log.append(name)
            if name == "forbidden":
                raise AttributeError("custom message")
            return object.__getattribute__(self, name)

        def method(self):
            return self.x

    s = Strict()
    s.method()
    return getattr(s, "forbidden", "default"), hasattr(s, "y"), s.forbidden


def getattribute_and_getattr_together(log):
    class Both:
        def __getattribute__(self, name):
            log.append(("first", name))
            raise AttributeError

        def __getattr__(self, name):
            log.append(("second", name))
            if name == "bad":
                raise KeyError(name)
            return name * 2

    b = Both()
    log.append(b.ab)
    log.append(b.call.upper())
    return b.bad


def setattr_and_delattr_hooks(log):
    class Guarded:
        def __setattr__(self, name, value):
            log.append(("set", name, value))
            if name.startswith("_"):
                raise AttributeError(f"private {name}")
            super().__setattr__(name, value)

        def __delattr__(self, name):
            log.append(("del", name))
            super().__delattr__(name)

    g = Guarded()
    g.a = g.b = 1
    del g.a
    try:
        del g.a
    except AttributeError as e:
        log.append(str(e))
    g._x = 1


def slots(log):
    class Point:
        __slots__ = ("x", "y")

        def __init__(self, x):
            self.x = x

    class Tagged(Point):
        __slots__ = ("tag", "__dict__")

    p, t = Point(1), Tagged(2)
    t.tag, t.extra = "t", "e"
    log.append((p.x, t.x, t.tag, vars(t)))
    del p.x

    def assign_unknown():
        p.z = 1

    for action in (lambda: p.y, lambda: p.x, assign_unknown, lambda: p.__dict__, lambda: vars(p)):
        try:
            action()
        except (AttributeError, TypeError) as e:
            log.append(str(e))
    del p.y


def slots_conflict(log):
    class A:
        __slots__ = ("x",)
        x = 1


def attribute_error_messages(log):
    class A:
        __slots__ = ()

        def m(self): ...

    a = A()

    def set_method():
        a.m = 1

    def set_builtin():
        (1).x = 2

    def set_type():
        int.x = 3

    def delete_missing():
        del types.ModuleType("mod").gone

    for action in (
        lambda: a.gone,
        lambda: A.gone,
        lambda: None.gone,
        lambda: (1).gone,
        lambda: [].gone(),
        lambda: types.ModuleType("mod").gone,
        lambda: (lambda: 0).gone,
        lambda: a.m.gone,
        lambda: super(A, a).gone,
        set_method,
        set_builtin,
        set_type,
        delete_missing,
    ):
        try:
            action()
        except (AttributeError, TypeError) as e:
            log.append((type(e).__name__, str(e), getattr(e, "name", None)))
    return a.gone.more


def bound_methods(log):
    class A:
        def m(self, x=0):
            return self.n + x

        @classmethod
        def c(cls):
            return cls.__name__

        @staticmethod
        def s(x):
            return x

    a = A()
    a.n = 10
    m = a.m
    a.n = 20
    log.append((m(), m.__self__ is a, m.__func__ is A.m, a.m == a.m, a.m is a.m))
    a.m = lambda: "instance"
    return m(1), a.m(), A.m(a, 2), a.c(), A.c(), a.s(5), A.s(6), list(map(a.s, "ab"))


def methods_with_unusual_callables(log):
    class Callable:
        def __call__(self, *args):
            return args

    class Bindable(Callable):
        def __get__(self, instance, owner):
            return lambda *args: ("bound", type(instance).__name__, args)

    class A:
        plain = Callable()
        bound = Bindable()
        builtin = len
        kind = int
        wrapped = staticmethod(len)
        method = classmethod(lambda cls, x: (cls.__name__, x))

    a = A()
    return a.plain(1), a.bound(2), a.builtin("abc"), a.kind("5"), a.wrapped("ab"), a.method(3)


def dict_of_instance_is_replaced(log):
    class A:
        def read(self):
            return self.x

    a = A()
    a.x = 1
    seen = [a.read() for _ in range(3)]
    a.__dict__ = {"x": 2}
    seen.append(a.read())
    a.__dict__["x"] = 3
    seen.append(a.read())
    try:
        a.__dict__ = 5
    except TypeError as e:
        log.append(str(e))
    del a.__dict__
    try:
        a.read()
    except AttributeError as e:
        log.append(str(e))
    return seen, vars(a)


def dynamic_access(log):
    class A:
        x = 1

    a = A()
    setattr(a, "with space", 5)
    log.append((getattr(a, "with space"), hasattr(a, "y"), getattr(a, "y", "default")))
    delattr(a, "with space")
    try:
        setattr(a, 5, 1)
    except TypeError as e:
        log.append(str(e))
    return getattr(a, "y")


def module_getattr(log):
    module = types.ModuleType("dynamic")

    def module_getattr_hook(name):
        log.append(name)
        if name == "magic":
            return 42
        raise AttributeError(f"module has no {name}")

    module.__getattr__ = module_getattr_hook

    def read():
        return module.magic

    seen = [read(), read()]
    module.magic = "real"
    seen.append(read())
    del module.magic
    seen.append(read())
    del module.__getattr__
    try:
        read()
    except AttributeError as e:
        log.append(str(e))
    return seen


def module_subclass(log):
    class Lazy(types.ModuleType):
        @property
        def answer(self):
            log.append("computed")
            return 42

    module = Lazy("lazy")
    module.other = 1
    return module.answer, module.other, module.answer


def class_attributes_through_instances(log):
    class A:
        shared = []
        count = 0

        def bump(self):
            self.count += 1
            self.shared.append(self.count)

    a, b = A(), A()
    a.bump(), a.bump(), b.bump()
    log.append((A.count, a.count, b.count, A.shared))
    del a.count
    return a.count, vars(a), vars(b)


def dunder_class_lies(log):
    class Liar:
        @property
        def __class__(self):
            return int

    x = Liar()
    return isinstance(x, int), isinstance(x, Liar), type(x) is Liar, x.__class__ is int


def cached_property_and_total_ordering(log):
    import functools

    @functools.total_ordering
    class A:
        def __init__(self, n):
            self.n = n

        @functools.cached_property
        def square(self):
            log.append("computed")
            return self.n**2

        def __eq__(self, other):
            return self.n == other.n

        def __lt__(self, other):
            return self.n < other.n

    a, b = A(2), A(3)
    a.square
    return a.square, vars(a), a >= b, a <= b, a > b, max(a, b).n


def attribute_chain_with_side_effects(log):
    class Node:
        def __init__(self, depth):
            object.__setattr__(self, "depth", depth)

        def __getattr__(self, name):
            log.append((self.depth, name))
            return Node(self.depth + 1)

        def __setattr__(self, name, value):
            log.append((self.depth, name, value))

    n = Node(0)
    n.a.b.c = n.d.depth
    n.x.y += 1 if False else n.z.depth
