"""Changes, one at a time, each thing that a call of a program can reach, and compares eager with compiled execution.

    case ──> two worlds, made alike: one runs the program eagerly, one compiled
                │ warm: unchanged calls, so that the compiled one has its regions
                ▼
    for each leaf (an argument or a part of one, a default, a cell, a global, a class attribute, ...)
        for each mutation of it: change it in both worlds, call both, compare what they left, put it back
        call both once more, unchanged: a region that was made for the changed call must not answer

A leaf is named by its path (`args[1]['a'].n`), which is the same in both worlds. Arguments are made anew for every
call; what belongs to the world itself (globals, classes, functions) is put back.
"""

import builtins
import collections
import contextlib
import enum
import functools
import io
import random
import signal
import sys
import types
import warnings

import torch
from torch._dynamo.exc import BackendCompilerFailed

import alternator
from alternator.testing import own_attributes
from capture import likeness, mutations
from capture.likeness import FILE, Description

SETTINGS = {"recompile_limit": 64, "accumulated_recompile_limit": 100_000}
BROKEN = ("the tracer failed", "please report")  # what alternator says of bugs of its own
ENDLESS_SECONDS = 2  # of the processor's time, for an eager call


class Unfit(Exception):
    """Nothing can be said of a call; what the program has now is another world."""


class Endless(Unfit):
    """An eager call does not come to an end: a change took away what ends a loop."""


class Refused(Unfit):
    """AOTAutograd, a backend in these tests, raises for a graph: for inputs that share memory, say."""


class Stop(BaseException):
    """Raised in an endless call."""


class Case:
    """A program: text that defines `program` and `make`, which makes a list of its arguments."""

    def __init__(self, name, text):
        self.name, self.text = name, text
        self.code = None

    def __repr__(self):
        return self.name

    def load(self):
        """Return a new namespace in which the text was run."""
        if self.code is None:
            self.code = compile(self.text, FILE, "exec")
        space = {"__name__": "programs"}
        exec(self.code, space)
        return space


def suits(case, backend):
    """Whether a program gives the same with a backend: AOTAutograd counts writes of its own in `_version`."""
    return backend == "eager" or "_version" not in case.text


def is_refusal(outcome, backend):
    return backend != "eager" and outcome[0] == "raised" and isinstance(outcome[1], BackendCompilerFailed)


@contextlib.contextmanager
def time_limit():
    """Stop what does not end, again and again for as long as it catches that; raise Endless behind it."""
    stopped = []

    def stop(number, frame):
        stopped.append(True)
        raise Stop

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, ENDLESS_SECONDS, 0.1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    if stopped:
        raise Endless


class World:
    """One side: a namespace of its own, the program in it, and the arguments of the next call."""

    def __init__(self, case, wrap=None):
        self.space = case.load()
        self.function = self.space["program"]
        if not isinstance(self.function, types.FunctionType):
            raise SyntaxError("`program` is no function")  # when a program is made smaller
        self.program = wrap(self.function) if wrap else self.function
        self.names = reachable_names(self.space, self.function)
        self.args, self.outcome = None, None

    def make_arguments(self):
        torch.default_generator.manual_seed(3)
        self.args = list(self.space["make"]())

    def call(self):
        """Call the program with the arguments that are there; keep the outcome and what was printed."""
        torch.default_generator.manual_seed(7)
        random.seed(7)
        output, sys.stdout = sys.stdout, io.StringIO()
        try:
            self.outcome = ["returned", self.program(*self.args)]
        except BaseException as error:
            self.outcome = ["raised", error]
        finally:
            self.output, sys.stdout = sys.stdout.getvalue(), output
        self.state = [torch.is_grad_enabled(), torch.get_default_dtype(), torch.is_inference_mode_enabled()]
        torch.set_grad_enabled(True)

    def describe(self, exact=True, with_paths=False):
        roots = {
            "outcome": self.outcome,
            "output": self.output,
            "state": self.state,
            "args": self.args,
            **{name: self.space.get(name, NOTHING) for name in self.names},
            "program": self.function,
        }
        if exact:
            roots["random numbers"] = bytes(torch.get_rng_state().numpy())
        return Description(roots, self.space, exact, with_paths)

    def run_backward(self):
        """Go back through whatever of the result asks for it."""
        roots = find_tensors(self.outcome[1]) if self.outcome[0] == "returned" else []
        if not roots:
            return
        try:
            sum(t.sum() for t in roots).backward()
        except Exception as error:  # hooks of the program's own are called, changed ones too
            self.outcome.append(str(error).partition("\n")[0][:60])


