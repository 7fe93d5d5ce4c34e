import torch

from algorithms.losses import PolicyTokens
from ares.config import Strict


class Cispo:
    """CISPO (arXiv 2506.13585): the clipped ratio weighs log π, and no token loses its gradient."""

    class Settings(Strict):
        limit: float = 3.0

    def __init__(self, settings: Settings) -> None:
        self.limit = settings.limit

    def terms(self, tokens: PolicyTokens) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        padding = ~(tokens.mask > 0)
        log_probs = tokens.log_probs.masked_fill(padding, 0.0)
        old = tokens.old_log_probs.masked_fill(padding, 0.0)
        advantages = tokens.advantages.masked_fill(padding, 0.0)
        ratio = (log_probs - old).detach().exp()
        loss = -ratio.clamp(max=self.limit) * advantages * log_probs
        return loss, {"clipped": (ratio > self.limit).float()}
