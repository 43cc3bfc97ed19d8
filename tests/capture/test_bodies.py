"""Functions that torch calls back: torch.autograd.Function and torch.utils.checkpoint are graphs inside the graph."""

import functools

import pytest
import torch
from torch.autograd.function import once_differentiable
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import alternator
from alternator.compiling import find_backend
from capture.agreement import same

pytestmark = pytest.mark.capture

SCALE = 3.0
SEEN = []
LINEAR = torch.nn.Linear(4, 4)
BLOCK = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.ReLU())
NORM = torch.nn.BatchNorm1d(4)


class Plain(torch.autograd.Function):
    """With a gradient that is none of its own: nobody else would come up with it."""

    @staticmethod
    def forward(ctx, x, factor):
        y = x.exp()
        ctx.save_for_backward(x, y)
        ctx.factor = factor
        return y * factor

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        assert ctx.needs_input_grad[0]
        return grad * y * ctx.factor * 2 + x, None


class WithSetup(torch.autograd.Function):
    @staticmethod
    def forward(x, y, factor=2):
        return x * y * factor, x + y

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y, ctx.factor = inputs
        ctx.save_for_backward(x, y, output[1])

    @staticmethod
    @once_differentiable
    def backward(ctx, first, second):
        x, y, total = ctx.saved_tensors
        return first * y * ctx.factor + second, first * x * total, None


class ReadsGlobals(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * LINEAR.weight.sum()

    @staticmethod
    def backward(ctx, grad):
        return grad * SCALE + LINEAR.bias.sum()


class GivesManyThings(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        positive = x > 0
        ctx.mark_non_differentiable(positive)
        return 5, x * 2, None, positive, x

    @staticmethod
    def backward(ctx, number, grad, nothing, _, identity):
        assert number is None and nothing is None
        return grad * 3 + identity


class Counts(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        SEEN.append("forward")
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 5


class WritesInBackward(Counts):
    @staticmethod
    def backward(ctx, grad):
        SEEN.append("backward")
        return grad * 5


class Prints(Counts):
    @staticmethod
    def forward(ctx, x):
        print("forward")
        return x * 2


class TakesNone(Counts):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, first, second):
        return first * 7 if second is None else second


class Mutates(Counts):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)


def block(x):
    return BLOCK(x).tanh()


def plain(x):
    return Plain.apply(x.sin(), 3.0).cos()


def plain_twice(x):
    y = x.sin()
    return Plain.apply(Plain.apply(y, 2), 3.0) + y


def bound_elsewhere(x):
    function = Plain.apply
    return function(x, factor=2.0) * 2


def same_argument_twice(x):
    a, b = WithSetup.apply(x, x)
    return a * b


def with_setup(x):
    a, b = WithSetup.apply(x.sin(), x, factor=4)
    return a.cos() * b


def reads_globals(x):
    return ReadsGlobals.apply(x.sin()) * 2


def gives_many_things(x):
    number, y, nothing, positive, same = GivesManyThings.apply(x.sin())
    assert nothing is None
    return y * number + same * positive


def without_gradient(x):
    return Plain.apply(x.detach(), 3.0) + x


def without_grad_mode(x):
    with torch.no_grad():
        y = Plain.apply(x, 3.0)
    return y + x


def counts(x):
    return Counts.apply(x.sin()) * 2


def checkpointed(x):
    return checkpoint(block, x * 2, use_reentrant=False) * 3


def checkpointed_partly(x):
    def function(a, *, more):
        b = (a @ more).relu()
        return {"b": b, "c": [b.sin(), a]}

    y = x.cos()
    found = checkpoint(function, y, more=LINEAR.weight, use_reentrant=False)
    assert found["c"][1] is y
    return found["b"] + found["c"][0] * found["c"][1]


def nested_checkpoints(x):
    def outer(a):
        return checkpoint(lambda b: LINEAR(b).sin(), a.exp(), use_reentrant=False).cos()

    return checkpoint(outer, x, use_reentrant=False) * 2


def function_in_checkpoint(x):
    return checkpoint(plain, x, use_reentrant=False) * 2


def save_products(ctx, operator, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if operator in PRODUCTS else CheckpointPolicy.PREFER_RECOMPUTE


PRODUCTS = [torch.ops.aten.addmm.default, torch.ops.aten.mm.default]
SELECTIVE = functools.partial(create_selective_checkpoint_contexts, save_products)


def selective_checkpoint(x):
    return checkpoint(block, x * 2, use_reentrant=False, context_fn=SELECTIVE) * 3


def selective_checkpoint_made_inside(x):
    context_fn = functools.partial(create_selective_checkpoint_contexts, PRODUCTS)
    return checkpoint(block, x * 2, use_reentrant=False, context_fn=context_fn) * 3


def checkpoint_without_gradient(x):
    return checkpoint(torch.sin, x.detach(), use_reentrant=False) + x


def branches(x):
    y = x.exp()
    z = torch.cond(x.sum() > 0, lambda a: LINEAR(a).sin(), lambda a: a.cos() * y, (x * 2,))
    return z * 3


def branches_without_operands(x):
    found = torch.cond(x.sum() > 0, lambda: {"a": x.sin(), "b": [x * 2]}, lambda: {"a": x.cos(), "b": [x * y]})
    return found["a"] * found["b"][0]


y = 5.0


def nested_branches(x):
    def outer(a):
        return torch.cond(a.sum() > 1, torch.sin, torch.cos, (a,)) * 2

    return torch.cond(x.sum() > 0, outer, lambda a: a * 3, (x + 1,)) * 2


def branches_of_a_number(x):
    return torch.cond(x.shape[0] == 3, torch.sin, torch.cos, (x,)) + torch.cond(False, torch.sin, torch.cos, (x,))


def branches_without_gradient(x):
    return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x.detach(),)) * x


