"""The configuration of a run: strict models, one field a setting, with its bound and its reason.

Covered: every setting, which of them change results, what combinations are refused. Not covered: where settings come
from (ares/config/profiles.py), and what they do (each package documents its own part).
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from ares.config.algorithm import AlgorithmConfig
from ares.config.data import DataConfig
from ares.config.extensions import ENGINES, TRACKERS, UNOPENED
from ares.config.paths import location
from ares.config.reward import RewardConfig
from ares.config.rollout import VLLM_TEMPERATURES, RolloutConfig
from ares.config.strict import (
    LEAST_TEMPERATURE,
    MOST,
    MOST_PROCESSES,
    MOST_SAMPLES,
    MOST_STEPS,
    MOST_TOKENS,
    NO_EFFECT,
    Decay,
    Strict,
)


class LoraConfig(Strict):
    """Low-rank adapters."""

    rank: int = Field(16, ge=1, le=2**16)
    """Rank of each adapter."""
    alpha: float = Field(32.0, gt=0)
    """Adapters count alpha / rank."""
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    """Names of the linear layers that get one."""

    @model_validator(mode="after")
    def _the_head_is_trained_whole_or_not(self) -> "LoraConfig":
        if not self.targets or {"lm_head", "embed_tokens"} & set(self.targets):
            raise ValueError("targets are linear layers of the decoder, at least one; lm_head and embed_tokens are not")
        return self


class ModelConfig(Strict):
    """Which weights are trained."""

    path: str
    """Directory (or hub name) that transformers' `from_pretrained` reads; the tokenizer lies beside it."""
    family: Literal["causal", "vision_language", "masked_diffusion"] = "causal"
    """vision_language: Qwen2-VL, Qwen2.5-VL, for rows with images or videos. masked_diffusion: Dream, DiffuCoder;
    trained with coupled masks, sampled with rollout.engine=diffusion."""
    mask_estimate: Literal["published", "rescaled", "coupled", "two_masks", "three_masks", "full"] = "published"
    """masked_diffusion: how a token's log-prob is estimated. published: a coupled pair of masks and the full
    one, 1.5 times a log-prob; rescaled: once; coupled: the pair; two_masks, three_masks: independent ones; full: all
    places masked."""
    train_vision: bool = False
    """vision_language: train the tower that looks at pictures too (with model.lora: give it adapters where
    lora.targets names layers of it). Otherwise it stays as it is."""
    trust_remote_code: bool = False
    """Run the Python files that lie in the model's directory, as DiffuCoder's does. They can do anything."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type in which models compute; the weights that are trained and their optimiser are float32 always."""
    lora: LoraConfig | None = None
    """Train adapters only; the reference is then the model without them. None: every weight is trained."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: slower, but the memory no longer grows with depth."""

    @property
    def location(self) -> str:
        """Where `path` lies, for transformers."""
        return location(self.path)


class BootstrapConfig(Strict):
    """The pass over the train set before the first step."""

    n: int = Field(8, ge=1, le=MOST_SAMPLES)
    """Samples per prompt from which the first difficulty is read."""
    max_prompts: int | None = Field(None, ge=1, le=MOST)
    """Bound on the prompts that are sampled; the rest start without a bucket. None: the whole train set."""


