"""The configuration of a run: strict models, one field a setting, with its bound and its reason.

Covered: every setting, which of them change results, what combinations are refused. Not covered: where settings come
from (ares/profiles.py), and what they do (each room documents its own part).
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.config import JsonDict

BUCKETS = ("easy", "medium", "hard")
Bucket = Literal["easy", "medium", "hard"]


def _every_bucket(values: dict[Bucket, float]) -> dict[Bucket, float]:
    missing = [bucket for bucket in BUCKETS if bucket not in values]
    if missing:
        raise ValueError(f"no value for {', '.join(missing)}: name every bucket, or give one number for all")
    return values


NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Decay = Annotated[float, Field(ge=0, lt=1)]
PerBucket = Annotated[dict[Bucket, NonNegative], AfterValidator(_every_bucket)]

NO_EFFECT: JsonDict = {"affects_results": False}
"""Marks a field that may differ between a run and its resumption: it changes where or how often, never what."""


class ConfigError(ValueError):
    """A profile, an override or a resumed run's settings are wrong; the message names file and field."""


class Strict(BaseModel):
    """A section of the profile. An unknown key is an error; values are never coerced silently out of range."""

    model_config = ConfigDict(extra="forbid", validate_default=True, use_attribute_docstrings=True)


class ModelConfig(Strict):
    """Which weights are trained."""

    path: str
    """Directory (or hub name) that `AutoModelForCausalLM.from_pretrained` reads; the tokenizer lies beside it."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type in which models compute; the weights that are trained and their optimiser are float32 always."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: slower, but the memory no longer grows with depth."""


class DataConfig(Strict):
    """Which problems are trained on and evaluated on, and how a row becomes a prompt."""

    train: str
    """Path of a .jsonl or .parquet file, or the name of a Hugging Face data set."""
    validation: str | None = None
    """The same for evaluation; without it nothing is evaluated."""
    train_split: str = "train"
    """Split of a Hugging Face data set to train on."""
    validation_split: str = "test"
    """Split of a Hugging Face data set to evaluate on."""
    prompt_key: str = "prompt"
    """Column with the problem: text, or a list of chat messages."""
    answer_key: str = "answer"
    """Column with the reference answer."""
    id_key: str = "id"
    """Column that names a problem. Without such a column the row number is used."""
    format_prompt: str | None = None
    """Template put around the problem text; `{prompt}` marks its place. Chat messages are left as they are."""
    max_prompt_length: int = Field(1024, ge=1)
    """Tokens after the chat template. Longer prompts are left out and counted."""

    @model_validator(mode="after")
    def _format_prompt_has_a_place(self) -> "DataConfig":
        if self.format_prompt is not None and "{prompt}" not in self.format_prompt:
            raise ValueError("format_prompt has no {prompt} in it")
        return self


class RolloutConfig(Strict):
    """How responses are sampled."""

    engine: Literal["transformers"] = "transformers"
    """What generates: `transformers` is the deterministic reference, on CPU and GPU."""
    n: int = Field(8, ge=2)
    """Samples per prompt. Group estimators compare within the group, so one is not enough."""
    prompts: int = Field(16, ge=1)
    """Prompts whose groups make one training batch, counted after online filtering."""
    max_response_length: int = Field(1024, ge=1)
    """Tokens. A response that reaches it is truncated."""
    temperature: float = Field(1.0, gt=0)
    """Sampling temperature; log-probs, ratios and entropies are taken at the same temperature."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Nucleus sampling. Below 1 the sampled distribution differs from the learner's."""
    shard_prompts: int = Field(64, ge=1)
    """Prompts generated together. The unit of recomputation: the same shard gives the same bits."""
    threads: int = Field(1, ge=1)
    """CPU threads of the engine. Part of the fingerprint: another count gives other bits."""


class BootstrapConfig(Strict):
    """The pass over the train set before the first step."""

    n: int = Field(8, ge=1)
    """Samples per prompt from which the first difficulty is read."""
    max_prompts: int | None = Field(None, ge=1)
    """Bound on the prompts that are sampled; the rest start without a bucket. None: the whole train set."""


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

    @model_validator(mode="after")
    def _alpha_has_a_range(self) -> "DifficultyConfig":
        if self.alpha_min > self.alpha_max:
            raise ValueError(f"alpha_min ({self.alpha_min}) is above alpha_max ({self.alpha_max})")
        return self


class EntropyConfig(Strict):
    """High-window-entropy (HWE) tokens."""

    window: int = Field(4, ge=1)
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
    soft_punish_cache: int = Field(0, ge=0)
    """Tokens before the limit over which DAPO's soft punishment grows from 0 to −1; 0: off."""


