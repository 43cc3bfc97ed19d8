"""Soundness of guards: what a captured function read is changed; the next call must give what eager execution gives."""

import collections
import contextvars
import types

import pytest
import torch

from capture.agreement import Captured, outcome, same

pytestmark = pytest.mark.capture

X = torch.linspace(-2, 2, 12).reshape(3, 4)


class Block(torch.nn.Module):
    scale = 2
    table = {"a": 1}  # noqa: RUF012

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.LayerNorm(4)
        self.drop = torch.nn.Dropout(0.5)
        self.register_buffer("offset", torch.ones(4))
        self.flag = True
        self.sizes = [1, 2]
        self.options = {"gain": 3.0}
        self.helper = Helper()

    def forward(self, x):
        y = self.drop(self.norm(self.linear(x))) + self.offset
        if self.flag:
            y = y * self.scale
        for size in self.sizes:
            y = y + size
        y = y * self.options["gain"] + self.helper.apply(y)
        return y * getattr(self, "extra", 1) + len(self.table)


class Helper:
    factor = 0.5

    def apply(self, y, power=1):
        return y**power * self.factor


class OtherHelper(Helper):
    factor = 4.0


def set_attribute(path, value):
    def change(model):
        target = model
        *owners, name = path.split(".")
        for owner in owners:
            target = getattr(target, owner)
        setattr(target, name, value)

    return change


CHANGES = {
    "flag": set_attribute("flag", False),
    "list item": lambda m: m.sizes.__setitem__(0, 9),
    "list length": lambda m: m.sizes.append(7),
    "list replaced": set_attribute("sizes", [4]),
    "dict item": lambda m: m.options.__setitem__("gain", -1.0),
    "dict replaced": set_attribute("options", {"gain": 8.0}),
    "absent attribute appears": set_attribute("extra", 5),
    "class attribute": lambda m: setattr(Block, "scale", 6),
    "instance shadows class": set_attribute("scale", 10),
    "class-level container": lambda m: Block.table.__setitem__("b", 2),
    "helper replaced": set_attribute("helper", OtherHelper()),
    "helper's class attribute": lambda m: setattr(Helper, "factor", 2.0),
    "helper's instance attribute": set_attribute("helper.factor", 9.0),
    "helper's method replaced": lambda m: setattr(Helper, "apply", lambda self, y: y * 100),
    "helper's default": lambda m: setattr(Helper.apply, "__defaults__", (2,)),
    "helper's code": lambda m: setattr(Helper.apply, "__code__", (lambda self, y, power=1: y - 1).__code__),
    "method on the instance": lambda m: setattr(m.helper, "apply", lambda y: y * 7),
    "submodule replaced": set_attribute("norm", torch.nn.Identity()),
    "parameter replaced": lambda m: setattr(m.linear, "weight", torch.nn.Parameter(torch.eye(4))),
    "parameter changed in place": lambda m: m.linear.weight.data.mul_(2),
    "parameter of another shape": lambda m: setattr(m, "linear", torch.nn.Linear(4, 4, bias=False)),
    "buffer replaced": set_attribute("offset", torch.full((4,), 3.0)),
    "buffer of another dtype": set_attribute("offset", torch.ones(4, dtype=torch.float64)),
    "training": lambda m: m.train(),
    "forward hook": lambda m: m.linear.register_forward_hook(lambda module, args, out: out * 2),
    "forward pre-hook": lambda m: m.register_forward_pre_hook(lambda module, args: (args[0] + 1,)),
    "patched forward": lambda m: setattr(m, "forward", types.MethodType(lambda self, x: x * 3, m)),
    "patched forward of the class": lambda m: setattr(Block, "forward", lambda self, x: x * 5),
    "requires_grad": lambda m: m.requires_grad_(False),
    "frozen parameter": lambda m: m.linear.bias.requires_grad_(False),
    "attribute of another type": set_attribute("scale", 2.5),
    "float for int": set_attribute("sizes", [1.0, 2]),
    "bool for int": set_attribute("sizes", [True, 2]),
    "zero's sign": lambda m: m.options.__setitem__("gain", -0.0),
    "global function": lambda m: m.helper.__class__.__init__,
}


@pytest.fixture
def model():
    saved = {cls: dict(vars(cls)) for cls in (Block, Helper)}
    apply = Helper.apply
    parts = apply.__defaults__, apply.__code__
    table = dict(Block.table)
    yield Block().eval()
    for cls, old in saved.items():
        for name in set(vars(cls)) - set(old):
            delattr(cls, name)
        for name, value in old.items():
            if name not in ("__dict__", "__weakref__") and vars(cls)[name] is not value:
                setattr(cls, name, value)
    apply.__defaults__, apply.__code__ = parts
    Block.table.clear()
    Block.table.update(table)


