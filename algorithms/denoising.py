"""Dream's denoising: a canvas of mask tokens becomes text, the most confident positions first (arXiv 2508.15487).

Covered: how many positions a step unmasks, candidate tokens with their confidence (entropy, maskgit_plus, topk_margin,
origin), which positions are chosen; blocks from left to right (LLaDA, arXiv 2502.09992, §2.4), and a threshold beyond
which positions need not wait for their turn (Fast-dLLM, arXiv 2505.22618); a transformers model's logits for the
positions after the prompts; draws by the key of a row; where a completion ends. Not covered: batching prompts, the keys
(ares/engines/diffusion.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from algorithms.keyed_sampling import draw_tokens, keyed_uniform, nucleus
from algorithms.settings import DenoisingSettings

EPS = 1e-3
LOG_EPS = 1e-10
POSITIONS_PER_CHUNK = 64
"""Masked positions processed at a time: memory is this × vocabulary instead of all positions × vocabulary."""


class Proposal(NamedTuple):
    """For each position: a token, the position's confidence, the token's log-prob and the entropy (nats), all [N]."""

    tokens: Tensor
    confidence: Tensor
    log_probs: Tensor
    entropies: Tensor


@dataclass(frozen=True)
class FinishedCanvas:
    """A finished canvas [B, K]: tokens, and for each its log-prob and entropy."""

    tokens: Tensor
    log_probs: Tensor
    entropies: Tensor
    passes: Tensor
    """Passes through the model in which a row still had masks: [B]."""


def uncovered_share(step: int, steps: int) -> float:
    """Share of the masked positions that a step unmasks, 1 − s/t on t = linspace(1, 1e-3); the last step takes all."""
    if step == steps - 1:
        return 1.0
    times = torch.linspace(1, EPS, steps + 1)
    return float(1 - times[step + 1] / times[step])


def plan_passes(settings: DenoisingSettings, places: int) -> Iterator[tuple[int, float]]:
    """For each step: how many of the canvas's first positions it may unmask, and the share of those still masked.

    A block gets an equal part of the steps; without blocks the canvas is one. Raises ValueError where it does not.
    """
    blocks, rest = divmod(places, settings.block or places)
    steps, more = divmod(settings.steps, max(blocks, 1))
    if rest or more:
        raise ValueError(f"{places} positions in {settings.steps} steps cannot be cut into blocks of {settings.block}")
    for number in range(1, blocks + 1):
        yield from ((number * places // blocks, uncovered_share(step, steps)) for step in range(steps))


def propose(logits: Tensor, uniform: Tensor, settings: DenoisingSettings, mask_id: int | None = None) -> Proposal:
    """A token and a confidence for each position (Dream's sampler).

    logits: [N, V]; uniform: [N]. Confidence is of the distribution after temperature and top-p; the log-prob is of that
    before top-p. The mask token is never proposed.
    """
    scaled = logits.float() if settings.temperature in (0, 1) else logits.float() / settings.temperature
    log_probs = torch.log_softmax(scaled, -1)
    entropies = -torch.linalg.vecdot(log_probs.exp(), log_probs)
    probs = nucleus(log_probs.exp(), settings.top_p)
    probs = probs / probs.sum(-1, keepdim=True) if settings.top_p < 1 else probs
    allowed = probs
    if mask_id is not None:
        allowed = probs.clone()
        allowed[:, mask_id] = 0.0
        # Where the nucleus is the mask token alone, draw from all other tokens.
        alone = allowed.sum(-1) == 0
        if bool(alone.any()):
            others = scaled[alone]
            others[:, mask_id] = -torch.inf
            allowed[alone] = torch.softmax(others, -1)
    tokens = draw_tokens(allowed, uniform) if settings.temperature else allowed.argmax(-1)
    if settings.alg == "topk_margin":
        best = probs.topk(2, -1).values
        confidence = best[:, 0] - best[:, 1]
    elif settings.alg == "entropy":
        confidence = torch.linalg.vecdot(probs, torch.log(probs + LOG_EPS))
    else:
        confidence = probs.gather(-1, tokens[:, None])[:, 0]
    return Proposal(tokens, confidence, log_probs.gather(-1, tokens[:, None])[:, 0], entropies)


def chosen_places(
    confidence: Tensor, masked: Tensor, share: float, settings: DenoisingSettings, uniform: Tensor
) -> Tensor:
    """Which positions a step unmasks: [B, K] bool.

    confidence: [B, K]; masked: [B, K]; uniform: [B, K], used by `origin` and alg_temp. Of n masked positions
    int(n·share) are chosen, with a threshold at least one, the leftmost first where confidences tie; `origin` takes
    each with probability `share`.
    """
    if settings.alg == "origin":
        return masked & (uniform < share)
    rank_by = confidence.double()
    if settings.alg_temp > 0:
        # Gumbel-top-k: sampling without replacement (Kool et al., arXiv 1903.06059).
        gumbel = -torch.log(-torch.log(uniform.clamp(min=1e-300, max=1 - 2**-53)))
        rank_by = rank_by / settings.alg_temp + gumbel
    rank_by = rank_by.masked_fill(~masked, -torch.inf)
    rank = rank_by.argsort(dim=-1, descending=True, stable=True).argsort(-1)
    counts = (masked.sum(1) * share).floor() if share < 1 else masked.sum(1)
    if settings.threshold is not None:
        counts = counts.clamp(min=1)
    return masked & (rank < counts[:, None])


def denoise(
    model: Any,
    prompts: Tensor,
    prompt_mask: Tensor,
    seeds: Tensor,
    places: int,
    settings: DenoisingSettings,
    mask_id: int,
) -> FinishedCanvas:
    """Unmask K positions after each prompt. A row's tokens do not depend on the rows beside it.

    prompts: [B, P], left-padded where prompt_mask is 0; seeds: keys of the rows' draws, int64 [B].
    """
    shape, device = (len(prompts), places), prompts.device
    seen = torch.cat([prompt_mask, prompt_mask.new_ones(shape)], 1)
    canvas, place = torch.full(shape, mask_id, device=device), torch.arange(places, device=device)
    log_probs, entropies = torch.zeros(shape, device=device), torch.zeros(shape, device=device)
    passed = torch.zeros(shape[0], dtype=torch.long, device=device)
    for step, (end, share) in enumerate(plan_passes(settings, places)):
        masked = canvas == mask_id
        masked[:, end:] = False
        waits = settings.alg != "origin" and settings.threshold is None and int(masked.sum(1).max() * share) == 0
        if waits or not bool(masked.any()):
            continue
        passed += masked.any(1)
        of_tokens, of_places = (keyed_uniform(seeds[:, None], (2 * step + use) * places + place) for use in (0, 1))
        logits = completion_logits(model, torch.cat([prompts, canvas], 1), places, seen)
        proposed = _propose_all(logits[masked], of_tokens[masked], settings, mask_id)
        confidence = torch.zeros(shape, device=device).masked_scatter(masked, proposed.confidence)
        take = chosen_places(confidence, masked, share, settings, of_places)
        if settings.threshold is not None:
            take[masked] |= proposed.log_probs.exp() > settings.threshold
        taken = take[masked]
        canvas[take] = proposed.tokens[taken]
        log_probs[take], entropies[take] = proposed.log_probs[taken], proposed.entropies[taken]
    return FinishedCanvas(canvas, log_probs, entropies, passed)


def _propose_all(logits: Tensor, uniform: Tensor, settings: DenoisingSettings, mask_id: int) -> Proposal:
    parts = [
        propose(block, draws, settings, mask_id)
        for block, draws in zip(logits.split(POSITIONS_PER_CHUNK), uniform.split(POSITIONS_PER_CHUNK), strict=True)
    ]
    return Proposal(*map(torch.cat, zip(*parts, strict=True)))


def completion_logits(model: Any, input_ids: Tensor, keep: int, attention_mask: Tensor | None = None) -> Tensor:
    """Logits that predict the last `keep` tokens: [B, keep, V]. Position j is predicted by logit j − 1 (as in Dream).

    attention_mask: [B, L], 0 at left padding; None without padding. Models that can compute only the last logits
    (`num_logits_to_keep`, `logits_to_keep`) are asked to.
    """
    length = input_ids.shape[1]
    accepted = inspect.signature(getattr(model, "forward", model)).parameters
    wanted = min(keep + 1, length)
    options: dict[str, Any] = {}
    for name in ("num_logits_to_keep", "logits_to_keep"):
        if name in accepted and wanted < length:
            options[name] = wanted
    if attention_mask is not None and not bool(attention_mask.all()):
        seen = attention_mask.bool()
        options["attention_mask"] = attention_both_ways(seen)
        options["position_ids"] = (seen.long().cumsum(1) - 1).clamp(min=0)
    logits = model(input_ids, **options).logits
    logits = logits[:, -wanted:]
    if keep == length:  # nothing precedes the first token, so its own logit predicts it, as in Dream
        return torch.cat([logits[:, :1], logits[:, :-1]], 1)
    return logits[:, :-1]


def attention_both_ways(seen: Tensor) -> Tensor:
    """Which positions attend to which, among those that are seen: bool [B, N] → [B, 1, N, N].

    Padding sees itself: what attends to nothing is NaN in some kernels, and NaN spreads through the values.
    """
    own = torch.eye(seen.shape[1], dtype=torch.bool, device=seen.device)
    return seen[:, None, None, :] & seen[:, None, :, None] | own


def completion_mask(ends: Tensor) -> Tensor:
    """1 up to and including the first end token, 0 after it. ends: bool [B, K], true at end tokens → int64 [B, K]."""
    ended = ends.long()
    return (ended.cumsum(1) - ended == 0).long()
