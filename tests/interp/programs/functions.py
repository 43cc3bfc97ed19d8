"""Signatures and calls of every kind, and the exact messages of calls that do not fit."""
# ruff: noqa

import functools


def _all_kinds(a, b=2, /, c=3, *rest, d, e=5, **more):
    return a, b, c, rest, d, e, more


def _try_calls(log, *calls):
    for call in calls:
        try:
            log.append(call())
        except TypeError as e:
            log.append(str(e))


def all_parameter_kinds(log):
    log.append(_all_kinds(1, d=4))
    log.append(_all_kinds(1, 2, 3, 4, 5, d=6, z=7))
    log.append(_all_kinds(1, d=4, b=9, a=8))
    log.append(_all_kinds(*[1, 2], **{"d": 3, "c": 4}))
    return _all_kinds(1, *(2, 3), *[4], d=5, **{"e": 6}, **{"f": 7})


def missing_arguments(log):
    def one(a): ...
    def two(a, b): ...
    def three(a, b, c, *, k, m): ...
    def keyword_only(*, k, m, n): ...
    def positional_only(a, b, /): ...

    _try_calls(
        log,
        lambda: one(),
        lambda: two(),
        lambda: two(1),
        lambda: three(),
        lambda: three(1),
        lambda: three(1, 2, 3),
        lambda: three(1, 2, 3, k=1),
        lambda: keyword_only(),
        lambda: keyword_only(m=1),
        lambda: positional_only(1),
        lambda: positional_only(a=1, b=2),
    )
    return three(b=1)


def too_many_arguments(log):
    def none(): ...
    def one(a): ...
    def optional(a, b=1): ...
    def keyword_only(a, *, k=1): ...
    def needs_keyword(a, *, k): ...

    _try_calls(
        log,
        lambda: none(1),
        lambda: none(1, 2),
        lambda: one(1, 2),
        lambda: optional(1, 2, 3),
        lambda: keyword_only(1, 2),
        lambda: keyword_only(1, 2, k=3),
        lambda: needs_keyword(1, 2, 3, k=4),
        lambda: needs_keyword(1, 2),
        lambda: (lambda x: x)(),
    )
    return one(1, 2, 3)


def unexpected_keywords(log):
    def plain(a, b=1): ...
    def positional_only(a, b, /, c): ...
    def takes_more(a, /, **more):
        return more

    _try_calls(
        log,
        lambda: plain(1, z=2),
        lambda: plain(1, a=2),
        lambda: plain(a=1, **{"a": 2}),
        lambda: plain(**{"a": 1}, **{"a": 2}),
        lambda: positional_only(1, b=2, c=3),
        lambda: positional_only(a=1, b=2, c=3),
        lambda: takes_more(1, a=2),
        lambda: plain(**{1: 2}),
        lambda: plain(1, **[2]),
        lambda: plain(*3),
        lambda: plain(1, **{"b": 2}, **{"q": 3}),
        lambda: print(1, unknown=2),
        lambda: dict(**{"a": 1}, **{"a": 2}),
        lambda: int(1, 2, 3, 4),
        lambda: len(),
        lambda: len(1, 2),
        lambda: [].append(),
        lambda: isinstance(1),
    )
    return plain(1, unknown=2)


def not_callable(log):
    class A: ...

    for thing in (1, "f", None, A(), [], ...):
        try:
            thing(1)
        except TypeError as e:
            log.append(str(e))
    log.append(1)(2)


def bound_method_errors(log):
    class A:
        def m(self, x): ...

        def without_self(): ...

        @staticmethod
        def s(x): ...

        @classmethod
        def c(cls, x): ...

        def __init__(self, v=0): ...

    a = A()
    _try_calls(
        log,
        lambda: a.m(),
        lambda: a.m(1, 2),
        lambda: A.m(),
        lambda: A.m(1),
        lambda: a.without_self(),
        lambda: a.s(),
        lambda: a.c(),
        lambda: A.c(1, 2),
        lambda: A(1, 2),
        lambda: A(w=1),
        lambda: object(1),
        lambda: a.m(1, self=2),
    )


def defaults_are_evaluated_once(log):
    def f(x, seen=[], *, key={}):
        seen.append(x)
        key[x] = len(seen)
        return len(seen), dict(key)

    log.append([f(1), f(2), f(3, [])])
    f.__defaults__ = (["new"],)
    f.__kwdefaults__ = None
    try:
        f(4)
    except TypeError as e:
        log.append(str(e))
    f.__kwdefaults__ = {"key": {}}
    return f(5), f.__defaults__


def defaults_order_of_evaluation(log):
    def say(x):
        log.append(x)
        return x

    def decorate(fn):
        log.append("decorated")
        return fn

    @decorate
    @say(decorate)
    def f(a: say("annotation a") = say("default a"), *, b: say("annotation b") = say("default b")) -> say("returns"):
        pass

    log.clear()

    def g(a=say(1), *args, b=say(2), **kwargs: say(4)) -> say(5):
        return a, b

    return g()


def call_order_of_evaluation(log):
    def say(x):
        log.append(x)
        return x

    def f(*args, **kwargs):
        return args, kwargs

    return say(f)(say(1), *say([2, 3]), say(4), k=say(5), **say({"m": 6}), n=say(7))


