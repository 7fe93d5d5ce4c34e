"""Log-probabilities and entropy straight from hidden states, without a [tokens, vocabulary] matrix in float32.

The head is applied in tiles (a block of tokens × a block of the vocabulary) small enough to stay in cache, with a
running maximum and sum as in FlashAttention. The backward pass recomputes each tile and takes the gradients of hidden
states and head from it. Small problems use plain log_softmax.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

# Tokens × vocabulary of one tile: on a CPU it should fit the last-level cache, a GPU needs larger ones to stay busy.
CPU_TILE = (512, 4096)
CUDA_TILE = (4096, 16384)
# Up to this many logits the plain form is faster, and its copies of them are small.
PLAIN_LIMIT = 1 << 23


def logprobs_and_entropy(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    bias: Tensor | None = None,
    temperature: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """log p(target) and the entropy of p = softmax((hidden·weightᵀ + bias)/temperature), in nats.

    hidden: [N, H]; weight: [V, H]; targets: [N] in [0, V); bias: [V]. Returns ([N], [N]) float32. Gradients reach
    hidden, weight and bias through the log-probs; the entropy has none.
    Sums are in float32 for inputs of any type; logits are first rounded to the inputs' type, as a model's own would be.
    """
    if bias is not None:
        bias = bias.to(hidden.dtype)
    if hidden.shape[0] * weight.shape[0] <= PLAIN_LIMIT:
        return _plain(hidden, weight, targets, bias, temperature)
    logps, entropies = _TiledHead.apply(hidden, weight, targets, bias, temperature)
    return logps, entropies


def _plain(
    hidden: Tensor, weight: Tensor, targets: Tensor, bias: Tensor | None, temperature: float
) -> tuple[Tensor, Tensor]:
    logits = linear(hidden, weight, bias).float()
    if temperature != 1.0:
        logits = logits / temperature
    logps = torch.log_softmax(logits, dim=-1)
    with torch.no_grad():
        entropies = -torch.linalg.vecdot(logps.exp(), logps)
    return logps.gather(-1, targets[:, None])[:, 0], entropies


class _TiledHead(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, bias: Tensor | None, temperature: float
    ) -> tuple[Tensor, Tensor]:
        rows, vocabulary = hidden.shape[0], weight.shape[0]
        lse = torch.empty(rows, dtype=torch.float32, device=hidden.device)
        entropies, logps = torch.empty_like(lse), torch.empty_like(lse)
        token_step, vocab_step = _tile(hidden)
        for t in range(0, rows, token_step):
            span = slice(t, t + token_step)
            tiles = (
                (v, _logits(hidden[span], weight[v : v + vocab_step], bias, v, temperature))
                for v in range(0, vocabulary, vocab_step)
            )
            lse[span], logps[span], entropies[span] = _summed_up(tiles, targets[span, None])
        ctx.save_for_backward(hidden, weight, targets, bias, lse)
        ctx.temperature = temperature
        ctx.mark_non_differentiable(entropies)
        return logps, entropies

    @staticmethod
    def backward(ctx: Any, grad_logps: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
        hidden, weight, targets, bias, lse = ctx.saved_tensors
        want_hidden, want_weight, _, want_bias = ctx.needs_input_grad[:4]
        rows, vocabulary = hidden.shape[0], weight.shape[0]
        grad_hidden = torch.zeros_like(hidden, dtype=torch.float32) if want_hidden else None
        grad_weight = torch.empty_like(weight) if want_weight else None
        grad_bias = torch.empty_like(bias) if want_bias and bias is not None else None
        token_step, vocab_step = _tile(hidden)
        # The row factors −g/T of (p − onehot) scale the [N, H] matrices instead of every tile.
        factor = (-grad_logps.float() / ctx.temperature)[:, None]
        scaled_hidden = (hidden * factor).to(hidden.dtype)
        for v in range(0, vocabulary, vocab_step):
            head = weight[v : v + vocab_step]
            # Vocabulary blocks are outermost, so a small float32 buffer can sum a block's gradient over all tokens.
            sum_weight = torch.zeros(head.shape, dtype=torch.float32, device=head.device) if want_weight else None
            sum_bias = (
                torch.zeros(len(head), dtype=torch.float32, device=head.device) if grad_bias is not None else None
            )
            for t in range(0, rows, token_step):
                span = slice(t, t + token_step)
                block = hidden[span]
                tile = _logits(block, head, bias, v, ctx.temperature).sub_(lse[span, None]).exp_()
                local, inside = _in_tile(targets[span, None], v, tile.shape[1])
                tile.scatter_add_(1, local, -inside.to(tile.dtype))
                typed = tile.to(hidden.dtype)
                if grad_hidden is not None:
                    grad_hidden[span] += typed @ head
                if sum_weight is not None:
                    sum_weight += typed.T @ scaled_hidden[span]
                if sum_bias is not None:
                    sum_bias += (tile * factor[span]).sum(0)
            if grad_weight is not None and sum_weight is not None:
                grad_weight[v : v + vocab_step] = sum_weight
            if grad_bias is not None and sum_bias is not None:
                grad_bias[v : v + vocab_step] = sum_bias
        if grad_hidden is not None:
            grad_hidden = grad_hidden.mul_(factor).to(hidden.dtype)
        return grad_hidden, grad_weight, None, grad_bias, None


def _summed_up(tiles: Iterable[tuple[int, Tensor]], target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log-sum-exp, log-prob of the target and entropy of each row, from tiles of its logits with their first column.

    target: [N, 1]. Returns three [N].
    """
    top = torch.full(target.shape, -math.inf, device=target.device)
    mass, moment, chosen = torch.zeros_like(top), torch.zeros_like(top), torch.zeros_like(top)
    for v, logits in tiles:
        local, inside = _in_tile(target, v, logits.shape[1])
        chosen += torch.where(inside, logits.gather(1, local), 0.0)
        new_top = torch.maximum(top, logits.amax(1, keepdim=True))
        # `moment` is Σ e^{z−top}·(z−top); a new `top` rescales it and shifts it by mass·(top−new_top).
        shift = (top - new_top).nan_to_num(neginf=0.0) if v == 0 else top - new_top
        scale = shift.exp()
        moment = scale * (moment + shift * mass)
        mass = scale * mass
        logits.sub_(new_top)
        weights = logits.exp()
        mass += weights.sum(1, keepdim=True)
        moment += torch.linalg.vecdot(weights, logits)[:, None]
        top = new_top
    log_mass = mass.log()
    return (log_mass + top)[:, 0], (chosen - top - log_mass)[:, 0], (log_mass - moment / mass)[:, 0]


def _in_tile(target: Tensor, first: int, width: int) -> tuple[Tensor, Tensor]:
    """The target's column in a tile that starts at `first`, clamped to its width, and whether it lies inside."""
    local = target - first
    return local.clamp(0, width - 1), (local >= 0) & (local < width)


def _tile(hidden: Tensor) -> tuple[int, int]:
    return CPU_TILE if hidden.device.type == "cpu" else CUDA_TILE


def _logits(block: Tensor, head: Tensor, bias: Tensor | None, start: int, temperature: float) -> Tensor:
    """One float32 tile of logits that the caller may overwrite."""
    part = None if bias is None else bias[start : start + len(head)]
    logits = linear(block, head, part).float()
    return logits if temperature == 1.0 else logits.div_(temperature)
