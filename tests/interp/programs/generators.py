"""Generators: send, throw, close, yield from, return values, finalisation in mid-body."""
# ruff: noqa

import gc
import inspect
import sys
import types


def counting(log):
    def count(n):
        i = 0
        while i < n:
            sent = yield i
            log.append(sent)
            i += 1 if sent is None else sent
        return "done"

    g = count(10)
    log.append(next(g))
    log.append(g.send(3))
    log.append(next(g))
    log.append(g.send(4))
    try:
        g.send(100)
    except StopIteration as stop:
        log.append(stop.value)
    return list(g), list(count(3))


def send_to_unstarted(log):
    def gen():
        yield 1

    g = gen()
    log.append(g.send(None))
    gen().send(5)


def throw_into_body(log):
    def gen():
        while True:
            try:
                yield "waiting"
            except ValueError as e:
                log.append(("value", e.args))
                yield "caught"
            except KeyError:
                log.append("key")
                return "stopped"
            finally:
                log.append("finally")

    g = gen()
    next(g)
    log.append(g.throw(ValueError("x")))
    log.append(next(g))
    try:
        g.throw(KeyError)
    except StopIteration as stop:
        log.append(stop.value)
    g.throw(IndexError("after the end"))


def throw_forms(log):
    def gen():
        try:
            yield 1
        except Exception as e:
            yield type(e).__name__, e.args

    for args in (
        (ValueError,),
        (ValueError("v"),),
        (ValueError, "text"),
        (ValueError, (1, 2)),
        (ValueError, ValueError("i")),
    ):
        g = gen()
        next(g)
        log.append(g.throw(*args))
    for args in ((5,), (ValueError("a"), "b"), (int,), (ValueError, None, 5)):
        g = gen()
        next(g)
        try:
            g.throw(*args)
        except TypeError as e:
            log.append(str(e))


def throw_into_unstarted(log):
    def gen():
        log.append("never")
        yield

    g = gen()
    try:
        g.throw(ValueError("early"))
    except ValueError as e:
        log.append(e.args)
    log.append(list(g))
    g = gen()
    g.throw(KeyError("traceback has the first line"))


def close_runs_finally(log):
    def gen():
        try:
            yield 1
        except GeneratorExit:
            log.append("exit")
            raise
        finally:
            log.append("finally")

    g = gen()
    next(g)
    log.append(g.close())
    g.close()
    unstarted = gen()
    unstarted.close()
    return list(unstarted), g.gi_frame


def close_ignored(log):
    def gen():
        try:
            yield 1
        except GeneratorExit:
            log.append("ignoring")
            yield 2

    g = gen()
    next(g)
    g.close()


def close_with_return_or_error(log):
    def returning():
        try:
            yield 1
        except GeneratorExit:
            return "value is lost"

    def failing():
        try:
            yield 1
        finally:
            raise KeyError("in finally")

    g = returning()
    next(g)
    log.append(g.close())
    g = failing()
    next(g)
    g.close()


def finalised_in_mid_body(log):
    def gen(name):
        try:
            yield 1
            yield 2
        finally:
            log.append(("finalised", name))

    g = gen("deleted")
    next(g)
    del g
    g = gen("replaced")
    next(g)
    g = None
    for x in gen("broken out of"):
        break
    log.append("after loop")
    next(gen("temporary"))
    gen("unstarted")
    return "end"


def finalised_by_collector(log):
    def gen():
        me = yield
        try:
            yield me
        finally:
            log.append("collected")

    g = gen()
    next(g)
    g.send(g)
    del g
    log.append("before")
    gc.collect()
    log.append("after")


def finaliser_yields_or_raises(log):
    def stubborn():
        try:
            yield 1
        finally:
            log.append("stubborn")
            yield 2

    def failing():
        try:
            yield 1
        finally:
            raise ValueError("in finaliser")

    for make in (stubborn, failing):
        g = make()
        next(g)
        del g
    return "reported as unraisable"


def yield_from_delegation(log):
    def inner():
        received = []
        while len(received) < 3:
            try:
                received.append((yield len(received)))
            except ValueError as e:
                received.append(("error", e.args))
        return received

    def outer():
        result = yield from inner()
        log.append(("result", result))
        yield from "ab"
        yield from [10, 20]
        return (yield from inner())

    g = outer()
    log.append(next(g))
    log.append(g.send("one"))
    log.append(g.throw(ValueError("two")))
    log.append(g.send("three"))
    log.append([next(g) for _ in range(4)])
    g.send(1), g.send(2)
    try:
        g.send(3)
    except StopIteration as stop:
        return stop.value