PROGRAMS = [
    *(branches, branches_without_operands, nested_branches, branches_of_a_number, branches_without_gradient),
    *(plain, plain_twice, bound_elsewhere, same_argument_twice, with_setup, reads_globals, gives_many_things),
    *(without_gradient, without_grad_mode, counts, checkpointed, checkpointed_partly, nested_checkpoints),
    *(function_in_checkpoint, checkpoint_without_gradient, selective_checkpoint, selective_checkpoint_made_inside),
]


def run(function, seed):
    """Run forward and backward; give all that can be seen of it."""
    LINEAR.zero_grad()
    BLOCK.zero_grad()
    NORM.zero_grad()
    NORM.reset_running_stats()
    SEEN.clear()
    torch.manual_seed(seed)
    x = torch.randn(3, 4, requires_grad=True)
    result = function(x)
    result.sum().backward()
    tensors = [
        result.detach(),
        x.grad,
        *(p.grad for p in (*LINEAR.parameters(), *BLOCK.parameters(), *NORM.parameters())),
    ]
    return [None if each is None else each.clone() for each in (*tensors, *NORM.buffers())], list(SEEN)


def check_alike(function, compiled, exact):
    for seed in range(3):
        (expected, seen), (found, seen_there) = run(function, seed), run(compiled, seed)
        assert seen == seen_there
        for ours, eagers in zip(found, expected, strict=True):
            if eagers is None or exact:
                assert (ours is None and eagers is None) or torch.equal(ours, eagers)
            else:
                torch.testing.assert_close(ours, eagers)


def compile_counted(function, backend, **options):
    graphs = []

    def compile(module, examples):
        graphs.append(module)
        return find_backend(backend)(module, examples)

    return alternator.compile(function, backend=compile, **options), graphs


@pytest.fixture(scope="module", autouse=True)
def module_init():
    """Run by itself, torch.cond is compiled by TorchDynamo, which patches Module for good."""
    init = torch.nn.Module.__init__
    yield
    torch.nn.Module.__init__ = init


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_it_is_one_graph_with_eagers_gradients(function, backend):
    compiled, graphs = compile_counted(function, backend, fullgraph=True)
    check_alike(function, compiled, backend == "eager")
    assert len(graphs) == 1
    graphs[0].graph.lint()


def takes_none(x):
    return TakesNone.apply(x)[0] * 2


def checkpoints_reentrantly(x):
    return checkpoint(torch.sin, x * 2, use_reentrant=True) * 3


def prints(x):
    return Prints.apply(x.sin()) * 2


def writes_in_backward(x):
    return WritesInBackward.apply(x.sin()) * 2


def mutates(x):
    return Mutates.apply(x.sin()) * 2


def writes_in_checkpoint(x):
    def function(a):
        SEEN.append("checkpoint")
        return a.sin()

    return checkpoint(function, x * 2, use_reentrant=False) * 3


def changes_tensors_in_checkpoint(x):
    return checkpoint(NORM, x * 2, use_reentrant=False) * 3


def changes_an_argument(x):
    log = []
    y = ChangesArgument.apply(x, log) * 2
    SEEN.append(len(log))
    return y


class ChangesArgument(Counts):
    @staticmethod
    def forward(ctx, x, log):
        ctx.log = log
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        ctx.log.append(1)
        return grad * 5, None


FOR_REAL = [
    *(takes_none, checkpoints_reentrantly, prints, writes_in_backward, mutates, writes_in_checkpoint),
    *(changes_tensors_in_checkpoint, changes_an_argument),
]


