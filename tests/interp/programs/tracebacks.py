"""Where errors are said to be: lines and columns of long and nested expressions, decorators, calls and handlers."""
# ruff: noqa
# The layout over several lines is what is tested here.
# fmt: off

import sys
import traceback


class _Fail:
    """Raises in whatever protocol it is asked for."""

    def __getattr__(self, name):
        raise AttributeError(f"no {name} here")

    def __call__(self, *args, **kwargs):
        raise RuntimeError("called")

    def _raise(self, *args):
        raise RuntimeError("protocol")

    __add__ = __radd__ = __iadd__ = __getitem__ = __setitem__ = __delitem__ = __contains__ = _raise
    __lt__ = __bool__ = __iter__ = __enter__ = __exit__ = __neg__ = __format__ = _raise


def _positions(error):
    """(function, first line relative to it, last line, columns) for each entry."""
    shown = []
    tb = error.__traceback__
    while tb:
        code = tb.tb_frame.f_code
        line, end, column, end_column = list(code.co_positions())[tb.tb_lasti // 2]
        shown.append((code.co_name, line - code.co_firstlineno, end - code.co_firstlineno, column, end_column))
        tb = tb.tb_next
    return shown


def _catch(log, action):
    try:
        action()
    except Exception as e:
        log.append(_positions(e))


def multi_line_call(log):
    f = _Fail()
    f(
        1,
        [
            2,
        ],
        key=3,
    )


def binary_operator_in_long_expression(log):
    a, b, c = 1, "b", 3
    return (a + c) * (
        c
        - a
        + (a
           + b)
    )


def chained_calls(log):
    text = "abc"
    return text.upper().lower().missing().title()


def nested_subscripts(log):
    data = {"a": [{"b": None}]}
    return data["a"][0]["b"]["c"]


def columns_of_each_protocol(log):
    f = _Fail()

    def with_block():
        with f as x, \
             open("unreached"):
            pass

    def for_loop():
        for x in \
                f:
            pass

    def store():
        f.a = 1
        f[0] = f.b

    def in_place():
        g = f
        g += \
            1

    def fstring():
        return f"{1!r} and {f:>10} {2}"

    def unpack():
        a, (b, *c) = 1, \
            2

    for action in (
        lambda: f + 1,
        lambda: 1 + 2 + f,
        lambda: -f,
        lambda: not f,
        lambda: f < 3 < 4,
        lambda: 3 in f,
        lambda: f[1:2],
        lambda: f.name,
        lambda: f(),
        lambda: [x for x in f],
        lambda: (1, 2, *f),
        lambda: print(*f),
        lambda: print(**f),
        lambda: 1 if f else 2,
        lambda: {**f},
        lambda: undefined_thing,
        lambda: f.method(1)(2),
        lambda: (yield_ := f()),
        with_block,
        for_loop,
        store,
        in_place,
        fstring,
        unpack,
    ):
        _catch(log, action)


def decorator_line(log):
    def decorate(fn):
        raise ValueError(fn.__name__)

    @decorate
    @staticmethod
    def decorated(
        a,
        b=1,
    ):
        pass


def default_argument_line(log):
    def f(
        a=1,
        b=1 / 0,
    ):
        pass


def class_statement_lines(log):
    class Meta(type):
        def __new__(cls, name, bases, namespace):
            raise TypeError("no class today")

    class A(
        object,
        metaclass=Meta,
    ):
        x = 1


def class_body_line(log):
    class A:
        x = 1

        def method(self):
            pass

        y = x.missing


def comprehension_lines(log):
    return [
        10
        // x
        for x in (2,
                  1,
                  0)
        if x != 1
    ]


def lambda_lines(log):
    f = lambda x: (
        x
        + None
    )
    return f(
        3
    )


def handler_lines(log):
    try:
        int(
            "no number"
        )
    except ValueError as e:
        log.append(_positions(e))
        raise KeyError(
            "from handler"
        ) from e


def finally_keeps_original_line(log):
    try:
        first = 1
        second = first.missing
    finally:
        third = 3
        log.append(third)


def with_statement_line(log):
    class Manager:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, tb):
            log.append((kind.__name__, tb.tb_lineno - sys._getframe(1).f_code.co_firstlineno))
            if error.args == ("swap",):
                raise ValueError("from exit")

    try:
        with Manager():
            x = 1
            raise KeyError("keep")
    except KeyError as e:
        log.append(_positions(e))
    with Manager() as m:
        raise KeyError("swap")


def generator_traceback(log):
    def inner():
        yield 1
        yield 2 / 0

    def outer():
        yield 0
        yield from inner()

    for value in outer():
        log.append(value)


def recursion_traceback(log):
    def down(n):
        return 1 + down(n - 1) if n else [].pop()

    down(5)


def current_line_seen_from_below(log):
    def where():
        frame = sys._getframe(1)
        return frame.f_lineno - frame.f_code.co_firstlineno, frame.f_lasti

    log.append(where())
    log.append([
        where(),

        where(),
    ])
    for _ in range(2):
        log.append(where())
    try:
        raise ValueError
    except ValueError:
        log.append(where())
    finally:
        log.append(where())
    return (where(),
            where())


def formatted_traceback(log):
    def outer():
        return inner() + 1

    def inner():
        return (1, 2, 3)[0].real.bogus

    try:
        outer()
    except AttributeError:
        return traceback.format_exc().splitlines()[3:]


def traceback_of_swallowed_error_is_complete(log):
    """Only frames between raise and handler are listed, and tb_lineno is frozen while the frame goes on."""
    caught = []

    def bottom():
        raise ValueError("bottom")

    def middle():
        try:
            bottom()
        except ValueError as e:
            caught.append(e)
        x = 1
        return x

    middle()
    log.append(_positions(caught[0]))
    return [entry.name for entry in traceback.extract_tb(caught[0].__traceback__)]


def error_in_argument_evaluation(log):
    def f(*args, **kwargs):
        return args

    return f(
        1,
        *(2,),
        key=1,
        **{"other": log.missing},
    )


def error_in_match_statement(log):
    class Bad:
        __match_args__ = 5

    match Bad():
        case (
            Bad(1)
        ):
            pass


def error_in_import(log):
    import collections.abc
    from collections import (
        OrderedDict,
        no_such_thing,
    )


def error_in_delete_and_assert(log):
    d = {}
    try:
        del d["a"], d["b"]
    except KeyError as e:
        log.append(_positions(e))
    assert (
        d
        == {}
    ), "fine"
    assert d, (
        "message over"
        " lines"
    )


def error_in_walrus_condition(log):
    while (value := log.pop()) and value > 1:
        pass
