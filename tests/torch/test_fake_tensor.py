"""Fakes: what they look like, what they share, what they refuse."""

import threading

import pytest

torch = pytest.importorskip("torch")


def storage_of(tensor):
    return tensor.untyped_storage()._cdata


def assert_looks_like(fake, real):
    for what in ("size", "stride", "storage_offset", "is_conj", "is_neg", "is_inference", "is_contiguous", "numel"):
        assert getattr(fake, what)() == getattr(real, what)(), what
    for what in ("dtype", "device", "layout", "requires_grad", "is_leaf"):
        assert getattr(fake, what) == getattr(real, what), what
    assert type(fake) is type(real)


# ---- Fakes of real tensors -------------------------------------------------------------------------------------------

BASE = torch.arange(24.0).reshape(4, 6)
REALS = {
    "plain": lambda: torch.randn(3, 4),
    "scalar": lambda: torch.tensor(1.5),
    "empty": lambda: torch.empty(0, 3),
    "integer": lambda: torch.arange(5),
    "half": lambda: torch.zeros(2, dtype=torch.bfloat16),
    "transposed": lambda: BASE.t(),
    "sliced": lambda: BASE[1:3, ::2],
    "expanded": lambda: torch.zeros(1, 3).expand(4, 3),
    "channels last": lambda: torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "conjugate": lambda: torch.zeros(3, dtype=torch.complex64).conj(),
    "negative": lambda: torch.zeros(3, dtype=torch.complex64).conj().imag,
    "leaf": lambda: torch.zeros(3, requires_grad=True),
    "result": lambda: torch.zeros(3, requires_grad=True) * 2,
    "view of a leaf": lambda: torch.zeros(3, 3, requires_grad=True)[0],
    "view of a result": lambda: (torch.zeros(3, 3, requires_grad=True) * 2)[0],
    "detached": lambda: torch.zeros(3, requires_grad=True).detach(),
    "parameter": lambda: torch.nn.Parameter(torch.zeros(3)),
    "frozen parameter": lambda: torch.nn.Parameter(torch.zeros(3), requires_grad=False),
}


@pytest.mark.parametrize("name", REALS)
def test_fake_looks_like_its_real_tensor(fakes, name):
    real = REALS[name]()
    fake = fakes.make(real)
    assert fakes.is_fake(fake) and not fakes.is_fake(real)
    assert_looks_like(fake, real)


def test_fake_of_inference_tensor(fakes):
    with torch.inference_mode():
        real = torch.zeros(3)
        fake = fakes.make(real)
        assert_looks_like(fake, real)
        assert_looks_like(fake * 2, real * 2)


def test_ordinary_fakes_stay_ordinary_in_inference_mode(fakes):
    real = torch.zeros(3, 2)
    fake = fakes.make(real)
    with torch.inference_mode():
        assert_looks_like(fake.view(6), real.view(6))
        assert_looks_like(fake + 1, real + 1)


def test_views_share_a_fake_storage(fakes):
    real = torch.arange(6.0)
    other = torch.arange(6.0)
    first, second, third = fakes.make(real), fakes.make(real[2:4]), fakes.make(other)
    assert storage_of(first) == storage_of(second) != storage_of(third)
    assert second.storage_offset() == 2


def test_storage_is_not_shared_with_a_dead_tensors_successor(fakes):
    seen = set()
    kept = []
    for _ in range(200):
        real = torch.zeros(7)  # is likely to get the address of the one before
        kept.append(fakes.make(real))
        seen.add(storage_of(kept[-1]))
        del real
    assert len(seen) == 200


def test_one_memo_gives_one_fake(fakes):
    mode = fakes.FakeMode()
    real = torch.zeros(3, requires_grad=True)
    assert mode.make(real) is mode.make(real)
    view = real[1:]
    assert mode.make(view)._base is mode.make(real)


def test_write_through_a_view_reaches_its_bases_history(fakes):
    mode = fakes.FakeMode()
    real = torch.zeros(3, 3, requires_grad=True) * 1
    base, view = mode.make(real), mode.make(real[0])
    view.mul_(2)
    assert type(base.grad_fn).__name__ == "CopySlices"
    assert base._version == view._version == 1


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_tensors_are_refused(fakes, layout):
    with pytest.raises(TypeError, match="no fake can stand for"):
        fakes.make(torch.eye(3).to_sparse(layout=layout))


def test_subclasses_are_refused(fakes):
    class Special(torch.Tensor):
        pass

    with pytest.raises(TypeError, match="class Special"):
        fakes.make(torch.zeros(3).as_subclass(Special))


# ---- No data ---------------------------------------------------------------------------------------------------------

