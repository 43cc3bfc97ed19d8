"""Finalisers, callbacks of weak references and the `finally` of generators run where eager execution runs them."""

import weakref

import pytest
import torch

from capture.agreement import Captured

pytestmark = pytest.mark.capture

X = torch.ones(2)


class Resource:
    """Something that says when it dies."""

    def __init__(self, log, name):
        self.log = log
        self.name = name

    def __del__(self):
        self.log.append(f"{self.name} dies")


class Plain:
    pass


class Holder:
    def __init__(self, **parts):
        self.__dict__.update(parts)


def make(log, name):
    """Make one by C code that is not known, so that a region starts after it."""
    return next(filter(None, [Resource(log, name)]))


def replace_a_variable(x, log):
    r = Resource(log, 1)
    y = x + r.name
    log.append("replaces")
    r = Resource(log, 2)
    log.append("has replaced")
    return y * len(log), r.name


def delete_a_variable(x, log):
    r = Resource(log, "r")
    y = x + 1
    log.append("deletes")
    del r
    log.append("has deleted")
    return y * len(log)


def set_a_variable_to_none(x, log):
    r = Resource(log, "r")
    y = x * 2
    r = None
    log.append("after")
    return y * len(log), r


def drop_at_the_end_of_a_function(x, log):
    def work(x):
        r = Resource(log, "inner")
        y = x + 1
        log.append("works")
        return y * len(r.name)

    y = work(x)
    log.append("after")
    return y + len(log)


def drop_as_an_item(x, log):
    items = [Resource(log, "item")]
    y = x + 1
    items.clear()
    log.append("cleared")
    return y * len(log)


def replace_an_item(x, log):
    items = {"a": Resource(log, "item")}
    y = x + 1
    items["a"] = None
    log.append("replaced")
    return y * len(log)


def drop_as_an_attribute(x, log):
    holder = Holder(part=Resource(log, "part"))
    y = x + 1
    holder.part = None
    log.append("replaced")
    return y * len(log)


def drop_what_holds_it(x, log):
    holder = Holder(part=[Resource(log, "deep down")])
    y = x + 1
    holder = None
    log.append("dropped")
    return y * len(log), holder


def drop_a_cell(x, log):
    r = Resource(log, "cell")

    def show():
        return r

    y = x + 1
    r = None
    log.append("dropped")
    return y * len(log), show()


def keep_it_elsewhere(x, log):
    r = Resource(log, "kept")
    kept = [r]
    y = x + 1
    del r
    log.append("not dead")
    y = y * len(log)
    kept = None
    log.append("dead")
    return y * len(log), kept


def die_at_the_end(x, log):
    first, second = Resource(log, "first"), Resource(log, "second")
    y = x + 1
    log.append("returns")
    return y * len(first.name + second.name)


def die_in_a_handler(x, log):
    r = Resource(log, "r")
    y = x + 1
    try:
        raise ValueError
    except ValueError:
        r = None
        log.append("handled")
    return y * len(log), r


def finalise_a_tensor(x, log):
    y = x * 2
    weakref.finalize(y, log.append, "tensor dies")
    z = y + 1
    del y
    log.append("after")
    return z * len(log)


def watch_an_object(x, log):
    o = Plain()
    watch = weakref.ref(o, lambda _: log.append("callback"))
    y = x + 1
    o = None
    log.append("after")
    return y * len(log), watch(), o


def drop_a_generator(x, log):
    def numbers():
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    g = numbers()
    y = x + next(g)
    print(end="")
    y = y * 2
    g = None
    log.append("after")
    return y * len(log), g


def finaliser_that_raises_nothing_reads_what_was_written(x, log):
    r = Resource(log, "r")
    log.append("one")
    y = x + len(log)
    r.name = "renamed"
    del r
    log.append("two")
    return y * len(log)


PROGRAMS = [
    value
    for value in list(globals().values())
    if getattr(value, "__code__", None) and "log" in value.__code__.co_varnames[:2]
]
PROGRAMS = [program for program in PROGRAMS if program.__code__.co_varnames[0] == "x"]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_order_is_that_of_eager_execution(program):
    compiled = Captured(program)
    for _ in range(3):
        logs = [], []
        found, expected = compiled(X, logs[0]), program(X, logs[1])
        assert logs[0] == logs[1]
        assert repr(found) == repr(expected)


def test_an_object_that_came_in_dies_where_its_last_reference_goes():
    def program(x, box):
        y = x + 1
        box.part = None
        box.log.append("after")
        return y * len(box.log)

    compiled = Captured(program)
    for _ in range(3):
        logs = []
        for function in (compiled, program):
            log = []
            function(X, Holder(part=Resource(log, "part"), log=log))
            logs.append(log)
        assert logs[0] == logs[1] == ["part dies", "after"]


def test_another_class_in_the_same_place():
    """What was dropped without being looked at may be something else next time."""

    def program(x, log, kind):
        r = kind(log)
        print(end="")
        y = x + 1
        r = None
        log.append("after")
        return y * len(log), r

    def plain(log):
        return Plain()

    def noisy(log):
        return Resource(log, "r")

    compiled = Captured(program)
    for kind in (plain, noisy, plain, noisy):
        logs = [], []
        found, expected = compiled(X, logs[0], kind), program(X, logs[1], kind)
        assert logs[0] == logs[1]
        assert repr(found) == repr(expected)


def test_objects_without_finalisers_cost_no_break():
    def program(x, o):
        weakly = o.table  # a WeakKeyDictionary, which forgets its entries by callbacks
        p = Plain()
        y = x + len(weakly)
        p = Plain()
        o.part = p
        return y * 2

    holder = Holder(part=Plain(), table=weakref.WeakKeyDictionary())
    holder.table[holder.part] = 1
    compiled = Captured(program)
    compiled(X, holder)
    assert compiled.breaks == [] or all("Finaliser" not in each for each in compiled.breaks)
