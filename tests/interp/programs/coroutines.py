"""Coroutines and asynchronous generators, driven by hand without an event loop."""
# ruff: noqa

import inspect
import sys
import types


class _Wait:
    """An awaitable that yields one value to the driver and returns what it is sent."""

    def __init__(self, value):
        self.value = value

    def __await__(self):
        return (yield self.value)


def _drive(log, coroutine, *answers):
    """Run a coroutine to its end, answering its waits in turn; exceptions among the answers are thrown in."""
    answers = list(answers)
    answer = None
    while True:
        try:
            if isinstance(answer, BaseException):
                waited = coroutine.throw(answer)
            else:
                waited = coroutine.send(answer)
        except StopIteration as stop:
            return stop.value
        log.append(("waits", waited))
        answer = answers.pop(0) if answers else None


class _Ticker:
    """An asynchronous iterator."""

    def __init__(self, n):
        self.n = n

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self.n:
            raise StopAsyncIteration
        self.n -= 1
        return await _Wait(self.n)


class _Session:
    """An asynchronous context manager."""

    def __init__(self, log, suppress=False):
        self.log, self.suppress = log, suppress

    async def __aenter__(self):
        self.log.append(("aenter", await _Wait("enter")))
        return self

    async def __aexit__(self, kind, error, traceback):
        self.log.append(("aexit", kind and kind.__name__, await _Wait("exit")))
        return self.suppress


def await_chain(log):
    async def leaf(n):
        return await _Wait(n) + 1

    async def middle(n):
        return await leaf(n) + await leaf(n * 10)

    async def top():
        return [await middle(1), await middle(2)]

    return _drive(log, top(), 100, 200, 300, 400)


def await_raises(log):
    async def leaf():
        try:
            await _Wait("leaf")
        except ValueError as e:
            log.append(e.args)
            raise KeyError("translated") from e
        finally:
            log.append("finally")

    async def top():
        await leaf()

    return _drive(log, top(), ValueError("thrown"))


def await_error_in_middle(log):
    async def leaf():
        await _Wait(1)
        return 1 // 0

    async def top():
        try:
            await leaf()
        except ZeroDivisionError:
            return await _Wait("recovering")

    return _drive(log, top(), None, "recovered")


def await_not_awaitable(log):
    class BadAwait:
        def __await__(self):
            return 5

    class Coroutines:
        def __await__(self):
            return inner()

    async def inner(): ...

    async def top(thing):
        await thing

    for thing in (5, BadAwait(), Coroutines(), [1], (x for x in ())):
        try:
            _drive(log, top(thing))
        except TypeError as e:
            log.append(str(e))


def await_twice(log):
    async def once():
        return 1

    async def top():
        c = once()
        log.append(await c)
        await c

    _drive(log, top())


def coroutine_never_awaited(log):
    async def forgotten():
        log.append("never runs")

    forgotten()
    c = forgotten()
    del c
    return "warned"


def coroutine_closed(log):
    async def work():
        try:
            await _Wait(1)
        finally:
            log.append("cleaned up")

    c = work()
    c.send(None)
    c.close()
    c = work()
    c.send(None)
    del c
    unstarted = work()
    unstarted.close()
    return inspect.getcoroutinestate(unstarted)


def coroutine_already_running(log):
    async def work():
        try:
            c.send(None)
        except ValueError as e:
            log.append(str(e))

    c = work()
    _drive(log, c)
    c.send(None)


def coroutine_attributes(log):
    async def inner():
        await _Wait(1)

    async def outer():
        x = 5
        await inner()

    c = outer()
    log.append((inspect.getcoroutinestate(c), c.cr_running, c.cr_await, c.cr_code.co_name))
    c.send(None)
    log.append((inspect.getcoroutinestate(c), c.cr_await.__name__, inspect.getcoroutinelocals(c), c.cr_suspended))
    c.close()
    log.append(c.cr_frame)
    return list(c)


def stop_iteration_from_coroutine(log):
    async def bad():
        raise StopIteration("no")

    async def bad_async():
        raise StopAsyncIteration("fine in a coroutine")

    try:
        _drive(log, bad())
    except RuntimeError as e:
        log.append((str(e), repr(e.__cause__)))
    _drive(log, bad_async())


