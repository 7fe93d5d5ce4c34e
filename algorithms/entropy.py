"""Token entropy, window entropy and high-window-entropy (HWE) tokens (ARES, arXiv 2510.08457; nats everywhere).

Threshold and counts use the same definition of entropy: exact where the learner sees the whole vocabulary, top-K plus a
tail term where only an engine's log-probs are available.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from algorithms.advantages import widened
from algorithms.state import check_state

TAIL_FLOOR = 1e-12


def token_entropy(logits: Tensor) -> Tensor:
    """Exact entropy of each next-token distribution (ARES, token entropy; nats). logits: [..., V] → [...] float32."""
    logp = torch.log_softmax(logits.float(), dim=-1)
    # A token banned with −inf adds nothing to the entropy: 0·ln 0 is 0, not NaN.
    return -(logp.exp() * logp.masked_fill(logp == -math.inf, 0.0)).sum(-1)


def topk_entropy(logprobs: Tensor) -> Tensor:
    """Entropy from an engine's top-K log-probs, all other tokens as one tail symbol (ARES, token entropy; nats).

    H = −Σ p ln p − r ln max(r, 1e-12), r = max(0, 1 − Σp). logprobs: [..., K], −inf where the engine gave fewer than K.
    Returns [...] float32 or wider: a lower bound of the exact entropy, equal to it when K is the vocabulary.
    """
    logprobs = widened(logprobs)
    probs = logprobs.exp()
    listed = -(probs * logprobs.masked_fill(logprobs == -math.inf, 0.0)).sum(-1)
    tail = (1.0 - probs.sum(-1)).clamp(min=0.0)
    # Rounding may push Σp above 1 and the listed part below 0, but entropy is never negative.
    return (listed - tail * tail.clamp(min=TAIL_FLOOR).log()).clamp(min=0.0)


def window_entropy(entropy: Tensor, mask: Tensor, window: int = 4) -> Tensor:
    """Mean entropy of the `window` tokens that follow each token, W_i = mean(H_{i+1..i+w}) (ARES; nats).

    entropy, mask: [B, L]. Returns [B, L], NaN unless the token and the `window` after it are response tokens.
    """
    entropy = widened(entropy)
    rows, length = entropy.shape
    result = entropy.new_full((rows, length), math.nan)
    starts = length - window
    if rows == 0 or starts <= 0:
        return result
    valid = mask.bool()
    # Padding may hold anything, even NaN, and must not reach a sum.
    clean = entropy.masked_fill(~valid, 0.0)
    total, complete = torch.zeros_like(clean[:, :starts]), valid[:, :starts].clone()
    for offset in range(1, window + 1):
        total += clean[:, offset : offset + starts]
        complete &= valid[:, offset : offset + starts]
    result[:, :starts] = torch.where(complete, total / window, math.nan)
    return result


def entropy_percentile_thresholds(
    entropy: Tensor, mask: Tensor, window: int = 4, percentile: float = 95.0
) -> np.ndarray:
    """Per-response percentile of window entropy, from which τ is estimated (ARES; nats).

    The last tokens, without a full window after them, take the mean of the row's windows, or the first token's own
    entropy if the row has no window; a row without tokens gives 0. Linear interpolation.
    entropy, mask: [B, L]. Returns float64 [B].
    """
    windows, valid = window_entropy(entropy, mask, window), mask.bool()
    if windows.numel() == 0:
        return np.zeros(len(windows))
    mean, first = windows.double().nanmean(1, keepdim=True), entropy.gather(1, valid.int().argmax(1, keepdim=True))
    tail = torch.where(mean.isnan(), first, mean).to(windows.dtype)
    filled = torch.where(windows.isnan(), tail, windows).masked_fill(~valid, math.nan)
    filled = filled.masked_fill(~valid.any(1, keepdim=True), 0.0)
    return np.nanpercentile(filled.detach().double().cpu().numpy(), percentile, axis=1)


def hwe_mask(entropy: Tensor, mask: Tensor, threshold: float, window: int = 4, trigger: Tensor | None = None) -> Tensor:
    """High-window-entropy tokens: W_i is defined and ≥ τ, and the sampled token is a trigger (ARES).

    entropy, mask: [B, L]; threshold τ in nats; trigger: bool [B, L], or None for every token. Returns bool [B, L].
    """
    high = window_entropy(entropy, mask, window) >= threshold
    return high if trigger is None else high & trigger.bool()


def hwe_count(hwe: Tensor) -> np.ndarray:
    """Number of HWE tokens of each response: hwe bool [B, L] → int64 [B]."""
    return hwe.sum(-1).cpu().numpy().astype(np.int64)


def soft_cost(
    entropy: Tensor, mask: Tensor, threshold: float, window: int = 4, trigger: Tensor | None = None
) -> np.ndarray:
    """Soft form of the HWE count, Σ max(0, W_i − τ) over trigger tokens (ARES code; nats). Returns float64 [B]."""
    excess = (window_entropy(entropy, mask, window) - threshold).nan_to_num(nan=0.0).clamp(min=0.0)
    if trigger is not None:
        excess = excess.masked_fill(~trigger.bool(), 0.0)
    return excess.sum(-1, dtype=torch.float64).cpu().numpy()


def normalize_token(token: str) -> str:
    """Trigger form of a vocabulary entry: leading ▁ or Ġ and surrounding space removed, lower-cased (ARES code)."""
    return token.lstrip("▁Ġ").strip().lower()


def trigger_vocabulary(vocabulary: Sequence[str], triggers: Iterable[str]) -> Tensor:
    """Which vocabulary entries are trigger tokens, compared in normalised form: bool [V]."""
    wanted = {normalize_token(trigger) for trigger in triggers}
    return torch.tensor([normalize_token(token) in wanted for token in vocabulary], dtype=torch.bool)


def trigger_mask(responses: Tensor, is_trigger: Tensor) -> Tensor:
    """Where the sampled token (not the argmax) is a trigger: responses [B, L], is_trigger [V] → bool [B, L].

    A model may have more tokens than its vocabulary names; those are none.
    """
    named = responses < len(is_trigger)
    return named & is_trigger.to(responses.device)[responses.where(named, 0)]


class ThresholdTracker:
    """Global HWE threshold τ: the median of a batch's per-response percentiles, smoothed over steps (ARES; nats).

    τ ← decay·τ + (1 − decay)·τ_batch, initialised by the first batch, never by a constant.
    """

    def __init__(self, decay: float = 0.99) -> None:
        self.decay = decay
        self._threshold: float | None = None

    @property
    def threshold(self) -> float:
        """τ in nats. Raises RuntimeError before the first update."""
        if self._threshold is None:
            raise RuntimeError("the HWE threshold is unknown before the first update")
        return self._threshold

    def update(self, thresholds: Collection[float] | np.ndarray) -> float:
        """Update τ with one batch's per-response thresholds (nats) and return it. An empty batch leaves it unchanged.

        Raises ValueError on a NaN, RuntimeError if the first batch is empty.
        """
        values = np.asarray(thresholds, dtype=np.float64)
        if values.size == 0:
            return self.threshold
        if not np.isfinite(values).all():
            raise ValueError(f"entropy thresholds must be finite; row {int(np.argmin(np.isfinite(values)))} is not")
        batch = float(np.median(values))
        if self._threshold is None:
            self._threshold = batch
        else:
            self._threshold = self.decay * self._threshold + (1.0 - self.decay) * batch
        return self._threshold

    def metrics(self) -> dict[str, float]:
        return {} if self._threshold is None else {"entropy/hwe_threshold": self._threshold}

    def state_dict(self) -> dict[str, float | None]:
        return {"threshold": self._threshold}

    def load_state_dict(self, state: dict[str, float | None]) -> None:
        check_state(state, self.state_dict(), "threshold state")
        self._threshold = state["threshold"]
