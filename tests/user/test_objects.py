"""Compiled functions and modules as objects: copies, pickles, other processes, and what they say of themselves."""

import copy
import inspect
import io
import multiprocessing
import pickle
import subprocess
import sys

import pytest
import torch

import alternator

X = torch.arange(6.0).reshape(2, 3)
COUNTED = []


def count(module, examples):
    COUNTED.append(module)
    return module.forward


def scale(x, n: int = 2, *, shift=0.0):
    """Scale it."""
    return x * n + shift


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.calls = 0

    def forward(self, x, n=1):
        self.calls += 1
        return self.double(self.linear(x)) * n

    def double(self, x):
        return x * 2 + self.linear.bias


compiled_scale = alternator.compile(scale, backend="eager")


@alternator.compile(backend="eager")
def decorated(x):
    return x - 1


class Decorated:
    @alternator.compile(backend="eager")
    def method(self, x):
        return x + 3


@pytest.fixture(params=["by name", "installed"])
def compile(request):
    if request.param == "by name":
        yield alternator.compile
    else:
        with alternator.installed():
            yield torch.compile


def through_pickle(value):
    return pickle.loads(pickle.dumps(value))


def through_old_pickle(value):
    return pickle.loads(pickle.dumps(value, protocol=2))


def through_python_pickle(value):
    return pickle._loads(pickle._dumps(value))


def through_torch(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


WAYS = [copy.copy, copy.deepcopy, through_pickle, through_old_pickle, through_python_pickle, through_torch]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("warm", [False, True])
def test_functions(compile, way, warm):
    compiled = compile(scale, backend="eager", fullgraph=True)
    if warm:
        compiled(X)
    other = way(compiled)
    assert type(other) is type(compiled) and other.__wrapped__ is scale
    assert torch.equal(other(X, 3, shift=1.0), scale(X, 3, shift=1.0))
    assert len(other.regions()) > 0


@pytest.mark.parametrize("way", WAYS)
def test_settings_are_kept(compile, way):
    alternator.reset()  # a function that is compiled twice has its graphs once
    COUNTED.clear()

    def check(compiled):
        with pytest.raises(torch._dynamo.exc.Unsupported):
            compiled(X)

    check(compile(breaks, backend=count, fullgraph=True))
    check(way(compile(breaks, backend=count, fullgraph=True)))
    way(compile(scale, backend=count))(X, 5)
    assert len(COUNTED) == 1


def breaks(x):
    print(end="")
    return x + 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_backends_can_be_pickled(compile, backend):
    assert through_pickle(compile(scale, backend=backend)).__wrapped__ is scale
    net = compile(Net(), backend=backend)
    assert isinstance(through_pickle(net)._orig_mod, Net)


@pytest.mark.parametrize("way", WAYS)
def test_functions_under_their_own_names_are_themselves(way):
    assert way(decorated) is decorated
    assert way(Decorated.method) is Decorated.method
    assert torch.equal(way(Decorated().method)(X), X + 3)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("warm", [False, True])
def test_modules(compile, way, warm):
    net = Net()
    compiled = compile(net, backend="eager")
    if warm:
        compiled(X)
    other = way(compiled)
    assert type(other) is type(compiled) and isinstance(other, torch.nn.Module)
    assert (other._orig_mod is net) == (way is copy.copy)
    assert torch.equal(other(X), compiled(X)) and list(other.state_dict()) == list(compiled.state_dict())
    if way is not copy.copy:
        with torch.no_grad():
            net.linear.weight.zero_()
        assert not torch.equal(other(X), compiled(X))
        assert torch.equal(other(X, n=2), other._orig_mod(X, n=2))
        assert net.calls != other.calls


class Holder(torch.nn.Module):
    """Has compiled functions among its attributes: a plain one, and a method of its own."""

    def __init__(self, compile):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.plain = compile(scale, backend="eager")
        self.own = compile(self.step, backend="eager")

    def step(self, x):
        return self.linear(x) + 1

    def forward(self, x):
        return self.plain(self.own(x))


@pytest.mark.parametrize("way", [copy.deepcopy, through_pickle, through_torch])
def test_attributes(compile, way):
    holder = Holder(compile)
    before = holder(X)
    other = way(holder)
    assert torch.equal(other(X), before)
    with torch.no_grad():
        holder.linear.weight.zero_()
    assert torch.equal(other(X), before), "the copy's method is the copy's own"
    assert not torch.equal(holder(X), before)
    assert other.own.__wrapped__.__self__ is other


@pytest.mark.parametrize("way", [copy.deepcopy, through_pickle, through_torch])
def test_a_module_that_holds_its_compiled_self(way):
    net = Net()
    object.__setattr__(net, "fast", [alternator.compile(net, backend="eager")])
    for start in (net, net.fast[0]):
        other = way(start)
        inner = other.fast[0]._orig_mod
        assert inner is (other if start is net else other._orig_mod)
        assert torch.equal(inner.fast[0](X), net(X))


def test_compiled_in_place(compile):
    net = Net()
    with alternator.installed():
        net.compile(backend="eager")
    expected = net(X)
    for way in (copy.deepcopy, through_pickle, through_torch):
        assert torch.equal(way(net)(X), expected)


def test_what_cannot_be_pickled_is_pythons_error(compile):
    def local(x):
        return x

    for function in (lambda x: x, local):
        with pytest.raises((AttributeError, pickle.PicklingError), match=r"Can't pickle .*(<lambda>|local)"):
            pickle.dumps(compile(function, backend="eager"))
    net = Net()
    net.hook = lambda x: x
    with pytest.raises((AttributeError, pickle.PicklingError), match="<lambda>"):
        pickle.dumps(compile(net, backend="eager"))
    with pytest.raises((AttributeError, pickle.PicklingError), match="<lambda>"):
        pickle.dumps(compile(scale, backend=lambda module, examples: module.forward))


def test_texts(compile):
    compiled = compile(scale, backend="eager")
    assert repr(compiled) == f"<compiled {repr(scale)[1:]}"
    net = Net()
    assert repr(compile(net.double, backend="eager")).startswith("<compiled bound method Net.double of Net(")
    assert "(_orig_mod): Net(" in repr(compile(net, backend="eager"))


def test_signatures(compile):
    compiled = compile(scale, backend="eager")
    assert inspect.signature(compiled) == inspect.signature(scale)
    assert (compiled.__name__, compiled.__doc__, compiled.__module__) == ("scale", "Scale it.", __name__)
    assert inspect.unwrap(compiled) is scale
    net = Net()
    module = compile(net, backend="eager")
    if compile is alternator.compile:
        assert inspect.signature(module) == inspect.signature(module.forward) == inspect.signature(net.forward)
    assert torch.equal(module.forward(X), net(X))


def test_modules_are_torchs():
    """Libraries ask whether a module is compiled, and take it apart."""
    with alternator.installed():
        for compiled in (torch.compile(Net(), backend="eager"), alternator.compile(Net(), backend="eager")):
            assert isinstance(compiled, torch._dynamo.eval_frame.OptimizedModule)
            other = Net()
            expected = other(X)
            compiled(X)
            compiled._orig_mod = other  # as accelerate does
            assert compiled._orig_mod is other and torch.equal(compiled._orig_mod(X), expected)
            assert torch.equal(compiled.dynamo_ctx(scale)(X), scale(X))


def test_containers(compile):
    layers = compile(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU()), backend="eager")
    assert len(layers) == 2 and layers
    assert alternator.compile(Net(), backend="eager")
    assert {"linear", "double", "calls"} <= {*dir(alternator.compile(Net(), backend="eager"))}