def yield_from_own_iterators(log):
    class Plain:
        def __init__(self):
            self.n = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.n += 1
            if self.n > 2:
                raise StopIteration("plain result")
            return self.n

    class Sending(Plain):
        def send(self, value):
            log.append(("send", value))
            return self.__next__()

        def throw(self, kind, *rest):
            log.append(("throw", kind if isinstance(kind, type) else type(kind)))
            raise StopIteration("thrown")

        def close(self):
            log.append("close")

    def outer(it):
        return (yield from it)

    log.append(list(outer(Plain())))
    g = outer(Sending())
    log.append(next(g))
    log.append(g.send("x"))
    try:
        g.throw(ValueError("v"))
    except StopIteration as stop:
        log.append(stop.value)
    g = outer(Sending())
    next(g)
    g.close()
    g = outer(Plain())
    next(g)
    g.send("Plain has no send")


def yield_from_close_and_throw_order(log):
    def inner(name):
        try:
            yield name
        finally:
            log.append(("inner", name))

    def outer(name):
        try:
            yield from inner(name)
        except ValueError:
            log.append("outer caught")
            yield "recovered"
        finally:
            log.append(("outer", name))

    g = outer("a")
    next(g)
    g.close()
    g = outer("b")
    next(g)
    log.append(g.throw(ValueError))
    del g
    g = outer("c")
    next(g)
    g.throw(KeyError("through both"))


def yield_from_generator_exit_subclass(log):
    def inner():
        try:
            yield 1
        except BaseException as e:
            log.append(type(e).__name__)
            raise

    def outer():
        yield from inner()

    for kind in (GeneratorExit, KeyboardInterrupt, SystemExit):
        g = outer()
        next(g)
        try:
            g.throw(kind)
        except BaseException as e:
            log.append(("out", type(e).__name__))


def yield_from_non_iterable(log):
    def gen():
        yield 1
        yield from 5

    g = gen()
    next(g)
    next(g)


def stop_iteration_becomes_runtime_error(log):
    def gen():
        yield 1
        raise StopIteration("inside")

    def by_next():
        yield next(iter(()))

    def delegating():
        yield from by_next()

    for g in (gen(), by_next(), delegating()):
        try:
            log.append(list(g))
        except RuntimeError as e:
            log.append((str(e), repr(e.__cause__), repr(e.__context__)))
    g = gen()
    next(g)
    g.throw(StopIteration("thrown in"))


def stop_iteration_values(log):
    def gen(value):
        return value
        yield

    for value in (None, 1, (1, 2), (), ValueError("as value"), StopIteration(5)):
        try:
            next(gen(value))
        except StopIteration as stop:
            log.append((stop.value is value, stop.args))

    def outer(value):
        log.append((yield from gen(value)))

    list(outer((1, 2)))


def already_running(log):
    def gen():
        try:
            next(g)
        except ValueError as e:
            log.append(str(e))
        yield g.gi_running
        g.send(None)

    g = gen()
    log.append(next(g))
    next(g)


def state_attributes(log):
    def gen():
        x = yield 1
        yield from inner

    inner = (i for i in range(2))
    g = gen()
    log.append((inspect.getgeneratorstate(g), g.gi_running, g.gi_yieldfrom, g.gi_code.co_name, g.__name__))
    next(g)
    log.append((inspect.getgeneratorstate(g), inspect.getgeneratorlocals(g), g.gi_suspended))
    g.send("value")
    log.append((g.gi_yieldfrom is inner, inspect.getgeneratorlocals(g)["x"]))
    g.close()
    return inspect.getgeneratorstate(g), g.gi_frame, g.gi_suspended


def expression_positions_of_yield(log):
    def gen():
        x = [(yield 1), (yield 2)]
        y = f"{(yield 3)}-{(yield 4)}"
        z = dict(a=(yield 5), **{"b": (yield 6)})
        w = (yield 7) if (yield 8) else (yield 9)
        lambda_generator = lambda: (yield 10)
        return x, y, z, w, list(lambda_generator())

    g = gen()
    value = next(g)
    try:
        while True:
            value = g.send(value * 10)
    except StopIteration as stop:
        return stop.value


def generator_with_try_in_loop(log):
    def gen():
        for i in range(4):
            try:
                yield i
                if i == 2:
                    raise KeyError(i)
            except KeyError as e:
                yield ("handled", e.args)
            except GeneratorExit:
                log.append("closing")
                return
            else:
                log.append(("else", i))

    log.append(list(gen()))
    g = gen()
    next(g)
    g.close()
    return list(g)


def generator_in_exception_context(log):
    """The exception being handled belongs to the generator while it runs and to the caller while it does not."""

    def gen():
        try:
            raise ValueError("own")
        except ValueError:
            yield repr(sys.exc_info()[1])
            yield repr(sys.exc_info()[1])
        yield repr(sys.exc_info()[1])

    g = gen()
    log.append(next(g))
    log.append(repr(sys.exc_info()[1]))
    try:
        raise KeyError("caller")
    except KeyError:
        log.append(next(g))
        log.append(repr(sys.exc_info()[1]))
        log.append(next(g))
    return repr(sys.exc_info()[1])


def raise_in_generator_handled_by_caller(log):
    def gen():
        try:
            yield 1
        finally:
            log.append(repr(sys.exc_info()[1]))

    try:
        for x in gen():
            raise LookupError("in loop body")
    except LookupError as e:
        log.append(repr(e.__context__))
    g = gen()
    next(g)
    g.throw(OSError("explicit"))


