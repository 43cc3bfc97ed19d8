"""Enemies of inline caches in operators and calls: one instruction that sees other types, callables and values."""
# ruff: noqa

import types

from . import summarise


def binary_operator_sees_many_types(log):
    class Loud(int):
        def __add__(self, other):
            return ("loud", int(other))

    pairs = [
        (1, 2),
        (1.5, 2.5),
        ("a", "b"),
        ([1], [2]),
        (1, 2.5),
        (Loud(1), 2),
        (2, Loud(1)),
        (True, 1),
        ((1,), (2,)),
        (10**20, 1),
    ]

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

    cases = [
        ([5, 6], 1),
        ((7, 8), 0),
        ({1: 9}, 1),
        (Own(), 1),
        (ListLike([1]), 0),
        (DictLike(), 3),
        ("xyz", 2),
        (b"ab", 0),
        ([1], True),
        (range(9), -1),
    ]
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

    pairs = [
        (1, 2),
        (2.0, 1.0),
        ("a", "b"),
        (1, 2.5),
        (Odd(), 1),
        ([1], [0]),
        (float("nan"), 1.0),
        (10**30, 1),
        (True, 2),
    ]
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
    targets = [
        plain,
        defaulted,
        starred,
        len,
        str,
        type,
        A,
        a,
        a.m,
        A.c,
        (lambda x: x),
        "abc".count,
        [].append,
        list,
        gen,
    ]

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
    log.append(summarise(seen))
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
    return summarise(seen)


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
