"""Names and scopes: globals, builtins, nonlocals, class scopes, deletion, and the exact messages of unbound names."""
# ruff: noqa

import builtins

from . import process_wide

_counter = 0
_temporary = "module"


def global_statement(log):
    global _counter
    before = _counter
    for _ in range(3):
        _counter += 2
    log.append(_counter - before)
    _counter = 0
    return _counter


def global_delete_and_rebind(log):
    global _temporary
    del _temporary
    try:
        _temporary
    except NameError as e:
        log.append((str(e), e.name))
    try:
        del _temporary
    except NameError as e:
        log.append(str(e))
    _temporary = "module"
    return _temporary


def undefined_global(log):
    log.append("before")
    return no_such_name + 1


def unbound_local(log):
    if log:
        value = 1
    return value


def unbound_after_delete(log):
    value = 1
    del value
    log.append("deleted")
    print(value)


def delete_twice(log):
    value = 1
    del value
    del value


def unbound_loop_variable(log):
    for item in []:
        pass
    return item


def exception_name_is_deleted(log):
    e = "before"
    try:
        raise ValueError("x")
    except ValueError as e:
        log.append(e.args)
    try:
        e
    except UnboundLocalError as error:
        log.append(str(error))
    e = "after"
    return e


def unbound_free_variable(log):
    def inner():
        return later

    try:
        inner()
    except NameError as e:
        log.append((type(e).__name__, str(e)))
    later = 1
    log.append(inner())
    del later
    return inner()


def unbound_cell_in_owner(log):
    def inner():
        return captured

    captured = 1
    log.append(inner())
    del captured
    try:
        del captured
    except UnboundLocalError as e:
        log.append(str(e))
    return captured


def nonlocal_chain(log):
    x = 1

    def first():
        nonlocal x
        x += 1

        def second():
            nonlocal x
            x *= 10
            return x

        return second

    second = first()
    log.append(x)
    log.append(second())
    log.append(second())
    return x


def nonlocal_delete(log):
    x = 1

    def clear():
        nonlocal x
        del x

    clear()
    try:
        x
    except UnboundLocalError as e:
        log.append(str(e))
    clear()


def class_scope_skips_enclosing_class(log):
    x = "function"

    class Outer:
        x = "class"
        seen = x

        def method(self):
            return x

        values = [x for _ in range(2)]
        first = [y for y in x]

    return Outer.seen, Outer().method(), Outer.values, Outer.first


def class_scope_falls_back(log):
    """LOAD_NAME and LOAD_CLASSDEREF: class namespace first, then the cell or the global."""
    y = "cell"

    class A:
        log.append(y)
        locals()["y"] = "own"
        log.append(y)
        del locals()["y"]
        log.append(y)
        len = len
        log.append(len("abc"))
        global _counter
        log.append(_counter)

    return sorted(name for name in vars(A) if not name.startswith("__"))


def class_scope_errors(log):
    class A:
        try:
            missing
        except NameError as e:
            log.append(str(e))
        try:
            del missing
        except NameError as e:
            log.append(str(e))
        x = not_there_either


def class_body_with_prepared_namespace(log):
    class Namespace(dict):
        def __getitem__(self, key):
            log.append(("get", key))
            return dict.__getitem__(self, key)

        def __setitem__(self, key, value):
            log.append(("set", key))
            dict.__setitem__(self, key, value)

        def __delitem__(self, key):
            log.append(("del", key))
            dict.__delitem__(self, key)

        def __missing__(self, key):
            if key.startswith("magic"):
                return key.upper()
            raise KeyError(key)

    class Meta(type):
        @classmethod
        def __prepare__(cls, name, bases):
            return Namespace()

    class A(metaclass=Meta):
        a = magic_word
        b = a + str(len("xyz"))
        del a

    return A.b, hasattr(A, "a")


