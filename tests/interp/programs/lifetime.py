"""When objects die: order of release of locals, temporaries, arguments, iterators and exceptions."""
# ruff: noqa

import weakref


class _Mark:
    """Logs its own death."""

    def __init__(self, log, name):
        self.log, self.name = log, name

    def __del__(self):
        self.log.append(("dead", self.name))


def locals_die_in_order(log):
    def f():
        a = _Mark(log, "a")
        b = _Mark(log, "b")
        c = _Mark(log, "c")
        log.append("body done")

    f()
    log.append("after")


def arguments_die_after_the_call(log):
    def f(x, *rest, **more):
        log.append("in f")

    f(_Mark(log, "x"), _Mark(log, "rest"), k=_Mark(log, "k"))
    log.append("after")


def argument_deleted_in_callee(log):
    def f(x):
        del x
        log.append("deleted")

    f(_Mark(log, "x"))
    log.append("after")


def temporaries_in_expressions(log):
    def make(name):
        log.append(("make", name))
        return _Mark(log, name)

    make("discarded")
    log.append("next")
    name = make("attribute").name
    log.append(name)
    items = [make("in list")][0].name
    both = (make("first").name, make("second").name)
    make("chained").__init__(log, "renamed")
    return items, both


def rebinding_releases_the_old_value_last(log):
    class Looking(_Mark):
        def __del__(self):
            log.append(("dying", self.name, holder.get("x")))

    holder = {}
    x = Looking(log, "old")
    x = "new"
    holder["x"] = Looking(log, "in dict")
    holder["x"] = "replaced"
    del holder["x"]
    return x


def loop_variable_and_iterator(log):
    for m in [_Mark(log, i) for i in range(3)]:
        log.append(("loop", m.name))
        if m.name == 1:
            break
    log.append("after loop")
    m = None
    for m in (_Mark(log, f"g{i}") for i in range(2)):
        log.append(m.name)
    log.append("done")


def iterator_dies_at_exhaustion_and_break(log):
    class Source(_Mark):
        def __iter__(self):
            return iter([1, 2])

    for x in Source(log, "source"):
        log.append(x)

    def gen():
        try:
            yield 1
        finally:
            log.append("generator closed")

    for x in gen():
        break
    log.append("after break")

    def returning():
        for x in gen():
            return x

    return returning()


def exception_keeps_frame_alive(log):
    def f():
        local = _Mark(log, "local")
        raise ValueError("x")

    try:
        f()
    except ValueError as e:
        log.append("handler")
    log.append("after handler")
    saved = None
    try:
        f()
    except ValueError as e:
        saved = e
    log.append("saved")
    saved.__traceback__ = None
    log.append("cleared")


def exception_object_dies_after_handler(log):
    class Error(Exception):
        def __del__(self):
            log.append("error dead")

    try:
        raise Error
    except Error:
        log.append("handling")
    log.append("after")
    try:
        try:
            raise Error
        finally:
            log.append("finally")
    except Error as e:
        pass
    log.append("end")


def stack_values_die_when_unwinding(log):
    def fail():
        log.append("fail")
        raise KeyError("x")

    def f():
        return [_Mark(log, 1), (_Mark(log, 2), {"k": _Mark(log, 3), "v": fail()})]

    try:
        f()
    except KeyError:
        log.append("handler")
    try:
        print(_Mark(log, 4), *[_Mark(log, 5)], sep=fail())
    except KeyError:
        log.append("handler 2")
    return "end"


def manager_dies_after_with(log):
    class Manager(_Mark):
        def __enter__(self):
            return self.name

        def __exit__(self, *args):
            log.append("exit")

    with Manager(log, "m") as name:
        log.append(name)
    log.append("after")
    try:
        with Manager(log, "n"):
            raise ValueError
    except ValueError:
        log.append("handler")
    return "end"


def closure_cells_die_with_last_user(log):
    def make():
        x = _Mark(log, "x")

        def f():
            return x.name

        return f

    f = make()
    log.append(f())
    g = f
    del f
    log.append("one left")
    del g
    log.append("none left")


def generator_locals_die_at_end(log):
    def gen():
        a = _Mark(log, "a")
        yield 1
        b = _Mark(log, "b")
        yield 2

    g = gen()
    next(g), next(g)
    log.append("suspended")
    log.append(next(g, "finished"))
    log.append("still referenced")
    del g
    h = gen()
    next(h)
    del h
    return "end"


def return_value_outlives_locals(log):
    def f():
        kept = _Mark(log, "kept")
        dropped = _Mark(log, "dropped")
        try:
            return kept
        finally:
            log.append("finally")

    value = f()
    log.append("returned")
    del value


def weak_references_to_instances(log):
    class A:
        pass

    def probe(make):
        a = make()
        ref = weakref.ref(a)
        a.x = a
        alive = ref() is a
        del a.x
        del a
        return alive, ref() is None

    return probe(A), probe(lambda: A())


def method_call_keeps_receiver(log):
    class A(_Mark):
        def run(self):
            log.append("run")
            return self.name

    log.append(A(log, "temporary").run())
    bound = A(log, "bound").run
    log.append(bound())
    del bound
    return "end"


def unpacking_releases_container(log):
    a, b = [_Mark(log, "a"), _Mark(log, "b")]
    log.append("unpacked")
    a, *rest = b, _Mark(log, "c")
    log.append("second")
    del a, b
    rest.clear()
    return "end"


def comprehension_temporaries(log):
    names = [_Mark(log, i).name for i in range(2)]
    log.append("list done")
    kept = [m for m in (_Mark(log, "x"), _Mark(log, "y")) if m.name == "y"]
    log.append("filtered")
    kept.clear()
    return names


def class_namespace_dies(log):
    import gc

    class A:
        mark = _Mark(log, "class attribute")

    del A
    log.append("class unreferenced")
    gc.collect()
    return "collected"


def globals_of_exec_die(log):
    namespace = {"mark": _Mark(log, "global")}
    exec("def f():\n    return mark.name\nvalue = f()", namespace)
    log.append(namespace["value"])
    namespace.clear()
    return "end"
