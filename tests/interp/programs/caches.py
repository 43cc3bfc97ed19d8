"""Enemies of inline caches of names and attributes: one instruction that sees changing types, shapes and values.

Each loop runs long enough (over 100 rounds) for CPython to specialise its instructions before something changes.
"""
# ruff: noqa

import types

from . import process_wide, summarise

_flag = "module value"


def instance_attribute_shadows_class_attribute(log):
    class A:
        x = "class"

    a, seen = A(), []
    for i in range(150):
        if i == 100:
            a.x = "instance"
        if i == 120:
            del a.x
        seen.append(a.x)
    return summarise(seen)


def instance_attribute_shadows_method(log):
    class A:
        def m(self):
            return "method"

    a, b, seen = A(), A(), []
    for i in range(150):
        if i == 100:
            a.m = lambda: "own"
        seen.append(a.m())
        b.m()
    return summarise(seen), b.m()


def type_attribute_replaced(log):
    class A:
        x = 1

        def m(self):
            return "old"

    a, seen = A(), []
    for i in range(140):
        if i == 60:
            A.x = 2
        if i == 80:
            A.m = lambda self: "new"
        if i == 100:
            A.m = staticmethod(lambda: "static")
        if i == 110:
            A.m = classmethod(lambda cls: cls.__name__)
        if i == 120:
            A.m = 5
            break
        seen.append((a.x, a.m()))
    log.append(summarise(seen))
    return a.m()


def base_class_attribute_replaced(log):
    class Base:
        def m(self):
            return "base"

    class Middle(Base): ...

    class A(Middle): ...

    a, seen = A(), []
    for i in range(150):
        if i == 70:
            Base.m = lambda self: "base 2"
        if i == 100:
            Middle.m = lambda self: "middle"
        if i == 120:
            del Middle.m
        seen.append(a.m())
    return summarise(seen)


def many_types_at_one_place(log):
    class A:
        x = 1

    class B:
        def __init__(self):
            self.x = 2

    class C:
        __slots__ = ("x",)

        def __init__(self):
            self.x = 3

    class D:
        @property
        def x(self):
            return 4

    class E:
        def __getattr__(self, name):
            return 5

    module = types.ModuleType("m")
    module.x = 6
    objects = [A(), B(), C(), D(), E(), module, A, types.SimpleNamespace(x=7)]
    seen = []

    def read(o):
        return o.x

    for o in objects:
        for _ in range(30):
            read(o)
        seen.append([read(p) for p in objects])
    return seen


def slots_then_dict_then_property(log):
    class Slotted:
        __slots__ = ("v",)

    class Plain:
        pass

    class Computed:
        @property
        def v(self):
            return "computed"

        @v.setter
        def v(self, value):
            log.append(value)

    def bump(o):
        o.v = o.v
        return o.v

    seen = []
    for kind in (Slotted, Plain, Computed, Slotted):
        o = kind()
        o.v = kind.__name__
        for _ in range(60):
            result = bump(o)
        seen.append(result)
    log[:] = summarise(log)
    return seen


def property_replaced_by_value(log):
    class A:
        @property
        def x(self):
            return "property"

    a, seen = A(), []
    vars(a)["x"] = "instance"
    for i in range(150):
        if i == 100:
            A.x = "value"
        if i == 120:
            A.x = property(lambda self: "again")
        if i == 130:
            del A.x
        seen.append(a.x)
    return summarise(seen)


def instance_class_changes_in_loop(log):
    class A:
        kind = "A"

        def m(self):
            return "A.m", self.n

    class B:
        kind = "B"

        def m(self):
            return "B.m", self.n

    o, seen = A(), []
    o.n = 0
    for i in range(160):
        if i in (80, 140):
            o.__class__ = B if i == 80 else A
            o.n += 1
        seen.append((o.kind, o.m()))
    return summarise(seen)


def attribute_deleted_between_iterations(log):
    class A:
        pass

    a, seen = A(), []
    for i in range(120):
        a.x = i % 2
        if i > 100:
            del a.x
        try:
            seen.append(a.x)
        except AttributeError as e:
            seen.append(str(e))
    return summarise(seen)[-1]


def instance_dict_materialised(log):
    """Reading __dict__ moves the attributes of an instance from its inline values to a dict."""

    class A:
        def __init__(self, n):
            self.a, self.b = n, n * 2

    def read(o):
        return o.a + o.b

    def write(o, n):
        o.a = n

    objects = [A(n) for n in range(3)]
    seen = []
    for i in range(120):
        if i == 60:
            vars(objects[0])
        if i == 80:
            objects[1].__dict__ = {"b": 1, "a": 1}
        if i == 100:
            vars(objects[2])["z"] = 0
            del vars(objects[2])["a"]
            objects[2].a = 50
        for o in objects:
            write(o, i)
        seen.append([read(o) - i for o in objects])
    return summarise(seen), vars(objects[2])


