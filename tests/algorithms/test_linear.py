"""Products through oneDNN are torch's, values and gradients, whatever the strides; elsewhere they are torch's own."""

import pytest
import torch
from torch import Tensor

import algorithms.linear
from algorithms.linear import LEAST_MULTIPLICATIONS, linear, matmul

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")
ROWS, INNER, OUTER = 320, 96, 144
assert ROWS * INNER * OUTER > LEAST_MULTIPLICATIONS


@pytest.fixture(autouse=True)
def through_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on an AMD processor, whatever this one is."""
    monkeypatch.setattr(algorithms.linear, "prefers_onednn", lambda: True)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[torch.Size, torch.Size]]:
    """The products that oneDNN was given."""
    products: list[tuple[torch.Size, torch.Size]] = []
    onednn = algorithms.linear._onednn

    def count(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        products.append((x.shape, weight.shape))
        return onednn(x, weight, bias)

    monkeypatch.setattr(algorithms.linear, "_onednn", count)
    return products


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


LAYOUTS = {
    "as it is": lambda x: x,
    "column by column": lambda x: x.mT.contiguous().mT,
    "part of a larger tensor": lambda x: torch.cat([x, x], -1)[..., : x.shape[-1]],
    "in a batch": lambda x: x.view(2, -1, x.shape[-1]),
    "every second row": lambda x: x.repeat_interleave(2, 0)[::2],
}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_linear_layer_and_its_gradients_are_torchs(layout: str, bias: bool, counted: list[object]) -> None:
    x, weight, added = LAYOUTS[layout](numbers(ROWS, INNER)), numbers(OUTER, INNER), numbers(OUTER) if bias else None
    given = [tensor.detach().clone().requires_grad_() for tensor in (x, weight, added) if tensor is not None]
    upstream = numbers(*x.shape[:-1], OUTER)
    expected = torch.autograd.grad(torch.nn.functional.linear(*given), given, upstream)
    inputs = [tensor.detach().requires_grad_() for tensor in (x, weight, added) if tensor is not None]
    made = linear(*inputs)
    gradients = torch.autograd.grad(made, inputs, upstream)
    assert len(counted) == 3
    torch.testing.assert_close(made, torch.nn.functional.linear(*given), atol=1e-4, rtol=1e-5)
    for own, theirs in zip(gradients, expected, strict=True):
        torch.testing.assert_close(own, theirs, atol=1e-4, rtol=1e-5)


def test_a_weight_may_lie_column_by_column(counted: list[object]) -> None:
    x, weight = numbers(ROWS, INNER), LAYOUTS["column by column"](numbers(OUTER, INNER))
    torch.testing.assert_close(linear(x, weight), x @ weight.T, atol=1e-4, rtol=1e-5)
    assert counted


@pytest.mark.parametrize("bias", [numbers(2 * OUTER)[::2], numbers(1).expand(OUTER)], ids=["every second", "one"])
def test_a_bias_may_have_any_stride(bias: Tensor, counted: list[object]) -> None:
    x, weight = numbers(ROWS, INNER), numbers(OUTER, INNER)
    torch.testing.assert_close(linear(x, weight, bias), x @ weight.T + bias, atol=1e-4, rtol=1e-5)
    assert counted


def test_the_gradient_of_a_sum_has_no_strides(counted: list[object]) -> None:
    x, weight = numbers(ROWS, INNER).requires_grad_(), numbers(OUTER, INNER).requires_grad_()
    linear(x, weight).sum().backward()
    assert len(counted) == 3
    torch.testing.assert_close(x.grad, weight.detach().sum(0).expand_as(x), atol=1e-4, rtol=1e-5)


def test_what_needs_no_gradient_gets_none(counted: list[object]) -> None:
    x, weight = numbers(ROWS, INNER), numbers(OUTER, INNER).requires_grad_()
    linear(x, weight).sum().backward()
    assert len(counted) == 2
    assert x.grad is None


@pytest.mark.parametrize("transposed", [False, True])
def test_a_product_of_matrices_is_torchs(transposed: bool, counted: list[object]) -> None:
    a = numbers(INNER, ROWS).T if transposed else numbers(ROWS, INNER)
    b = numbers(OUTER, INNER).T if transposed else numbers(INNER, OUTER)
    torch.testing.assert_close(matmul(a, b), a @ b, atol=1e-4, rtol=1e-5)
    assert counted


@pytest.mark.parametrize(
    ("x", "weight"),
    [
        (numbers(4, INNER), numbers(OUTER, INNER)),
        (numbers(ROWS, INNER).bfloat16(), numbers(OUTER, INNER).bfloat16()),
        (numbers(ROWS, INNER).double(), numbers(OUTER, INNER).double()),
        (numbers(0, INNER), numbers(OUTER, INNER)),
        (numbers(1 << 16), numbers(64, 1 << 16)),
    ],
    ids=["small", "bfloat16", "float64", "empty", "a vector"],
)
def test_everything_else_is_torchs_own(x: Tensor, weight: Tensor, counted: list[object]) -> None:
    assert torch.equal(linear(x, weight), torch.nn.functional.linear(x, weight))
    assert not counted


def test_autocast_is_torchs_own(counted: list[object]) -> None:
    x, weight = numbers(ROWS, INNER), numbers(OUTER, INNER)
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(x, weight).dtype == torch.bfloat16
    assert not counted


def test_the_same_product_has_the_same_bits_again() -> None:
    x, weight = numbers(ROWS, INNER), numbers(OUTER, INNER)
    assert torch.equal(linear(x, weight), linear(x.clone(), weight.clone()))
