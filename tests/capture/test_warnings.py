"""Warnings of torch: as often as eager execution gives them, at every call, whatever the filters say."""

import os
import subprocess
import sys
import warnings

import pytest
import torch
import torch.nn.functional as F

import alternator
from capture.agreement import same

pytestmark = pytest.mark.capture
X = torch.ones(2, 2)


def in_python(x):
    return F.mse_loss(x, x[0])


def of_a_dimension(x):
    return F.softmax(x) + 1


def in_a_kernel(x):
    return x[:1].std(0)


def of_a_result(x):
    out = torch.empty(1)
    torch.add(x, x, out=out)
    return out


def in_a_loop(x):
    for _ in range(3):
        x = x + F.mse_loss(x, x[0])
    return x


def in_a_module(x):
    return torch.nn.Softmax()(x)


def of_old_arguments(x):
    return F.hinge_embedding_loss(x, x, reduce=True)


def around_a_break(x):
    y = F.mse_loss(x, x[0])
    print(end="")
    return y + F.mse_loss(x, x[0])


def of_the_program(x):
    warnings.warn("mine", stacklevel=1)
    return x + 1


def switched_off(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return F.mse_loss(x, x[0])


PROGRAMS = [
    *(in_python, of_a_dimension, in_a_kernel, of_a_result, in_a_loop, in_a_module, of_old_arguments),
    *(around_a_break, of_the_program, switched_off),
]


def collect(function, x, action):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter(action)
        result = function(x)
    return result, sorted((each.category.__name__, str(each.message)) for each in found)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("function", PROGRAMS)
def test_each_comes_as_often_as_in_eager_execution(function, dynamic):
    compiled = alternator.compile(function, backend="eager", dynamic=dynamic)
    for size in (2, 2, 3, 4):
        x = torch.ones(size, 2)
        assert same(collect(compiled, x, "always"), collect(function, x, "always"))


@pytest.mark.parametrize("function", PROGRAMS)
def test_warnings_that_are_errors(function):
    def outcome(call):
        try:
            return collect(call, X, "error")
        except Warning as error:
            return type(error), str(error)

    compiled = alternator.compile(function, backend="eager")
    for _ in range(3):
        assert same(outcome(compiled), outcome(function))


def test_what_the_module_knows_of_places_stays():
    """A trace makes no place warn again that has warned."""

    def warn():
        with warnings.catch_warnings(record=True) as found:
            exec(code, space)
        return len(found)

    space = {"__name__": "somewhere", "warnings": warnings}
    code = compile("warnings.warn('once for this place')", "somewhere", "exec")
    filters = list(warnings.filters)
    warnings.simplefilter("default")
    try:
        exec("import warnings", space)
        with pytest.warns(UserWarning, match="once for this place"):
            exec(code, space)
        before = warnings.filters, list(warnings.filters), dict(space.get("__warningregistry__", {}))
        alternator.compile(in_python, backend="eager")(X)
        assert warnings.filters is before[0]
        assert list(warnings.filters) == before[1]
        assert dict(space.get("__warningregistry__", {})) == before[2]
    finally:
        warnings.filters[:] = filters
        warnings._filters_mutated()


def test_what_torch_warns_of_once_is_not_used_up(tmp_path):
    program = """if True:
        import warnings, torch, alternator
        compiled = alternator.compile(lambda x: x.T + 1, backend="eager")
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            for _ in range(3):
                compiled(torch.ones(2, 2, 1))
        print([str(each.message)[:15] for each in found], torch.is_warn_always_enabled())
    """
    environment = os.environ | {"PYTHONPATH": os.path.dirname(os.path.dirname(alternator.__file__))}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=tmp_path)
    assert done.stdout.strip() == "['The use of `x.T'] False"