def names_mangled_in_class(log):
    class Safe:
        __code = 1

        def __open(self):
            return self.__code

        def use(self, other):
            __local = other.__open() + 1
            self.__code = __local
            return sorted(vars(self)), sorted(locals())

    s = Safe()
    return s.use(s), hasattr(s, "__open"), hasattr(s, "_Safe__open")


@process_wide
def builtins_shadowed_and_restored(log):
    def measure():
        return len("abcd")

    seen = [measure() for _ in range(3)]
    original = builtins.len
    builtins.len = lambda x: -1
    try:
        seen.append(measure())
        globals()["len"] = lambda x: -2
        seen.append(measure())
        del globals()["len"]
        seen.append(measure())
    finally:
        builtins.len = original
    seen.append(measure())
    return seen


@process_wide
def new_builtin_name(log):
    def read():
        return freshly_built_in

    try:
        read()
    except NameError as e:
        log.append(str(e))
    builtins.freshly_built_in = 5
    try:
        log.append(read())
    finally:
        del builtins.freshly_built_in
    return read()


def custom_builtins_dict(log):
    """A function sees the builtins that its globals had when it was made."""
    source = "def f():\n    return len('abc')\ndef g():\n    return print\n"
    namespace = {"__builtins__": {"len": lambda text: "fake " + text}}
    exec(source, namespace)
    log.append(namespace["f"]())
    return namespace["g"]()


def globals_as_dict_subclass(log):
    class Watching(dict):
        def __getitem__(self, key):
            log.append(key)
            if key == "virtual":
                return 42
            return super().__getitem__(key)

    namespace = Watching(real=1)
    exec("x = real + virtual\nlog_length = len('ab')", namespace)
    return namespace["x"], dict.__getitem__(namespace, "log_length")


def globals_written_through_dict(log):
    namespace = {}
    exec("def read():\n    return value\ndef loop():\n    return [read() for _ in range(3)]", namespace)
    namespace["value"] = 1
    log.append(namespace["loop"]())
    namespace["value"] = "two"
    log.append(namespace["loop"]())
    del namespace["value"]
    return namespace["loop"]()


def annotations_and_docstrings(log):
    def f(a: int, *b: "str", c: float = 1.0) -> None:
        """Doc of f."""
        local: int = 3
        undefined: "never evaluated"
        return local

    class A:
        """Doc of A."""

        x: int = 1
        y: str

    log.append((f.__doc__, f.__annotations__, f(1), A.__doc__, A.__annotations__))
    namespace = {}
    exec("z: int = 5\nw: str", namespace)
    return namespace["__annotations__"], namespace["z"]


def annotation_evaluated_in_simple_target(log):
    class A:
        pass

    a = A()
    a.x: log.append("annotation") = 1
    (b): log.append("parenthesised") = 2
    return a.x, b


def walrus(log):
    if (n := len("hello")) > 3:
        log.append(n)
    values = [y := 1, y**2, (y := y + 5)]
    total = 0
    squares = [last := i * i for i in range(4)]
    while (total := total + 3) < 10:
        log.append(total)
    return n, y, values, squares, last, total, (lambda: (z := 3) + z)()


def walrus_in_comprehension_binds_outside(log):
    def find(values):
        if any((hit := v) > 10 for v in values):
            return hit
        return ("none", hit)

    log.append(find([1, 20, 3]))
    log.append(find([1, 2]))
    return find([])


def deletion_targets(log):
    class Thing:
        def __delattr__(self, name):
            log.append(("delattr", name))
            object.__delattr__(self, name)

    t = Thing()
    t.a, t.b = 1, 2
    d = {"x": 1, "y": 2}
    one = two = 3
    del t.a, (d["x"], [one]), two
    try:
        del t.a
    except AttributeError as e:
        log.append(str(e))
    try:
        del d["x"]
    except KeyError as e:
        log.append(e.args)
    return vars(t), d, "one" in locals()


def star_import_into_namespace(log):
    namespace = {}
    exec("from math import *\narea = floor(pi)", namespace)
    return namespace["area"], "sqrt" in namespace