def agree(compiled, model, x):
    torch.manual_seed(7)
    expected = model(x)
    torch.manual_seed(7)
    found = compiled(x)
    return same(found.detach(), expected.detach()) and found.requires_grad == expected.requires_grad


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_a_change_is_noticed(name, model):
    compiled = Captured(model)
    assert agree(compiled, model, X)
    assert len(compiled.graphs) == 1, compiled.said
    assert agree(compiled, model, X)
    assert len(compiled.graphs) == 1
    CHANGES[name](model)
    assert agree(compiled, model, X), name
    assert agree(compiled, model, X)


INPUTS = {
    "shape": torch.randn(5, 4),
    "dtype": X.double(),
    "strides": torch.randn(4, 3).T,
    "requires_grad": X.clone().requires_grad_(),
    "parameter": torch.nn.Parameter(X.clone()),
    "offset": torch.randn(20)[4:16].view(3, 4),
    "empty": torch.randn(0, 4),
    "a view": torch.randn(3, 8)[:, ::2],
}


@pytest.mark.parametrize("name", sorted(INPUTS))
def test_another_input_is_noticed(name):
    def program(x):
        return x * 2 + x.shape[0], x.dtype, x.stride(), x.requires_grad, x.is_contiguous(), x.storage_offset(), type(x)

    compiled = Captured(program)
    for x in (X, INPUTS[name], X):
        assert same(compiled(x), program(x))


def test_state_of_torch_is_noticed():
    w = torch.ones(4, 4, requires_grad=True)

    def program(x):
        return x @ w, torch.is_grad_enabled(), torch.zeros(2)

    compiled = Captured(program)
    compiled(X)
    with torch.no_grad():
        assert same(compiled(X), program(X))
    with torch.inference_mode():
        assert compiled(X)[0].is_inference() == program(X)[0].is_inference()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert compiled(X)[0].dtype == program(X)[0].dtype == torch.bfloat16
    torch.set_default_dtype(torch.float64)
    try:
        assert compiled(X)[2].dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert same(compiled(X), program(X))


def test_a_view_requires_grad_when_its_base_does():
    class Model(torch.nn.Module):
        def __init__(self, base):
            super().__init__()
            self.register_buffer("view", base.view(4))

        def forward(self, x):
            return x * self.view

    base = torch.ones(2, 2)
    model = Model(base)
    compiled = Captured(model)
    for required in (False, False, True, True, False):
        base.requires_grad_(required)
        assert compiled(X).requires_grad == model(X).requires_grad == required


def test_aliasing_of_arguments_is_noticed():
    class Box:
        def __init__(self, n):
            self.n = n

    def program(x, a, b):
        a.n = a.n + 1
        b.n = b.n + 1
        return x * a.n + b.n, a is b

    compiled = Captured(program)
    for make in (lambda: (Box(1), Box(1)), lambda: (Box(1),) * 2, lambda: (Box(1), Box(1))):
        left, right = make(), make()
        assert same(compiled(X, *left), program(X, *right))
        assert [box.n for box in left] == [box.n for box in right]


def test_the_same_tensor_twice():
    def program(a, b):
        a.add_(1)
        return a * b

    for arguments in (lambda: (X.clone(), X.clone()), lambda: (X.clone(),) * 2):
        compiled = Captured(program)
        assert same(compiled(*arguments()), program(*arguments()))
    compiled = Captured(program)
    for arguments in (lambda: (X.clone(), X.clone()), lambda: (X.clone(),) * 2, lambda: (X.clone(), X.clone())):
        assert same(compiled(*arguments()), program(*arguments()))
    base = torch.randn(4, 4)
    views = lambda b: (b[:2], b[1:3])  # noqa: E731
    assert same(compiled(*views(base.clone())), program(*views(base.clone())))


def test_a_dead_model_is_not_kept_alive():
    import gc
    import weakref

    def program(x, holder):
        return holder["model"](x)

    compiled = Captured(program)
    model = torch.nn.Linear(4, 4)
    with torch.no_grad():
        compiled(X, {"model": model})
    assert len(compiled.graphs) == 1, compiled.said
    compiled.graphs.clear()
    watch = weakref.ref(model)
    del model
    gc.collect()
    assert watch() is None


def test_a_context_variable_is_noticed():
    variable = contextvars.ContextVar("variable", default=2)
    compiled = Captured(lambda x: x * variable.get())
    x = torch.arange(3.0)
    for value, graphs in ((None, 1), (None, 1), (3, 2), (2, 2), (3, 2)):
        token = variable.set(value) if value is not None else None
        assert torch.equal(compiled(x), x * (value or 2))
        assert (len(compiled.graphs), compiled.said) == (graphs, [])
        if token is not None:
            variable.reset(token)


