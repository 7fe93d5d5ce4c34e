"""Settings of what is learnt from a batch: difficulty, entropy, reward shaping, KL, advantages, filter, surrogate."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from ares.config.extensions import ESTIMATORS, KL_CONTROLLERS, POLICY_LOSSES, UNOPENED
from ares.config.strict import MOST, MOST_STEPS, MOST_TOKENS, NonNegative, PerBucket, Strict


class DifficultyConfig(Strict):
    """Difficulty buckets, their targets and entropy coefficients (AEPO)."""

    alpha_init: NonNegative | PerBucket = 0.5
    """Entropy coefficient at the start, one or per bucket."""
    alpha_lr: float = Field(0.05, ge=0)
    """Step of alpha per unit of deviation (HWE tokens) from the target."""
    alpha_min: float = Field(0.0, ge=0)
    """Lower bound of alpha."""
    alpha_max: float = Field(2.0, ge=0)
    """Upper bound of alpha."""
    target_mode: Literal["batch", "previous", "ema"] = "ema"
    """Against which target a batch is compared: with "batch", as published, alpha never adapts."""
    target_ema: float = Field(0.1, gt=0, le=1)
    """Weight of the new batch in the target's moving average (target_mode=ema)."""
    drop_allpass_entropy_threshold: float = -1.0
    """Leave out problems that are always solved with a mean entropy below this (nats); below 0: never."""
    shuffled: bool = False
    """A placebo, for ablations: the difficulties of a batch or of the bootstrap are dealt to its prompts at random."""

    @model_validator(mode="after")
    def _alpha_has_a_range(self) -> "DifficultyConfig":
        if self.alpha_min > self.alpha_max:
            raise ValueError(f"alpha_min ({self.alpha_min}) is above alpha_max ({self.alpha_max})")
        return self


class EntropyConfig(Strict):
    """High-window-entropy (HWE) tokens."""

    window: int = Field(4, ge=1, le=MOST_TOKENS)
    """Tokens that follow a token and whose mean entropy marks it."""
    percentile: float = Field(95.0, ge=0, le=100)
    """Percentile of a response's window entropies that is its own threshold."""
    threshold_ema: float = Field(0.99, ge=0, lt=1)
    """Weight of the past in the moving average of the batch threshold."""
    trigger_tokens: str | None = None
    """File with one token a line; only these count as HWE tokens. None: every token."""


class AepoRewardConfig(Strict):
    """The entropy part of the reward."""

    enabled: bool = True
    """Off: the reward is accuracy alone."""
    zero_baseline: bool = True
    """A wrong answer without surplus exploration earns 0 instead of half the cap."""
    guard_inversion: bool = True
    """No wrong answer may outscore a right one of its bucket."""


class OverlongConfig(Strict):
    """What happens to responses that run into the length limit."""

    mask_truncated: bool = False
    """Truncated responses get advantage 0 and do not count in their group's statistics (DAPO, DeepCoder)."""
    include_truncated_in_baseline: bool = False
    """With mask_truncated: let the rewards of truncated responses count in their group's mean and deviation."""
    soft_punish_cache: int = Field(0, ge=0, le=MOST_TOKENS)
    """Tokens before the limit over which DAPO's soft punishment grows from 0 to −1; 0: off."""
    soft_punish_weight: float = Field(1.0, gt=0, le=100)
    """Factor on that punishment."""

    @property
    def leaves_out_truncated(self) -> bool:
        """Whether truncated responses count neither in the loss nor in their group's statistics."""
        return self.mask_truncated and not self.include_truncated_in_baseline


