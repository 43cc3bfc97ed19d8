"""Programs that look at their own frames, locals and code, and run code made from text."""
# ruff: noqa

import inspect
import sys


def frame_chain(log):
    def names(frame):
        found = []
        while frame is not None:
            found.append(frame.f_code.co_name)
            if frame.f_code.co_name == "frame_chain":
                return found
            frame = frame.f_back

    def a():
        return names(sys._getframe())

    def b():
        return [a(), (lambda: a())(), *[a() for _ in range(1)]]

    class C:
        inside = a()

        def __del__(self):
            log.append(a())

    C()
    log.append(sorted([1], key=lambda x: log.append(a()) or x))
    return b(), C.inside


def frame_attributes(log):
    def f(a, b=2):
        c = a + b
        frame = sys._getframe()
        log.append(
            (frame.f_code is f.__code__, frame.f_globals is globals(), frame.f_builtins["len"] is len, frame.f_trace)
        )
        log.append(sorted(frame.f_locals))
        first = frame.f_lineno
        second = sys._getframe().f_lineno
        return second - first, frame is sys._getframe()

    return f(1)


def frame_of_caller(log):
    def peek(name):
        return sys._getframe(1).f_locals.get(name, "unset")

    def f(x):
        log.append(peek("x"))
        x += 1
        log.append(peek("x"))
        y = [peek("y"), peek("x")]
        for i in range(2):
            y.append(peek("i"))
        del x
        y.append(peek("x"))
        return y

    return f(1)


def frame_outlives_the_call(log):
    def f():
        x = [1]
        frame = sys._getframe()
        x.append(2)
        y = "late"
        return frame

    frame = f()
    log.append((frame.f_locals["x"], frame.f_locals["y"], frame.f_back is None or frame.f_back.f_code.co_name))
    frame.clear()
    return frame.f_locals


def frame_clear_while_running(log):
    frame = sys._getframe()
    frame.clear()


def getframe_too_deep(log):
    return sys._getframe(100000)


def locals_in_function(log):
    def f(a, *rest, k=1, **more):
        b = 2
        before = dict(locals())
        c = 3
        del b
        after = locals()
        return before, sorted(after), after is locals()

    return f(1, 2, z=3)


def locals_with_cells(log):
    def f(a):
        b = a + 1

        def inner():
            nonlocal b
            b += 1
            return sorted(locals()), a

        log.append(sorted(locals()))
        log.append(inner())
        del a
        return {k: v for k, v in locals().items() if k != "inner"}

    return f(1)


def locals_writes_do_not_reach_function(log):
    def f():
        x = 1
        locals()["x"] = 2
        locals()["new"] = 3
        return x, sorted(locals())

    class A:
        locals()["made"] = 4

    return f(), A.made


def locals_in_class_and_comprehension(log):
    class A:
        x = 1
        seen = sorted(k for k in locals() if not k.startswith("__"))

    y = 5
    return A.seen, [sorted(locals()) for z in range(1)], list(sorted(locals()) for w in range(1))


def exec_in_function(log):
    x = 1
    exec("x = 2; y = 3; log.append((x, y))")
    log.append(x)
    namespace = {"x": 10}
    exec("x += 1\ndef g(): return x", namespace)
    log.append(namespace["g"]())
    separate = {}
    exec("z = x + 1\nclass K: w = x", {"x": 5}, separate)
    log.append((sorted(separate), separate["K"].w))
    exec("z = 1\ndef h(): return z\nh()", {}, separate)


def eval_in_function(log):
    a, b = 2, 3

    def f(c):
        return eval("c + 1"), eval("a + b", {"a": 10}, {"b": 20}), [eval("c") for c in (7,)]

    log.append(f(4))
    log.append(eval("[a for _ in range(2)]", {"a": 1}))
    return eval("a +")


def eval_error_traceback(log):
    namespace = {}
    exec("def f(x):\n    return (x +\n        None)\n", namespace)
    return eval("f(1)", namespace)


def exec_with_closure(log):
    x = 5

    def f():
        return x

    def g():
        nonlocal x
        x = x + 1

    exec(g.__code__, closure=g.__closure__)
    log.append(f())
    exec(f.__code__, {})


def compile_flags_and_modes(log):
    log.append(eval(compile("1 + 2", "<e>", "eval")))
    exec(compile("log.append('exec')", "<x>", "exec"))
    exec(compile("5\n", "<single>", "single"))
    code = compile("def f():\n    'doc'\n    assert False\n", "<o>", "exec", optimize=2)
    namespace = {}
    exec(code, namespace)
    return namespace["f"](), namespace["f"].__doc__


def code_object_replaced(log):
    def f(a, b):
        c = a * b
        return c

    renamed = f.__code__.replace(co_name="renamed", co_consts=f.__code__.co_consts)
    log.append(
        (
            renamed.co_name,
            renamed == f.__code__,
            eval(f.__code__.replace(co_argcount=0, co_nlocals=3)) if False else None,
        )
    )
    g = type(f)(renamed, globals(), "g", (4,))
    return g(3), g.__name__, g.__code__.co_varnames


def inspect_signature_and_stack(log):
    def f(a, /, b: int = 1, *c, d, **e) -> str:
        return [entry.function for entry in inspect.stack()[:2]]

    log.append(str(inspect.signature(f)))
    bound = inspect.signature(f).bind(1, d=2)
    bound.apply_defaults()
    log.append(dict(bound.arguments))
    log.append(inspect.currentframe().f_code.co_name)
    return f(1, d=1), inspect.getcallargs(f, 1, d=3)


def vars_and_dir(log):
    class A:
        def __init__(self):
            self.x = 1

    b = 2
    log.append((vars(A()), "b" in dir(), sorted(vars())))
    return dir() == sorted(locals())


def frame_line_number_in_multi_line_statement(log):
    def line():
        return sys._getframe(1).f_lineno

    start = sys._getframe().f_lineno
    lines = [
        line() - start,
        line() - start,
        (line() - start),
    ]
    return lines


def generator_frames(log):
    def gen():
        x = 1
        yield sys._getframe().f_back.f_code.co_name
        x = 2
        yield

    g = gen()
    log.append((g.gi_frame.f_lineno - gen.__code__.co_firstlineno, g.gi_frame.f_locals))
    log.append(next(g))
    log.append((g.gi_frame.f_lineno - gen.__code__.co_firstlineno, g.gi_frame.f_locals, g.gi_frame.f_back))
    next(g)
    log.append(g.gi_frame.f_locals)
    frame = g.gi_frame
    g.close()
    return g.gi_frame, frame.f_code.co_name


def traceback_frames_keep_locals(log):
    def f(x):
        y = x * 2
        return y.missing

    try:
        f(4)
    except AttributeError as e:
        tb = e.__traceback__.tb_next
        log.append((tb.tb_frame.f_locals, tb.tb_frame.f_code.co_name))
        return tb.tb_frame.f_locals["y"]


def super_and_class_through_frames(log):
    class A:
        def f(self):
            frame = sys._getframe()
            return sorted(frame.f_locals), frame.f_code.co_freevars, __class__.__name__

    return A().f()


def current_exception_through_frames(log):
    def look():
        return repr(sys.exc_info()[1]), sys._getframe(1).f_code.co_name

    try:
        1 / 0
    except ZeroDivisionError:
        log.append(look())
        try:
            [][0]
        except IndexError:
            log.append(look())
        log.append(look())
    return look()