class LearnerConfig(Strict):
    """The optimiser."""

    lr: float = Field(1e-6, gt=0, le=1)
    """AdamW's learning rate after warm-up; constant."""
    warmup_steps: int = Field(0, ge=0, le=MOST)
    """Optimiser steps over which the rate rises linearly."""
    betas: tuple[Decay, Decay] = (0.9, 0.999)
    """AdamW's moving averages."""
    weight_decay: float = Field(0.01, ge=0)
    """AdamW's decoupled decay."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Gradients are scaled down to this norm."""
    global_batch_prompts: int = Field(8, ge=1, le=MOST)
    """Prompts (times n samples) per optimiser step. Must divide rollout.prompts."""
    micro_batch_tokens: int = Field(4096, ge=1, le=MOST)
    """Tokens in one forward and backward pass; bounds memory, does not change the update. A prompt that several rows
    have counts once; models whose rows cannot share a line count every row as the longest beside it."""
    critic_lr: float = Field(1e-5, gt=0, le=1)
    """Learning rate of the value model (estimator gae)."""
    critic_clip: float = Field(0.5, gt=0)
    """Clip range of the value loss."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: cuda where there is one."""
    threads: int = Field(1, ge=1, le=MOST_PROCESSES)
    """CPU threads of each learner rank. Part of the fingerprint: another count gives other bits."""
    ranks: int = Field(1, ge=1, le=MOST_PROCESSES)
    """Learner processes that share every global batch; one GPU each where there are GPUs."""
    sharded: bool = False
    """Each rank holds a part of every weight, gradient and moment (FSDP2), and gathers a layer when it is needed: less
    memory, more traffic. Off: each holds them whole, which is faster for small models."""
    offload_optimizer: bool = Field(False, json_schema_extra=NO_EFFECT)
    """Keep AdamW's moments, twice the weights, in main memory but for the update: a colocated engine gets their place
    on the GPU, and every update waits for them."""

    @model_validator(mode="after")
    def _parts_of_moments_stay(self) -> "LearnerConfig":
        if self.sharded and self.offload_optimizer:
            raise ValueError("offload_optimizer is for whole weights: with sharded=true more ranks hold less each")
        return self


class ValidationConfig(Strict):
    """Evaluation on the held-out set."""

    every: int = Field(20, ge=1, le=MOST_STEPS)
    """Steps between evaluations; the first follows the bootstrap, before step 1, one more the last step."""
    n: int = Field(4, ge=1, le=MOST_SAMPLES)
    """Samples per prompt."""
    temperature: float = Field(1.0, ge=LEAST_TEMPERATURE, le=100)
    """Sampling temperature."""
    max_prompts: int | None = Field(None, ge=1, le=MOST)
    """Use only this many problems, the first ones. None: all."""
    turns: int = Field(1, ge=1, le=2)
    """2: a program that failed gets a second attempt, with its verdict in the prompt: val/second_turn/accuracy."""
    few_steps: int | None = Field(None, ge=1, le=MOST_TOKENS)
    """Masked diffusion: every problem is also answered in this many passes, val/few_steps/accuracy. None: it is not."""


class TrainConfig(Strict):
    """How long, and how often weights are written."""

    steps: int = Field(100, ge=1, le=MOST_STEPS, json_schema_extra=NO_EFFECT)
    """Training steps. A finished run resumes when it is raised."""
    tokens: int | None = Field(None, ge=1, json_schema_extra=NO_EFFECT)
    """Sampled tokens, the bootstrap's included, that end a run before `steps`: after the step that reaches them."""
    checkpoint_every: int = Field(10, ge=1, le=MOST_STEPS, json_schema_extra=NO_EFFECT)
    """Steps between weight checkpoints; in between, a resume replays the committed batches."""
    keep_checkpoints: int = Field(2, ge=1, le=MOST_STEPS, json_schema_extra=NO_EFFECT)
    """Checkpoints that are kept: this many of the newest, and those that rollout.max_staleness needs."""
    seed: int = Field(0, ge=0, lt=2**63)
    """Every random draw of the run is derived from it."""

    def ends(self, step: int, tokens: int) -> bool:
        """Whether a run ends after this step, with this many tokens sampled."""
        return step >= self.steps or (self.tokens is not None and tokens >= self.tokens)