def pipeline(log):
    def numbers():
        yield from range(10)

    def keep(predicate, source):
        for x in source:
            if predicate(x):
                yield x

    def pairs(source):
        it = iter(source)
        return zip(it, it)

    return list(pairs(keep(lambda x: x % 3, numbers())))


def recursive_generators(log):
    def walk(tree):
        if isinstance(tree, list):
            for branch in tree:
                yield from walk(branch)
        else:
            yield tree

    def permutations(items):
        if not items:
            yield ()
        for i, x in enumerate(items):
            for rest in permutations(items[:i] + items[i + 1 :]):
                yield (x, *rest)

    return list(walk([1, [2, [3, [4]], 5]])), list(permutations((1, 2, 3)))


def consumed_by_c_code(log):
    def gen(n):
        for i in range(n):
            log.append(i)
            yield i
        return "unused"

    g = gen(9)
    a, b, *_ = (next(g), next(g), next(g))
    log.append((sum(gen(3)), list(zip(gen(2), "ab")), dict(enumerate(gen(2))), sorted(gen(2), reverse=True)))
    return a, b, max(g), "".join(str(x) for x in gen(2)), any(x > 0 for x in gen(5)), list(map(str, gen(2)))


def error_while_consumed_by_c(log):
    def gen():
        yield 1
        yield {}["missing"]

    return sum(gen())


def generator_arguments_and_defaults(log):
    def gen(a, *args, k=1, **kwargs):
        log.append("started")
        yield a, args, k, kwargs

    g = gen(1, 2, k=3, z=4)
    log.append("made")
    log.append(next(g))
    gen()


def generator_methods_and_properties(log):
    class Tree:
        def __init__(self, *children):
            self.children = children

        def __iter__(self):
            yield len(self.children)
            for child in self.children:
                yield from child

        @property
        def lazily(self):
            yield "property"

        @classmethod
        def many(cls):
            yield cls.__name__

    return list(Tree(Tree(), Tree(Tree()))), list(Tree().lazily), list(Tree.many())


def generator_keeps_own_scope(log):
    def gen():
        total = 0
        while True:
            total += (yield total) or 0

    a, b = gen(), gen()
    next(a), next(b)
    a.send(5), b.send(7)
    return a.send(1), b.send(1)


def coroutine_flag_by_types_coroutine(log):
    @types.coroutine
    def awaitable():
        got = yield "from generator"
        return got

    async def main():
        return await awaitable()

    c = main()
    log.append(c.send(None))
    try:
        c.send("result")
    except StopIteration as stop:
        return stop.value


def exception_leaves_generator_finished(log):
    def gen():
        yield 1
        raise ValueError("end")

    g = gen()
    next(g)
    try:
        next(g)
    except ValueError as e:
        log.append((g.gi_frame, e.__traceback__.tb_next.tb_frame.f_code.co_name))
    log.append(list(g))
    next(g)


def loop_closes_nothing(log):
    """Leaving a for loop early leaves a generator that is still referenced suspended."""

    def gen():
        try:
            yield from range(5)
        finally:
            log.append("closed")

    g = gen()
    for x in g:
        if x == 1:
            break
    log.append("still open")
    rest = list(g)
    return rest


class _Noisy:
    """Runs Python code, with a call in it, when it dies."""

    def __init__(self, log, name):
        self.log, self.name = log, name

    def note(self):
        self.log.append(("dead", self.name))

    def __del__(self):
        self.note()


def stack_dies_when_thrown_into(log):
    """throw() unwinds a suspended frame before it has run an instruction, and what is on its stack has finalisers."""

    def inner():
        try:
            yield 1
        finally:
            log.append("inner closed")

    def direct():
        try:
            [_Noisy(log, "direct"), (yield 1)]
        except KeyError:
            log.append("handler")
        yield 2

    def delegating():
        try:
            [_Noisy(log, "delegating"), (yield from inner())]
        except KeyError:
            log.append("handler")
        yield 2

    def in_loop():
        try:
            for x in inner():
                [_Noisy(log, x), (yield 1)]
        except KeyError:
            log.append("handler")
        yield 2

    for make in (direct, delegating, in_loop):
        g = make()
        next(g)
        log.append(g.throw(KeyError("thrown")))
        g = make()
        next(g)
        log.append(g.close())
    g = in_loop()
    next(g)
    return g.throw(ValueError("not caught"))


def caught_error_dies_with_its_handler(log):
    """An exception caught in a generator that C code resumes is kept over a yield in the handler, and no longer."""

    def gen():
        yield 1
        try:
            noisy = _Noisy(log, "in traceback")
            noisy.missing
        except AttributeError:
            noisy = None
            yield 2
        log.append("after handler")
        yield 3
        try:
            _Noisy(log, "attribute error's object").missing
        except* AttributeError:
            yield 4
        log.append("after group")

    for x in gen():
        log.append(x)
    return list(gen())
