"""The configuration of a run: strict models, one field a setting, with its bound and its reason.

Covered: every setting, and which of them change results. Not covered: what combinations are refused
(ares/config/rules.py), where settings come from (ares/config/profiles.py).
"""

import json
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from algorithms.settings import MOST, MOST_STEPS, MOST_TOKENS, Strict
from ares.config.algorithm import AlgorithmConfig
from ares.config.data import DataConfig
from ares.config.environment import EnvironmentConfig, as_section
from ares.config.extensions import POLICY_LOSSES
from ares.config.paths import location
from ares.config.reward import RewardConfig
from ares.config.rollout import RolloutConfig
from ares.config.strict import LEAST_TEMPERATURE, MOST_PROCESSES, MOST_SAMPLES, NO_EFFECT, ONLY_ROUNDING, Decay


class LoraConfig(Strict):
    """Low-rank adapters."""

    rank: int = Field(16, ge=1, le=2**16)
    """Rank of each adapter."""
    alpha: float = Field(32.0, gt=0)
    """Adapters count alpha / rank."""
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    """Names of the linear layers that get one."""


class ModelConfig(Strict):
    """Which weights are trained."""

    path: str
    """Directory (or hub name) that transformers' `from_pretrained` reads; the tokenizer lies beside it."""
    family: Literal["causal", "vision_language", "masked_diffusion"] = "causal"
    """vision_language: Qwen2-VL, Qwen2.5-VL, for rows with images or videos. masked_diffusion: Dream, DiffuCoder,
    LLaDA; trained with coupled masks, sampled with rollout.engine=diffusion."""
    mask_estimate: Literal["published", "rescaled", "coupled", "two_masks", "three_masks", "full", "masked_prompt"] = (
        "published"
    )
    """masked_diffusion: how a token's log-prob is estimated. published: a coupled pair of masks and the full one, 1.5
    times a log-prob; rescaled: once; coupled: the pair; two_masks, three_masks: independent ones; full: all places
    masked; masked_prompt: all places, and .15 of the prompt (d1's diffu-GRPO)."""
    train_vision: bool = False
    """vision_language: train the tower that looks at pictures too (with model.lora: give it adapters where
    lora.targets names layers of it). Otherwise it stays as it is."""
    reference: str | None = None
    """Directory (or hub name) of the reference policy of algorithm.kl, with the same tokens: a teacher to learn from
    (algorithm=distill). Or the URL of a server that gives prompt_logprobs, as vLLM's and `ares serve` do, such as
    http://127.0.0.1:8000/v1; its key: OPENAI_API_KEY. None: the model of `path`, as it was before training."""
    reference_name: str | None = None
    """The model's name on the server that `reference` is the URL of."""
    trust_remote_code: bool = False
    """Run the Python files that lie in the model's directory, as DiffuCoder's does. They can do anything."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type in which models compute; the weights that are trained and their optimiser are float32 always."""
    lora: LoraConfig | None = None
    """Train adapters only; the reference is then the model without them. None: every weight is trained."""
    gradient_checkpointing: bool = Field(False, json_schema_extra=ONLY_ROUNDING)
    """Recompute activations in the backward pass: slower, but the memory no longer grows with depth."""

    @property
    def location(self) -> str:
        """Where `path` lies, for transformers."""
        return location(self.path)

    @property
    def asks_reference(self) -> bool:
        """Whether the reference policy is behind a URL."""
        return self.reference is not None and self.reference.startswith(("http://", "https://"))

    @property
    def reference_path(self) -> str | None:
        """Where the reference policy lies, if it is another model on this machine."""
        return None if self.asks_reference else self.reference

    @property
    def of_reference(self) -> "ModelConfig":
        """The section of the reference policy, if it is another model."""
        return self.model_copy(update={"path": self.reference or self.path, "lora": None})


class BootstrapConfig(Strict):
    """The pass over the train set before the first step."""

    n: int = Field(8, ge=1, le=MOST_SAMPLES)
    """Samples per prompt from which the first difficulty is read."""
    max_prompts: int | None = Field(None, ge=1, le=MOST)
    """Bound on the prompts that are sampled; the rest start without a bucket. None: the whole train set."""


