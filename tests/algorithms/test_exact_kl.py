import pytest
import torch
from torch import Tensor

from algorithms import exact_kl as module
from algorithms.exact_kl import exact_kl


def inputs(tokens: int, hidden: int, vocabulary: int) -> list[Tensor]:
    """hidden, weight, ref_hidden, ref_weight"""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(size, generator=generator) for size in [(tokens, hidden), (vocabulary, hidden)] * 2]


def naive(hidden: Tensor, weight: Tensor, ref_hidden: Tensor, ref_weight: Tensor, temperature: float) -> Tensor:
    """The definition in double precision."""
    own = torch.log_softmax((hidden.double() @ weight.double().T) / temperature, -1)
    reference = torch.log_softmax((ref_hidden.double() @ ref_weight.double().T) / temperature, -1)
    return (own.exp() * (own - reference)).sum(-1)


def test_of_two_vocabularies_the_tokens_of_the_smaller_one_count() -> None:
    hidden, weight, ref_hidden, ref_weight = inputs(4, 16, 50)
    wider = torch.cat([ref_weight, torch.randn(6, 16)])
    assert torch.equal(exact_kl(hidden, weight, ref_hidden, wider), exact_kl(hidden, weight, ref_hidden, ref_weight))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
@pytest.mark.parametrize("chunk", [1, 3 * 50, 1 << 24])
def test_value_and_gradient_are_those_of_the_definition(
    temperature: float, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK_ELEMENTS", chunk)
    tensors = inputs(11, 16, 50)
    upstream = torch.linspace(-1, 2, 11)
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    kl = exact_kl(*leaves, temperature=temperature)
    (kl * upstream).sum().backward()
    expected_leaves = [tensor.double().requires_grad_() for tensor in tensors]
    expected = naive(*expected_leaves, temperature=temperature)
    (expected * upstream.double()).sum().backward()
    torch.testing.assert_close(kl.double(), expected, atol=1e-4, rtol=1e-4)
    for leaf, wanted in zip(leaves[:2], expected_leaves[:2], strict=True):
        assert leaf.grad is not None
        torch.testing.assert_close(leaf.grad.double(), wanted.grad, atol=1e-4, rtol=1e-4)
    assert [leaf.grad for leaf in leaves[2:]] == [None, None], "no gradient reaches the reference"


def test_no_tokens_give_no_values() -> None:
    assert exact_kl(*inputs(0, 8, 20)).shape == (0,)