# ---- Other processes -----------------------------------------------------------------------------------------------


def test_forked_workers():
    net = Net().requires_grad_(False)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # those of OpenMP do not survive
    try:
        compiled_scale(X)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            parts = list(X)
            for function, expected in ((compiled_scale, scale), (decorated, decorated), (net.double, net.double)):
                assert all(map(torch.equal, pool.map(function, parts), map(expected, parts)))
            module = alternator.compile(net, backend="eager")
            assert all(map(torch.equal, pool.map(module, parts), map(net, parts)))
    finally:
        torch.set_num_threads(threads)


SPAWNING = """
import multiprocessing, sys
import torch, alternator
INSTALLED = sys.argv[1:] == ["installed"]
if INSTALLED:
    alternator.install()
compile = torch.compile if INSTALLED else alternator.compile

@compile(backend="eager")
def decorated(x):
    return x - 1

def scale(x):
    return x * 2

class Net(torch.nn.Module):
    def forward(self, x):
        return x + 5

if __name__ == "__main__":
    torch.set_num_threads(1)
    parts = [1.0, 2.0]
    fast, net = compile(scale, backend="eager"), compile(Net(), backend="eager")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print([pool.map(function, parts) for function in (decorated, fast, net)])
"""


@pytest.mark.parametrize("how", ["installed", "by name"])
def test_spawned_workers(how, tmp_path):
    script = tmp_path / "spawning.py"
    script.write_text(SPAWNING)
    run = subprocess.run([sys.executable, "-P", str(script), how], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout.strip()) == (0, "[[0.0, 1.0], [2.0, 4.0], [6.0, 7.0]]"), run.stderr