def test_an_item_by_a_tensor_is_noticed():
    first, second = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3))
    state = {first: {"factor": 2}, second: {"factor": 3}}

    def scale(tensors):
        return [tensor * state[tensor]["factor"] for tensor in tensors]

    compiled = Captured(scale)

    def check(tensors, graphs):
        assert same(compiled(tensors), scale(tensors))
        assert len(compiled.graphs) == graphs

    check([first, second], 1)
    check([first, second], 1)
    check([second, first], 2)
    check([first, second], 2)
    state[second]["factor"] = 4
    check([first, second], 2)  # the second graph has symbols for the factors
    state[second] = state[first]
    check([first, second], 2)
    third = torch.nn.Parameter(torch.ones(3))
    state[third] = {"factor": 5}
    check([third, first], 2)
    assert compiled.breaks == []
    del state[third]
    with pytest.raises(KeyError):
        compiled([third, first])


class Dict(dict):
    pass


class Missing(dict):
    def __missing__(self, key):
        return 0


class List(list):
    pass


class Tuple(tuple):
    pass


CONTAINERS = {
    "Dict": (Dict, {1: 2}, {1: 3, 5: 1}, {}),
    "Missing": (Missing, {1: 2}, {1: 3, 9: 4, 5: 1}, {}),
    "Counter": (collections.Counter, {1: 2}, {1: 3, 9: 4, 5: 1}, {}),
    "OrderedDict": (type("Ordered", (collections.OrderedDict,), {}), {1: 2}, {1: 3, 5: 1}, {}),
    "defaultdict": (lambda items: collections.defaultdict(int, items), {1: 2}, {1: 3, 9: 4, 5: 1}, {}),
    "List": (List, [1, 2], [3, 5], []),
    "Tuple": (Tuple, (1, 2), (3, 5), ()),
    "deque": (collections.deque, [1, 2], [3, 5], []),
}
READS = {
    "item": lambda c, x: x * c[1],
    "last": lambda c, x: x * c[-1],
    "missing": lambda c, x: x * c[9],
    "in": lambda c, x: x * (5 in c),
    "length": lambda c, x: x * len(c),
    "iteration": lambda c, x: x * sum(c),
    "get": lambda c, x: x * c.get(1, 7),
    "base": lambda c, x: x * dict.__getitem__(c, 9),
    "truth": lambda c, x: x * (1 if c else 2),
    "equality": lambda c, x: x * (2 if c == type(c)() else 3),
}


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("read", READS)
def test_subclasses_of_containers(name, read):
    make, *contents = CONTAINERS[name]
    captured = Captured(READS[read])
    for content in (*contents, *contents[::-1]):
        found, expected = make(content), make(content)
        assert same(outcome(captured, (found, X))[0], outcome(READS[read], (expected, X))[0])
        assert found == expected


def test_a_dict_whose_getitem_is_code():
    class Doubling(dict):
        def __getitem__(self, key):
            return 2 * super().__getitem__(key)

    def program(d, x):
        return x * d["a"] + d.get("a")

    captured = Captured(program)
    for value in (1, 2, 3):
        assert same(captured(Doubling(a=value), X), program(Doubling(a=value), X))


class Thing:
    """Equal to itself only."""


class Equal:
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


def meets_in_a_set(items, x):
    seen = set()
    for item in items:
        if item not in seen:
            seen.add(item)
    return x * len(seen)


def counts_in_a_dict(items, x):
    counts = {}
    for item in items:
        counts[item] = counts.get(item, 0) + 1
    return x * counts[items[0]]


def removes(items, x):
    rest = list(items)
    rest.remove(items[1])
    return x * (1 if rest[0] is items[0] else 2)


COMPARING = {
    "set": meets_in_a_set,
    "set()": lambda items, x: x * len(set(items)),
    "display": lambda items, x: x * (10 * len({items[0], items[1]}) + len({items[0]: 1, items[1]: 2})),
    "comprehension": lambda items, x: x * (10 * len({item: 1 for item in items}) + len({(item, 1) for item in items})),
    "dict": counts_in_a_dict,
    "in a list": lambda items, x: x * (items[0] in items[1:]),
    "in a dict": lambda items, x: x * (items[0] in {items[1]: 1}),
    "equality": lambda items, x: x * (2 if items[:1] == items[1:] else 3),
    "index": lambda items, x: x * (items.index(items[1]) + 1),
    "count": lambda items, x: x * items.count(items[0]),
    "remove": removes,
    "union": lambda items, x: x * (10 * len({items[0]} | {items[1]}) + len({items[0]: 1} | {items[1]: 2})),
}