def instances_with_different_attribute_orders(log):
    class A:
        def __init__(self, names):
            for n, name in enumerate(names):
                setattr(self, name, n)

    def read(o):
        return o.x, o.y

    return summarise(read(A(names)) for _ in range(50) for names in ("xy", "yx", "axby")), len(vars(A("xyz")))


def many_attributes_beyond_shared_keys(log):
    class A:
        pass

    def read(o):
        return o.k5

    total = []
    for n in range(60):
        a = A()
        for i in range(40):
            setattr(a, f"k{(i * (n % 3 + 1)) % 40}", (n, i))
        a.k5 = getattr(a, "k5", None)
        total.append(read(a) is not None)
    return summarise(total)


def global_reassigned_in_loop(log):
    global _flag
    seen = []
    try:
        for i in range(150):
            if i == 60:
                _flag = "changed"
            if i == 100:
                globals()["_flag"] = 7
            if i == 120:
                for n in range(50):
                    globals()[f"_filler_{n}"] = n
            seen.append(_flag)
    finally:
        _flag = "module value"
        for n in range(50):
            globals().pop(f"_filler_{n}", None)
    return summarise(seen)


def builtin_shadowed_by_new_global(log):
    namespace = {}
    exec("def measure(x):\n    return len(x)\n", namespace)
    measure, seen = namespace["measure"], []
    for i in range(150):
        if i == 80:
            namespace["len"] = lambda x: "shadow"
        if i == 120:
            del namespace["len"]
        seen.append(measure("abc"))
    return summarise(seen)


@process_wide
def builtin_replaced_in_loop(log):
    import builtins

    original, seen = builtins.abs, []
    try:
        for i in range(120):
            if i == 60:
                builtins.abs = lambda x: "replaced"
            if i == 90:
                builtins.abs = original
            seen.append(abs(-3))
    finally:
        builtins.abs = original
    return summarise(seen)


def global_deleted_in_loop(log):
    namespace = {"value": 1}
    exec("def read():\n    return value\n", namespace)
    seen = []
    for i in range(120):
        if i == 80:
            del namespace["value"]
        if i == 100:
            namespace["value"] = 2
        try:
            seen.append(namespace["read"]())
        except NameError as e:
            seen.append(str(e))
    return summarise(seen)


def module_attribute_changes(log):
    module = types.ModuleType("changing")
    module.f = lambda: "first"
    seen = []
    for i in range(150):
        if i == 60:
            module.f = lambda: "second"
        if i == 80:
            module.__getattr__ = lambda name: lambda: "dynamic " + name
        if i == 100:
            del module.f
        if i == 120:
            module.__class__ = type("Sub", (types.ModuleType,), {"f": property(lambda self: lambda: "property")})
        seen.append(module.f())
    return summarise(seen)


def super_call_with_changing_mro(log):
    class A:
        def f(self):
            return "A"

    class B:
        def f(self):
            return "B"

    class C(A):
        def f(self):
            return "C" + super().f()

    c, seen = C(), []
    for i in range(120):
        if i == 60:
            A.f = lambda self: "A2"
        if i == 80:
            C.__bases__ = (B,)
        seen.append(c.f())
    return summarise(seen)


def descriptor_gains_set_in_loop(log):
    class Descriptor:
        def __get__(self, instance, owner):
            return "descriptor"

    class A:
        x = Descriptor()

    a, seen = A(), []
    vars(a)["x"] = "instance"
    for i in range(120):
        if i == 60:
            Descriptor.__set__ = lambda self, instance, value: None
        if i == 90:
            del Descriptor.__get__
        seen.append(a.x if isinstance(a.x, str) else type(a.x).__name__)
    return summarise(seen)


def getattribute_added_in_loop(log):
    class A:
        x = "plain"

    a, seen = A(), []
    for i in range(140):
        if i == 60:
            A.__getattribute__ = lambda self, name: "hooked " + name
        if i == 90:
            del A.__getattribute__
        if i == 100:
            A.__getattr__ = lambda self, name: "fallback " + name
            del A.x
        seen.append(a.x)
    return summarise(seen)


def setattr_added_in_loop(log):
    class A:
        pass

    a = A()
    for i in range(120):
        if i == 60:
            A.__setattr__ = lambda self, name, value: log.append((name, value))
        if i == 63:
            del A.__setattr__
        a.x = i
    return a.x