def async_for(log):
    async def top():
        seen = []
        async for x in _Ticker(3):
            seen.append(x)
            if x == "skip":
                continue
            log.append(x)
        else:
            seen.append("else")
        async for x in _Ticker(5):
            if x == "stop":
                break
        else:
            seen.append("never")
        return seen

    return _drive(log, top(), "a", "skip", "c", "d", "stop")


def async_for_errors(log):
    class NoNext:
        def __aiter__(self):
            return 5

    class BadNext:
        def __aiter__(self):
            return self

        def __anext__(self):
            return 7

    class Raising(_Ticker):
        async def __anext__(self):
            raise KeyError("in anext")

    async def top(thing):
        async for x in thing:
            log.append(x)

    for thing in ([1], NoNext(), BadNext(), Raising(1)):
        try:
            _drive(log, top(thing))
        except (TypeError, KeyError) as e:
            log.append((type(e).__name__, str(e), repr(e.__cause__)))


def async_for_throw_in_anext(log):
    async def top():
        try:
            async for x in _Ticker(3):
                log.append(x)
        except ValueError as e:
            return e.args

    return _drive(log, top(), "first", ValueError("in anext"))


def async_with(log):
    async def top():
        async with _Session(log) as s:
            log.append(await _Wait("body"))
        async with _Session(log, suppress=True):
            raise ValueError("suppressed")
        async with _Session(log) as a, _Session(log) as b:
            return a is not b

    return _drive(log, top(), *"abcdefghi")


def async_with_error_passes(log):
    async def top():
        for i in range(3):
            async with _Session(log):
                if i == 0:
                    continue
                raise KeyError(i)

    return _drive(log, top(), *"abcdef")


def async_with_errors(log):
    class NoExit:
        async def __aenter__(self): ...

    class NotAwaitable:
        def __aenter__(self):
            return 5

        def __aexit__(self, *args):
            return 6

    class BadExit(_Session):
        async def __aexit__(self, *args):
            raise OSError("in aexit")

    class OddExit(_Session):
        def __aexit__(self, *args):
            return 5

    async def top(thing):
        async with thing:
            log.append("body")
            if isinstance(thing, _Session):
                raise ValueError("body")

    for thing in (5, NoExit(), NotAwaitable(), BadExit(log), OddExit(log)):
        try:
            _drive(log, top(thing))
        except Exception as e:
            log.append((type(e).__name__, str(e), repr(e.__context__)))


def async_comprehensions(log):
    async def double(x):
        return await _Wait(x) or x * 2

    async def top():
        a = [x async for x in _Ticker(2)]
        b = {x: y async for x in _Ticker(1) for y in range(2)}
        c = [await double(x) for x in (1, 2)]
        d = {x async for x in _Ticker(2) if await double(x)}
        e = [y for x in [1] async for y in _Ticker(x)]
        f = [z async for z in (await double(x) async for x in _Ticker(2))]
        return a, b, c, sorted(d), e, f

    return _drive(log, top(), *range(1, 20))


def async_generator(log):
    async def agen(n):
        try:
            for i in range(n):
                got = yield await _Wait(i)
                log.append(("got", got))
        finally:
            log.append(await _Wait("cleanup"))

    async def top():
        seen = [x async for x in agen(2)]
        g = agen(5)
        seen.append(await g.asend(None))
        seen.append(await g.asend("sent"))
        await g.aclose()
        try:
            await g.__anext__()
        except StopAsyncIteration:
            seen.append("finished")
        return seen

    return _drive(log, top(), *"abcdefgh")


def async_generator_athrow(log):
    async def agen():
        while True:
            try:
                yield 1
            except ValueError as e:
                log.append(e.args)
                yield await _Wait("handling")
            except KeyError:
                return

    async def top():
        g = agen()
        await g.__anext__()
        log.append(await g.athrow(ValueError("x")))
        log.append(await g.__anext__())
        try:
            await g.athrow(KeyError)
        except StopAsyncIteration as e:
            log.append(e.args)
        g = agen()
        await g.athrow(IndexError("unstarted"))

    return _drive(log, top(), "handled")


