"""Programs that change what existed before, a concept each: `program(x, w)`, where `w` is a World.

They are run afresh again and again (tests/capture/loading.py): what a module holds belongs to the run.
"""

import collections
import contextlib
import dataclasses
import functools
import random

import torch

counter = 0
table = {"a": 1, "b": [1, 2]}
names = ["one", "two"]
registry = {}


class Point:
    __slots__ = ("extra", "x", "y")

    def __init__(self, x, y):
        self.x = x
        self.y = y


@dataclasses.dataclass
class Record:
    name: str
    values: list = dataclasses.field(default_factory=list)
    best: object = None


class Account:
    total = 10
    members = []

    def __init__(self):
        self.balance = 5
        self.history = [1]

    @property
    def doubled(self):
        return self.balance * 2

    @doubled.setter
    def doubled(self, value):
        self.balance = value // 2

    def pay(self, amount):
        self.balance -= amount
        self.history.append(amount)
        return self


class Watched:
    """Every attribute goes through Python code."""

    def __init__(self):
        object.__setattr__(self, "seen", [])
        object.__setattr__(self, "data", {"n": 1})

    def __getattr__(self, name):
        self.seen.append(name)
        return self.data[name]

    def __setattr__(self, name, value):
        self.data[name] = value


class Manager:
    def __init__(self, log, swallow=()):
        self.log = log
        self.swallow = swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, error, trace):
        self.log.append(kind and kind.__name__)
        return kind is not None and issubclass(kind, self.swallow)


class Missing(dict):
    def __missing__(self, key):
        self[key] = len(self)
        return self[key]


class World:
    def __init__(self):
        torch.manual_seed(3)
        self.n = 1
        self.list = [3, 1, 2]
        self.dict = {"a": 1, "b": 2, 3: "c"}
        self.set = {1, 2, 3}
        self.deque = collections.deque([1, 2, 3], maxlen=4)
        self.ordered = collections.OrderedDict(a=1, b=2, c=3)
        self.default = collections.defaultdict(list, a=[1])
        self.missing = Missing(a=1)
        self.count = collections.Counter("aab")
        self.bytes = bytearray(b"abc")
        self.point = Point(1, 2)
        self.record = Record("r")
        self.account = Account()
        self.watched = Watched()
        self.nested = {"list": [[1], [2]], "shared": self.list}
        self.log = []
        self.tensor = torch.arange(6.0)
        self.view = self.tensor[2:4]
        self.weight = torch.nn.Parameter(torch.ones(6))
        self.weight.grad = torch.full((6,), 0.5)
        self.norm = torch.nn.BatchNorm1d(6)
        self.dropout = torch.nn.Dropout(0.5)
        self.linear = torch.nn.Linear(6, 6)
        self.iterator = iter(self.list)
        self.items = iter(self.dict.items())
        self.enumerate = enumerate("abcd")
        self.zip = zip([1, 2, 3], "xyz")
        self.map = map(str, [1, 2, 3])
        self.generator = (n * 2 for n in [1, 2, 3])
        self.random = random.Random(5)
        self.generator_of_torch = torch.Generator().manual_seed(5)
        self.add, self.read = make_counter()
        self.partial = functools.partial(self.account.pay, 2)


def make_counter():
    n = 0
    calls = []

    def add(by):
        nonlocal n
        n += by
        calls.append(by)
        return n

    def read():
        return n

    return add, read


def make_arguments():
    return torch.arange(12.0).reshape(2, 6), World()


# ---- Attributes ----------------------------------------------------------------------------------------------------


def sets_attributes(x, w):
    w.n = w.n + 1
    w.fresh = x * w.n
    w.account.balance += 3
    w.account.doubled = 14
    w.record.best = x.sum()
    w.account.pay(2).pay(1)
    return x + w.account.balance


def deletes_attributes(x, w):
    del w.n
    w.account.spare = 1
    del w.account.balance
    w.n = 4
    return x + w.n


def sets_slots(x, w):
    w.point.x = w.point.y
    w.point.extra = x + 1
    del w.point.y
    return w.point.extra


