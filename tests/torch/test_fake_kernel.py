"""Operators on fakes: autograd, views, writes, devices, the cache, custom operators, threads."""

import threading

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402


def storage_of(tensor):
    return tensor.untyped_storage()._cdata


# ---- Autograd --------------------------------------------------------------------------------------------------------


def test_results_have_eagers_history(fakes):
    leaf = fakes.make(torch.zeros(3, 4, requires_grad=True))
    result = leaf.exp().view(12)
    assert result.requires_grad and not result.is_leaf
    assert type(result.grad_fn).__name__ == "ViewBackward0"
    assert type(result._base.grad_fn).__name__ == "ExpBackward0"
    with torch.no_grad():
        assert not leaf.exp().requires_grad
    assert not leaf.detach().requires_grad


def test_gradients_are_fakes(fakes):
    weight = fakes.make(torch.nn.Parameter(torch.zeros(5, 4)))
    data = fakes.make(torch.zeros(3, 4))
    loss = F.layer_norm(F.linear(data, weight).relu(), (5,)).sum()
    loss.backward()
    assert fakes.is_fake(weight.grad)
    assert weight.grad.shape == weight.shape and weight.grad.device == weight.device


def test_custom_autograd_function(fakes):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            assert fakes.is_fake(x) and x.device == grad.device
            return grad * 2

    leaf = fakes.make(torch.zeros(3, requires_grad=True))
    (gradient,) = torch.autograd.grad(Double.apply(leaf).sum(), leaf)
    assert fakes.is_fake(gradient)


def test_autocast(fakes):
    a, b = fakes.make(torch.zeros(2, 3)), fakes.make(torch.zeros(3, 4))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (a @ b).dtype is torch.bfloat16
    assert (a @ b).dtype is torch.float32


def test_shallow_copies_keep_the_device(fakes):
    fake = fakes.make(torch.zeros(3, requires_grad=True))
    for other in (fake.data, fake.detach()):
        assert fakes.is_fake(other) and other.device == torch.device("cpu")
    assert storage_of(fake.data) == storage_of(fake)
    other = fakes.make(torch.zeros(5))
    fake.data = other
    assert fake.shape == (5,) and storage_of(fake) == storage_of(other) and fake.requires_grad


def test_swapping_in_a_real_tensor_keeps_identity(fakes):
    fake = fakes.make(torch.zeros(3)) + 1
    alias = [fake]
    torch._C._swap_tensor_impl(fake, torch.ones(3))
    assert not fakes.is_fake(fake) and alias[0].tolist() == [1, 1, 1]


# ---- Views and writes ------------------------------------------------------------------------------------------------

VIEWS = {
    "view": lambda x: x.view(2, 12),
    "slice": lambda x: x[1:3, ::2],
    "select": lambda x: x[2],
    "transpose": lambda x: x.t(),
    "expand": lambda x: x[:, :1].expand(4, 5),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 3), 5),
    "split": lambda x: x.split(2)[1],
    "unbind": lambda x: x.unbind(1)[3],
    "reshape": lambda x: x.reshape(-1),
    "real of complex": lambda x: torch.view_as_real(torch.view_as_complex(x.view(4, 3, 2))),
    "dtype": lambda x: x.view(torch.int32),
    "detach": lambda x: x.detach(),
    "identity": lambda x: x.to(torch.float32),
    "contiguous": lambda x: x.contiguous(),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("start", [0, 8])
def test_views_alias_their_argument(fakes, name, start):
    view = VIEWS[name]
    real = torch.arange(40.0)[start : start + 24].view(4, 6)
    fake = fakes.make(real)
    for _ in range(2):  # a first run and one from the cache
        expected, result = view(real), view(fake)
        assert result.shape == expected.shape and result.stride() == expected.stride()
        assert result.storage_offset() == expected.storage_offset()
        assert storage_of(result) == storage_of(fake)
        assert (result is fake) == (expected is real)


def test_cached_views_alias_the_new_argument(fakes):
    first, second = fakes.make(torch.zeros(4, 6)), fakes.make(torch.zeros(4, 6))
    one = first[1:]
    two = second[1:]
    assert fakes.cache_info()["hits"] == 1
    assert storage_of(one) == storage_of(first) != storage_of(second) == storage_of(two)


