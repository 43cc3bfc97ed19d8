"""Our fakes against torch's FakeTensorMode, over the samples of torch's own operator tests.

By default the first sample of every operator in float32; with ALTERNATOR_OP_DB=all every sample, in five types,
noncontiguous and in place as well (some minutes).
"""

import collections
import itertools
import logging
import os

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("numpy")  # torch's operator samples need it
pytest.importorskip("alternator._fakes", exc_type=ImportError)
import agreement  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

EVERYTHING = os.environ.get("ALTERNATOR_OP_DB") == "all"
TYPES = [torch.float32] + [torch.bfloat16, torch.complex64, torch.int64, torch.bool] * EVERYTHING
GOOD = {"agree", "eager's stride", "eager's error", "both fail", "only ours", "refused"}
# Sparse tensors have no fakes: the only operators that may be refused.
SPARSE = {"sparse.sampled_addmm", "sparse.mm", "to_sparse"}


def list_calls(info, dtype):
    """Yield (how, function, (args, kwargs)) for the samples of an operator."""
    differentiable = info.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    for requires_grad in [False] + [True] * differentiable:
        samples = info.sample_inputs("cpu", dtype, requires_grad=requires_grad)
        for sample in itertools.islice(samples, None if EVERYTHING else 1):
            yield "call", info.op, ((sample.input, *sample.args), sample.kwargs)
            if not EVERYTHING or requires_grad or getattr(sample.input, "layout", None) is not torch.strided:
                continue
            scattered = sample.noncontiguous()
            yield "noncontiguous", info.op, ((scattered.input, *scattered.args), scattered.kwargs)
            for each in (sample, scattered):
                if info.inplace_variant:
                    yield "in place", info.inplace_variant, ((each.input, *each.args), each.kwargs)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.timeout(3000)
def test_fakes_agree_with_torch(fakes, dtype, capsys):
    logging.disable(logging.CRITICAL)  # FakeTensorMode logs the failures that both have
    verdicts = collections.Counter()
    before = fakes.cache_info()["via_torch"]
    wrong = []
    try:
        for info in op_db:
            if dtype not in info.dtypes:
                continue
            for how, function, arguments in list_calls(info, dtype):
                verdict, explanation, _ = agreement.check(fakes, function, arguments)
                verdicts[verdict] += 1
                if verdict not in GOOD or (verdict == "refused" and info.name not in SPARSE):
                    wrong.append(f"{info.name} ({how}): {explanation}")
    finally:
        logging.disable(logging.NOTSET)
    with capsys.disabled():
        fallbacks = fakes.cache_info()["via_torch"] - before
        print(f"\n{dtype}: {dict(verdicts)}; FakeTensorMode was asked {fallbacks} times")
    assert wrong == []
    assert verdicts["agree"] > 500
