"""Enemies of inline caches: one instruction that sees other types, other shapes and other values in mid-loop.

Each loop runs long enough (over 100 rounds) for CPython to specialise its instructions before something changes.
"""
# ruff: noqa

import types

from . import process_wide

_flag = "module value"


def _summary(values):
    """Run-length form of a list, so that logs stay short."""
    runs = []
    for value in values:
        if runs and runs[-1][0] == value:
            runs[-1][1] += 1
        else:
            runs.append([value, 1])
    return [tuple(run) for run in runs]


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
    return _summary(seen)


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
    return _summary(seen), b.m()


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
    log.append(_summary(seen))
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
    return _summary(seen)


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
    log[:] = _summary(log)
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
    return _summary(seen)


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
    return _summary(seen)


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
    return _summary(seen)[-1]


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
    return _summary(seen), vars(objects[2])


def instances_with_different_attribute_orders(log):
    class A:
        def __init__(self, names):
            for n, name in enumerate(names):
                setattr(self, name, n)

    def read(o):
        return o.x, o.y

    return _summary(read(A(names)) for _ in range(50) for names in ("xy", "yx", "axby")), len(vars(A("xyz")))


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
    return _summary(total)


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
    return _summary(seen)


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
    return _summary(seen)


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
    return _summary(seen)


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
    return _summary(seen)


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
    return _summary(seen)


def binary_operator_sees_many_types(log):
    class Loud(int):
        def __add__(self, other):
            return ("loud", int(other))

    pairs = [(1, 2), (1.5, 2.5), ("a", "b"), ([1], [2]), (1, 2.5), (Loud(1), 2), (2, Loud(1)), (True, 1), ((1,), (2,)), (10**20, 1)]

    def add(a, b):
        return a + b

    seen = []
    for a, b in pairs:
        for _ in range(40):
            add(a, b)
        seen.append([add(c, d) for c, d in pairs])
    log.append(seen[0])
    return all(row == seen[0] for row in seen), add(1, "x")


def subscript_sees_many_types(log):
    class Own:
        def __getitem__(self, key):
            return ("own", key)

    class ListLike(list):
        def __getitem__(self, key):
            return ("list", key)

    class DictLike(dict):
        def __missing__(self, key):
            return ("missing", key)

    def get(o, k):
        return o[k]

    cases = [([5, 6], 1), ((7, 8), 0), ({1: 9}, 1), (Own(), 1), (ListLike([1]), 0), (DictLike(), 3), ("xyz", 2), (b"ab", 0), ([1], True), (range(9), -1)]
    seen = []
    for o, k in cases:
        for _ in range(40):
            get(o, k)
        seen.append([get(p, q) for p, q in cases])
    log.append(seen[0])
    Own.__getitem__ = lambda self, key: "replaced"
    return all(row == seen[0] for row in seen), get(Own(), 1), get([1], 5)


def store_subscript_sees_many_types(log):
    class Own:
        def __setitem__(self, key, value):
            log.append((key, value))

    def put(o, k, v):
        o[k] = v

    targets = [[0, 0], {}, bytearray(2), Own(), dict.fromkeys("ab")]
    for target in targets:
        for i in range(30):
            put(target, 1, i)
    log[:] = log[-1:]
    for target in targets:
        put(target, 1, 200)
    try:
        put((1, 2), 1, 0)
    except TypeError as e:
        log.append(str(e))
    return targets[:3], put([0], 5, 1)


def comparison_sees_many_types(log):
    class Odd:
        def __lt__(self, other):
            return "odd"

    def less(a, b):
        if a < b:
            return "less"
        return "not less"

    pairs = [(1, 2), (2.0, 1.0), ("a", "b"), (1, 2.5), (Odd(), 1), ([1], [0]), (float("nan"), 1.0), (10**30, 1), (True, 2)]
    seen = []
    for a, b in pairs:
        for _ in range(40):
            less(a, b)
        seen.append([less(c, d) for c, d in pairs])
    log.append(seen[0])
    return all(row == seen[0] for row in seen), less(1, "a")


def call_target_changes_kind(log):
    class A:
        def __init__(self, x):
            self.x = x

        def __call__(self, x):
            return ("instance", x)

        def m(self, x):
            return ("method", x)

        @classmethod
        def c(cls, x):
            return ("class", x)

    def plain(x):
        return ("plain", x)

    def defaulted(x, y=1):
        return ("defaulted", x, y)

    def starred(*args, **kwargs):
        return ("starred", args)

    def gen(x):
        yield x

    a = A(0)
    targets = [plain, defaulted, starred, len, str, type, A, a, a.m, A.c, (lambda x: x), "abc".count, [].append, list, gen]

    def call(f):
        return f("ab")

    seen = []
    for f in targets:
        for _ in range(30):
            call(f)
    for f in targets:
        result = call(f)
        seen.append(type(result).__name__ if not isinstance(result, (str, int, tuple, list)) else result)
    return seen, call(5)


