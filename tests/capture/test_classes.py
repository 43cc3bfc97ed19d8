"""Classes that are defined in a compiled function: part of the trace, unless they leave it."""

import _thread
import abc
import collections
import dataclasses
import enum
import functools
import itertools
import threading
import typing
from dataclasses import dataclass, field

import pytest
import torch
from torch import nn

from capture.agreement import Captured, check_calls

pytestmark = pytest.mark.capture

X = torch.ones(2)
SCALE = 3


class Base:
    factor = 2

    def run(self, x):
        return x * self.factor


def plain(x, n):
    class Adder:
        step: int = 2

        def __init__(self, n):
            self.n = n

        def __call__(self, x):
            return x + self.n * self.step * SCALE

    return Adder(n)(x)


def derived(x, n):
    class Derived(Base):
        own = n

        def run(self, x):
            return super().run(x) + self.own + __class__.own

        @property
        def double(self):
            return self.own * 2

        @staticmethod
        def shift(x):
            return x - 1

    thing = Derived()
    Derived.added = 4
    assert isinstance(thing, Base) and issubclass(Derived, Base)
    return Derived.shift(thing.run(x)) + thing.double + thing.added


def with_items(x, n):
    class Table:
        def __init__(self):
            self.values = {}

        def __setitem__(self, key, value):
            self.values[key] = value

        def __getitem__(self, key):
            return self.values[key]

        def __delitem__(self, key):
            del self.values[key]

    table = Table()
    table["a"], table["b"] = x * n, 1
    del table["b"]
    return table["a"], len(table.values)


def nested(x, n):
    class Outer:
        class Inner:
            value = n

        def get(self):
            return self.Inner.value + self.Inner().value

    return x + Outer().get()


def module(x, n):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = n

        def forward(self, x):
            return x * self.scale

    return Model()(x)


def raises(x, n):
    class Problem(Exception):
        def __init__(self, value):
            super().__init__("no", value)
            self.value = value

    try:
        raise Problem(n)
    except Problem as problem:
        return x + problem.value


PROGRAMS = [plain, derived, with_items, nested, module, raises]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_class_inside_is_part_of_the_graph(program):
    captured = check_calls(program, [(X, 2), (X, 2)], graphs=1)
    assert captured.breaks == []
    check_calls(program, [(X, 2), (X, 3), (X, 2.5), (X, 2)])


def test_what_the_class_takes_from_outside_is_guarded(monkeypatch):
    captured = Captured(derived)
    assert torch.equal(captured(X, 1), derived(X, 1))
    monkeypatch.setattr(Base, "factor", 5)
    assert torch.equal(captured(X, 1), derived(X, 1))
    monkeypatch.setattr(Base, "run", lambda self, x: x - 7)
    assert torch.equal(captured(X, 1), derived(X, 1))
    captured = Captured(plain)
    assert torch.equal(captured(X, 1), plain(X, 1))
    monkeypatch.setitem(globals(), "SCALE", 4)
    assert torch.equal(captured(X, 1), plain(X, 1))
    assert len(captured.graphs) == 2


# ---- Classes that code of the standard library makes, or completes --------------------------------------------------


@dataclass
class Outside:
    a: int = 1
    b: float = 2.0


class Meta(type):
    extra = 5

    def __new__(cls, name, bases, space, **options):
        space["extra"] = cls.extra + options.get("more", 0)
        return super().__new__(cls, name, bases, space)

    def __init__(cls, name, bases, space, **options):
        super().__init__(name, bases, space)
        cls.length = len(name)


class Hooked:
    step = 1

    def __init_subclass__(cls, /, scale=1, **options):
        super().__init_subclass__(**options)
        cls.scale = scale * Hooked.step


class Doubled:
    factor = 2

    def __set_name__(self, owner, name):
        self.name = "_" + name
        owner.told = name

    def __get__(self, instance, cls):
        return self if instance is None else getattr(instance, self.name) * self.factor

    def __set__(self, instance, value):
        setattr(instance, self.name, value)


def data(x, n):
    @dataclass
    class Pair:
        a: int
        b: float = SCALE

        def run(self, x):
            return x * self.a + self.b

    return Pair(n).run(x) + (Pair(n) == Pair(2)) + len(repr(Pair(n)))


def data_frozen(x, n):
    @dataclass(frozen=True)
    class Pair:
        a: int
        b: int = SCALE

    pair = Pair(n)
    try:
        pair.a = 3
    except dataclasses.FrozenInstanceError as error:
        return x * pair.a + pair.b + len(str(error))
    return x


def data_ordered(x, n):
    @dataclass(order=True, unsafe_hash=True)
    class Pair:
        a: int
        b: int = 1

    table = {Pair(n): 2}
    return x * table[Pair(n)] + 1 if Pair(n) < Pair(SCALE) else x - 1