def sets_class_attributes(x, w):
    Account.total += 1
    Account.members.append(w.n)
    w.account.total = 3
    return x * Account.total


def sets_through_python(x, w):
    w.watched.n = w.watched.n + 1
    w.watched.m = x * 2
    return w.watched.m


def sets_through_dict(x, w):
    w.account.__dict__["balance"] = 7
    vars(w)["later"] = x
    w.account.__dict__ = {"balance": 1, "history": []}
    return x + w.account.balance


def changes_class(x, w):
    class Other(Account):
        def pay(self, amount):
            return self

    w.account.__class__ = Other
    w.account.pay(3)
    return x + 1


# ---- Containers ----------------------------------------------------------------------------------------------------


def changes_lists(x, w):
    w.list.append(4)
    w.list[0] = x
    w.list.extend([5, 6])
    del w.list[1]
    w.list.insert(1, "new")
    w.list.pop()
    w.list += [9]
    w.list[1:2] = [7, 8]
    w.nested["list"][0].append(w.list)
    w.list.reverse()
    return x + len(w.list)


def sorts(x, w):
    w.list.sort(key=lambda n: -n)
    ordered = sorted(w.dict.items(), key=lambda item: str(item[0]))
    w.log.append(ordered)
    return x * w.list[0]


def changes_dicts(x, w):
    w.dict["a"] = x
    w.dict["new"] = 4
    w.dict.pop("b")
    w.dict["b"] = 5
    w.dict.setdefault("deep", {})["er"] = 1
    w.dict.update({3: "d", "last": 0})
    w.dict[4] = w.dict
    del w.dict["new"]
    w.dict.popitem()
    return x + len(w.dict)


def clears(x, w):
    w.dict.clear()
    w.list.clear()
    w.set.clear()
    w.deque.clear()
    w.ordered.clear()
    return x


def changes_sets(x, w):
    w.set.add(4)
    w.set.discard(1)
    w.set |= {7, 8}
    w.set.remove(2)
    w.set.update([9])
    return x + len(w.set)


def changes_deques(x, w):
    w.deque.append(4)
    w.deque.append(x)
    w.deque.popleft()
    w.deque.rotate(1)
    w.deque.appendleft(0)
    w.deque[1] = "one"
    return x + len(w.deque)


def changes_ordered(x, w):
    w.ordered["d"] = x
    w.ordered.move_to_end("a")
    w.ordered.pop("b")
    w.ordered.popitem(last=False)
    return x + len(w.ordered)


def misses_keys(x, w):
    w.default["b"].append(1)
    w.default["a"].append(x)
    n = w.missing["zz"] + w.missing["a"]
    w.count["a"] += 1
    w.count["c"] += 2
    return x + n


def changes_bytes(x, w):
    w.bytes.append(100)
    w.bytes[0] = 1
    return x + len(w.bytes)


# ---- Variables -----------------------------------------------------------------------------------------------------


def changes_globals(x, w):
    global counter, made
    counter += 1
    made = x * counter
    table["a"] = counter
    table["b"].append(counter)
    names.append("three")
    registry[w.n] = made
    return made


def deletes_globals(x, w):
    global counter, table
    del counter
    table = {}
    counter = 5
    return x + counter


def changes_cells(x, w):
    n = w.add(2)
    n += w.add(3)
    total = 0

    def inner(by):
        nonlocal total
        total += by

    inner(n)
    w.keep = inner
    return x + total + w.read()


def calls_partials(x, w):
    w.partial()
    w.partial = functools.partial(w.partial, **{})
    return x + w.account.balance


# ---- Control -------------------------------------------------------------------------------------------------------


def raises_and_catches(x, w):
    try:
        w.n = 2
        w.log.append("before")
        raise ValueError("one")
    except ValueError as error:
        w.log.append(str(error))
        w.error = error
        try:
            {}[1]
        except KeyError:
            w.n += 1
        finally:
            w.log.append("finally")
    return x * w.n


def raises(x, w):
    w.n = 7
    w.log.append(1)
    try:
        x = x + 1
        raise LookupError("out")
    finally:
        w.log.append("finally")