def star_args_from_iterables(log):
    def f(*args):
        return args

    def gen():
        log.append("start")
        yield 1
        yield 2

    return f(*gen()), f(*"ab", *{"k": 1}, *range(2)), f(*[], *()), f(*map(str, [1, 2]))


def star_args_generator_raises(log):
    def gen():
        yield 1
        raise TypeError("from generator")

    def f(*args):
        log.append("unreachable")

    f(*gen())


def double_star_mapping_protocol(log):
    class Mapping:
        def keys(self):
            log.append("keys")
            return ["a", "b"]

        def __getitem__(self, key):
            log.append(key)
            return key.upper()

    class Broken(Mapping):
        def __getitem__(self, key):
            raise KeyError(key)

    def f(**kwargs):
        return kwargs

    log.append(f(**Mapping(), c=1))
    return f(**Broken())


def keyword_names_that_are_not_identifiers(log):
    def f(**kwargs):
        return kwargs

    return f(**{"with space": 1, "class": 2, "": 3})


def argument_mutation_is_shared(log):
    def f(items, *rest, **more):
        items.append(1)
        more["x"] = 1
        return rest, more

    items, table = [0], {"y": 2}
    return f(items, *items, **table), items, table


def keyword_order_is_kept(log):
    def f(b=0, **kwargs):
        return list(kwargs)

    return f(z=1, a=2, b=3, m=4), f(**{"q": 1, "b": 2, "c": 3})


def callable_objects(log):
    class Adder:
        def __init__(self, n):
            self.n = n

        def __call__(self, x, *, twice=False):
            return (x + self.n) * (2 if twice else 1)

    class Meta(type):
        def __call__(cls, *args):
            log.append(("meta call", args))
            return super().__call__()

    class Made(metaclass=Meta):
        def __init__(self):
            log.append("init")

    add = Adder(3)
    made = Made(1, 2)
    add.__call__ = lambda x: "ignored"
    return add(1), add(1, twice=True), list(map(add, range(3))), type(made).__name__


def functions_as_values(log):
    def compose(*fns):
        return functools.reduce(lambda f, g: lambda x: g(f(x)), fns)

    table = {"inc": lambda x: x + 1, "neg": int.__neg__, "str": str}
    f = compose(*table.values())
    return f(4), (lambda *a, k=3, **kw: (a, k, kw))(1, 2, z=4), (lambda: None)()


def partials(log):
    f = functools.partial(_all_kinds, 1, d=4)
    log.append(f(5, z=1))
    method = functools.partial(str.join, "-")
    return method("abc"), functools.partial(f, 7, e=0)(), f.func is _all_kinds


def replacing_code(log):
    def f(x):
        return x + 1

    def g(x):
        return x * 10

    seen = [f(3) for _ in range(3)]
    f.__code__ = g.__code__
    seen.extend(f(3) for _ in range(3))
    return seen


def replacing_code_while_running(log):
    def other(n):
        return ("other", n, f is other)

    def f(n):
        if n == 0:
            f.__code__ = other.__code__
            return "old"
        return [n, f(n - 1)]

    return f(3), f(3)


def function_attributes(log):
    def f():
        f.calls += 1
        return f.calls

    f.calls = 0
    f()
    f.__name__ = "renamed"
    f.__qualname__ = "quite.renamed"
    log.append((f(), f.__name__, vars(f)))
    f(1)


def many_arguments(log):
    namespace = {}
    names = ", ".join(f"a{i}" for i in range(300))
    exec(f"def f({names}, *rest): return a0 + a255 + a299, len(rest)", namespace)
    call = "f(" + ", ".join(str(i) for i in range(305)) + ")"
    log.append(eval(call, namespace))
    keywords = ", ".join(f"a{i}={i}" for i in range(300))
    return eval(f"f({keywords})", namespace)


def return_without_value(log):
    def f():
        return

    def g():
        pass

    def h(x):
        if x:
            return x

    return f(), g(), h(0), h(1)


def call_to_builtins_of_each_kind(log):
    """METH_NOARGS, METH_O, varargs, fastcall with keywords, class methods, slot wrappers, method descriptors."""
    text, items = "a,b", [3, 1, 2]
    items.sort(reverse=True)
    log.append((text.split(","), text.split(sep=","), str.upper(text), items.copy(), items.index(1)))
    log.append(
        (dict.fromkeys("ab", 0), int.from_bytes(b"\x01\x00", "big"), (5).__add__(3), int.__add__(5, 3), [].__len__())
    )
    log.append(
        (
            type("T", (), {"x": 1}).x,
            isinstance(1, (str, int)),
            max(1, 5, 3),
            max([1, 5], key=lambda x: -x),
            sorted(items),
        )
    )
    return (
        str(1),
        str(b"x", "ascii"),
        tuple("ab"),
        type(1),
        type("a") is str,
        print("printed", end="."),
        list(zip("ab", [1, 2])),
    )


def descriptors_called_directly(log):
    cases = [
        lambda: str.upper(5),
        lambda: str.upper(),
        lambda: list.append([], 1, 2),
        lambda: dict.get({}),
        lambda: int.__add__("a", 1),
        lambda: list.sort([], 1),
        lambda: "a".join(1),
        lambda: type.mro(5),
    ]
    _try_calls(log, *cases)
