import torch

from algorithms.estimators import RewardedBatch


class GroupRank:
    """How many of its group a response beats, minus how many beat it."""

    within_group = True

    def __init__(self, section: object) -> None: ...

    def estimate(self, seen: RewardedBatch) -> tuple[torch.Tensor, torch.Tensor]:
        totals = (seen.rewards * seen.mask).sum(-1)
        groups = torch.as_tensor(seen.groups.astype("int64"))
        peers = (groups[:, None] == groups) & seen.counts & seen.counts[:, None]
        beaten = torch.sign(totals[:, None] - totals) * peers
        ranks = beaten.sum(-1) / peers.sum(-1).clamp(min=1)
        advantages = ranks[:, None] * seen.mask
        return advantages, advantages