NOTHING = "there is nothing"


def find_tensors(value, depth=0):
    """List the tensors of a result that a gradient can go back from."""
    if isinstance(value, torch.Tensor):
        return [value] if value.grad_fn is not None and value.is_floating_point() else []
    if type(value) in (list, tuple) and depth < 3:
        return [t for item in value for t in find_tensors(item, depth + 1)]
    return find_tensors(list(value.values()), depth + 1) if type(value) is dict else []


def reachable_names(space, function):
    """List the global names that the function can come to, with those of the functions and classes that it uses."""
    names, codes, queue = [], set(), [function]
    for value in space.values():
        if isinstance(value, type) and value.__module__ == space["__name__"]:
            queue += [part for part in vars(value).values() if isinstance(part, types.FunctionType)]
    while queue:
        value = queue.pop(0)
        value = getattr(value, "__wrapped__", value)
        code = value if isinstance(value, types.CodeType) else getattr(value, "__code__", None)
        if code is None or code in codes:
            continue
        codes.add(code)
        queue += [const for const in code.co_consts if isinstance(const, types.CodeType)]
        for name in code.co_names:
            if name in space and name not in names:
                names.append(name)
                queue.append(space[name])
    return [n for n in names if not isinstance(space[n], types.ModuleType) or space[n].__name__ not in sys.modules]


class Leaf:
    """Something that can be changed: `put` puts a value in its place, `remove` takes it away, `undo` puts it back."""

    __slots__ = ("path", "put", "remove", "undo", "value")

    def __init__(self, path, value, put, undo=None, remove=None):
        self.path, self.value, self.put, self.remove = path, value, put, remove
        self.undo = undo or functools.partial(put, value)