class KlKind(StrEnum):
    """Which controller sets the KL coefficient."""

    FIXED = "fixed"
    ADAPTIVE = "adaptive"
    TOKEN_ADAPTIVE = "token_adaptive"
    BUCKET_BETA = "bucket_beta"


class KlConfig(Strict):
    """The leash to the reference policy."""

    placement: Literal["none", "reward", "loss"] = "loss"
    """In the reward or in the loss, never in both; none: no reference model is loaded."""
    kind: KlKind = KlKind.FIXED
    """fixed, adaptive: one coefficient; token_adaptive: dual ascent per bucket; bucket_beta: EMA per bucket (loss)."""
    penalty: Literal["kl", "abs", "mse", "low_var_kl", "full"] = "low_var_kl"
    """Estimator of the token KL (k1, |k1|, k2, k3, or the exact sum over the vocabulary)."""
    coef: NonNegative | PerBucket = 1e-2
    """Initial coefficient, one or per bucket (token_adaptive)."""
    target: NonNegative | PerBucket = 0.1
    """KL that adaptive controllers steer to (nats a token), one or per bucket."""
    horizon: float = Field(10000.0, gt=0)
    """Samples over which the adaptive coefficient may change by its full range."""
    mode: Literal["anchored", "compound"] = "anchored"
    """token_adaptive: coefficient λ·coef₀, or the published λ·coef, which explodes or locks at zero."""
    beta_interval: int = Field(100, ge=1)
    """bucket_beta: optimiser steps between two changes of β."""
    relax_hwe: float = Field(0.5, ge=0, le=1)
    """Factor on the coefficient at HWE tokens (1: none)."""
    relax_scope: Literal["token", "window"] = "token"
    """At the HWE token itself, or at the window that follows it."""
    relax_wrong_easy: float = Field(1.0, ge=0, le=1)
    """Second chance: factor on the coefficient of wrong answers to easy problems (1: off)."""

    @model_validator(mode="after")
    def _placement_fits_the_controller(self) -> "KlConfig":
        if self.kind is KlKind.BUCKET_BETA and self.placement == "reward":
            raise ValueError("kind=bucket_beta adapts β inside the loss: set placement=loss")
        if self.penalty == "full" and self.placement == "reward":
            raise ValueError(
                "penalty=full needs the whole distribution of both policies, which the reward does not hold: "
                "set placement=loss"
            )
        return self

    @model_validator(mode="after")
    def _numbers_fit_the_controller(self) -> "KlConfig":
        if isinstance(self.coef, dict) and self.kind is not KlKind.TOKEN_ADAPTIVE:
            raise ValueError(f"kind={self.kind} has one coef; one per bucket needs kind=token_adaptive")
        if isinstance(self.target, dict) and self.kind is KlKind.ADAPTIVE:
            raise ValueError("kind=adaptive has one target; one per bucket needs kind=token_adaptive or bucket_beta")
        targets = self.target.values() if isinstance(self.target, dict) else [self.target]
        if self.kind in (KlKind.ADAPTIVE, KlKind.BUCKET_BETA) and not all(targets):
            raise ValueError(f"kind={self.kind} divides by the target: it must be above 0 (got {self.target})")
        return self


class AdvantageConfig(Strict):
    """How rewards become advantages."""

    estimator: Literal["grpo", "rloo", "reinforce_plus_plus", "remax", "gae"] = "grpo"
    """grpo and rloo compare within a prompt's group; remax with its greedy answer; gae with a critic."""
    norm_by_std: bool = True
    """grpo: divide by the group's standard deviation. False is Dr.GRPO."""
    gamma: float = Field(1.0, gt=0, le=1)
    """Discount (reinforce_plus_plus, gae)."""
    lam: float = Field(1.0, ge=0, le=1)
    """λ of GAE."""


class FilterConfig(Strict):
    """Online filtering (DAPO): groups that teach nothing are replaced by fresh ones."""

    enabled: bool = True
    """Off: every group is trained on."""
    low: float = Field(0.01, ge=0, le=1)
    """A group is kept when its mean accuracy is above this …"""
    high: float = Field(0.99, ge=0, le=1)
    """… and below this."""
    max_tries: int = Field(20, ge=1)
    """Rollouts drawn for one batch before the run stops with an error."""

    @model_validator(mode="after")
    def _low_is_below_high(self) -> "FilterConfig":
        if self.low >= self.high:
            raise ValueError(f"low ({self.low}) must be below high ({self.high}), or no group is ever kept")
        return self


