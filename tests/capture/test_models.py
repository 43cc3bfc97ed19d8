"""Models captured whole: one graph, TorchDynamo's operations, eager's values, gradients over training steps."""

import copy
import warnings

import pytest
import torch

import alternator
from alternator.compiling import find_backend
from capture.agreement import capture_with_torchdynamo, same
from capture.models import MODELS, make_model

pytestmark = [pytest.mark.capture, pytest.mark.no_asan]  # large models: hours


def small_net():
    return torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 4)
    )


def small_conv():
    return torch.nn.Sequential(
        *(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.MaxPool2d(2)),
        torch.nn.Flatten(),
    )


NETS = {"net": (small_net, (6, 8)), "conv": (small_conv, (2, 3, 8, 8))}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", sorted(NETS))
def test_training_steps(name, backend):
    make, shape = NETS[name]
    torch.manual_seed(0)
    eager = make()
    model = copy.deepcopy(eager)
    compiled = alternator.compile(model, backend=backend)
    optimizers = [torch.optim.SGD(m.parameters(), 0.1, momentum=0.9) for m in (eager, model)]
    before = alternator.frames_translated()
    for step in range(5):
        x = torch.randn(shape)
        losses = []
        for call, optimizer in zip((eager, compiled), optimizers, strict=True):
            torch.manual_seed(step)
            loss = call(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            losses.append(loss)
        if backend == "eager":
            assert torch.equal(*losses)
        tolerance = {"rtol": 0, "atol": 0} if backend == "eager" else {}
        if "Dropout" not in str(eager) or backend == "eager":  # other backends draw other random numbers
            for a, b in zip(eager.parameters(), model.parameters(), strict=True):
                torch.testing.assert_close(a.grad, b.grad, **tolerance)
            for a, b in zip(eager.buffers(), model.buffers(), strict=True):
                torch.testing.assert_close(a, b, **tolerance)
        for optimizer in optimizers:
            optimizer.step()
    assert alternator.frames_translated() == before + 1
    eager.eval(), compiled.eval()
    assert torch.allclose(eager(x), compiled(x), atol=1e-5) or "Dropout" in str(eager)


def test_a_compiled_module_is_the_module():
    model = small_net()
    compiled = alternator.compile(model, backend="eager")
    # As torch.compile's module has it.
    assert list(compiled.state_dict()) == [f"_orig_mod.{name}" for name in model.state_dict()]
    compiled.eval()
    assert not model.training
    assert compiled.training is False
    assert list(compiled.parameters())[0] is next(model.parameters())
    compiled.extra = 3
    assert model.extra == 3
    del compiled.extra
    assert not hasattr(model, "extra")


@torch._dynamo.config.patch(recompile_limit=50)
def test_what_happens_to_a_module_after_it_was_compiled():
    """Each change, made to the module or to the compiled one, has its effect, and so has taking it back."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 2))
    compiled = alternator.compile(model, backend="eager")
    x, log = torch.randn(3, 4), []

    def check():
        results = []
        for call in (model, compiled, compiled):
            torch.manual_seed(1)
            results.append((call(x), log[:]))
            log.clear()
        assert same(results[1:], results[:1] * 2)
        return results[0]

    def hook(module, args, output=None):
        log.append(type(module).__name__)
        return (args[0] + 1,) if output is None else output * 3

    plain = check()
    for owner in (model, compiled, model[0], model[2]):
        for register in (owner.register_forward_hook, owner.register_forward_pre_hook):
            handle = register(hook)
            assert not same(check(), plain)
            handle.remove()
            assert same(check(), plain)
    model.forward = lambda x: x * 2
    assert torch.equal(check()[0], x * 2)
    del model.forward
    model[0].forward = lambda x: x * 2
    assert not same(check(), plain)
    del model[0].forward
    assert same(check(), plain)
    compiled.eval()
    assert not same(check(), plain)
    compiled.train()
    state = {name: value.clone() for name, value in compiled.state_dict().items()}
    compiled.load_state_dict({name: value + 1 for name, value in state.items()})
    assert not same(check(), plain)
    compiled.load_state_dict(state)
    model[1] = torch.nn.Identity()
    assert not same(check(), plain)
    model[1] = torch.nn.Dropout(0.5)
    assert same(check(), plain)


# ---- Models of the package transformers ------------------------------------------------------------------------


class Answered:
    """A model compiled with a backend, and how often its graph answered: once at a call."""

    def __init__(self, model, backend):
        self.backend = find_backend(backend)
        self.graphs = []
        self.runs = 0
        self.model = alternator.compile(model, backend=self.compile)

    def compile(self, module, examples):
        run = self.backend(module, examples)
        self.graphs.append(module)

        def count(*inputs):
            self.runs += 1
            return run(*inputs)

        return count

    def __call__(self, **inputs):
        before = self.runs
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = self.model(**inputs)
        said = [str(w.message) for w in caught if "alternator" in str(w.message)]
        assert said == []
        assert self.runs == before + 1
        return result


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_model_is_one_graph_as_torchdynamos(name, training):
    model, inputs = make_model(name, 12)
    model.train(training)
    compiled = Answered(model, "eager")
    with torch.set_grad_enabled(training):
        for seed in range(2):
            torch.manual_seed(seed)
            before = copy.deepcopy(model.state_dict())
            expected = model(**inputs)
            model.load_state_dict(before)  # batch norm's statistics
            torch.manual_seed(seed)
            found = compiled(**inputs)
            assert type(found) is type(expected)
            assert same(dict(found), dict(expected))
    (graph,) = compiled.graphs
    graph.graph.lint()
    with torch.set_grad_enabled(training):
        (theirs,) = capture_with_torchdynamo(model, (), inputs)
    assert list_operations(graph) == list_operations(theirs)
    assert {node.target for node in graph.graph.find_nodes(op="placeholder")} == {
        node.target for node in theirs.graph.find_nodes(op="placeholder")
    }


# Nodes that compute nothing: TorchDynamo keeps the counting of API uses.
SILENT = {"_log_api_usage_once"}


def list_operations(module):
    names = [
        getattr(node.target, "__name__", node.target) for node in module.graph.nodes if node.op.startswith("call_")
    ]
    return [name for name in names if name not in SILENT]


TOLERANCE = {"eager": {"rtol": 0, "atol": 0}, "aot_eager": {"rtol": 1e-4, "atol": 1e-5}}
TOLERANCE["inductor"] = {"rtol": 1e-3, "atol": 1e-5}
SINGLE = {"llama", "t5", "mixtral"}  # parts of them compute in float32 anyway
PRECISE = {"rtol": 1e-7, "atol": 1e-9}
SIZES = pytest.mark.parametrize("layers", [2, pytest.param(12, marks=[pytest.mark.full, pytest.mark.timeout(1800)])])


@pytest.fixture(scope="module")
def inductor_is_ready():
    """Inductor changes torch when it is used for the first time: what a trace read before is then read again."""
    alternator.compile(lambda x: x + 1, backend="inductor")(torch.ones(2))


@SIZES
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_backends_give_eagers_values(name, backend, layers, inductor_is_ready):
    model, inputs = make_model(name, layers)
    model.eval()
    compiled = Answered(model, backend)
    with torch.no_grad():
        for _ in range(2):
            check_close(compiled(**inputs), model(**inputs), TOLERANCE[backend])
    assert len(compiled.graphs) == 1


def check_close(found, expected, tolerance):
    assert type(found) is type(expected)
    assert list(found) == list(expected)
    for key, value in expected.items():
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(found[key], value, **tolerance)


def list_trainings():
    for name in sorted(MODELS):
        for backend in TOLERANCE:
            slow = backend == "inductor" and name != "bert"
            yield pytest.param(name, backend, marks=[pytest.mark.full] if slow else [])


@SIZES
@pytest.mark.parametrize("name, backend", list(list_trainings()))
def test_training_steps_give_eagers_gradients(name, backend, layers, inductor_is_ready):
    eager, inputs = make_model(name, layers)
    eager.train()
    precise = backend != "eager" and name not in SINGLE
    if precise:  # in float32, what batch norm makes of the rounding is larger than the gradients
        eager.double()
        inputs = {key: value.double() if key == "pixel_values" else value for key, value in inputs.items()}
    model = copy.deepcopy(eager)
    compiled = Answered(model, backend)
    optimizers = [torch.optim.SGD(m.parameters(), 0.01) for m in (eager, model)]
    tolerance = PRECISE if precise else TOLERANCE[backend]
    for step in range(5):
        results = []
        for call, optimizer in zip((eager, compiled), optimizers, strict=True):
            torch.manual_seed(step)  # of dropout
            optimizer.zero_grad()
            with torch._inductor.config.patch(fallback_random=True):  # eager's random numbers
                results.append(call(**inputs))
            results[-1][0].square().mean().backward()
        check_close(*reversed(results), tolerance)
        for a, b in zip(eager.parameters(), model.parameters(), strict=True):
            # A graph that is differentiated as a whole has zeros where nothing depends on a parameter.
            expected = torch.zeros_like(a) if a.grad is None and backend != "eager" else a.grad
            torch.testing.assert_close(b.grad, expected, **tolerance)
        for optimizer in optimizers:
            optimizer.step()
    for a, b in zip(eager.buffers(), model.buffers(), strict=True):
        torch.testing.assert_close(b, a, **tolerance)
    assert len(compiled.graphs) == 1
