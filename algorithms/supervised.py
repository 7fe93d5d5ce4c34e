"""The loss of demonstrations: the likelihood of what they say.

Not covered: which tokens an assistant says (ares/step/demonstrations.py).
"""

from __future__ import annotations

from torch import Tensor

from algorithms.advantages import widened
from algorithms.losses import PolicyTokens
from algorithms.settings import PolicySettings


class Likelihood:
    """−A·log π, without a ratio to an older policy. Of demonstrations, where A is 1, the cross-entropy."""

    def __init__(self, settings: PolicySettings) -> None:
        self.settings = settings

    def terms(self, tokens: PolicyTokens) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of each token."""
        padding = ~(tokens.mask > 0)
        log_probs, advantages = (
            widened(field).masked_fill(padding, 0.0) for field in (tokens.log_probs, tokens.advantages)
        )
        return -advantages * log_probs, {}
