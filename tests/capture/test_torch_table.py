"""The table of torch's functions: torch dispatches every one of them, so that the tracer sees its calls."""

import inspect
import warnings

import pytest
import torch

from alternator.contracts import find_torch_functions
from capture.agreement import check_calls

pytestmark = pytest.mark.capture

X = torch.linspace(-1, 1, 16).reshape(4, 4)
I = torch.tensor([2, 0, 1])
B = X > 0


class Arrived(BaseException):
    """Torch sent a call to the function mode."""


class Catch(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise Arrived


def guess_argument(kind):
    known = {
        "tensorlist": [X, X],
        "tensor": X,
        "intarrayref": [1],
        "int": 1,
        "scalartype": torch.float32,
        "dimname": "",
    }
    known |= {"scalar": 0.5, "double": 0.5, "float": 0.5, "bool": False, "string": "x", "layout": torch.strided}
    return next((value for name, value in known.items() if name in kind.lower()), None)


def guess_calls(function):
    """Guess arguments that a function takes: torch parses them before it dispatches."""
    from torch.testing._internal.generated.annotated_fn_args import annotated_args

    positional = [row for row in annotated_args.get(function, ()) if str(row.get("is_kwarg_only")) != "True"]
    given = [guess_argument(row["simple_type"]) for row in positional]
    yield from ([*given], [X, *given])
    dummy = torch.overrides.get_testing_overrides().get(function)
    if dummy is not None:
        required = [p for p in inspect.signature(dummy).parameters.values() if p.default is p.empty and p.kind < 2]
        yield [X] * len(required)
    yield from ([X], [X, X], [X, 1], [X, X, X], [X, 1, 1], [[X, X]], [1], [], [X, [1]], [X, torch.float32], [[1]])
    yield from ([X, "x"], [X, 1, X], [X, X, 1], [X, None], [True], [torch.int, torch.float], [X, (I,), X[0]])


def list_particular_calls():
    sets, adam = {"weight_decay": 0.0, "maximize": False}, {"beta1": 0.9, "beta2": 0.9, "eps": 1e-3, "amsgrad": False}
    q = torch.qint8
    yield from [
        (torch.nonzero_static, (X,), {"size": 2}),
        (torch.Tensor.nonzero_static, (X,), {"size": 2}),
        (torch.quantize_per_channel, (X, X[0], I, 0, q), {}),
        (torch.quantize_per_tensor, (X, 1.0, 0, q), {}),
        (torch.quantize_per_tensor_dynamic, (X, q, False), {}),
        (torch.Tensor._autocast_to_reduced_precision, (X, False, True, torch.half, torch.bfloat16), {}),
        (torch.Tensor.record_stream, (X, torch.Stream("cpu")), {}),
        (torch._C._linalg.linalg_solve_triangular, (X, X), {"upper": True}),
        (torch._rowwise_prune, (X, B, torch.long), {}),
        (torch._C.TensorBase.unflatten, (X, 0, (2, 2)), {}),
        (torch._resize_output_, (X, [4, 4], torch.device("cpu")), {}),
        (torch._sobol_engine_draw, (I, 1, I, 1, 0), {"dtype": None}),
        (torch._cufft_set_plan_cache_max_size, (0, 1), {}),
        (torch._scaled_mm_v2, (X, X, [X], [0], [0], [X], [0], [0], None, None), {}),
        (torch._fused_adam_, ([X], [X], [X], [X], [], [X]), {"lr": 0.1, **sets, **adam}),
        (torch._fused_adamw_, ([X], [X], [X], [X], [], [X]), {"lr": 0.1, **sets, **adam}),
        (torch._fused_adagrad_, ([X], [X], [X], [X]), {"lr": 0.1, "lr_decay": 0.0, "eps": 1e-3, **sets}),
        (
            torch._fused_sgd_,
            ([X], [X], []),
            {"lr": 0.1, "momentum": 0.0, "dampening": 0.0, "nesterov": False, "is_first_step": False, **sets},
        ),
        (torch._empty_per_channel_affine_quantized, ((2, 2),), {"scales": X[0], "zero_points": I, "axis": 0}),
        (torch._unsafe_masked_index, (X, B, (I,), 0.0), {}),
        (torch._unsafe_masked_index_put_accumulate, (X, B, (I,), X[0]), {}),
        (torch._log_softmax_backward_data, (X, X, 0, torch.float32), {}),
        (torch._softmax_backward_data, (X, X, 0, torch.float32), {}),
        (torch._linalg_check_errors, (I.int(), "x"), {"is_matrix": True}),
        (torch._unsafe_index, (X, (I,)), {}),
    ]


def arrives(function, args, kwargs):
    try:
        with warnings.catch_warnings(), Catch():
            warnings.simplefilter("ignore")
            function(*args, **kwargs)
    except Arrived:
        return True
    except Exception:  # not the right arguments
        return False
    return False


def test_torch_dispatches_every_function_that_is_said_to_be_dispatched():
    particular = {function: (args, kwargs) for function, args, kwargs in list_particular_calls()}
    operators = {torch._ops.OpOverload.__call__, torch._ops.OpOverloadPacket.__call__}
    wrong = []
    for function in find_torch_functions():
        if function in operators:
            continue
        calls = [particular[function]] if function in particular else [(args, {}) for args in guess_calls(function)]
        if not any(arrives(function, *call) for call in calls):
            wrong.append(function)
    assert wrong == []
    assert arrives(torch.ops.aten.sin, (X,), {})
    assert arrives(torch.ops.aten.sin.default, (X,), {})


def test_functions_that_torch_does_not_dispatch_run_for_real():
    def program(x):
        y = x + 1
        y.set_(x)
        return y * 2

    captured = check_calls(program, [(X,)] * 2)
    assert all("set_" in text for text in captured.breaks)
    assert len(captured.breaks) >= 1
