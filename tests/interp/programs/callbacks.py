"""Python code called from C: keys, hooks of containers, iterators, properties, finalisers."""
# ruff: noqa

import collections
import functools
import gc
import itertools
import json
import operator
import re
import weakref


def sorted_key(log):
    def key(item):
        log.append(item)
        return -item

    data = [3, 1, 2]
    data.sort(key=lambda x: x % 3)
    return sorted([2, 3, 1], key=key), data, min("bca", key=ord), max([1, -5], key=abs)


def sorted_key_raises(log):
    def key(item):
        log.append(item)
        return 10 // item

    return sorted([2, 1, 0, 5], key=key)


def list_sort_sees_empty_list(log):
    data = [3, 2, 1]

    def key(item):
        log.append(list(data))
        return item

    data.sort(key=key)

    def modify(item):
        data.append(item)
        return item

    try:
        data.sort(key=modify)
    except ValueError as e:
        log.append(str(e))
    return data


def compare_functions(log):
    class Item:
        def __init__(self, n):
            self.n = n

        def __lt__(self, other):
            log.append((self.n, other.n))
            if self.n == 13:
                raise ValueError("unlucky")
            return self.n < other.n

    log.append([i.n for i in sorted(map(Item, [3, 1, 2]))])
    log.append(sorted("bac", key=functools.cmp_to_key(lambda a, b: ord(a) - ord(b))))
    return sorted(map(Item, [1, 13, 2]))