class KlConfig(Strict):
    """The KL penalty towards the reference policy."""

    placement: Literal["none", "reward", "loss"] = "loss"
    """In the reward or in the loss, never in both; none: no reference model is loaded."""
    kind: Annotated[str, AfterValidator(KL_CONTROLLERS.known)] = "fixed"
    """fixed, adaptive: one coefficient; token_adaptive: dual ascent per bucket; bucket_beta: EMA per bucket (loss);
    or path/to/file.py:Name (docs/extending.md)."""
    settings: Annotated[dict[str, Any], AfterValidator(KL_CONTROLLERS.settled)] = Field({})
    """Settings of a controller in a file of yours."""
    penalty: Literal["kl", "abs", "mse", "low_var_kl", "full"] = "low_var_kl"
    """Estimator of the token KL: k1, |k1|, k2, k3, or the exact sum over the vocabulary. In the reward k1 (kl) is the
    unbiased one, k3 (low_var_kl) and the others are biased. In the loss k1 has no expected gradient, and is refused."""
    coef: NonNegative | PerBucket = 1e-2
    """Initial coefficient, one or per bucket (token_adaptive)."""
    target: NonNegative | PerBucket = 0.1
    """KL that adaptive controllers steer to (nats a token), one or per bucket."""
    horizon: float = Field(10000.0, gt=0)
    """Samples over which the adaptive coefficient may change by its full range."""
    mode: Literal["anchored", "compound"] = "anchored"
    """token_adaptive: coefficient λ·coef₀, or the published λ·coef, which explodes or locks at zero."""
    beta_interval: int = Field(100, ge=1, le=MOST)
    """bucket_beta: optimiser steps between two changes of β."""
    relax_hwe: float = Field(0.5, ge=0, le=1)
    """In the loss: factor on the coefficient at HWE tokens (1: none)."""
    relax_scope: Literal["token", "window"] = "token"
    """At the HWE token itself, or at the window that follows it."""
    reference_sync: int | None = Field(None, ge=1, le=MOST_STEPS)
    """Steps after which the reference becomes a copy of the policy, again and again. None: it stays where it was."""
    relax_wrong_easy: float = Field(1.0, ge=0, le=1)
    """Second chance, in the loss: factor on the coefficient of wrong answers to easy problems (1: off)."""

    @model_validator(mode="after")
    def _placement_fits_the_controller(self, info: ValidationInfo) -> "KlConfig":
        if info.context != UNOPENED and self.in_loss and self.placement == "reward":
            raise ValueError(f"kind={self.kind} adapts β inside the loss: set placement=loss")
        if info.context != UNOPENED and self.in_loss and isinstance(self.coef, dict):
            raise ValueError(f"kind={self.kind} adapts β inside the loss, beside one coef for all buckets")
        if self.penalty == "full" and self.placement == "reward":
            raise ValueError(
                "penalty=full needs the whole distribution of both policies, which the reward does not hold: "
                "set placement=loss"
            )
        return self

    @model_validator(mode="after")
    def _the_loss_has_a_gradient(self) -> "KlConfig":
        if self.penalty == "kl" and self.placement == "loss":
            raise ValueError(
                "penalty=kl in the loss has an expected gradient of zero (that of Σ_v π), so that nothing holds the "
                "policy and controllers push the coefficient up: set penalty=low_var_kl (k3), mse (k2) or full, or "
                "placement=reward, where k1 is unbiased"
            )
        return self

    @model_validator(mode="after")
    def _numbers_fit_the_controller(self) -> "KlConfig":
        if self.kind not in KL_CONTROLLERS.builtin:
            return self  # it has numbers of its own

        def fact(name: str) -> bool:
            return bool(KL_CONTROLLERS.fact(self.kind, name))

        if isinstance(self.coef, dict) and not fact("coef_per_bucket"):
            raise ValueError(f"kind={self.kind} has one coef; one per bucket needs kind=token_adaptive")
        if isinstance(self.target, dict) and fact("one_target"):
            raise ValueError(
                f"kind={self.kind} has one target; one per bucket needs kind=token_adaptive or bucket_beta"
            )
        targets = self.target.values() if isinstance(self.target, dict) else [self.target]
        if fact("divides_by_target") and not all(targets):
            raise ValueError(f"kind={self.kind} divides by the target: it must be above 0 (got {self.target})")
        return self

    @property
    def in_loss(self) -> bool:
        """Whether the controller works inside the loss, once an optimiser step, instead of once a batch."""
        return bool(KL_CONTROLLERS.fact(self.kind, "in_loss"))


class AdvantageConfig(Strict):
    """How rewards become advantages."""

    estimator: Annotated[str, AfterValidator(ESTIMATORS.known)] = "grpo"
    """grpo, rloo (compare within a prompt's group), remax (with its greedy answer), gae (with a critic),
    reinforce_plus_plus, or path/to/file.py:Name (docs/extending.md)."""
    settings: Annotated[dict[str, Any], AfterValidator(ESTIMATORS.settled)] = Field({})
    """Settings of an estimator in a file of yours."""
    norm_by_std: bool = True
    """grpo: divide by the group's standard deviation. False is Dr.GRPO."""
    gamma: float = Field(1.0, gt=0, le=1)
    """Discount (reinforce_plus_plus, gae)."""
    lam: float = Field(1.0, ge=0, le=1)
    """λ of GAE."""

    @property
    def needs_values(self) -> bool:
        """Whether a critic is trained."""
        return bool(ESTIMATORS.fact(self.estimator, "needs_values"))

    @property
    def needs_greedy(self) -> bool:
        """Whether a greedy answer is sampled with each group."""
        return bool(ESTIMATORS.fact(self.estimator, "needs_greedy"))

    @property
    def within_group(self) -> bool:
        """Whether the samples of a prompt are compared with each other, as second turns need it."""
        return bool(ESTIMATORS.fact(self.estimator, "within_group"))