class TrackingConfig(Strict):
    """Where metrics go."""

    kind: Annotated[str, AfterValidator(TRACKERS.known)] = Field("mlflow", json_schema_extra=NO_EFFECT)
    """`mlflow`, or path/to/file.py:Name (docs/extending.md); ablations are compared in MLflow."""
    settings: Annotated[dict[str, Any], AfterValidator(TRACKERS.settled)] = Field({}, json_schema_extra=NO_EFFECT)
    """Settings of a tracker in a file of yours."""
    uri: str | None = Field(None, json_schema_extra=NO_EFFECT)
    """MLflow server or database. None: MLFLOW_TRACKING_URI, else `mlflow.db` in the folder of the runs."""
    experiment: str = Field("ares", min_length=1, json_schema_extra=NO_EFFECT)
    """MLflow experiment."""
    samples: int = Field(16, ge=0, le=MOST_SAMPLES, json_schema_extra=NO_EFFECT)
    """Rows of the sample table logged with every evaluation."""
    parent_run: str | None = Field(None, json_schema_extra=NO_EFFECT)
    """MLflow run under which this one is shown; an ablation sets it."""
    tags: dict[str, str] = Field({}, json_schema_extra=NO_EFFECT)
    """Tags of the MLflow run."""


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

    @property
    def longest_sequence(self) -> int:
        """Tokens of the longest prompt and response together that may be sampled."""
        second, answer = self.rollout.second_turn, self.rollout.max_response_length
        continued = second.max_feedback_length + answer if self.has_second_turns else 0
        return self.data.max_prompt_length + answer + continued

    @property
    def has_second_turns(self) -> bool:
        """Whether programs that failed are told their verdict, in training or on held-out problems."""
        return self.rollout.second_turn.enabled or self.validation.turns > 1

    @property
    def optimizer_steps(self) -> int:
        """Optimiser steps of one training step."""
        return self.algorithm.policy.epochs * (self.rollout.prompts // self.learner.global_batch_prompts)

    @property
    def measures_all(self) -> bool:
        """Whether the learner looks at every group that is drawn, and not only at those that filtering has chosen.

        Programs take a while to judge: it looks at all of them meanwhile, those that filtering drops too.
        """
        return self.reward.judges_programs or not self.algorithm.filter.enabled

    def batch_that_fits(self, problems: int) -> list[str]:
        """Settings with which a step draws no more than this many problems; none if it draws no more anyway."""
        if not 0 < problems < self.rollout.prompts:
            return []
        part = self.learner.global_batch_prompts
        fits = problems - problems % part or problems
        return [f"rollout.prompts={fits}", *([] if fits % part == 0 else [f"learner.global_batch_prompts={fits}"])]

    def too_few(self, problems: int) -> str | None:
        """The message, with settings that fit, if there are fewer problems than a step draws."""
        if problems >= self.rollout.prompts:
            return None
        told = f"{problems} problems are fewer than rollout.prompts={self.rollout.prompts}"
        return ": set ".join([told, *([" ".join(fits)] if (fits := self.batch_that_fits(problems)) else [])])

    @model_validator(mode="after")
    def _batches_divide(self) -> "Config":
        if self.rollout.prompts % self.learner.global_batch_prompts:
            raise ValueError(
                f"learner.global_batch_prompts ({self.learner.global_batch_prompts}) must divide "
                f"rollout.prompts ({self.rollout.prompts})"
            )
        return self

    @model_validator(mode="after")
    def _second_turns_have_a_verdict_and_a_group(self, info: ValidationInfo) -> "Config":
        if info.context != UNOPENED and self.has_second_turns:
            if not self.reward.judges_programs:
                setting = "rollout.second_turn.enabled" if self.rollout.second_turn.enabled else "validation.turns=2"
                raise ValueError(f"{setting} tells a program its verdict: it needs reward.kind=code")
            if self.rollout.second_turn.enabled and not self.algorithm.advantage.within_group:
                raise ValueError(
                    "rollout.second_turn.enabled needs an algorithm.advantage.estimator that compares within a group: "
                    "grpo, rloo, or one with within_group = True"
                )
        return self

    @model_validator(mode="after")
    def _stale_samples_are_corrected(self) -> "Config":
        if self.rollout.max_staleness and self.algorithm.policy.importance_cap is None:
            raise ValueError("rollout.max_staleness needs algorithm.policy.importance_cap: it corrects for it")
        return self

    @model_validator(mode="after")
    def _vllm_samples_at_the_temperatures(self) -> "Config":
        least, most = VLLM_TEMPERATURES
        for section, settings in (("rollout", self.rollout), ("validation", self.validation)):
            asked = settings.temperature
            if self.rollout.engine == "vllm" and not least <= asked <= most:
                raise ValueError(
                    f"{section}.temperature={asked:g}: rollout.engine=vllm samples at {least:g} to {most:g}"
                )
        return self

    @model_validator(mode="after")
    def _parts_have_policies(self, info: ValidationInfo) -> "Config":
        rollout = self.rollout
        if rollout.parts == 1 or info.context == UNOPENED:
            return self
        stale, length = rollout.max_staleness, rollout.max_response_length
        if rollout.parts > stale + 1 or length % rollout.parts:
            raise ValueError(
                f"rollout.parts ({rollout.parts}) must be at most rollout.max_staleness ({stale}) + 1, since every "
                f"part has a policy, and divide rollout.max_response_length ({length})"
            )
        continues = ENGINES.fact(rollout.engine, "continues")
        if self.model.family != "causal" or rollout.second_turn.enabled or not continues:
            raise ValueError(
                "rollout.parts above 1 is for causal models without rollout.second_turn, and engines that go on with "
                "a response: transformers, vllm, or one with continues = True"
            )
        return self

    @model_validator(mode="after")
    def _nothing_else_needs_the_pass_before_an_update(self, info: ValidationInfo) -> "Config":
        algorithm = self.algorithm
        if (
            info.context != UNOPENED
            and algorithm.policy.old_log_probs == "engine"
            and (
                algorithm.aepo.enabled
                or algorithm.kl.placement != "none"
                or algorithm.advantage.needs_values
                or self.model.family == "masked_diffusion"
                or self.rollout.max_staleness
            )
        ):
            raise ValueError(
                "algorithm.policy.old_log_probs=engine leaves out the learner's pass before the update, which exact "
                "entropies (algorithm.aepo.enabled), KL (algorithm.kl.placement), values (estimator=gae), masked "
                "diffusion and rollout.max_staleness need"
            )
        return self

    @model_validator(mode="after")
    def _masked_diffusion_fits(self, info: ValidationInfo) -> "Config":
        if info.context == UNOPENED:
            return self
        masked = self.model.family == "masked_diffusion"
        if self.model.lora is not None and (masked or self.algorithm.kl.reference_sync is not None):
            raise ValueError("model.lora is for causal models, and their reference cannot move (kl.reference_sync)")
        if self.learner.sharded and (masked or self.algorithm.kl.penalty == "full"):
            raise ValueError("learner.sharded is for causal models, without the exact KL (algorithm.kl.penalty=full)")
        families = ENGINES.fact(self.rollout.engine, "families")
        if self.model.family not in families:
            raise ValueError(
                f"model.family={self.model.family} and rollout.engine={self.rollout.engine} do not go together: "
                f"it samples from {' and '.join(families)} models, and masked_diffusion models need engine diffusion"
            )
        if not masked:
            if self.validation.few_steps is not None:
                raise ValueError("validation.few_steps is for masked-diffusion models: others take a pass a token")
            return self
        policy = self.algorithm.policy
        if policy.importance_cap is not None or self.rollout.max_mismatch is not None:
            raise ValueError(
                "a masked-diffusion model's log-probs under coupled masks are not those it was sampled with: "
                "set algorithm.policy.importance_cap=null and rollout.max_mismatch=null"
            )
        if self.algorithm.advantage.needs_values or self.algorithm.kl.penalty == "full":
            raise ValueError("masked-diffusion models have no critic (estimator=gae) and no exact KL (penalty=full)")
        return self

    @model_validator(mode="after")
    def _vision_language_fits(self, info: ValidationInfo) -> "Config":
        if info.context == UNOPENED:
            return self
        if self.model.family != "vision_language":
            if self.model.train_vision:
                raise ValueError("model.train_vision needs model.family=vision_language")
        elif self.algorithm.advantage.needs_values or self.has_second_turns or self.learner.sharded:
            # A rank whose rows show nothing makes no pass through the tower, which sharded weights would wait for.
            raise ValueError(
                "vision-language models have no critic (estimator=gae), no second turns (rollout.second_turn, "
                "validation.turns) and no learner.sharded"
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