class LearnerConfig(Strict):
    """The optimiser."""

    lr: float = Field(1e-6, gt=0, le=1)
    """Learning rate after warm-up."""
    warmup_steps: int = Field(0, ge=0, le=MOST)
    """Optimiser steps over which the rate rises linearly."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the rate falls to final_lr, from optimiser step decay_start on, over decay_steps. A late decay_start makes
    it warm-up, stable, decay (WSD)."""
    decay_start: int = Field(0, ge=0, le=MOST)
    """Optimiser steps before the rate falls; the warm-up at least."""
    decay_steps: int | None = Field(None, ge=1, le=MOST)
    """Optimiser steps over which it falls. Not derived from train.steps, so that a run may be made longer."""
    final_lr: float = Field(0.0, ge=0, le=1)
    """The rate that it falls to, as a share of lr."""
    optimizer: Literal["adamw", "adamw_8bit", "muon"] = "adamw"
    """adamw_8bit: bitsandbytes' AdamW, whose moments take a quarter of the memory. muon: Muon for the matrices of the
    policy's layers, AdamW for the rest of it (embeddings, head, norms, biases), at one rate. The critic has AdamW."""
    betas: tuple[Decay, Decay] = (0.9, 0.999)
    """AdamW's moving averages."""
    weight_decay: float = Field(0.01, ge=0)
    """Decoupled decay."""
    decay_vectors: bool = True
    """Also of norms and biases, whose values it draws to zero. False is what most trainers do."""
    ema: float | None = Field(None, gt=0, lt=1)
    """Decay, for each optimiser step, of an average of the weights that is kept beside them and that `ares export`
    writes in their place; evaluations of the run measure it too (val/ema/…), from the first update on. None: no average
    is kept."""
    compile: bool = Field(False, json_schema_extra=ONLY_ROUNDING)
    """Run the policy's decoder through torch.compile: the first passes take minutes, later ones less time."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Gradients are scaled down to this norm."""
    global_batch_prompts: int = Field(8, ge=1, le=MOST)
    """Prompts (times n samples) per optimiser step. Must divide rollout.prompts."""
    micro_batch_tokens: int = Field(4096, ge=1, le=MOST, json_schema_extra=ONLY_ROUNDING)
    """Tokens in one forward and backward pass; bounds memory, changes the update by rounding alone. A prompt that
    several rows have counts once; models whose rows cannot share a line count every row as the longest beside it. On a
    CPU 512 are no slower, and a model of 135 million parameters holds 1.3 MB for each."""
    critic_lr: float = Field(1e-5, gt=0, le=1)
    """Learning rate of the value model (estimator gae)."""
    critic_clip: float = Field(0.5, gt=0)
    """Clip range of the value loss."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: cuda where there is one."""
    threads: int = Field(1, ge=1, le=MOST_PROCESSES, json_schema_extra=ONLY_ROUNDING)
    """CPU threads of each learner rank. Part of the fingerprint: another count gives other bits."""
    ranks: int = Field(1, ge=1, le=MOST_PROCESSES, json_schema_extra=ONLY_ROUNDING)
    """Learner processes that share every global batch; one GPU each where there are GPUs."""
    sharded: bool = Field(False, json_schema_extra=ONLY_ROUNDING)
    """Each rank holds a part of every weight, gradient and moment (FSDP2), and gathers a layer when it is needed: less
    memory, more traffic. Off: each holds them whole, which is faster for small models."""
    offload_optimizer: bool = Field(False, json_schema_extra=NO_EFFECT)
    """Keep AdamW's moments, twice the weights, in main memory but for the update: a colocated engine gets their place
    on the GPU, and every update waits for them."""


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

    kind: str | tuple[str, ...] = "mlflow"
    """mlflow; jsonl, tensorboard (files in the run directory); wandb (WANDB_MODE=offline: there, too); trackio (this
    machine's); or path/to/file.py:Name (docs/extending.md). Several: [mlflow, jsonl]. An ablation's report is in MLflow
    all the same. tensorboard, wandb and trackio are packages of their own."""
    settings: dict[str, Any] = Field({})
    """Settings of a tracker in a file of yours."""
    uri: str | None = None
    """MLflow server or database. None: MLFLOW_TRACKING_URI, else `mlflow.db` in the folder of the runs."""
    experiment: str = Field("ares", min_length=1)
    """MLflow experiment, or W&B project."""
    samples: int = Field(16, ge=0, le=MOST_SAMPLES)
    """Rows of the sample table logged with every evaluation."""
    parent_run: str | None = None
    """MLflow run under which this one is shown; an ablation sets it."""
    tags: dict[str, str] = Field({})
    """Tags of the MLflow or W&B run."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """What `kind` names."""
        return (self.kind,) if isinstance(self.kind, str) else self.kind

    def one_by_one(self) -> "list[TrackingConfig]":
        """A section for each tracker."""
        return [self.model_copy(update={"kind": kind}) for kind in self.kinds]


class Wire(Strict):
    """One bound."""

    limit: float
    """What the metric may not pass."""
    steps: int = Field(1, ge=1, le=1000)
    """Steps in a row beyond the limit that trip the wire."""
    action: Literal["warn", "pause", "rewind"] = "warn"
    """warn: in the log, and to `ares up --notify`, once until the metric is back. pause: the run ends; `ares resume`
    goes on. rewind: the run goes back, and on as a fork with the first of `remedies`; pause if there is none."""


class WatchConfig(Strict):
    """What a run does about itself. These settings may be changed by a resume."""

    entropy_below: Wire | None = None
    """entropy/mean (nats a token)."""
    mismatch_above: Wire | None = None
    """mismatch/logprob_diff_mean (nats a token)."""
    kept_below: Wire | None = Wire(limit=0.1)
    """filter/kept_share."""
    unscored_above: Wire | None = None
    """reward/unscored (samples of a batch)."""
    kl_above: Wire | None = Wire(limit=1.0)
    """critic/kl (nats a token)."""
    truncated_above: Wire | None = None
    """response_length/clip_ratio."""
    margin: int = Field(2, ge=0, le=MOST_STEPS)
    """A rewind goes this many steps further back than the last one within the limit: its update is the first that may
    have done the damage, of which the next step's samples tell."""
    remedies: list[dict[str, Any]] = Field([])
    """Settings of each rewind's fork, as [{learner.lr: 1.0e-4}, {learner.lr: 1.0e-5}]; as many rewinds as remedies,
    since the same one would end the same way."""

    @property
    def wires(self) -> dict[str, Wire]:
        """Those that are set, by name."""
        every = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: wire for name, wire in every.items() if isinstance(wire, Wire)}

    @property
    def overrides(self) -> list[list[str]]:
        """Each remedy as overrides."""
        return [[f"{setting}={json.dumps(value)}" for setting, value in remedy.items()] for remedy in self.remedies]