class FilterConfig(Strict):
    """Online filtering (DAPO): groups that teach nothing are replaced by fresh ones."""

    enabled: bool = True
    """Off: every group is trained on, all-correct ones included, which are what AEPO shortens."""
    key: Literal["accuracy", "reward"] = "accuracy"
    """accuracy: kept between `low` and `high`; reward: kept when its rewards differ (dense code rewards)."""
    low: float = Field(0.01, ge=0, le=1)
    """A group is kept when its mean accuracy is above this …"""
    high: float = Field(0.99, ge=0, le=1)
    """… and below this."""
    max_tries: int = Field(20, ge=1, le=MOST)
    """Rollouts drawn for one batch before the run stops with an error."""

    @model_validator(mode="after")
    def _low_is_below_high(self) -> "FilterConfig":
        if self.low >= self.high:
            raise ValueError(f"low ({self.low}) must be below high ({self.high}), or no group is ever kept")
        return self


class PolicyLossConfig(Strict):
    """The surrogate."""

    loss: Annotated[str, AfterValidator(POLICY_LOSSES.known)] = "ppo"
    """ppo (ratio and the clips below are its settings), or path/to/file.py:Name (docs/extending.md)."""
    settings: Annotated[dict[str, Any], AfterValidator(POLICY_LOSSES.settled)] = Field({})
    """Settings of a loss in a file of yours."""
    ratio: Literal["token", "sequence"] = "token"
    """Importance ratio per token (PPO) or per sequence (GSPO)."""
    clip_low: float = Field(0.2, gt=0, lt=1)
    """The ratio is clipped below at 1 − clip_low."""
    clip_high: float = Field(0.3, gt=0)
    """The ratio is clipped above at 1 + clip_high (DAPO: 0.28)."""
    clip_dual: float = Field(3.0, gt=1)
    """Bound on the loss of a negative advantage, in units of it (dual clip)."""
    aggregation: Literal["token", "seq", "constant"] = "token"
    """Mean over tokens, mean of sequence means, or division by the constant maximal length (Dr.GRPO)."""
    epochs: int = Field(1, ge=1, le=MOST_STEPS)
    """Passes over a batch."""
    importance_cap: float | None = Field(2.0, gt=0)
    """Bound of the importance weights ρ = π_learner/π_engine that correct for stale samples (rollout.max_staleness) and
    for the engine's own rounding; None: ρ is only measured."""
    importance_weights: Literal["truncated", "masked"] = "truncated"
    """truncated: min(ρ, cap). masked: ρ where 1/cap ≤ ρ ≤ cap; other tokens do not count (needs a cap above 1)."""
    old_log_probs: Literal["learner", "engine"] = "learner"
    """What the ratio is taken against: the learner's own log-probs before the update, or those that the engine sampled
    with. engine: no pass before the update, which is a sixth of a step; entropies are then estimated by −log p of the
    sampled tokens, so it is for algorithms without AEPO, KL and critic."""

    @model_validator(mode="after")
    def _masked_weights_have_a_range(self) -> "PolicyLossConfig":
        if self.importance_weights == "masked" and (self.importance_cap is None or self.importance_cap <= 1):
            raise ValueError("importance_weights=masked keeps weights from 1/importance_cap to importance_cap, above 1")
        return self


class AlgorithmConfig(Strict):
    """What is learnt from a batch."""

    difficulty: DifficultyConfig = DifficultyConfig()
    entropy: EntropyConfig = EntropyConfig()
    aepo: AepoRewardConfig = AepoRewardConfig()
    overlong: OverlongConfig = OverlongConfig()
    filter: FilterConfig = FilterConfig()
    kl: KlConfig = KlConfig()
    advantage: AdvantageConfig = AdvantageConfig()
    policy: PolicyLossConfig = PolicyLossConfig()