def data_with_slots(x, n):
    @dataclass(slots=True)
    class Pair:
        a: int
        b: int = 1

    pair = Pair(n)
    return x * pair.a + pair.b + hasattr(pair, "__dict__")


def data_factories(x, n):
    @dataclass
    class Pair:
        a: int
        b: list = field(default_factory=list)
        c: dict = field(default_factory=lambda: {"k": n + SCALE})

    pair, other = Pair(n), Pair(n)
    pair.b.append(x)
    return pair.b[0] * pair.c["k"] + len(other.b)


def data_keywords(x, n):
    @dataclass(kw_only=True)
    class Pair:
        a: int
        b: int = SCALE

    return x * Pair(a=n).a + Pair(b=n, a=1).b


def data_derived(x, n):
    @dataclass
    class Derived(Outside):
        c: int = 5

    @dataclass
    class Other(Derived):
        d: int = n

    other = Other(n)
    return x * other.a + other.b + other.c + other.d + len(dataclasses.fields(other))


def data_completed(x, n):
    @dataclass
    class Pair:
        a: int
        b: int = field(init=False)

        def __post_init__(self):
            self.b = self.a * SCALE

    pair = dataclasses.replace(Pair(n), a=n + 1)
    return x * pair.b + dataclasses.asdict(pair)["a"] + len(dataclasses.astuple(pair))


def data_of_tensors(x, n):
    @dataclass
    class State:
        value: torch.Tensor
        steps: int = 2

    state = State(x + n)
    state.value = torch.relu(state.value)
    return state.value * state.steps


def named_tuple(x, n):
    class Pair(typing.NamedTuple):
        a: int
        b: float = SCALE

        def run(self, x):
            return x * self.a

    return Pair(n).run(x) + Pair(n).b


def named_tuple_by_call(x, n):
    pair = collections.namedtuple("Pair", "a b", defaults=[SCALE])(n)._replace(a=n + 1)
    a, b = pair
    return x * pair.a + b + len(pair) + pair._asdict()["b"]


def enumeration(x, n):
    class Kind(enum.Enum):
        A = 1
        B = SCALE

    return x + 1 if Kind(1 if n == 2 else SCALE) is Kind.A else x * Kind.B.value + len(Kind)


def enumeration_of_numbers(x, n):
    class Kind(enum.IntEnum):
        A = enum.auto()
        B = enum.auto()

    return x * Kind["B"] + n + sum(Kind)


def made_by_metaclass(x, n):
    class Made(metaclass=Meta, more=n):
        value = n

    return x * Made.value + Made.extra + Made.length


def tells_its_base_how(x, n):
    class Made(Hooked, scale=n):
        pass

    return x * Made.scale


def with_descriptor(x, n):
    class Made:
        value = Doubled()

        def __init__(self, n):
            self.value = n

    return x * Made(n).value + len(Made.told)


def made_by_call(x, n):
    made = type("Made", (Base,), {"value": n, "get": lambda self: self.value * self.factor})
    return x * made().get() + len(made.__name__)


def abstract(x, n):
    class Shape(abc.ABC):
        @abc.abstractmethod
        def run(self): ...

    class Square(Shape):
        def run(self):
            return n

    try:
        Shape()
    except TypeError:
        return x * Square().run()
    return x


def with_cached_property(x, n):
    class Made:
        @functools.cached_property
        def value(self):
            return n * SCALE

    made = Made()
    return x * made.value + made.value


def typed_dict(x, n):
    class Table(typing.TypedDict):
        a: int

    return x * Table(a=n)["a"]


def executed(x, n):
    space = {}
    exec("def run(x, n):\n  global kept\n  kept = n\n  return x * n + len('ab')", space)
    local = {}
    exec("value = SCALE + 1", data.__globals__, local)
    return space["run"](x, n) + space["kept"] + local["value"] + eval("lambda a: a + b", {"b": n})(1)


MADE_BY_LIBRARY = [
    *(data, data_frozen, data_ordered, data_with_slots, data_factories, data_keywords, data_derived, data_completed),
    *(data_of_tensors, named_tuple, named_tuple_by_call, enumeration, enumeration_of_numbers, made_by_metaclass),
    *(tells_its_base_how, with_descriptor, made_by_call, abstract, with_cached_property, typed_dict, executed),
]


@pytest.mark.parametrize("program", MADE_BY_LIBRARY)
def test_a_class_that_a_library_completes_is_part_of_the_graph(program, monkeypatch):
    captured = check_calls(program, [(X, 2)] * 4, graphs=1)
    assert captured.breaks == []
    check_calls(program, [(X, 2), (X, 3), (X, 2.5), (X, 2), (X, True)])
    captured = Captured(program)
    check_same_result(captured, program, 2)
    monkeypatch.setitem(globals(), "SCALE", 7)
    check_same_result(captured, program, 2)
    captured = Captured(program, fullgraph=True)
    check_same_result(captured, program, 2)