def test_same_tensor_twice_is_not_two_tensors(fakes):
    a, b = fakes.make(torch.zeros(4)), fakes.make(torch.zeros(4))
    a + b
    a + a
    a[:2] + a[2:]
    b + a
    assert fakes.cache_info()["hits"] == 1  # the last one only; the slices differ in their offset


IN_PLACE = {
    "add_": lambda x: x.add_(1),
    "copy_": lambda x: x.copy_(torch.ones(6)),
    "t_": lambda x: x.t_(),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "squeeze_": lambda x: x[:1].squeeze_(0),
    "resize_": lambda x: x.resize_(3, 3),
    "resize_ up": lambda x: x.resize_(10, 10),
    "as_strided_": lambda x: x.as_strided_((2, 2), (1, 1)),
    "set_": lambda x: x.set_(torch.zeros(7)),
    "zero_": lambda x: x.zero_(),
    "setitem": lambda x: x.__setitem__((slice(None), 1), 2.0) or x,
    "out": lambda x: torch.add(torch.ones(3, 1), torch.ones(6), out=x.resize_(0)),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_writes_change_the_argument(fakes, name):
    write = IN_PLACE[name]
    real = torch.zeros(4, 6)
    expected = write(real)
    for _ in range(2):
        fake = fakes.make(torch.zeros(4, 6))
        with fakes.FakeMode():
            result = write(fake)
        assert (result is fake) == (expected is real)
        assert fake.shape == real.shape and fake.stride() == real.stride()
        assert fake.untyped_storage().nbytes() == real.untyped_storage().nbytes()
        assert fake._version == real._version


def test_partly_overlapping_write_fails_as_in_eager(fakes):
    for base in (torch.zeros(6), fakes.make(torch.zeros(6))):
        with pytest.raises(RuntimeError, match="partially overlap|single memory location"):
            base[1:].add_(base[:-1])


# ---- Numbers, types, devices -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [2, 2.5, True, 2j])
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float16, torch.complex64])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_numbers_take_part_in_promotion_as_numbers(fakes, number, dtype, shape):
    real = torch.zeros(shape, dtype=dtype)
    fake = fakes.make(real)
    for function in (torch.mul, torch.add, torch.true_divide, torch.where):
        arguments = (real.bool(), real, number) if function is torch.where else (real, number)
        try:
            expected = function(*arguments).dtype
        except RuntimeError:
            continue
        arguments = (fake.bool(), fake, number) if function is torch.where else (fake, number)
        assert function(*arguments).dtype is expected


def test_integer_division_and_remainder(fakes):
    fake = fakes.make(torch.arange(4))
    assert (fake // 3).dtype is (fake % 3).dtype is torch.int64
    assert (1 - fake).dtype is torch.int64 and (1 / fake).dtype is torch.float32


def test_other_devices_without_the_hardware(fakes):
    fake = fakes.make(torch.zeros(3, 4))
    moved = torch.ops.aten._to_copy(fake, device=torch.device("cuda"))  # Tensor.to() would start CUDA
    assert moved.device == torch.device("cuda", 0) and moved.is_cuda and not moved.is_cpu
    assert (moved * 2).device == moved.device
    assert (moved * fakes.make(torch.tensor(2.0))).device == moved.device
    with pytest.raises(RuntimeError, match="same device"):
        moved + fake
    assert moved.cpu().device == torch.device("cpu")
    assert fake.copy_(moved) is fake


# ---- Routes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "route"),
    [
        ("aten::add.Tensor", "Direct"),
        ("aten::mm", "Direct"),
        ("aten::relu", "Direct"),
        ("aten::view", "Meta"),
        ("aten::native_layer_norm", "Rule"),
        ("aten::matmul", "Composite"),
        ("aten::_fft_r2c", "Torch"),
        ("aten::nonzero", "Torch"),
        ("aten::_local_scalar_dense", "Data"),
    ],
)
def test_routes(fakes, operator, route):
    assert fakes.route(operator) == route