class PolicyLossConfig(Strict):
    """The PPO surrogate."""

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
    epochs: int = Field(1, ge=1)
    """Passes over a batch."""
    importance_cap: float | None = Field(2.0, gt=0)
    """Cap of the truncated importance weight for the engine–learner mismatch; None: only measured."""


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


class RewardConfig(Strict):
    """Where accuracy comes from."""

    kind: str = "math"
    """`math` (last \\boxed{} against the answer), or `path.py:function` with TRL's or verl's signature."""
    timeout: float = Field(5.0, gt=0)
    """Seconds a single answer may take to grade before the grader is killed and the sample has no score."""


class LearnerConfig(Strict):
    """The optimiser."""

    lr: float = Field(1e-6, gt=0)
    """AdamW's learning rate after warm-up; constant."""
    warmup_steps: int = Field(0, ge=0)
    """Optimiser steps over which the rate rises linearly."""
    betas: tuple[Decay, Decay] = (0.9, 0.999)
    """AdamW's moving averages."""
    weight_decay: float = Field(0.01, ge=0)
    """AdamW's decoupled decay."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Gradients are scaled down to this norm."""
    global_batch_prompts: int = Field(8, ge=1)
    """Prompts (times n samples) per optimiser step. Must divide rollout.prompts."""
    micro_batch_tokens: int = Field(16384, ge=1)
    """Padded tokens in one forward and backward pass; bounds memory, does not change the update."""
    critic_lr: float = Field(1e-5, gt=0)
    """Learning rate of the value model (estimator gae)."""
    critic_clip: float = Field(0.5, gt=0)
    """Clip range of the value loss."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: cuda where there is one."""
    threads: int = Field(1, ge=1)
    """CPU threads of the learner. Part of the fingerprint: another count gives other bits."""


class ValidationConfig(Strict):
    """Evaluation on the held-out set."""

    every: int = Field(20, ge=1)
    """Steps between evaluations; the first is before step 0, one more follows the last step."""
    n: int = Field(4, ge=1)
    """Samples per prompt."""
    temperature: float = Field(1.0, gt=0)
    """Sampling temperature."""
    max_prompts: int | None = Field(None, ge=1)
    """The first so many problems; None: all."""


class TrainConfig(Strict):
    """How long, and how often weights are written."""

    steps: int = Field(100, ge=1, json_schema_extra=NO_EFFECT)
    """Training steps. A finished run goes on when it is raised."""
    checkpoint_every: int = Field(10, ge=1, json_schema_extra=NO_EFFECT)
    """Steps between weight checkpoints; in between, a resume replays the committed batches."""
    keep_checkpoints: int = Field(2, ge=1, json_schema_extra=NO_EFFECT)
    """Older checkpoints are deleted, except the last so many."""
    seed: int = 0
    """Every random draw of the run is derived from it."""


class TrackingConfig(Strict):
    """Where metrics go."""

    uri: str | None = Field(None, json_schema_extra=NO_EFFECT)
    """MLflow server or database. None: MLFLOW_TRACKING_URI, else `mlflow.db` in the folder of the runs."""
    experiment: str = Field("ares", json_schema_extra=NO_EFFECT)
    """MLflow experiment."""
    samples: int = Field(16, ge=0, json_schema_extra=NO_EFFECT)
    """Rows of the sample table logged with every evaluation."""


class Config(Strict):
    """One training run, whole."""

    model: ModelConfig
    data: DataConfig
    rollout: RolloutConfig = RolloutConfig()
    bootstrap: BootstrapConfig = BootstrapConfig()
    reward: RewardConfig = RewardConfig()
    algorithm: AlgorithmConfig = AlgorithmConfig()
    learner: LearnerConfig = LearnerConfig()
    validation: ValidationConfig = ValidationConfig()
    train: TrainConfig = TrainConfig()
    tracking: TrackingConfig = TrackingConfig()

    @model_validator(mode="after")
    def _batches_divide(self) -> "Config":
        if self.rollout.prompts % self.learner.global_batch_prompts:
            raise ValueError(
                f"learner.global_batch_prompts ({self.learner.global_batch_prompts}) must divide "
                f"rollout.prompts ({self.rollout.prompts})"
            )
        return self

    @model_validator(mode="after")
    def _overlong_cache_fits(self) -> "Config":
        cache, limit = self.algorithm.overlong.soft_punish_cache, self.rollout.max_response_length
        if cache > limit:
            raise ValueError(
                f"algorithm.overlong.soft_punish_cache ({cache}) is longer than rollout.max_response_length ({limit})"
            )
        return self