def check_same_result(captured, program, n):
    assert torch.equal(captured(X, n), program(X, n))


CHANGES = [
    (data_derived, Outside, "a", 7),
    (data_derived, Outside.__dataclass_fields__["b"], "default", 7.5),
    (data_derived, Outside.__dataclass_fields__["a"], "kw_only", True),
    (made_by_metaclass, Meta, "extra", 8),
    (made_by_metaclass, Meta, "__init__", lambda cls, name, bases, space, **options: setattr(cls, "length", 9)),
    (made_by_metaclass, Meta, "__prepare__", classmethod(lambda cls, name, bases, **options: {"length": 1})),
    (tells_its_base_how, Hooked, "step", 6),
    (tells_its_base_how, Hooked, "__init_subclass__", classmethod(lambda cls, scale: setattr(cls, "scale", 9))),
    (with_descriptor, Doubled, "factor", 6),
    (with_descriptor, Doubled, "__get__", lambda self, instance, cls: 9),
    (with_descriptor, Doubled, "__set_name__", lambda self, owner, name: setattr(owner, "told", "other")),
    (made_by_call, Base, "factor", 6),
    (data, dataclasses, "_FIELDS", "__other_fields__"),
]


@pytest.mark.parametrize(("program", "owner", "name", "value"), CHANGES)
def test_what_making_the_class_reads_is_guarded(program, owner, name, value, monkeypatch):
    captured = Captured(program)
    check_same_result(captured, program, 2)
    monkeypatch.setattr(owner, name, value)
    try:
        expected = program(X, 2)
    except Exception as error:
        with pytest.raises(type(error)):
            captured(X, 2)
    else:
        assert torch.equal(captured(X, 2), expected)
    monkeypatch.undo()
    check_same_result(captured, program, 2)


def test_an_abstract_method_that_is_one_no_more(monkeypatch):
    def run(self):
        return 3

    run.__isabstractmethod__ = True

    def program(x):
        class Made(abc.ABC):
            method = run

        try:
            return x * Made().method()
        except TypeError:
            return x - 1

    captured = Captured(program)
    assert torch.equal(captured(X), program(X))
    run.__isabstractmethod__ = False
    assert torch.equal(captured(X), program(X)) and torch.equal(program(X), X * 3)


def test_addresses_of_what_the_trace_made_are_no_constants():
    def program(x):
        class Made:
            pass

        seen = {id(Made): 2}
        return x * seen[id(Made)], id(Made) == id(Base), hash(Made) == hash(Made)

    check_calls(program, [(X,), (X,), (X,)])

    def gives_out(x):
        class Made:
            pass

        return x + 1, id(Made), hash(Made), Made

    captured = Captured(gives_out)
    for _ in range(3):
        _, address, number, made = captured(X)
        assert address == id(made) and number == hash(made)


def test_a_class_whose_definition_raises_an_exception():
    def fails(n):
        class Made(Base):
            value = 1 // n

        return Made

    def program(x, n):
        try:
            made = fails(n)
        except ZeroDivisionError:
            made = Base
        return x * made.factor

    captured = check_calls(program, [(X, 0), (X, 0), (X, 1), (X, 0)])
    assert len(captured.graphs) == 2


def test_the_text_of_a_data_class_in_several_threads():
    captured = Captured(data)
    check_same_result(captured, data, 2)
    results = []
    thread = threading.Thread(target=lambda: results.append(captured(X, 2)))
    thread.start()
    thread.join()
    assert torch.equal(results[0], data(X, 2)) and len(captured.graphs) == 1
    check_calls(lambda x: x + _thread.get_ident() * 0, [(X,), (X,)])


def test_texts_that_run_where_others_see_it():
    def writes_globals(x, n):
        exec("WRITTEN = " + str(n), globals())
        return x * WRITTEN  # noqa: F821

    def reads_its_frame(x, n):
        return x * eval("n + SCALE", globals(), {"n": n}) + eval("n")

    def is_no_text(x, n):
        try:
            exec("def (", {})
        except SyntaxError:
            return x * n
        return x

    for program in (writes_globals, reads_its_frame, is_no_text):
        check_calls(program, [(X, 2), (X, 2), (X, 3), (X, 2)])


def test_iterators_of_iterators_are_chained_one_by_one():
    def program(x, n):
        seen = []

        def count(limit):
            seen.append(limit)
            return iter(range(limit))

        total = 0
        for item in itertools.chain.from_iterable(map(count, [1, n, 3])):
            total += item + len(seen)
        return x * total

    captured = check_calls(program, [(X, 2), (X, 2), (X, 4)])
    assert captured.breaks == []