class Config(Strict):
    """One training run, whole."""

    model: ModelConfig
    data: DataConfig
    rollout: RolloutConfig = RolloutConfig()
    bootstrap: BootstrapConfig = BootstrapConfig()
    reward: RewardConfig = RewardConfig()
    environment: Annotated[EnvironmentConfig | None, BeforeValidator(as_section)] = None
    """What answers a response, turn by turn; also its kind alone. None: a response is all there is."""
    algorithm: AlgorithmConfig = AlgorithmConfig()
    learner: LearnerConfig = LearnerConfig()
    validation: ValidationConfig = ValidationConfig()
    train: TrainConfig = TrainConfig()
    watch: WatchConfig = Field(WatchConfig(), json_schema_extra=NO_EFFECT)
    tracking: TrackingConfig = Field(TrackingConfig(), json_schema_extra=NO_EFFECT)

    @property
    def longest_sequence(self) -> int:
        """Tokens of the longest prompt together with all that may follow it."""
        second, answer = self.rollout.second_turn, self.rollout.max_response_length
        continued = second.max_feedback_length + answer if self.has_second_turns else 0
        if self.environment is not None:
            continued = self.environment.longest + (self.environment.max_turns - 1) * answer
        return self.data.max_prompt_length + answer + continued

    @property
    def has_second_turns(self) -> bool:
        """Whether programs that failed are told their verdict, in training or on held-out problems."""
        return self.rollout.second_turn.enabled or self.validation.turns > 1

    @property
    def learns_from(self) -> str:
        """What a step trains on: `samples` of the policy, or rows of data.train as `demonstrations` or `pairs`."""
        return str(POLICY_LOSSES.fact(self.algorithm.policy.loss, "learns_from"))

    @property
    def optimizer_steps(self) -> int:
        """Optimiser steps of one training step."""
        return self.algorithm.policy.epochs * (self.rollout.prompts // self.learner.global_batch_prompts)

    @property
    def mismatch_bound(self) -> float | None:
        """What rollout.max_mismatch means for the model's type, in nats a token; None: nothing is compared."""
        bound = self.rollout.max_mismatch
        return (0.1 if self.model.dtype == "bfloat16" else 0.02) if bound == "auto" else bound

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