KINDS = {"thing": Thing, "module": lambda: torch.nn.Linear(2, 2), "tensor": lambda: torch.ones(2)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", COMPARING)
def test_which_objects_are_the_same(name, kind):
    if kind == "tensor" and name in ("in a list", "equality", "index", "count", "remove"):
        return  # compared by value
    program = COMPARING[name]
    captured = Captured(program)
    a, b = KINDS[kind](), KINDS[kind]()
    for items in ([a, b], [a, a], [b, a], [Equal(), Equal()], [b, b]):
        assert same(captured(items, X), program(items, X))


def test_parameters_that_are_shared():
    def program(model, x):
        return sum(x.sum() * p.sum() for p in model.parameters())

    captured = Captured(program, fullgraph=True)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    with torch.no_grad():
        assert same(captured(model, X), program(model, X))
        model[1].weight = model[0].weight
        assert same(captured(model, X), program(model, X))


def test_the_address_of_an_object_is_no_constant():
    def program(items, x):
        return x + 1, {hash(item) for item in items} == {hash(items[0])}

    captured = Captured(program)
    for items in ([Thing(), Thing()], [Thing()], [Thing(), Thing()]):
        assert same(captured(items, X), program(items, X))


class Slotted:
    __slots__ = ("value",)


class Plain:
    pass


def make_writers():
    """Return functions that overwrite something without having read it, each with a setter and a getter for it."""
    plain, slotted, space = Plain(), Slotted(), types.SimpleNamespace()
    content = None

    def to_cell(x, value):
        nonlocal content
        content = value
        return x + 1

    def to_attribute(x, value):
        plain.value = value
        return x + 1

    def to_slot(x, value):
        slotted.value = value
        return x + 1

    def twice(x, value):
        space.value = 5
        space.value = value
        return x + 1

    cell = to_cell.__closure__[0]
    return {
        to_cell: (lambda v: setattr(cell, "cell_contents", v), lambda: cell.cell_contents),
        to_attribute: (lambda v: setattr(plain, "value", v), lambda: plain.value),
        to_slot: (lambda v: setattr(slotted, "value", v), lambda: slotted.value),
        twice: (lambda v: setattr(space, "value", v), lambda: space.value),
    }


@pytest.mark.parametrize("number", range(len(make_writers())))
def test_what_is_overwritten_is_not_guarded(number):
    """Whatever was there: the same region serves, and what it writes is there afterwards, also if it was so before."""
    write, (put, get) = list(make_writers().items())[number]
    captured = Captured(write)
    for before in (True, 3, "text", None, 2.5, X, 7):
        put(before)
        captured(X, 7)
        assert get() == 7
    assert len(captured.graphs) == 1


def test_what_was_absent_is_noticed():
    def write(x, thing):
        thing.b = 1
        return x + 1

    captured = Captured(write)
    for names in ("ab", "a", "ba", ""):
        things = [types.SimpleNamespace(**dict.fromkeys(names, 0)) for _ in range(2)]
        captured(X, things[0])
        write(X, things[1])
        assert list(vars(things[0]).items()) == list(vars(things[1]).items())
    assert len(captured.graphs) == 2


def test_objects_that_are_found_from_an_argument():
    """`self` in the tuple of *args: what is read from it is compared as fast as if it were an argument itself."""

    def scale(*args):
        thing, x = args
        return x * thing.n + sum(thing.table.values()) + len(thing.names) + thing.inner.k

    def make(n):
        thing = Plain()
        thing.n, thing.table, thing.names = n, dict.fromkeys("abcdefgh", 1), ["p", "q"]
        thing.inner = types.SimpleNamespace(k=3)
        return thing

    captured = Captured(scale)
    first, second = make(2), make(2)
    for _ in range(5):
        assert torch.equal(captured(first, X), scale(first, X))
    (counts,) = captured.fn.counts()
    assert counts["walked"] < 10 < counts["guards"] - counts["walked"]
    for number in range(12):
        thing = (first, second)[number % 2]
        assert torch.equal(captured(thing, X), scale(thing, X))
    for _ in range(5):
        assert torch.equal(captured(make(2), X), scale(first, X))  # one that dies
    assert len(captured.graphs) == 1
    for change in (lambda t: setattr(t, "n", 5), lambda t: t.table.pop("a"), lambda t: setattr(t.inner, "k", 0)):
        for thing in (first, second):
            change(thing)
            for _ in range(3):
                assert torch.equal(captured(thing, X), scale(thing, X))
    first.__class__ = type("Other", (Plain,), {"n": property(lambda self: 9)})
    assert torch.equal(captured(first, X), scale(first, X))


def test_reset_and_count():
    import alternator

    def program(x):
        return x + 1

    before = alternator.frames_translated()
    compiled = Captured(program)
    compiled(X)
    compiled(X)
    assert alternator.frames_translated() == before + 1
    alternator.reset()
    compiled(X)
    assert alternator.frames_translated() == before + 2