@pytest.mark.parametrize(
    "function",
    FOR_REAL,
    ids=lambda function: function.__name__,
)
def test_what_is_no_body_runs_for_real(function):
    compiled, graphs = compile_counted(function, "eager")
    check_alike(function, compiled, True)
    assert len(graphs) >= 1
    with pytest.raises(alternator.Unsupported):
        alternator.compile(function, backend="eager", fullgraph=True)(torch.ones(3, 4, requires_grad=True))


def give_operand(a):
    return a


def give_view(a):
    return a[:1]


def write_to_operand(a):
    return a.mul_(2) + 1


def give_number(a):
    return 3


def give_another_size(a):
    return a.sum()


@pytest.mark.parametrize("branch", [give_operand, give_view, write_to_operand, give_number, give_another_size])
def test_branches_that_cannot_be(branch):
    def function(x):
        return torch.cond(x.sum() > 0, branch, torch.sin, (x,))

    with pytest.raises(alternator.Unsupported, match=r"torch\.cond"):
        alternator.compile(function, backend="eager", fullgraph=True)(torch.ones(3, 4))


def test_what_the_backward_function_reads_is_guarded(monkeypatch):
    compiled, graphs = compile_counted(reads_globals, "aot_eager")
    check_alike(reads_globals, compiled, False)
    monkeypatch.setitem(globals(), "SCALE", 4.0)
    check_alike(reads_globals, compiled, False)
    assert len(graphs) == 2


def test_a_tensor_that_leaves_a_body_by_another_way_is_made_for_real():
    kept = []

    def function(x):
        def inner(a):
            kept.append(a.sin())
            return kept[-1] * 2

        kept.clear()
        y = checkpoint(inner, x, use_reentrant=False)
        return y + kept[0]

    compiled, _ = compile_counted(function, "eager")
    check_alike(function, compiled, True)


calls = []


@torch.library.custom_op("alternator_tests::count_call", mutates_args=())
def count_call(x: torch.Tensor) -> torch.Tensor:
    calls.append(x)
    return x * 2


count_call.register_fake(torch.empty_like)
count_call.register_autograd(lambda ctx, grad: grad * 2)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_checkpoint_computes_again(backend):
    def function(x):
        return checkpoint(lambda a: torch.ops.alternator_tests.count_call(a.sin()).exp().sin(), x, use_reentrant=False)

    compiled, _ = compile_counted(function, backend, fullgraph=True)
    result = compiled(torch.ones(3, requires_grad=True))
    calls.clear()
    result = compiled(torch.ones(3, requires_grad=True))
    assert len(calls) == 1
    result.sum().backward()
    assert len(calls) == 2


def test_the_classes_name_and_stack_traces_are_told():
    compiled, graphs = compile_counted(plain, "eager")
    compiled(torch.ones(3, 4, requires_grad=True))
    (graph,) = graphs
    assert sorted(name for name, _ in graph.named_children()) == ["bwd_body_0", "fwd_body_0"]
    (exp,) = graph.fwd_body_0.graph.find_nodes(op="call_method", target="exp")
    assert "y = x.exp()" in exp.meta["stack_trace"]


# ---- Transforms of torch.func --------------------------------------------------------------------------------------


def loss(parameters, a, b):
    return (torch.func.functional_call(LINEAR, parameters, (a,)) - b).square().mean()


def over_rows(x):
    return torch.vmap(lambda a: (a * x.sum(0)).sin().sum() + SCALE)(x * 2) * 3


def over_other_dimensions(x):
    def function(a, b, factor):
        return {"a": a * b["b"] * factor, "c": (a.sum(),)}

    found = torch.vmap(function, in_dims=(1, {"b": None}, None), out_dims={"a": 1, "c": (0,)})(x, {"b": x[:, 0]}, 2)
    return found["a"] * found["c"][0]


def nested_vmaps(x):
    return torch.vmap(lambda a: torch.vmap(lambda b: (a * b).sum())(x))(x.sin())


def gradient(x):
    return torch.func.grad(lambda a: (a.sin() * x).sum())(x * 2) * x


def gradient_without_grad_mode(x):
    with torch.no_grad():
        y = torch.func.grad(lambda a: a.sin().sum())(x * 2)
    return x * y


def gradients_by_several(x):
    def function(a, k, b):
        return (a * b["b"] * k).sin().sum(), (a * 2, {"k": b["b"]})

    (first, second), (value, (more, others)) = torch.func.grad_and_value(function, (0, -1), has_aux=True)(
        *(x, 3, {"b": x.cos()})
    )
    return first * second["b"] + value + more * others["k"]