def uses_managers(x, w):
    with Manager(w.log) as manager:
        w.n += 1
        with Manager(w.log, (ValueError,)):
            w.manager = manager
            raise ValueError
        x = x + 1
    with contextlib.suppress(KeyError):
        w.dict["absent"]
    return x + len(w.log)


@contextlib.contextmanager
def managed(w):
    w.log.append("in")
    try:
        yield w.n
    finally:
        w.log.append("out")


def uses_generator_managers(x, w):
    with managed(w) as n:
        w.n = n + 1
        x = x + n
    return x


def numbers(w):
    for n in range(3):
        w.log.append(n)
        got = yield n
        w.n += got or 0


def uses_generators(x, w):
    for n in numbers(w):
        x = x + n
    generator = numbers(w)
    next(generator)
    generator.send(5)
    w.running = generator
    return x + sum(n for n in numbers(w))


def advances_iterators(x, w):
    a = next(w.iterator)
    b = next(w.items)
    c, d = next(w.enumerate)
    next(w.zip), next(w.map), next(w.generator)
    for n in w.iterator:
        x = x + n
    return x + a + c


def recurses(x, w, depth=4):
    w.log.append(depth)
    return recurses(x + depth, w, depth - 1) if depth else x


def uses_comprehensions(x, w):
    w.squares = [n * n for n in w.list]
    w.by_name = {str(n): x + n for n in w.set}
    w.least = min(w.list, key=lambda n: -n), max(w.dict, key=str)
    return sum(w.by_name.values())


# ---- Torch ---------------------------------------------------------------------------------------------------------


def writes_tensors(x, w):
    x.add_(1)
    w.tensor.mul_(2)
    w.view[0] = 9
    w.tensor[1:3] = 0
    x[0] += 1
    w.copy = w.view
    return x + w.tensor


def normalises(x, w):
    y = w.norm(x)
    return w.norm(y)


def draws(x, w):
    x = x + torch.rand(6)
    x = w.dropout(x)
    return x + torch.randn_like(x)


def draws_elsewhere(x, w):
    n = random.random()
    m = w.random.random()
    y = torch.rand(6, generator=w.generator_of_torch)
    torch.manual_seed(7)
    return x + n + m + y


def switches_grad_mode(x, w):
    with torch.no_grad():
        y = w.linear(x)
        with torch.enable_grad():
            y = y + w.linear(x)
        w.n += 1
    torch.set_grad_enabled(False)
    y = y + w.linear(x)
    torch.set_grad_enabled(True)
    return y


def casts(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        w.log.append("in")
        y = w.linear(x)
    return y.float()


def infers(x, w):
    with torch.inference_mode():
        w.log.append("in")
        y = w.linear(x)
        w.n += int(y.sum() > 0)
        z = y * 2
    return z.clone(), torch.is_inference_mode_enabled()


def sets_tensor_attributes(x, w):
    w.weight.grad = None
    w.weight.tag = "tagged"
    w.tensor.requires_grad_(True)
    w.tensor.data = torch.zeros(6)
    x.grad = torch.ones_like(x)
    return x + w.weight


def runs_backward(x, w):
    loss = (x * w.weight).sum()
    loss.backward()
    w.weight.grad.zero_()
    return loss.detach()


def changes_modules(x, w):
    w.linear.register_buffer("scale", torch.ones(6))
    w.norm.eval()
    w.linear.weight = torch.nn.Parameter(torch.zeros(6, 6))
    w.norm.training = True
    return w.norm(w.linear(x) * w.linear.scale)


def sets_defaults(x, w):
    torch.set_default_dtype(torch.float64)
    y = torch.ones(6)
    torch.set_default_dtype(torch.float32)
    return x + y


def makes_cycles(x, w):
    w.me = w
    w.list.append(w.list)
    w.pair = (w, x)
    return x


def catches_everything(x, w):
    for _ in range(2):
        try:
            w.n += 1
            x = x + w.n
        except BaseException as error:
            w.caught = error
            w.n = 100
        finally:
            w.m = 1
    return x * w.n
