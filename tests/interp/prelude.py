"""What generated programs are made with: this file's text is the head of each of them, so their engine runs it too.

Everything that happens is noted in the log. Loops ask `few` or `spend` for leave, out of one supply of fuel for the
whole run, so that each program ends soon however its loops and calls are nested.
"""

import contextlib

LOG = []
FUEL = 0
total = 1
items = [3, 4]


def begin(log):
    global LOG, FUEL
    LOG, FUEL = log, 40


def note(*values):
    LOG.append(values)


def few(n):
    global FUEL
    n = min(n, FUEL)
    FUEL -= n
    return range(n)


def spend():
    global FUEL
    FUEL -= 1
    return FUEL > 0


class Stop(Exception):
    pass


class Worse(Stop, ValueError):
    pass


class Manager:
    def __init__(self, name, mood=0):
        self.name, self.mood = name, mood

    def __enter__(self):
        note("enter", self.name)
        if self.mood == 3:
            raise Stop("enter")
        return len(self.name)

    def __exit__(self, kind, error, traceback):
        note("exit", self.name, kind and kind.__name__)
        if self.mood == 2:
            raise Worse("exit")
        return self.mood == 1

    async def __aenter__(self):
        return await Wait(self.__enter__())

    async def __aexit__(self, *failure):
        return self.__exit__(*failure) and await Wait(1)


@contextlib.contextmanager
def managed(name):
    note("begin", name)
    try:
        yield len(name)
    except Worse as error:
        note("managed", error.args)
    finally:
        note("end", name)


class Point:
    __match_args__ = ("x", "y")
    __slots__ = ("x", "y")

    def __init__(self, x, y=0):
        self.x, self.y = x, y

    def __repr__(self):
        return f"Point({self.x!r}, {self.y!r})"

    def __eq__(self, other):
        note("eq", self.x)
        return isinstance(other, Point) and (self.x, self.y) == (other.x, other.y)

    def __add__(self, other):
        return Point(self.x + other, self.y) if isinstance(other, int) else NotImplemented

    def __iadd__(self, other):
        note("iadd", other)
        self.x += other
        return self


class Base:
    shared = 5

    def __init__(self, x):
        note("init", x)
        self.x = x

    def __repr__(self):
        return f"{type(self).__name__}({self.__dict__.get('x')!r})"

    def bump(self, by=1, *more):
        self.x += by + len(more)
        return self.x

    @property
    def twice(self):
        return self.x * 2

    def __getattr__(self, name):
        note("getattr", name)
        if name.startswith("no"):
            raise AttributeError(name)
        return len(name)

    def __del__(self):
        note("del", self.__dict__.get("x"))


class Steps:
    """An iterator; asynchronous as well."""

    def __init__(self, n):
        self.left = len(few(n))

    def __iter__(self):
        return self

    def __next__(self):
        if self.left <= 0:
            raise StopIteration(self.left)
        self.left -= 1
        return self.left

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self.left <= 0:
            raise StopAsyncIteration
        self.left -= 1
        return await Wait(self.left)


class Wait:
    def __init__(self, value):
        self.value = value

    def __await__(self):
        return (yield self.value) or self.value


async def ticks(n):
    try:
        for i in few(n):
            note("tick", (yield await Wait(i)))
    finally:
        note("ticked")


def drive(coroutine):
    """Run a coroutine to its end, answering each wait with its number; every third one with an exception."""
    answer, waits = None, 0
    while True:
        try:
            waited = coroutine.throw(Stop(waits)) if waits % 3 == 2 else coroutine.send(answer)
        except StopIteration as stop:
            return stop.value
        note("waits", waited)
        waits += 1
        answer = waits
