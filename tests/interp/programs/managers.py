"""The with statement: order, suppression, several managers, errors in __enter__ and __exit__."""
# ruff: noqa

import contextlib
import sys


class _Manager:
    def __init__(self, log, name, suppress=False, enter_error=None, exit_error=None):
        self.log, self.name, self.suppress = log, name, suppress
        self.enter_error, self.exit_error = enter_error, exit_error

    def __enter__(self):
        self.log.append(("enter", self.name))
        if self.enter_error:
            raise self.enter_error
        return self.name

    def __exit__(self, kind, error, traceback):
        self.log.append(("exit", self.name, kind and kind.__name__, error and error.args, traceback is None))
        if self.exit_error:
            raise self.exit_error
        return self.suppress


def normal_exit(log):
    with _Manager(log, "a") as a:
        log.append(a)
    with _Manager(log, "b"):
        pass
    return a


def exception_passes(log):
    with _Manager(log, "a"):
        raise ValueError("x")


def exception_suppressed(log):
    with _Manager(log, "a", suppress=True):
        log.append(1)
        raise ValueError("x")
        log.append("unreachable")
    log.append(sys.exc_info())
    return "after"


def suppression_uses_truth(log):
    class Odd:
        def __init__(self, answer):
            self.answer = answer

        def __enter__(self):
            return self

        def __exit__(self, *args):
            return self.answer

    for answer in (1, "yes", [0]):
        with Odd(answer):
            raise ValueError(answer)
    with Odd([]):
        raise ValueError("not suppressed")


def truth_of_exit_result_raises(log):
    class Bad:
        def __bool__(self):
            raise KeyError("truth")

    class Odd(_Manager):
        def __exit__(self, *args):
            return Bad()

    with Odd(log, "odd"):
        log.append("no error: the result is not looked at")
    with Odd(log, "odd"):
        raise ValueError("body")


def several_managers(log):
    with _Manager(log, "a") as a, _Manager(log, "b", suppress=True) as b, _Manager(log, "c") as c:
        log.append((a, b, c))
        raise ValueError("inner")
    with (
        _Manager(log, "d") as d,
        _Manager(log, "e"),
    ):
        log.append(d)


def enter_fails(log):
    with _Manager(log, "a"), _Manager(log, "b", enter_error=KeyError("enter")), _Manager(log, "c"):
        log.append("unreachable")


def enter_fails_and_outer_suppresses(log):
    with _Manager(log, "a", suppress=True), _Manager(log, "b", enter_error=KeyError("enter")):
        log.append("unreachable")
    return "suppressed"


def exit_fails_after_normal_body(log):
    with _Manager(log, "a", exit_error=KeyError("exit")):
        log.append("body")


def exit_fails_after_error(log):
    with _Manager(log, "a"), _Manager(log, "b", exit_error=KeyError("exit")):
        raise ValueError("body")


def exit_reraises_same_error(log):
    class Again(_Manager):
        def __exit__(self, kind, error, traceback):
            raise error

    with Again(log, "again"):
        raise ValueError("same")


def return_break_continue_through_with(log):
    def f():
        for i in range(5):
            with _Manager(log, i):
                if i == 0:
                    continue
                if i == 1:
                    log.append("one")
                if i == 2:
                    break
        with _Manager(log, "r"):
            return "returned"

    return f()


def return_overrides_in_exit(log):
    def f():
        try:
            with _Manager(log, "a", exit_error=KeyError("exit")):
                return "lost"
        except KeyError:
            return "from handler"

    return f()


def target_forms(log):
    class Box:
        pass

    class Pair(_Manager):
        def __enter__(self):
            return [1, [2, 3]]

    box, items = Box(), {}
    with Pair(log, "p") as (a, (b, c)), _Manager(log, "q") as box.x, _Manager(log, "r") as items["k"]:
        pass
    return a, b, c, box.x, items


def target_assignment_fails(log):
    """An error in binding the target happens inside the block."""
    with _Manager(log, "ab", suppress=True) as (a, b, c):
        log.append("unreachable")
    return "suppressed"


def not_a_manager(log):
    class NoExit:
        def __enter__(self):
            log.append("entered")

    class NoEnter:
        def __exit__(self, *args):
            pass

    for thing in (5, NoExit(), NoEnter(), int):
        try:
            with thing:
                log.append("unreachable")
        except TypeError as e:
            log.append(str(e))
    with log:
        pass


def methods_looked_up_on_type(log):
    m = _Manager(log, "a")
    m.__enter__ = lambda: log.append("instance enter")
    m.__exit__ = lambda *args: log.append("instance exit")
    with m:
        pass
    _patched = type("Patched", (_Manager,), {"__exit__": staticmethod(lambda *args: log.append(len(args)))})
    with _patched(log, "b"):
        pass


def exit_looked_up_before_body(log):
    class Changing(_Manager):
        pass

    with Changing(log, "a"):
        Changing.__exit__ = lambda self, *args: log.append("new exit")
    with Changing(log, "b"):
        pass


def contextmanager_decorator(log):
    @contextlib.contextmanager
    def managed(name, suppress=False):
        log.append(("begin", name))
        try:
            yield name.upper()
        except ValueError as e:
            log.append(("caught", e.args))
            if not suppress:
                raise
        finally:
            log.append(("end", name))

    with managed("a") as a:
        log.append(a)
    with managed("b", suppress=True):
        raise ValueError("hidden")

    @managed("decorator")
    def decorated():
        return "inside"

    log.append(decorated())
    with managed("c"):
        raise ValueError("shown")


def contextmanager_misuse(log):
    @contextlib.contextmanager
    def never_yields():
        if False:
            yield

    @contextlib.contextmanager
    def yields_twice():
        yield 1
        yield 2

    for make in (never_yields, yields_twice):
        try:
            with make():
                log.append("body")
        except RuntimeError as e:
            log.append(str(e))
    with yields_twice():
        raise StopIteration("through a generator")


def exit_stack(log):
    with contextlib.ExitStack() as stack:
        for name in "abc":
            stack.enter_context(_Manager(log, name, suppress=name == "b"))
        stack.callback(log.append, "callback")
        raise ValueError("stacked")
    return "suppressed by b"


def stdlib_managers(log):
    with contextlib.suppress(KeyError, IndexError):
        [][1]
    with contextlib.nullcontext(5) as five:
        log.append(five)
    with contextlib.closing(x for x in range(3)) as g:
        log.append(next(g))
    return list(g)


def nested_with_in_try_in_loop(log):
    for i in range(3):
        try:
            with _Manager(log, i, suppress=i == 1):
                with _Manager(log, -i, exit_error=OSError(i) if i == 2 else None):
                    if i:
                        raise ValueError(i)
        except OSError as e:
            log.append((e.args, repr(e.__context__)))
        else:
            log.append("else")
    return i


def exception_state_inside_exit(log):
    class Looking(_Manager):
        def __exit__(self, kind, error, traceback):
            log.append(sys.exc_info()[0] is kind)
            try:
                raise KeyError("temporary")
            except KeyError as e:
                log.append(e.__context__ is error)
            log.append(sys.exc_info()[1] is error)
            return True

    with Looking(log, "a"):
        raise ValueError("body")
    log.append(sys.exc_info())


def with_inside_generator(log):
    def gen():
        with _Manager(log, "gen") as name:
            yield name
            yield "second"

    g = gen()
    log.append(next(g))
    g.close()
    g = gen()
    next(g)
    del g
    g = gen()
    next(g)
    g.throw(ValueError("thrown"))