def map_and_filter(log):
    def double(x):
        log.append(x)
        return x * 2

    m = map(double, range(3))
    log.append(next(m))
    log.append(list(m))
    log.append(list(filter(lambda x: x % 2, range(5))))
    log.append(list(map(lambda a, b: a + b, [1, 2], [3, 4, 5])))
    return list(map(lambda x: 1 // x, [1, 0]))


def map_stop_iteration_ends_the_loop(log):
    def f(x):
        if x == 2:
            raise StopIteration
        return x

    return list(map(f, range(5))), [x for x in map(f, range(5))]


def reduce_and_accumulate(log):
    log.append(functools.reduce(lambda a, b: a * 10 + b, [1, 2, 3]))
    log.append(list(itertools.accumulate([1, 2, 3], lambda a, b: a * b)))
    log.append([(k, list(g)) for k, g in itertools.groupby("aabbc", key=lambda c: c > "a")])
    log.append(list(itertools.takewhile(lambda x: x < 3, range(9))))
    return functools.reduce(lambda a, b: a / b, [1, 0])


def equality_in_dict_lookup(log):
    class Key:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            log.append(("hash", self.n))
            return self.n % 2

        def __eq__(self, other):
            log.append(("eq", self.n, other.n))
            if other.n == 9:
                raise KeyError("from eq")
            return self.n == other.n

    d = {Key(1): "one", Key(3): "three"}
    log.append(d[Key(3)])
    log.append(Key(5) in d)
    d[Key(1)] = "again"
    return len(d), d.get(Key(9))


def hash_raises(log):
    class Bad:
        def __hash__(self):
            raise TypeError("no hash today")

    log.append(len([Bad()]))
    return {1: 2}.get(Bad())


def equality_mutates_dict(log):
    d = {}

    class Evil:
        def __init__(self, name):
            self.name = name

        def __hash__(self):
            return 1

        def __eq__(self, other):
            log.append((self.name, other.name))
            d.pop(keys[0], None) if len(log) == 1 else None
            return False

    keys = [Evil("a"), Evil("b")]
    d[keys[0]] = 1
    d[keys[1]] = 2
    return [k.name for k in d]


def iterator_classes(log):
    class Squares:
        def __init__(self, n):
            self.n, self.i = n, 0

        def __iter__(self):
            return self

        def __next__(self):
            self.i += 1
            if self.i > self.n:
                raise StopIteration
            return self.i**2

        def __length_hint__(self):
            log.append("hint")
            return self.n - self.i

        def __reversed__(self):
            return iter("reversed")

    return (
        list(Squares(3)),
        tuple(Squares(2)),
        dict(zip("ab", Squares(2))),
        [*Squares(2)],
        set(Squares(1)),
        list(reversed(Squares(1))),
        max(Squares(3)),
    )


def iterator_hook_raises(log):
    class Bad:
        def __iter__(self):
            return iter([1, 2])

        def __length_hint__(self):
            raise ValueError("bad hint")

    log.append([x for x in Bad()])
    return list(Bad())


def property_called_from_c(log):
    class A:
        n = 0

        @property
        def p(self):
            self.n += 1
            log.append(self.n)
            return self.n

    items = [A(), A()]
    log.append(sum(map(operator.attrgetter("p"), items)))
    log.append(sorted(items, key=operator.attrgetter("p"))[0] is items[0])
    return getattr(items[0], "p"), hasattr(items[1], "p"), operator.methodcaller("__len__")([1])


def operator_functions(log):
    class N:
        def __init__(self, n):
            self.n = n

        def __add__(self, other):
            log.append(("add", self.n, getattr(other, "n", other)))
            return N(self.n + getattr(other, "n", other))

        __iadd__ = __radd__ = __add__

        def __getitem__(self, key):
            return key

        def __call__(self, *args):
            return args

    n = N(1)
    return (
        operator.add(n, N(2)).n,
        operator.iadd(n, 5).n,
        sum([N(1), N(2)], N(0)).n,
        operator.itemgetter(1, "k")(n),
        operator.getitem(n, 3),
        operator.call(n, 4),
        functools.partial(operator.add, n)(3).n,
    )


def finaliser_on_delete(log):
    class A:
        def __init__(self, name):
            self.name = name

        def __del__(self):
            log.append(("del", self.name))

    a = A("first")
    log.append("made")
    a = A("second")
    log.append("replaced")
    del a
    A("temporary")
    log.append("before items")
    items = [A("x"), A("y")]
    items[0] = None
    items.clear()

    def f():
        local = A("local")
        log.append("leaving")

    f()
    return "end"


def finaliser_raises(log):
    class A:
        def __del__(self):
            log.append("del")
            raise ValueError("ignored")

    A()
    a = A()
    del a
    log.append("goes on")


def finaliser_resurrects(log):
    saved = []

    class A:
        def __del__(self):
            log.append("del")
            saved.append(self)

    a = A()
    a.x = 1
    del a
    log.append(saved[0].x)
    saved.clear()
    log.append("not called again")


def finaliser_in_cycle(log):
    class Node:
        def __init__(self, name):
            self.name = name
            self.me = self

        def __del__(self):
            log.append(self.name)

    Node("cycle")
    log.append("before")
    gc.collect()
    log.append("after")


def finaliser_while_exception_passes(log):
    """The value stack and the locals of an unwound frame are released in order, and the exception survives it."""

    class A:
        def __init__(self, name):
            self.name = name

        def __del__(self):
            try:
                raise KeyError(self.name)
            except KeyError as e:
                log.append(e.args)

    def f():
        local = A("local")
        return [A("on stack"), {}["missing"]]

    try:
        f()
    except KeyError as e:
        log.append(e.args)
        e.__traceback__ = None
    log.append("end")


def weakref_callbacks(log):
    class A:
        pass

    a, b = A(), A()
    ref = weakref.ref(a, lambda r: log.append(("dead", r() is None)))
    other = weakref.ref(b, lambda r: 1 // 0)
    weakref.finalize(a, log.append, "finalize")
    table = weakref.WeakValueDictionary(k=a)
    log.append((ref() is a, dict(table) == {"k": a}))
    del a
    log.append((ref(), list(table)))
    del b
    return other()


def regex_and_json_callbacks(log):
    def replace(match):
        log.append(match.group())
        return match.group().upper()

    class Thing:
        pass

    log.append(re.sub("[aeiou]", replace, "education"))
    log.append(json.dumps({"a": Thing(), "b": [1]}, default=lambda o: type(o).__name__))
    log.append(json.loads('{"a": {"b": 1}}', object_hook=lambda d: tuple(d.items())))
    return re.sub("x", lambda m: 1 // 0, "axb")


def defaultdict_and_missing(log):
    def make():
        log.append("made")
        return []

    d = collections.defaultdict(make)
    d["a"].append(1)
    d["a"].append(2)
    d["b"]
    counts = collections.Counter("abca")
    return dict(d), counts.most_common(1), collections.ChainMap({}, {"x": 1})["x"]


def lru_cache(log):
    @functools.lru_cache(maxsize=2)
    def f(x, y=0):
        log.append(x)
        if x == 0:
            raise ValueError("zero")
        return x * 10 + y

    f(1), f(2), f(1), f(3), f(2), f(1, y=5)
    log.append(f.cache_info().hits)
    f(0)


def singledispatch(log):
    @functools.singledispatch
    def show(x):
        return "object"

    @show.register
    def _(x: int):
        return "int"

    @show.register(list)
    def _(x):
        return [show(i) for i in x]

    return show(1), show("a"), show([1, "b", [2]]), show(True)


def string_and_container_protocols(log):
    class Path:
        def __fspath__(self):
            log.append("fspath")
            return "a/b"

        def __bytes__(self):
            return b"bytes"

        def __hash__(self):
            return 5

        def __int__(self):
            return 7

        def __float__(self):
            return 2.5

        def __round__(self, n=None):
            return ("round", n)

        def __dir__(self):
            return ["z", "a"]

        def __sizeof__(self):
            return 100

        def __reduce__(self):
            log.append("reduce")
            return (str, ("rebuilt",))

    import copy
    import os

    p = Path()
    return os.fspath(p), bytes(p), hash(p), int(p), float(p), round(p), round(p, 2), dir(p), copy.copy(p)


def exec_eval_and_compile(log):
    namespace = {"log": log}
    exec("def f(x):\n    log.append(x)\n    return x + 1\nresult = f(1)", namespace)
    log.append(eval("f(5) * 2", namespace))
    log.append(list(map(namespace["f"], [7])))
    code = compile("a = 1\nb = a / 0", "somewhere", "exec")
    exec(code, namespace)


def type_call_through_c(log):
    class A:
        def __init__(self, x):
            log.append(x)
            if x > 1:
                raise ValueError(x)

    made = list(map(A, [0, 1]))
    log.append(len(made))
    return list(map(A, [1, 2, 3]))


def nested_c_and_python(log):
    def inner(x):
        return sum(map(lambda y: y * x, filter(lambda z: z % 2, range(5))))

    def outer(x):
        try:
            return sorted([3, 1, 2], key=lambda k: inner(k) // x)
        except ZeroDivisionError:
            log.append("caught inside")
            return sorted([1], key=lambda k: max([k], key=lambda q: {}[q]))

    log.append(outer(1))
    return outer(0)
