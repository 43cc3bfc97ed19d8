"""What generated programs start from (grammar.py): state of every kind, and functions and classes that touch it.

`program(x, y, n, w, v, items, more)` is what is compiled. `make_arguments(plan)` makes its arguments: a plan is a tuple
of small numbers that also says which of the arguments are the same object or share memory.
"""

import collections
import contextlib
import dataclasses
import functools

import torch

calls = [0]
seen = {}
log = []
total = 0
registry = {"box": None, "count": 0}


class Stop(Exception):
    pass


class Worse(Stop, ValueError):
    def __init__(self, code, *rest):
        super().__init__(code, *rest)
        self.code = code


class Point:
    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __eq__(self, other):
        return isinstance(other, Point) and (self.x, self.y) == (other.x, other.y)

    def __hash__(self):
        return hash((self.x, self.y))

    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y)


@dataclasses.dataclass
class Record:
    name: str = "r"
    values: list = dataclasses.field(default_factory=list)
    best: object = None


@dataclasses.dataclass(frozen=True, order=True)
class Key:
    a: int
    b: str = "b"


Pair = collections.namedtuple("Pair", "first second")


class Missing(dict):
    def __missing__(self, key):
        self[key] = len(self)
        return self[key]


class Row(list):
    """A list with something of its own."""

    def append(self, item):
        super().append(item)
        self.last = item


class Base:
    kind = "base"
    shared = [1]

    def count(self):
        return len(self.list)

    def describe(self):
        return f"{self.kind}:{self.n}"


class Box(Base):
    kind = "box"
    made = 0

    def __init__(self, n, grad=False):
        self.n = n
        self.name = f"box{n}"
        self.t = torch.full((2, 3), float(n))
        self.param = torch.nn.Parameter(torch.ones(2, 3) * n) if grad else torch.ones(2, 3)
        self.list = [2, n, 1]
        self.table = {"a": n, "t": torch.ones(2, 3) * n, 3: "three"}
        self.set = {1, n + 5}
        self.deque = collections.deque([1, n, 3], maxlen=4)
        self.ordered = collections.OrderedDict(a=1, b=n)
        self.default = collections.defaultdict(list, a=[n])
        self.missing = Missing(a=1)
        self.counter = collections.Counter("aab")
        self.row = Row([n])
        self.point = Point(n, 2)
        self.record = Record(values=[n])
        self.pair = Pair(n, self.list)
        self.linear = torch.nn.Linear(3, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.iterator = iter([5, 6, 7])
        self.add, self.read = make_counter(n)

    def scaled(self, t, by=2):
        return t * by + self.n

    def describe(self):
        return super().describe() + "!"

    @property
    def double(self):
        return self.n * 2

    @double.setter
    def double(self, value):
        self.n = value // 2

    @classmethod
    def make(cls, n):
        cls.made += 1
        return cls(n)

    @staticmethod
    def twice(n):
        return n * 2

    def __len__(self):
        return len(self.list)

    def __getitem__(self, index):
        return self.list[index]

    def __contains__(self, item):
        return item in self.set

    def __call__(self, t):
        self.n += 1
        return t + self.n


class Manager:
    def __init__(self, log, *swallow):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("in")
        return 3

    def __exit__(self, kind, error, trace):
        self.log.append(kind and kind.__name__)
        return kind is not None and issubclass(kind, self.swallow)


@contextlib.contextmanager
def managed(log):
    log.append("enter")
    try:
        yield len(log)
    finally:
        log.append("exit")


def make_counter(n):
    def add(by):
        nonlocal n
        n += by
        return n

    def read():
        return n

    return add, read


def helper(t, n):
    if n > 2:
        return t
    return t + helper(t, n + 2) if n >= 0 else -t


def bump():
    global total
    total += 1
    return total


def note(*what):
    log.append(what)
    return len(log)


def parts(*tensors):
    for number, tensor in enumerate(tensors):
        yield tensor * number


def echo(start):
    got = start
    while got < 9:
        got = (yield got) or got + 3


def collect(*args, scale=1, **named):
    return sum(args) * scale + len(named)


def keep_last(t, kept=[]):
    kept.append(len(kept))
    return t + len(kept)


def logged(fn):
    @functools.wraps(fn)
    def wrapper(*args):
        log.append(fn.__name__)
        return fn(*args)

    return wrapper


@logged
def halve(t):
    return t / 2


def make_arguments(plan):
    """plan: seed, n, shape, what y is, what v is, what `more` is, gradients."""
    seed, n, rows, y_is, v_is, more_is, grad = plan
    torch.default_generator.manual_seed(seed)
    x = torch.randn(2 if rows < 3 else 3, 3).requires_grad_(grad == 1)
    if grad == 2:
        x = x.requires_grad_(True) * 2
    y = [lambda: torch.randn_like(x), lambda: x, lambda: x.detach(), lambda: x.detach().t().contiguous().t()][
        y_is % 4
    ]()
    w = Box(n, grad > 0)
    v = [lambda: Box(n + 1), lambda: w][v_is % 2]()
    items = [n, 1, 4]
    more = [lambda: [3], lambda: items, lambda: w.list, lambda: [w.list, items]][more_is % 4]()
    if x.shape[0] == 3:  # so that it broadcasts with what is in the boxes
        x = x[:1]
    return x, y if y.shape[0] == 2 else y[:1], n, w, v, items, more