def async_generator_aclose_ignored(log):
    async def agen():
        try:
            yield 1
        finally:
            yield 2

    async def top():
        g = agen()
        await g.__anext__()
        await g.aclose()

    return _drive(log, top())


def async_generator_stop_iteration(log):
    async def agen(kind):
        yield 1
        raise kind("inside")

    async def top(kind):
        return [x async for x in agen(kind)]

    for kind in (StopIteration, StopAsyncIteration):
        try:
            _drive(log, top(kind))
        except RuntimeError as e:
            log.append((str(e), type(e.__cause__).__name__))
    return _drive(log, top(ValueError))


def async_generator_overlapping_use(log):
    async def agen():
        yield await _Wait(1)

    g = agen()
    first, second = g.__anext__(), g.__anext__()
    log.append(first.send(None))
    try:
        second.send(None)
    except RuntimeError as e:
        log.append(str(e))
    try:
        first.send("value")
    except StopIteration as stop:
        log.append(stop.value)
    first.send(None)


def async_generator_hooks(log):
    def first_iteration(g):
        log.append(("first", g.__name__))

    def finalise(g):
        log.append(("finalise", g.__name__))

    async def agen():
        yield 1

    old = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(first_iteration, finalise)
    try:
        g = agen()
        try:
            g.__anext__().send(None)
        except StopIteration as stop:
            log.append(stop.value)
        del g
    finally:
        sys.set_asyncgen_hooks(*old)


def aiter_and_anext_builtins(log):
    async def agen():
        yield 1

    async def top():
        it = aiter(agen())
        return await anext(it), await anext(it, "default")

    return _drive(log, top())


def generator_based_coroutine_delegation(log):
    @types.coroutine
    def old_style(n):
        total = 0
        for i in range(n):
            total += yield i
        return total

    async def top():
        return await old_style(2) + await old_style(1)

    return _drive(log, top(), 10, 20, 30)


def await_in_all_places(log):
    async def value(x):
        return await _Wait(x)

    async def top():
        d = {await value("k"): await value("v"), **{"z": await value("w")}}
        f = f"{await value('f')!r:>5}"
        s = [0, 1, 2][await value("i") : await value("j")]
        t = (await value("c")) if await value("b") else await value("d")
        x = await value("x") < await value("y") < 10
        return d, f, s, t, x, (lambda *a, **k: (a, k))(await value("p"), *[await value("q")], k=await value("r"))

    return _drive(log, top(), "k", "v", "w", "f", 0, 2, 0, "d", 1, 2, "p", "q", "r")


def asyncio_program(log):
    import asyncio

    async def worker(name, queue):
        while True:
            item = await queue.get()
            if item is None:
                break
            await asyncio.sleep(0)
            log.append((name, item))
        return name

    async def main():
        queue = asyncio.Queue()
        task = asyncio.create_task(worker("w", queue))
        for i in range(3):
            await queue.put(i)
        await queue.put(None)
        results = await asyncio.gather(task, asyncio.sleep(0, "slept"))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
        except* ValueError as errors:
            log.append(len(errors.exceptions))
        return results

    async def fail():
        raise ValueError("in task")

    return asyncio.run(main())


def context_of_exceptions_across_await(log):
    async def leaf():
        log.append(repr(sys.exc_info()[1]))
        await _Wait(1)
        log.append(repr(sys.exc_info()[1]))
        raise KeyError("leaf")

    async def top():
        try:
            raise ValueError("outer")
        except ValueError:
            await leaf()

    return _drive(log, top())


def thrown_error_leaves_async_for(log):
    """The abandoned asynchronous generator is finalised while the coroutine that was thrown into is unwound."""

    async def ticks():
        try:
            yield await _Wait("tick")
        finally:
            log.append("finalised")

    async def top(wait):
        try:
            async for x in ticks():
                log.append(x)
                await wait
        except KeyError:
            log.append("handler")
            return await _Wait("again")

    return [
        _drive(log, top(_Wait("body")), "x", KeyError("thrown")),
        _drive(log, top(_Wait("b")), "y", "z"),
        _drive(log, top(5), "w"),
    ]