class Walk:
    """The leaves of a world, by path, in an order that depends on nothing but what the world holds.

    With `wanted`, only what lies on the way to these paths is gone into.
    """

    def __init__(self, world, most=400, wanted=None):
        self.space, self.most, self.wanted = world.space, most, wanted
        self.leaves, self.entered, self.queue = {}, set(), collections.deque()
        for i, arg in enumerate(world.args):
            self.add(f"args[{i}]", arg, functools.partial(world.args.__setitem__, i))
        self.add_function("program", world.function)
        for name in world.names:
            put = functools.partial(self.space.__setitem__, name)
            if name in self.space and self.space[name] is not world.function:
                self.add(name, self.space[name], put, remove=functools.partial(self.space.pop, name, None))
        for name in world.function.__code__.co_names:
            if name not in self.space and callable(getattr(builtins, name, None)):
                hide = functools.partial(self.space.pop, name, None)
                put = functools.partial(self.space.__setitem__, name)
                self.add(f"builtin {name}", getattr(builtins, name), put, undo=hide)
        while self.queue:
            self.enter(self.queue.popleft())

    def add(self, path, value, put, undo=None, remove=None):
        if len(self.leaves) >= self.most or type(value).__module__.partition(".")[0] == "alternator":
            return
        leaf = self.leaves[path] = Leaf(path, value, put, undo, remove)
        if type(value) in PLAIN or self.wanted and not self.wanted.startswith(path):
            return
        if id(value) not in self.entered:
            self.entered.add(id(value))
            self.queue.append(leaf)

    def enter(self, leaf):
        """Add the parts of a value."""
        value, path = leaf.value, leaf.path
        if isinstance(value, list):
            for i, item in enumerate(list.__iter__(value)):
                self.add(f"{path}[{i}]", item, functools.partial(list.__setitem__, value, i))
        elif isinstance(value, dict):
            self.add_dict(path, value)
        elif isinstance(value, tuple) and type(value) is not torch.Size:
            make = getattr(type(value), "_make", type(value))
            for i, item in enumerate(value):
                self.add_rebuilt(leaf, f"[{i}]", item, lambda new, i=i: make([*value[:i], new, *value[i + 1 :]]))
        elif type(value) is slice:
            parts = [value.start, value.stop, value.step]
            for i, name in enumerate(("start", "stop", "step")):
                self.add_rebuilt(leaf, f".{name}", parts[i], lambda new, i=i: slice(*parts[:i], new, *parts[i + 1 :]))
        elif isinstance(value, collections.deque):
            for i, item in enumerate(value):
                self.add(f"{path}[{i}]", item, functools.partial(value.__setitem__, i))
        elif type(value) is functools.partial:
            for i, item in enumerate(value.args):
                self.add_rebuilt(
                    leaf,
                    f".args[{i}]",
                    item,
                    lambda new, i=i: functools.partial(
                        value.func, *value.args[:i], new, *value.args[i + 1 :], **value.keywords
                    ),
                )
            for name, item in value.keywords.items():
                self.add(f"{path}.{name}", item, functools.partial(value.keywords.__setitem__, name))
        elif isinstance(value, types.FunctionType):
            if value.__globals__ is self.space:
                self.add_function(path, value)
        elif isinstance(value, types.MethodType):
            self.add_attributes(f"{path}.__self__", value.__self__)
        elif isinstance(value, type):
            if value.__module__ == self.space["__name__"] and not issubclass(value, enum.Enum):
                self.add_class(path, value)
        elif isinstance(value, types.ModuleType):
            if value.__name__ not in sys.modules:
                for name, item in [*vars(value).items()]:
                    if name[:2] != "__":
                        put = functools.partial(setattr, value, name)
                        self.add(f"{path}.{name}", item, put, remove=functools.partial(delattr, value, name))
        elif not isinstance(value, (enum.Enum, int, float, str, bytes, set, frozenset)):
            self.add_attributes(path, value)
        if isinstance(value, (list, dict, tuple, set, int, str, float)) and type(value).__module__ == "programs":
            self.add_attributes(path, value)

    def add_rebuilt(self, leaf, label, item, rebuild):
        """Add a part of something that cannot be changed: the whole is made anew."""
        self.add(leaf.path + label, item, lambda new: leaf.put(rebuild(new)), undo=leaf.undo)

    def add_dict(self, path, value):
        kind = collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict
        if mutations.walks_by_hash(value):
            return
        for i, (key, item) in enumerate([*kind.items(value)]):
            put = functools.partial(kind.__setitem__, value, key)
            label = f"[{key!r}]" if isinstance(key, (int, str, float)) else f"[key {i}]"
            self.add(path + label, item, put)
            if not isinstance(key, (torch.Tensor, types.FunctionType)) and len(value) < 6:
                self.add(f"{path}<key {i}>", key, functools.partial(replace_key, kind, value, i))

    def add_attributes(self, path, value):
        for name, item in own_attributes(value):
            if name[:2] != "__":
                put = functools.partial(object.__setattr__, value, name)
                if isinstance(value, (torch.Tensor, types.FunctionType)):
                    put = functools.partial(setattr, value, name)
                self.add(f"{path}.{name}", item, put, remove=functools.partial(remove_attribute, value, name))
        for cls in type(value).__mro__ if "__slots__" in vars(type(value)) else ():
            for name, member in vars(cls).items():
                if isinstance(member, types.MemberDescriptorType):
                    with contextlib.suppress(AttributeError):
                        item = member.__get__(value)
                        self.add(f"{path}.{name}", item, functools.partial(member.__set__, value))
        if type(value).__module__ == self.space["__name__"]:
            self.add_class(f"type({path})", type(value))

    def add_function(self, path, value):
        if value.__defaults__:
            parts = value.__defaults__
            for i, item in enumerate(parts):
                put = lambda new, i=i: setattr(value, "__defaults__", (*parts[:i], new, *parts[i + 1 :]))  # noqa: E731
                self.add(f"{path}.__defaults__[{i}]", item, put, undo=lambda: setattr(value, "__defaults__", parts))
        for name, item in (value.__kwdefaults__ or {}).items():
            self.add(f"{path}.{name}=", item, functools.partial(value.__kwdefaults__.__setitem__, name))
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):
                self.add(f"{path}.cell {name}", cell.cell_contents, functools.partial(put_in_cell, cell))
        for name, item in own_attributes(value):
            self.add(f"{path}.{name}", item, functools.partial(setattr, value, name))

    def add_class(self, path, cls):
        if id(cls) in self.entered and not path.startswith("type("):
            return
        self.entered.add(id(cls))
        for owner in cls.__mro__:
            if owner.__module__ != self.space["__name__"]:
                continue
            for name, item in [*vars(owner).items()]:
                own = name[:2] != "__" or name in CHANGEABLE
                if own and not isinstance(item, (types.MemberDescriptorType, types.GetSetDescriptorType)):
                    put = functools.partial(type.__setattr__, owner, name)
                    where = f"{owner.__qualname__}.{name}"
                    if where not in self.leaves and name[:1] != "_" or name in CHANGEABLE:
                        self.add(where, item, put, remove=functools.partial(type.__delattr__, owner, name))