BOUND = functools.partial(torch.add, alpha=2)


def test_a_partial_function_of_another_one(monkeypatch):
    def program(x, n):
        return functools.partial(functools.partial(BOUND, x), n)()

    captured = check_calls(program, [(X, 2), (X, 2)], graphs=1)
    assert captured.breaks == []
    captured = Captured(program)
    for other in (BOUND, functools.partial(torch.add, alpha=3), functools.partial(torch.mul), torch.sub, BOUND):
        monkeypatch.setitem(globals(), "BOUND", other)
        check_same_result(captured, program, 2)
    BOUND.keywords["alpha"] = 5
    check_same_result(captured, program, 2)
    BOUND.keywords["alpha"] = 2


# ---- Classes that leave, or that are made for real -------------------------------------------------------------------


class Counted:
    made = []

    def __init_subclass__(cls):
        Counted.made.append(cls.__name__)


class CallingMeta(type):
    def __call__(cls, *args):
        return [super().__call__(*args)]


def gives_out_the_class(x):
    y = x + 1

    class Kept:
        value = 3

    return y * Kept.value, Kept


def gives_out_an_object(x):
    y = x + 1

    class Kept:
        def __init__(self, y):
            self.y = y

    return y * 2, Kept(y)


def has_a_metaclass(x):
    class Made(metaclass=CallingMeta):
        pass

    return x + len(Made())


def tells_its_base(x):
    class Made(Counted):
        pass

    return x + len(Made.__name__)


def breaks_inside(x):
    y = x + 1

    class Made:
        torch._dynamo.graph_break()
        value = 2

    torch._dynamo.graph_break()
    return y * Made.value


def breaks_behind(x):
    class Made:
        value = 2

        def get(self, x):
            torch._dynamo.graph_break()
            return x * self.value

    return Made().get(x + 1) + 1


def test_classes_that_leave_are_made_for_real():
    captured = Captured(gives_out_the_class)
    (one, first), (other, second) = captured(X), captured(X)
    assert torch.equal(one, other) and torch.equal(one, X * 6)
    assert first is not second and first.value == 3 and first.__qualname__.endswith("Kept")
    captured = Captured(gives_out_an_object)
    (one, first), (other, second) = captured(X), captured(X)
    assert type(first) is not type(second) and torch.equal(first.y, X + 1)
    for program in (has_a_metaclass, breaks_inside, breaks_behind):
        check_calls(program, [(X,), (X,), (X,)])
    captured = Captured(tells_its_base)
    for _ in range(2):
        assert torch.equal(captured(X), X + 4)
    assert Counted.made == ["Made", "Made"]


KEPT = None


def gives_out_a_data_class(x, n):
    y = x + n

    @dataclass
    class Pair:
        a: int

    return y * 2, Pair(n)


def keeps_the_class(x, n):
    global KEPT
    y = x + n

    class Kept:
        value = n

    KEPT = Kept
    return y * Kept.value


def keeps_what_is_told(x, n):
    class Made(Counted):
        pass

    Counted.last = Made
    return x + n


@pytest.mark.parametrize("program", [gives_out_a_data_class, keeps_the_class, keeps_what_is_told])
def test_classes_that_leave_cost_no_graph_a_call(program):
    captured = Captured(program)
    made, counts = [], []
    for n in (2, 2, 2, 2, 3):
        found, expected = captured(X, n), program(X, n)
        if program is gives_out_a_data_class:
            assert dataclasses.asdict(found[1]) == dataclasses.asdict(expected[1]) == {"a": n}
            assert repr(found[1]) == repr(expected[1])
            made.append(type(found[1]))
            found, expected = found[0], expected[0]
        assert torch.equal(found, expected)
        counts.append(len(captured.graphs))
    assert counts[:4] == counts[:1] * 4
    assert len(set(map(id, made))) == len(made)


@pytest.mark.parametrize("kind", ["function", "C base", "outside property"])
def test_classes_whose_making_is_not_seen_are_made_for_real(kind):
    def by_function(x, n):
        class Made(metaclass=lambda *made_of: type(*made_of)):
            value = n

        return x * Made.value

    def of_c_base(x, n):
        class Made(list[int]):
            value = n

        return x * Made.value

    def with_shared_property(x, n):
        class Made:
            value = vars(Shared)["value"]

        return x * Made().value + n

    programs = {"function": by_function, "C base": of_c_base, "outside property": with_shared_property}
    check_calls(programs[kind], [(X, 2)] * 3 + [(X, 3)])


class Shared:
    @property
    def value(self):
        return SCALE
