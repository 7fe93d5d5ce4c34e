"""What an update minimises on a micro-batch (the surrogate, the KL in the loss, the critic's loss), and its metrics.

Not covered: gradients, optimiser steps and ranks (ares/learner/learner.py), the mathematics (algorithms/losses.py).
"""

from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor

from algorithms.entropy_bonus import entropy_bonus_loss
from algorithms.keys import derive_seed
from algorithms.kl_controllers import KLController
from algorithms.losses import (
    PolicyLoss,
    PolicyTokens,
    compute_kl_loss,
    compute_value_loss,
    importance_weights,
    loss_normalizer,
    policy_loss,
)
from algorithms.protocol import DataProto
from algorithms.surrogates import ChoosingLoss
from ares.config import POLICY_LOSSES, Config
from ares.models import Critic, PolicyModel

MISMATCH = ("mismatch/ratio_mean", "mismatch/kl", "mismatch/k3", "mismatch/logprob_diff_mean")
"""Mismatch metrics that are means, so they can be averaged over micro-batches."""


@dataclass
class Means:
    """Token-weighted means over micro-batches."""

    totals: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)

    def add(self, values: dict[str, float], weight: float) -> None:
        for name, value in values.items():
            self.totals[name] = self.totals.get(name, 0.0) + value * weight
            self.weights[name] = self.weights.get(name, 0.0) + weight

    def merge(self, other: "Means") -> None:
        for name, total in other.totals.items():
            self.totals[name] = self.totals.get(name, 0.0) + total
            self.weights[name] = self.weights.get(name, 0.0) + other.weights[name]

    def means(self) -> dict[str, float]:
        return {name: total / max(self.weights[name], 1e-8) for name, total in self.totals.items()}


class MicroBatch:
    """Rows that pass through the model together, without columns beyond the longest response."""

    def __init__(self, rows: DataProto, policy: PolicyModel) -> None:
        self.rows = rows
        self.tensors = policy.on_device(rows)
        full = self.tensors["response_mask"].bool()
        self._full = full
        self._keep = int(full.any(0).nonzero().max()) + 1
        self.mask = self["response_mask"]
        self.row_kl = torch.zeros(len(full))

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name][:, : self._keep]

    def columns(self, values: Tensor) -> Tensor:
        """Values of the response tokens, row after row, as [B, L] with zeros elsewhere; keeps the gradient."""
        spread = torch.zeros(self._full.shape, device=values.device, dtype=values.dtype)
        return spread.masked_scatter(self._full, values)[:, : self._keep]


class Objective:
    """The losses of a run; an average is over the whole global batch, whatever the micro-batch."""

    def __init__(
        self, config: Config, policy: PolicyModel, reference: PolicyModel | None, critic: Critic | None
    ) -> None:
        self.config, self.policy, self.reference, self.critic = config, policy, reference, critic
        self.surrogate: PolicyLoss = POLICY_LOSSES.make(config.algorithm.policy)
        self.chooses = bool(POLICY_LOSSES.fact(config.algorithm.policy.loss, "chooses"))

    def choose(self, batch: DataProto, *draw: str | int) -> None:
        """Write `chosen` into a global batch, if the surrogate chooses tokens of it. draw: keys of a random choice."""
        if self.chooses:
            chooser = cast(ChoosingLoss, self.surrogate)
            generator = torch.Generator().manual_seed(derive_seed(self.config.train.seed, "choose", *draw))
            batch.batch["chosen"] = chooser.choose(
                batch.tensor("old_log_probs"), batch.tensor("advantages"), batch.tensor("response_mask"), generator
            )

    def terms(
        self,
        part: MicroBatch,
        controller: KLController | None,
        averaging: dict[str, Any],
        means: Means,
        compares: bool,
    ) -> dict[str, Tensor]:
        """Losses of one micro-batch by name: the surrogate, the KL if it is in the loss, the critic's.

        Their metrics go into `means`. compares: measure the mismatch, too.
        """
        own = self.policy.token_log_probs(part.tensors, self.config.rollout.temperature)
        log_probs = part.columns(own.log_probs)
        chosen = part["chosen"] if self.chooses else None
        old = part["old_log_probs"] if "old_log_probs" in part.tensors else log_probs.detach()  # of demonstrations
        tokens = PolicyTokens(old, log_probs, part["advantages"], part.mask, chosen)
        loss, metrics = policy_loss(self.surrogate, tokens, part["importance_weights"], **averaging)
        # The entropy is averaged as the loss is, every other metric over tokens.
        share = loss_normalizer(part.mask, averaging["mode"], averaging["constant_length"])
        means.add({"actor/entropy_loss": metrics.pop("entropy_loss")}, float(share))
        means.add({f"actor/{name}": value for name, value in metrics.items()}, float(part.mask.sum()))
        if compares:
            _, mismatch = importance_weights(log_probs.detach(), part["old_log_probs"], part.mask)
            means.add({name: mismatch[name] for name in MISMATCH}, float(part.mask.sum()))
        terms = {"actor/pg_loss": loss}
        if self.config.algorithm.entropy_bonus.is_on:
            terms["actor/entropy_bonus"] = entropy_bonus_loss(
                log_probs,
                part["old_log_probs"],
                part.columns(own.entropies),
                part["entropy_coefs"],
                part.mask,
                part["importance_weights"],
                **averaging,
            )
        if self.config.algorithm.kl.placement == "loss":
            terms["actor/kl_loss"] = self._kl_loss(part, log_probs, controller, averaging)
        if self.critic is not None:
            terms["critic/vf_loss"] = self._critic_loss(part, self.critic, averaging["normalizer"], means)
        return terms

    def _kl_loss(
        self,
        part: MicroBatch,
        log_probs: Tensor,
        controller: KLController | None,
        averaging: dict[str, Any],
    ) -> Tensor:
        coefs, estimator = part["kl_coefs"], self.config.algorithm.kl.penalty
        if controller:
            betas = controller.coefficients(*part.rows.require("difficulty"))
            coefs = coefs * torch.as_tensor(betas, dtype=coefs.dtype, device=coefs.device)[:, None]
        pair = log_probs, part["ref_log_probs"]
        if estimator == "full":
            assert self.reference is not None, "a teacher behind a URL has no distributions (ares/config/rules.py)"
            # The exact KL is already a divergence: as "kl" against zero it passes through unchanged.
            exact = part.columns(self.policy.exact_kl(self.reference, part.tensors, self.config.rollout.temperature))
            pair, estimator = (exact, torch.zeros_like(exact)), "kl"
        loss, part.row_kl = compute_kl_loss(*pair, part.mask, coefs, estimator, **averaging)
        return loss

    def _critic_loss(self, part: MicroBatch, critic: Critic, normalizer: Tensor, means: Means) -> Tensor:
        predicted = part.columns(critic.values(part.tensors))
        loss, clipped = compute_value_loss(
            predicted,
            part["returns"],
            part["values"],
            part.mask,
            self.config.learner.critic_clip,
            self.config.algorithm.policy.aggregation,
            normalizer,
        )
        mean = float(predicted.detach()[part.mask.bool()].mean())
        means.add({"critic/vf_clipfrac": clipped, "critic/value_mean": mean}, float(part.mask.sum()))
        return loss