PLAIN = {int, float, str, bytes, bool, complex, type(None), types.BuiltinFunctionType, torch.dtype, range}
CHANGEABLE = {"__eq__", "__hash__", "__len__", "__getitem__", "__getattr__", "__bool__", "__call__", "__contains__"}
CHANGEABLE |= {"__iter__", "__index__", "__format__", "__str__", "__repr__", "__match_args__", "__enter__", "__lt__"}


def put_in_cell(cell, value):
    cell.cell_contents = value


def remove_attribute(value, name):
    (delattr if isinstance(value, (torch.Tensor, types.FunctionType)) else object.__delattr__)(value, name)


def replace_key(kind, mapping, index, key):
    """Let the item at `index` have another key, in the same place."""
    items = [*kind.items(mapping)]
    items[index] = (key, items[index][1])
    kind.clear(mapping)
    kind.update(mapping, items)


DELETED = "deleted"


def list_trials(walk):
    """List all (path, mutation) of a world."""
    trials = []
    alike = collections.defaultdict(list)
    for path, leaf in walk.leaves.items():
        names = [*mutations.list_mutations(leaf.value)]
        if path.startswith("builtin "):
            names = names[-1:]
        trials += [(path, name) for name in names]
        trials += [(path, f"in place: {name}") for name in mutations.change_in_place(leaf.value)]
        if leaf.remove is not None:
            trials.append((path, DELETED))
        if not isinstance(leaf.value, (bool, int, type(None), type, types.ModuleType, types.FunctionType)):
            alike[type(leaf.value)].append(leaf)
    for leaves in alike.values():
        for a, b in zip(leaves, leaves[1:], strict=False):  # also of the same object: then it is no change
            if a.value is not b.value:
                trials.append((b.path, f"alias of {a.path}"))
    return trials


def apply(world, path, name):
    """Make one change; return what undoes it, or None if it cannot be made here."""
    alias = name.startswith("alias of ")
    walk = Walk(world, wanted=None if alias else path)
    leaf = walk.leaves.get(path)
    if leaf is None and not alias:
        walk = Walk(world)  # a part that is reached by way of a class
        leaf = walk.leaves.get(path)
    if leaf is None:
        return None
    if name == DELETED:
        leaf.remove()
    elif alias:
        other = walk.leaves.get(name.removeprefix("alias of "))
        if other is None:
            return None
        leaf.put(other.value)
    elif name.startswith("in place: "):
        change = mutations.change_in_place(leaf.value).get(name.removeprefix("in place: "))
        return change and change()
    else:
        make = mutations.list_mutations(leaf.value).get(name)
        if make is None:
            return None
        leaf.put(make())
    return leaf.undo


class Difference(AssertionError):
    """Eager and compiled execution do not agree."""

    def __init__(self, kind, lines):
        super().__init__(kind + "\n" + "\n".join(lines))
        self.kind, self.lines = kind, lines