# Through the dispatcher: an exception of our own class.
DATA_OPERATORS = {
    "item": lambda x: x.sum().item(),
    "float": lambda x: float(x.sum()),
    "bool": lambda x: bool(x.sum() > 0),
    "int index": lambda x: [1, 2, 3][x.long().sum()],
    "equal": lambda x: torch.equal(x, x + 1),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "masked_select": lambda x: x.masked_select(x > 0),
    "unique": lambda x: x.unique(),
    "bincount": lambda x: x.long().bincount(),
    "repeat_interleave": lambda x: x.repeat_interleave(x.long()),
    "allclose": lambda x: torch.allclose(x, x + 1),
}
# By a raw pointer: torch's RuntimeError with our message.
DATA_POINTERS = {
    "tolist": lambda x: x.tolist(),
    "data_ptr": lambda x: x.data_ptr(),
    "storage": lambda x: x.untyped_storage().data_ptr(),
    "view tolist": lambda x: x[1:].tolist(),
    "result tolist": lambda x: (x + 1).tolist(),
    "data tolist": lambda x: x.data.tolist(),
    "detached tolist": lambda x: x.detach().tolist(),
}


@pytest.mark.parametrize("name", DATA_OPERATORS)
def test_operators_that_need_data(fakes, name):
    with pytest.raises(fakes.DataDependent, match="a fake tensor has no data") as caught:
        DATA_OPERATORS[name](fakes.make(torch.ones(3)))
    assert fakes.is_data_dependent(caught.value)


@pytest.mark.parametrize("name", DATA_POINTERS)
def test_pointers_that_would_be_read(fakes, name):
    with pytest.raises(RuntimeError, match="^a fake tensor has no data") as caught:
        DATA_POINTERS[name](fakes.make(torch.ones(3)))
    assert fakes.is_data_dependent(caught.value)


def test_numpy(fakes):
    pytest.importorskip("numpy")
    with pytest.raises(RuntimeError, match="^a fake tensor has no data"):
        fakes.make(torch.ones(3)).numpy()


def test_other_errors_are_not_about_data(fakes):
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied") as caught:
        fakes.make(torch.ones(3, 4)) @ fakes.make(torch.ones(3, 4))
    assert not fakes.is_data_dependent(caught.value)


# ---- Modes -----------------------------------------------------------------------------------------------------------

FACTORIES = {
    "zeros": lambda: torch.zeros(2, 3),
    "empty_strided": lambda: torch.empty_strided((2, 3), (1, 2)),
    "arange": lambda: torch.arange(2, 9, 2),
    "randn": lambda: torch.randn(3, dtype=torch.float64),
    "generator": lambda: torch.randn(3, generator=torch.Generator()),
    "full": lambda: torch.full((2,), 3),
    "tensor": lambda: torch.tensor([[1, 2], [3, 4]]),
    "scalar tensor": lambda: torch.tensor(2.5, requires_grad=True),
    "linspace": lambda: torch.linspace(0, 1, 5),
    "eye": lambda: torch.eye(3),
    "parameter": lambda: torch.nn.Parameter(torch.zeros(3)),
    "module": lambda: torch.nn.Linear(3, 4).weight,
}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories_make_fakes_in_a_mode(fakes, name):
    make = FACTORIES[name]
    real = make()
    with fakes.FakeMode():
        fake = make()
    assert fakes.is_fake(fake)
    assert_looks_like(fake, real)
    assert not fakes.is_fake(make())


def test_modes_nest_and_end_with_an_exception(fakes):
    with fakes.FakeMode():
        with pytest.raises(ZeroDivisionError):
            with fakes.FakeMode():
                1 / 0
        assert fakes.is_fake(torch.zeros(1))
    assert not fakes.is_fake(torch.zeros(1))


def test_a_mode_is_its_threads_own(fakes):
    made = []
    with fakes.FakeMode():
        thread = threading.Thread(target=lambda: made.append(torch.zeros(1)))
        thread.start()
        thread.join()
    assert not fakes.is_fake(made[0])


def test_meta_tensors_stay_meta(fakes):
    with fakes.FakeMode():
        made = torch.zeros(3, device="meta")
    assert made.is_meta and not fakes.is_fake(made)


def test_real_tensors_are_taken_for_their_fakes(fakes):
    real = torch.arange(6.0)
    with fakes.FakeMode() as mode:
        view = real[2:4]
        assert fakes.is_fake(view)
        assert storage_of(view) == storage_of(mode.make(real))
        with pytest.raises(fakes.DataDependent, match="write to a real tensor"):
            real.add_(1)
    assert real.tolist() == [0, 1, 2, 3, 4, 5]


def test_default_dtype_is_noticed(fakes):
    fake = fakes.make(torch.arange(3))
    assert (fake / 2).dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert (fake / 2).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert (fake / 2).dtype is torch.float32


def test_torch_function_modes_do_not_see_kernels(fakes):
    seen = []

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return function(*args, **(kwargs or {}))

    fake = fakes.make(torch.zeros(2, 3))
    with Watch():
        fake.roll(1)  # a Python kernel, which calls many torch functions
    assert seen == [torch.Tensor.roll]
