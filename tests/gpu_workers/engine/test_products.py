"""Products whose weights are laid out for a kernel: what they say of the same numbers."""

import pytest
import torch

from gpu_workers.engine.products import Dense, InParts, Kernel, find_kernel

pytestmark = pytest.mark.torch


@pytest.fixture
def kernel() -> Kernel:
    found = find_kernel()
    if found is None:
        pytest.skip("this torch has no product of bfloat16 numbers whose sums stay float32, or not for this processor")
    return found


@pytest.mark.parametrize("rows", [1, 5, 32, 64, 65, 200])
@pytest.mark.parametrize(("width", "out"), [(48, 96), (81, 64), (640, 1_100), (2_048, 63)])
def test_three_parts_of_a_float32_are_as_exact_as_itself(kernel: Kernel, rows: int, width: int, out: int) -> None:
    random = torch.Generator().manual_seed(rows + width)
    weight = torch.randn(out, width, generator=random).bfloat16()
    bias = torch.randn(out, generator=random)
    # some numbers large, some small: what is cut off the one may be all of the other
    x = torch.randn(rows, width, generator=random) * 10 ** torch.randint(-3, 4, (rows, width), generator=random)
    exact = x.double() @ weight.double().T + bias.double()
    size = x.abs().double() @ weight.abs().double().T
    found = float(((InParts(weight, bias, kernel)(x) - exact).abs() / size).max())
    usual = float(((Dense(weight.float(), bias)(x) - exact).abs() / size).max())
    assert found <= max(2 * usual, 2**-23)
    half = float(((InParts(weight, bias, kernel, parts=2)(x) - exact).abs() / size).max())
    assert half <= 2**-16


def test_three_parts_keep_the_shape_of_what_they_read(kernel: Kernel) -> None:
    product = InParts(torch.eye(64, dtype=torch.bfloat16), None, kernel)
    x = torch.randn(2, 3, 64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(product(x.transpose(0, 1)), x.transpose(0, 1), rtol=0, atol=0)
    assert product(x[:, :0]).shape == (2, 0, 64)


def test_what_is_not_finite_stays_in_its_row(kernel: Kernel) -> None:
    x = torch.ones(3, 64)
    x[1, 5] = float("inf")
    found = InParts(torch.eye(64, dtype=torch.bfloat16), None, kernel)(x)
    assert found[[0, 2]].eq(1).all()
    assert not found[1, 5].isfinite()