def method_call_sees_many_receivers(log):
    class WithMethod:
        def pop(self):
            return "method"

    class WithAttribute:
        def __init__(self):
            self.pop = lambda: "attribute"

    class WithGetattr:
        def __getattr__(self, name):
            return lambda: "getattr " + name

    class WithSlot:
        __slots__ = ("pop",)

        def __init__(self):
            self.pop = lambda: "slot"

    class Meta(type):
        def pop(cls):
            return "meta"

    class WithMeta(metaclass=Meta):
        pass

    module = types.ModuleType("m")
    module.pop = lambda: "module"
    receivers = [WithMethod(), WithAttribute(), WithGetattr(), WithSlot(), WithMeta, module, WithMethod]

    def call(o):
        return o.pop()

    seen = []
    for o in receivers[:-1]:
        for _ in range(40):
            call(o)
        seen.append([call(p) for p in receivers[:-1]])
    log.append(seen[0])
    return all(row == seen[0] for row in seen), call([7]), call({1}), call(receivers[-1])


def defaults_and_code_replaced_in_loop(log):
    def f(x, y=1):
        return x + y

    def g(x, y):
        return ("g", x, y)

    seen = []
    for i in range(150):
        if i == 50:
            f.__defaults__ = (100,)
        if i == 80:
            f.__code__ = g.__code__
        if i == 120:
            f.__defaults__ = None
            break
        seen.append(f(1))
    log.append(_summary(seen))
    return f(1)


def loop_over_changing_iterable_kinds(log):
    class Own:
        def __iter__(self):
            return iter("own")

    def walk(source):
        out = []
        for x in source:
            out.append(x)
        return out

    sources = [[1, 2], (3,), range(2), "ab", {5: 6}, Own(), {7}, (x for x in "g"), map(str, [1])]
    for source in sources[:7]:
        for _ in range(30):
            walk(source)
    return [walk(source) for source in sources], walk(3)


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
    return _summary(seen)


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
    return _summary(seen)


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
    return _summary(seen)


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


def truth_and_length_change(log):
    class A:
        pass

    a, seen = A(), []
    for i in range(120):
        if i == 60:
            A.__len__ = lambda self: 0
        if i == 80:
            A.__bool__ = lambda self: True
        seen.append("true" if a else "false")
    return _summary(seen)


def unbound_local_after_warm_up(log):
    def f(n):
        if n != 60:
            x = n
        return x

    total = 0
    for i in range(100):
        total += f(i)


def closure_cell_changes_type(log):
    def make():
        value = 1

        def read():
            return value + value

        def write(new):
            nonlocal value
            value = new

        return read, write

    read, write = make()
    seen = []
    for new in (1, 1.5, "s", [1], (2,)):
        write(new)
        for _ in range(30):
            result = read()
        seen.append(result)
    write(None)
    log.append(seen)
    return read()


def recursion_with_changing_types(log):
    def depth(tree):
        return 1 + max(map(depth, tree), default=0) if isinstance(tree, (list, tuple)) else 0

    tree = []
    for i in range(12):
        tree = [tree] if i % 2 else (tree, i)
    return depth(tree), depth([[], [[]]])


def class_attribute_first_seen_on_an_instance_with_a_dict(log):
    """The first instance has its own dict; those after it keep their attributes inline, and shadow the class."""

    class Future:
        state = "pending"

        def finish(self):
            self.state = "done"

    def read(future):
        return future.state

    Future().finish()  # the name is now a key that instances share
    first = Future()
    first.__dict__["other"] = 1
    log.append(read(first))
    for _ in range(3):
        future = Future()
        log.append(read(future))
        future.finish()
        log.append(read(future))
    return read(first)


def class_of_a_class_attribute_becomes_a_descriptor(log):
    class Value:
        pass

    class Holder:
        value = Value()

        def __init__(self):
            self.own = 1

        own = Value()

    def read(holder):
        return type(holder.value).__name__, type(holder.own).__name__

    def write(holder, value):
        holder.own = value

    holder = Holder()
    for number in range(20):
        write(holder, number)
        log.append(read(holder))
    Value.__get__ = lambda self, instance, owner: 2.5
    Value.__set__ = lambda self, instance, value: log.append(("set", value))
    log.append(read(holder))
    write(holder, 4)
    return read(holder), vars(holder)