def gradients_of_each(x):
    parameters = dict(LINEAR.named_parameters())
    each = torch.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, x, x.cos())
    return each["weight"].sum(0) + each["bias"].sum(0)


def writes_in_gradient(x):
    def function(a):
        SEEN.append("grad")
        return (a * 2).sum()

    return torch.func.grad(function)(x * 2) * x


TRANSFORMED = [
    *(over_rows, over_other_dimensions, nested_vmaps, gradient, gradient_without_grad_mode, gradients_by_several),
    *(gradients_of_each, writes_in_gradient),
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", TRANSFORMED, ids=lambda function: function.__name__)
def test_transforms_are_one_graph(function, backend):
    compiled, graphs = compile_counted(function, backend, fullgraph=True)
    check_alike(function, compiled, backend == "eager")
    assert len(graphs) == 1


def prints_in_vmap(x):
    def function(a):
        print("vmap")
        return a * 2

    return torch.vmap(function)(x * 2) * 3


def changes_the_argument_of_vmap(x):
    y = x * 2
    return torch.vmap(lambda a: a.mul_(2))(y) * y


def draws_in_vmap(x):
    try:
        y = torch.vmap(torch.nn.functional.dropout)(x * 2)
    except RuntimeError:
        y = x
    return y * 3


@pytest.mark.parametrize(
    "function", [prints_in_vmap, changes_the_argument_of_vmap, draws_in_vmap], ids=lambda f: f.__name__
)
def test_transforms_that_run_for_real(function):
    compiled, graphs = compile_counted(function, "eager")
    check_alike(function, compiled, True)
    assert len(graphs) >= 1


# ---- Inputs that are given out -------------------------------------------------------------------------------------


class Gives(torch.autograd.Function):
    """Gives its inputs out, one of which it writes to."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        return x.mul_(2), y, x + y

    @staticmethod
    def backward(ctx, a, b, c):
        return 2 * a + 2 * c, b + c


class GivesInSetup(torch.autograd.Function):
    @staticmethod
    def forward(x, y):
        return x.mul_(2), y, x + y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(inputs[0])

    @staticmethod
    def backward(ctx, a, b, c):
        return 2 * a + 2 * c, b + c


class MarksAnother(torch.autograd.Function):
    """What is written to and not given out: torch refuses it where there is a gradient to compute."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        return y, x.mul_(2) + 1, y + 1

    @staticmethod
    def backward(ctx, a, b, c):
        return b, a + c


WEIGHT = torch.nn.Parameter(torch.ones(2))


class GivesAnother(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return WEIGHT, y, x + y

    @staticmethod
    def backward(ctx, a, b, c):
        return c, b + c


@pytest.mark.parametrize("grad", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("own", [True, False], ids=["made inside", "from outside"])
@pytest.mark.parametrize("function", [Gives, GivesInSetup, MarksAnother, GivesAnother])
def test_what_becomes_of_inputs_that_are_given_out(function, own, enabled, grad):
    def program(x, y):
        with torch.set_grad_enabled(enabled):
            if own:
                x, y = x.clone(), y.clone()
            a, b, c = function.apply(x, y)
            same_objects = a is x, b is y, a is WEIGHT
            return same_objects, a.requires_grad, b.requires_grad, c.requires_grad, a * 2, b * 3, c, x, y

    def run(call):
        WEIGHT.grad, WEIGHT.data = None, torch.ones(2)
        x, y = (torch.full((2,), 3.0, requires_grad=flag) for flag in grad)
        try:
            result = call(x, y)
        except RuntimeError as error:
            result = str(error)
        flag = WEIGHT.requires_grad
        return detach(result), detach((x, y)), flag

    def detach(value):
        return pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, value)

    compiled = alternator.compile(program, backend="eager")
    for _ in range(2):
        WEIGHT.detach_().requires_grad_(True)
        expected = run(program)
        WEIGHT.detach_().requires_grad_(True)
        assert same(run(compiled), expected)
    WEIGHT.detach_().requires_grad_(True)


def test_another_policy_is_another_graph():
    policies = [save_products]

    def run_by_policy(x):
        context_fn = functools.partial(create_selective_checkpoint_contexts, policies[0])
        return checkpoint(LINEAR, x, use_reentrant=False, context_fn=context_fn).sin()

    compiled, graphs = compile_counted(run_by_policy, "aot_eager", fullgraph=True)
    check_alike(run_by_policy, compiled, False)
    assert len(graphs) == 1
    policies[0] = lambda ctx, operator, *args, **kwargs: CheckpointPolicy.PREFER_RECOMPUTE
    check_alike(run_by_policy, compiled, False)
    assert len(graphs) == 2