class Pair:
    """A program in two worlds."""

    def __init__(self, case, backend="eager", dynamic=None, compile=None, gradients=True):
        self.backend, self.exact = backend, backend == "eager"
        self.gradients = gradients
        compile = compile or functools.partial(alternator.compile, backend=backend, dynamic=dynamic)
        self.eager, self.compiled = World(case), World(case, compile)
        self.worlds = (self.eager, self.compiled)

    def make_arguments(self):
        for world in self.worlds:
            world.make_arguments()

    def change(self, path, name):
        """Make a change in both worlds; return functions that undo it, None if there is no such place."""
        undo = []
        for world in self.worlds:
            try:
                undo.append(apply(world, path, name))
            except (TypeError, AttributeError, ValueError, RuntimeError, KeyError):
                undo.append(None)  # a place that does not take such a value
        return undo if all(undo) else [one for one in undo if one] and put_back(undo)

    def compare(self, what):
        """Call both and compare what they left."""
        with time_limit():
            self.eager.call()
        self.compiled.call()
        if is_refusal(self.compiled.outcome, self.backend):
            raise Refused(str(self.compiled.outcome[1]))
        expected, found = (world.outcome for world in self.worlds)
        if expected[0] != found[0]:
            raise Difference("another end", [f"{what}:", f"eagerly {show(expected)}", f"compiled {show(found)}"])
        if self.gradients:
            for world in self.worlds:
                world.run_backward()
        if not likeness.are_alike(*(world.describe(self.exact) for world in self.worlds)):
            told = [world.describe(self.exact, with_paths=True) for world in self.worlds]
            lines = likeness.differences(*told)
            where = "state" if not lines or not lines[0].startswith(("outcome", "output")) else "outcome"
            raise Difference(f"another {where}", [f"{what}: eager and compiled differ", *lines])

    def call(self):
        """One call as it is."""
        self.make_arguments()
        self.compare("unchanged")

    def try_change(self, path, name):
        """One trial; tell whether it could be made."""
        self.make_arguments()
        undo = self.change(path, name)
        if not undo:
            return False
        try:
            self.compare(f"{path}: {name}")
        finally:
            put_back(undo)
        return True


def put_back(undo):
    for one in undo:
        if one is not None:
            with contextlib.suppress(Exception):
                one()


def show(outcome):
    if outcome[0] == "raised":
        return f"raised {type(outcome[1]).__name__}: {outcome[1]}"[:300]
    return f"returned {outcome[1]!r}"[:300]


class Perturbation:
    """All trials of a case, or a sample of them: `findings` are (path, mutation, kind, lines), `unfit` is left out."""

    def __init__(self, case, sample=None, seed=0, backend="eager", anew=40, most_findings=3, **options):
        self.case, self.trials, self.findings, self.said, self.unfit = case, 0, [], [], []
        self.make_pair = functools.partial(Pair, case, backend=backend, **options)
        self.anew, self.most_findings = anew, most_findings
        self.pair = None
        with heard(self.said), torch._dynamo.config.patch(SETTINGS):
            self.run(sample, random.Random(seed))
        self.findings += [("", "", "alternator failed", [text]) for text in self.said]

    def run(self, sample, choice):
        if not self.start():
            return
        self.pair.make_arguments()
        trials = list_trials(Walk(self.pair.eager))
        if sample is not None and sample < len(trials):
            trials = [trials[i] for i in sorted(choice.sample(range(len(trials)), sample))]
        last = None
        for number, (path, name) in enumerate(trials):
            if number % self.anew == self.anew - 1 and not self.start():
                return
            self.judge(path, name, self.pair.try_change, path, name)
            if path != last:
                self.judge(path, f"after {name}", self.pair.call)
            last = path
            if len(self.findings) >= self.most_findings:
                return

    def start(self):
        """Make both worlds, and the regions for the unchanged call."""
        self.pair = self.make_pair()
        return all(self.judge("", "unchanged", self.pair.call) for _ in range(2))

    def judge(self, path, name, do, *args):
        try:
            self.trials += do(*args) is not False
        except (Difference, Unfit) as what:
            if isinstance(what, Difference):
                self.findings.append((path, name, what.kind, what.lines))
            else:
                self.unfit.append(what)
            self.pair = self.make_pair()
            if path:
                with contextlib.suppress(Difference, Unfit):
                    self.pair.call()
            return False
        return True

    def report(self):
        """Return all findings as text."""
        lines = [self.case.text]
        for path, name, kind, more in self.findings:
            lines += [f"-- {kind}: {path} {name}", *(f"   {line}" for line in more)]
        return "\n".join(lines)


@contextlib.contextmanager
def heard(said):
    """Collect what alternator says of bugs of its own."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    said += [str(w.message) for w in caught if any(text in str(w.message) for text in BROKEN)]