def test_routes_that_need_no_python_take_none(fakes):
    fake = fakes.make(torch.zeros(2, 3, 4))
    before = fakes.cache_info()["via_torch"]
    F.layer_norm(fake, (4,)) + fake.softmax(-1) @ fake.transpose(1, 2) @ fake
    assert fakes.cache_info()["via_torch"] == before
    torch.fft.rfft(fake)
    assert fakes.cache_info()["via_torch"] == before + 1


def test_layer_norm_with_wrong_arguments_fails_as_in_eager(fakes):
    with pytest.raises(RuntimeError, match="normalized_shape"):
        F.layer_norm(fakes.make(torch.zeros(2, 3)), (4,))


def test_comparison_finds_no_difference(fakes):
    fakes.set_comparison(True)
    try:
        fake = fakes.make(torch.zeros(2, 8, 16))
        F.layer_norm(F.gelu(fake.transpose(1, 2).contiguous()), (8,))
        F.scaled_dot_product_attention(fake[:, None], fake[:, None], fake[:, None])
        assert fakes.take_differences() == []
    finally:
        fakes.set_comparison(False)


# ---- Cache -----------------------------------------------------------------------------------------------------------


def test_equal_calls_hit_and_others_do_not(fakes):
    fake = fakes.make(torch.zeros(3, 4))
    fake.sum(1)
    assert fakes.cache_info()["hits"] == 0
    fake.sum(1)
    fakes.make(torch.zeros(3, 4)).sum(1)
    assert fakes.cache_info()["hits"] == 2
    for other in (fake.sum(0), fake.sum(1, keepdim=True), fake.t().sum(1), fake.double().sum(1), fake[1:].sum(1)):
        assert fakes.is_fake(other)
    assert fakes.cache_info()["hits"] == 2
    fakes.clear_cache()
    assert fakes.cache_info()["entries"] == 0


def test_lists_and_their_items_are_different_keys(fakes):
    a, b = fakes.make(torch.zeros(2, 2)), fakes.make(torch.zeros(2, 2))
    assert torch.cat([a, b], 0).shape == (4, 2)
    assert torch.cat([a, b], 1).shape == (2, 4)
    assert torch.cat([a, b, a], 1).shape == (2, 6)
    assert F.gelu(a, approximate="tanh").shape == F.gelu(a, approximate="none").shape


def test_custom_operators_are_asked_each_time(fakes):
    library = torch.library.Library("alternator_test", "FRAGMENT")
    library.define("grow(Tensor x) -> Tensor")
    by = [2]

    @torch.library.register_fake("alternator_test::grow", lib=library)
    def grow(x):
        return x.new_empty(x.shape[0] * by[0])

    fake = fakes.make(torch.zeros(3))
    assert torch.ops.alternator_test.grow(fake).shape == (6,)
    by[0] = 3
    result = torch.ops.alternator_test.grow(fake)
    assert result.shape == (9,) and fakes.is_fake(result) and type(result) is torch.Tensor
    library._destroy()


def test_custom_operator_that_writes(fakes):
    @torch.library.custom_op("alternator_test::scale_", mutates_args={"x"})
    def scale_(x: torch.Tensor, by: float) -> None:
        x.mul_(by)

    real = torch.ones(3)
    fake = fakes.make(real)
    assert scale_(fake, 2.0) is None
    assert fake._version == 1 and real.tolist() == [1, 1, 1]


def test_custom_operator_without_a_fake_kernel_fails(fakes):
    @torch.library.custom_op("alternator_test::opaque", mutates_args=())
    def opaque(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    with pytest.raises(RuntimeError, match="alternator_test"):
        opaque(fakes.make(torch.ones(3)))


def test_threads_share_the_cache(fakes):
    errors = []

    def work(seed):
        try:
            for i in range(200):
                size = 1 + (i + seed) % 17
                fake = fakes.make(torch.zeros(size, 3))
                result = F.softmax(fake @ fake.t(), -1).view(-1).roll(1)
                assert result.shape == (size * size,)
                if i % 50 == 0:
                    fakes.clear_cache()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
