"""Settings of the mathematics: declared once, with bound and meaning, and given as they are to what they configure.

A profile's section `algorithm` consists of these models (ares/config/algorithm.py). They are strict: an unknown key or
a value out of its bounds is an error that names it, also where a file of yours makes them. Needs pydantic, not torch.
Not covered: which settings contradict each other (ares/config/rules.py).
"""

import re
from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from algorithms.buckets import BUCKETS, Bucket

MOST = 2**31 - 1
"""The largest count: beyond it, tensors and tables overflow."""
MOST_STEPS = 999_999
"""Folders of steps have six digits."""
MOST_TOKENS = 2**20
"""Of a prompt, or of an answer."""
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")


class Strict(BaseModel):
    """A section of settings. An unknown key is an error; values are never coerced silently out of range."""

    model_config = ConfigDict(extra="forbid", validate_default=True, use_attribute_docstrings=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_what_no_setting_is(cls, value: Any, info: ValidationInfo) -> Any:
        """Text that no file can hold; and booleans for numbers, as pydantic would read `reference_sync=true` as 1."""
        types = alternatives(cls.model_fields[str(info.field_name)].annotation)
        is_mapping = isinstance(value, dict) and any(get_origin(each) is dict for each in types)
        parts = value.values() if is_mapping else value if isinstance(value, list) else [value]
        if any(isinstance(part, str) and _UNWRITABLE.search(part) for part in parts):
            raise ValueError("holds a null byte or a lone surrogate, which is not valid text")
        if isinstance(value, bool) and bool not in types and {int, float} & set(types):
            raise ValueError("true and false are no numbers")
        return value


def alternatives(kind: Any) -> list[Any]:
    """The types of a union, without what annotates them; any other type alone."""
    if get_origin(kind) is Annotated:
        return alternatives(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [one for each in get_args(kind) for one in alternatives(each)]
    return [kind]


def _require_every_bucket(values: Mapping[Bucket, float]) -> Mapping[Bucket, float]:
    missing = [bucket for bucket in BUCKETS if bucket not in values]
    if missing:
        raise ValueError(f"no value for {', '.join(missing)}: name every bucket, or give one number for all")
    return values


NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PerBucket = Annotated[dict[Bucket, NonNegative], AfterValidator(_require_every_bucket)]
OneOrEach = NonNegative | PerBucket
"""One value for all buckets, or one for each."""


KLKind = Literal["kl", "abs", "mse", "low_var_kl", "full"]
KLMode = Literal["anchored", "compound"]
LossAvgMode = Literal["token", "seq", "constant"]


class DifficultySettings(Strict):
    """Difficulty buckets, their targets and entropy coefficients (AEPO)."""

    alpha_init: OneOrEach = 0.5
    """Entropy coefficient at the start, one or per bucket; from the first batch on within alpha_min and alpha_max."""
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


class EntropySettings(Strict):
    """High-window-entropy (HWE) tokens."""

    window: int = Field(4, ge=1, le=MOST_TOKENS)
    """Tokens that follow a token and whose mean entropy marks it."""
    percentile: float = Field(95.0, ge=0, le=100)
    """Percentile of a response's window entropies that is its own threshold."""
    threshold_ema: float = Field(0.99, ge=0, lt=1)
    """Weight of the past in the moving average of the batch threshold."""
    trigger_tokens: str | None = None
    """File with one token a line; only these count as HWE tokens. None: every token."""


class EntropyBonusSettings(Strict):
    """An entropy bonus in the loss."""

    coef: float = Field(0.0, ge=0, le=1)
    """Coefficient of the tokens' mean entropy (nats), which is added to the objective; with a target, at the start."""
    target: float | None = Field(None, gt=0)
    """Adaptive: after a batch of less entropy (nats a token) the coefficient rises by `step`, else it falls, and it
    acts only on batches of at most this entropy. None: the coefficient stays. 0 and None: no bonus."""
    step: float = Field(0.005, gt=0, le=1)
    """Change of the adaptive coefficient."""
    share: float = Field(1.0, gt=0, le=1)
    """Only this share of a batch's tokens, those of highest entropy, get the bonus."""

    @property
    def is_on(self) -> bool:
        """Whether there is one."""
        return self.coef > 0 or self.target is not None


class AepoSettings(Strict):
    """The entropy part of the reward."""

    enabled: bool = True
    """Off: the reward is accuracy alone. KL is still relaxed at HWE tokens: algorithm.kl.relax_hwe=1 ends that."""
    zero_baseline: bool = True
    """A wrong answer without surplus exploration earns 0 instead of half the cap."""
    guard_inversion: bool = True
    """No wrong answer may outscore a right one of its bucket."""


class OverlongSettings(Strict):
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


class FilterSettings(Strict):
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


ADAPTIVE_STEP_LIMIT = 0.2
"""Error that the adaptive KL coefficient follows at most (Ziegler et al.)."""


class KLSettings(Strict):
    """The KL penalty towards the reference policy."""

    placement: Literal["none", "reward", "loss"] = "loss"
    """In the reward or in the loss, never in both; none: no reference model is loaded."""
    kind: str = "fixed"
    """fixed, adaptive: one coefficient; token_adaptive: dual ascent per bucket; bucket_beta: EMA per bucket (loss);
    or path/to/file.py:Name (docs/extending.md)."""
    settings: dict[str, Any] = Field({})
    """Settings of a controller in a file of yours."""
    penalty: KLKind = "low_var_kl"
    """Estimator of the token KL: k1, |k1|, k2, k3, or the exact sum over the vocabulary. In the reward k1 (kl) is the
    unbiased one, k3 (low_var_kl) and the others are biased. In the loss k1 has no expected gradient, and is refused."""
    coef: OneOrEach = 1e-2
    """Initial coefficient, one or per bucket (token_adaptive)."""
    target: OneOrEach = 0.1
    """KL that adaptive controllers steer to (nats a token), one or per bucket."""
    horizon: float = Field(10000.0, gt=0)
    """Samples over which the adaptive coefficient may change by its full range."""
    mode: KLMode = "anchored"
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


class AdvantageSettings(Strict):
    """How rewards become advantages."""

    estimator: str = "grpo"
    """grpo, gdpo, maxrl, pass_at_k, rloo (compare within a prompt's group), rloo_by_turn (a turn of an episode with the
    same turn of others), remax (with its greedy answer), gae (with a critic), reinforce_plus_plus, or
    path/to/file.py:Name (docs/extending.md)."""
    settings: dict[str, Any] = Field({})
    """Settings of pass_at_k, or of an estimator in a file of yours."""
    norm_by_std: bool = True
    """grpo: divide by the group's standard deviation. False is Dr.GRPO."""
    gamma: float = Field(1.0, gt=0, le=1)
    """Discount per token (reinforce_plus_plus, gae) or turn (rloo_by_turn)."""
    lam: float = Field(1.0, ge=0, le=1)
    """λ of GAE."""


class PolicySettings(Strict):
    """The surrogate."""

    loss: str = "ppo"
    """ppo (ratio and the clips below are its settings), cispo, sapo, gmpo, dppo, vespo, clip_cov, kl_cov (with settings
    of their own), path/to/file.py:Name (docs/extending.md); or sft and dpo, which learn from data (`ares sft`)."""
    settings: dict[str, Any] = Field({})
    """Settings of a loss other than ppo; what is left out has its default."""
    ratio: Literal["token", "sequence"] = "token"
    """Importance ratio per token (PPO) or per sequence (GSPO)."""
    clip_low: float = Field(0.2, gt=0, lt=1)
    """The ratio is clipped below at 1 − clip_low."""
    clip_high: float = Field(0.3, gt=0)
    """The ratio is clipped above at 1 + clip_high (DAPO: 0.28)."""
    clip_dual: float = Field(3.0, gt=1)
    """Bound on the loss of a negative advantage, in units of it (dual clip)."""
    aggregation: LossAvgMode = "token"
    """Mean over tokens, mean of sequence means, or division by the constant maximal length (Dr.GRPO)."""
    epochs: int = Field(1, ge=1, le=MOST_STEPS)
    """Passes over a batch."""
    importance_cap: float | None = Field(2.0, gt=0)
    """Bound of the importance weights ρ = π_learner/π_engine that correct for stale samples (rollout.max_staleness) and
    for the engine's own rounding; None: ρ is only measured."""
    importance_weights: Literal["truncated", "masked", "rejected"] = "truncated"
    """truncated: min(ρ, cap). masked: ρ where floor ≤ ρ ≤ cap; other tokens do not count. rejected: the same tokens do
    not count, the others as they are. Tokens that do not count stay in the divisor of the aggregation."""
    importance_level: Literal["token", "sequence", "geometric"] = "token"
    """Whose ratio ρ is: the token's; the product over its response (sequence), which is unbiased and varies most; or
    the geometric mean over its response, for rejecting with a cap near 1 (1.001)."""
    importance_floor: float | None = Field(None, gt=0)
    """The floor of masked and rejected (IcePop: .5 with a cap of 5). None: 1/cap."""
    old_log_probs: Literal["learner", "engine"] = "learner"
    """What the ratio is taken against: the learner's own log-probs before the update, or those that the engine sampled
    with. engine: no pass before the update, which is a sixth of a step; entropies are then estimated by −log p of the
    sampled tokens, so it is for algorithms without AEPO, KL and critic."""


class PassAtKSettings(Strict):
    """pass_at_k."""

    k: int = Field(4, ge=1, le=MOST)
    """Responses of which one must be right; at most rollout.n."""


class CispoSettings(Strict):
    """CISPO."""

    limit: float = Field(5.0, ge=1)
    """Bound of the ratio that weighs log π (ScaleRL: 5; MiniMax-M1 does not tell its own)."""


class SapoSettings(Strict):
    """SAPO."""

    tau_positive: float = Field(1.0, gt=0)
    """Temperature of the gate for positive advantages; a higher one closes earlier."""
    tau_negative: float = Field(1.05, gt=0)
    """The same for the others."""


class GmpoSettings(Strict):
    """GMPO."""

    clip: float = Field(0.4, gt=0)
    """A token's log-ratio is clipped to ± this."""


class DppoSettings(Strict):
    """DPPO, and prime-rl's losses, which follow it."""

    divergence: Literal["tv", "kl"] = "tv"
    """Between what both policies give to the sampled token and to all others: total variation, or KL (nats)."""
    threshold: float = Field(0.2, gt=0)
    """Divergence beyond which a token does not count (tv .1 to .2, kl .05)."""
    two_sided: bool = False
    """Also where the update would bring the policies together (prime-rl's IPO, with threshold .3)."""
    squared_log_ratio: float = Field(0.0, ge=0)
    """Coefficient of the penalty (log π − log π_old)² of every token (prime-rl .001)."""


class VespoSettings(Strict):
    """VESPO."""

    power_positive: float = Field(2.0, gt=0)
    """Exponent of the sequence's ratio for positive advantages."""
    decay_positive: float = Field(3.0, gt=0)
    """Rate at which a higher ratio is damped for positive advantages."""
    power_negative: float = Field(3.0, gt=0)
    """The exponent for the others."""
    decay_negative: float = Field(2.0, gt=0)
    """The rate for the others."""


class ClipCovSettings(Strict):
    """Clip-Cov."""

    share: float = Field(2e-4, gt=0, le=1)
    """Share of a global batch's tokens that lose their gradient."""
    low: float = 1.0
    """They are drawn from the tokens whose covariance is above this …"""
    high: float = 5.0
    """… and below this."""


class KlCovSettings(Strict):
    """KL-Cov."""

    share: float = Field(2e-3, gt=0, le=1)
    """Share of a global batch's tokens, those of highest covariance, that are penalised (2e-3; at 32B 2e-4)."""
    coef: float = Field(1.0, ge=0)
    """Coefficient of their penalty |log π − log π_old|."""


OWN_SETTINGS: dict[str, type[Strict]] = {
    "pass_at_k": PassAtKSettings,
    "cispo": CispoSettings,
    "sapo": SapoSettings,
    "gmpo": GmpoSettings,
    "dppo": DppoSettings,
    "vespo": VespoSettings,
    "clip_cov": ClipCovSettings,
    "kl_cov": KlCovSettings,
}
"""Of the estimators and losses that have some, as a user's class has an inner class `Settings`."""


class UncoveringSettings(Strict):
    """How a masked-diffusion model uncovers its canvas."""

    steps: int = Field(256, ge=1, le=MOST_TOKENS)
    """Passes through the model. Fewer than positions: several tokens per pass, faster and worse."""
    alg: Literal["entropy", "maskgit_plus", "topk_margin", "origin"] = "entropy"
    """Which positions are uncovered first: lowest entropy, most probable token, largest margin, or at random."""
    alg_temp: float = Field(0.0, ge=0)
    """Above 0, positions are drawn by softmax(confidence / alg_temp) instead of taken in order."""
    threshold: float | None = Field(None, gt=0, lt=1)
    """A pass also uncovers every position whose token is more probable than this, and one at least (Fast-dLLM, which
    uses .9 and as many steps as positions): fewer passes where the model is sure. None: as many as `steps` plans."""
    block: int | None = Field(None, ge=1, le=MOST_TOKENS)
    """Positions that are filled before any to their right is uncovered (LLaDA's block length); each block gets an
    equal part of the steps. None: the whole canvas at once."""


class DenoisingSettings(UncoveringSettings):
    """The same, with the distribution that tokens are drawn from."""

    temperature: float = Field(1.0, ge=0)
    """0: greedy."""
    top_p: float = Field(0.95, gt=0, le=1)
    """Tokens are drawn from the most probable ones that have this share of the probability."""
