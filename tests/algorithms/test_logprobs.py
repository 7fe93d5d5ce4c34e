"""Log-probs and entropy from hidden states: the tiled form against the plain one."""

import pytest
import torch

from algorithms import logprobs


def problem(seed, rows=23, width=8, vocabulary=53, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    tensors = [
        torch.randn(*shape, generator=generator).to(dtype)
        for shape in ((rows, width), (vocabulary, width), (vocabulary,))
    ]
    targets = torch.randint(0, vocabulary, (rows,), generator=generator)
    weights = torch.randn(rows, generator=generator)
    return [tensor.requires_grad_(True) for tensor in tensors], targets, weights


def evaluate(tensors, targets, weights, temperature):
    hidden, head, bias = tensors
    logps, entropies = logprobs.logprobs_and_entropy(hidden, head, targets, bias, temperature)
    return [logps.detach(), entropies, *torch.autograd.grad((weights * logps).sum(), tensors)]


def tiled(monkeypatch, tile=(7, 11)):
    monkeypatch.setattr(logprobs, "PLAIN_LIMIT", 0)
    monkeypatch.setattr(logprobs, "CPU_TILE", tile)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("tile", [None, (7, 11), (23, 53), (1, 1), (64, 64)])
def test_values_and_gradients_are_those_of_a_softmax_in_tiles_too(monkeypatch, temperature, tile):
    tensors, targets, weights = problem(0, dtype=torch.float32)
    wide = [tensor.detach().double().requires_grad_(True) for tensor in tensors]
    reference = torch.log_softmax((wide[0] @ wide[1].T + wide[2]) / temperature, -1)
    logps, entropies = reference.gather(-1, targets[:, None])[:, 0], -(reference.exp() * reference).sum(-1)
    expected = [logps, entropies, *torch.autograd.grad((weights * logps).sum(), wide)]
    if tile is not None:
        tiled(monkeypatch, tile)
    for got, want in zip(evaluate(tensors, targets, weights, temperature), expected, strict=True):
        torch.testing.assert_close(got.double(), want.detach(), atol=2e-5, rtol=2e-5)


def test_large_logits_do_not_overflow(monkeypatch):
    tiled(monkeypatch)
    hidden = torch.full((3, 4), 1e3)
    head = torch.randn(53, 4, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([0, 1, 2])
    logps, entropies = logprobs.logprobs_and_entropy(hidden, head, targets)
    assert logps.isfinite().all()
    assert (entropies >= 0).all()
    reference = torch.log_softmax(hidden.double() @ head.double().T, -1)
    torch.testing.assert_close(logps.double(), reference.diagonal(), rtol=1e-5, atol=1e-2)


def test_bf16_sums_in_float32(monkeypatch):
    """Gradients of the head over 4,096 tokens: tiles summed in bf16 would lose a per cent, float32 sums do not."""
    tensors, targets, weights = problem(1, rows=4096, vocabulary=40, dtype=torch.bfloat16)
    plain = evaluate(tensors, targets, weights, 1.0)
    tiled(monkeypatch, (64, 16))
    result = evaluate(tensors, targets, weights, 1.0)
    assert result[0].dtype == result[1].dtype == torch.float32
    torch.testing.assert_close(result[0], plain[0], atol=1e-5, rtol=1e-5)
    for got, want in zip(result[2:], plain[2:], strict=True):
        assert got.dtype == torch.bfloat16
        error = (got.float() - want.float()).norm() / want.float().norm()
        assert error < 5e-3


def test_frozen_head_and_no_grad(monkeypatch):
    (hidden, head, _), targets, _ = problem(2, dtype=torch.float32)
    head = head.detach()
    expected = torch.autograd.grad(logprobs.logprobs_and_entropy(hidden, head, targets)[0].sum(), hidden)[0]
    tiled(monkeypatch)
    logps, entropies = logprobs.logprobs_and_entropy(hidden, head, targets)
    assert not entropies.requires_grad
    torch.testing.assert_close(torch.autograd.grad(logps.sum(), hidden)[0], expected, atol=1e-5, rtol=1e-5)
    with torch.no_grad():
        assert not logprobs.logprobs_and_entropy(hidden, head, targets)[0].requires_grad


def test_no_tokens_give_no_values():
    logps, entropies = logprobs.logprobs_and_entropy(torch.ones(0, 4), torch.ones(5, 4), torch.zeros(0).long())
    assert logps.shape == entropies.shape == (0,)
