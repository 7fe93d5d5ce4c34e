"""Settings of sampling: the engine, the length and staleness of responses, second turns, denoising.

Covered: their bounds, and which combinations are refused. Not covered: combinations with other sections
(ares/config/rules.py), the engines (ares/engines/).
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from algorithms.settings import MOST, MOST_TOKENS, Strict, UncoveringSettings
from ares.config.strict import LEAST_TEMPERATURE, MOST_PROCESSES, MOST_SAMPLES, NO_EFFECT, ONLY_ROUNDING


class VllmConfig(Strict):
    """Settings of vLLM (rollout.engine=vllm)."""

    max_sequences: int = Field(256, ge=1, le=MOST_SAMPLES, json_schema_extra=ONLY_ROUNDING)
    """Sequences decoded at once."""
    images: int = Field(4, ge=1, le=MOST_PROCESSES)
    """Most images per prompt, for a vision-language model; vLLM reserves memory for them."""
    cpu_cache_gib: int = Field(1, ge=1, le=2**16, json_schema_extra=NO_EFFECT)
    """Key-value cache on a CPU, GiB."""
    gpu_memory: float = Field(0.5, gt=0, lt=1, json_schema_extra=NO_EFFECT)
    """Share of a GPU's memory for weights and cache; the learner needs the rest if it shares the GPU."""
    tensor_parallel: int = Field(1, ge=1, le=MOST_PROCESSES)
    """GPUs that one engine is spread over."""


class SecondTurnConfig(Strict):
    """Second turns for programs that failed, with their verdict in the prompt (Murphy)."""

    enabled: bool = False
    """On: every first turn that failed its tests, and was not cut off, is continued once."""
    children: int = Field(1, ge=1, le=MOST_SAMPLES)
    """Second turns per failed first turn."""
    max_feedback_length: int = Field(256, ge=1, le=MOST_TOKENS)
    """Most tokens of the verdict's turn. A first turn whose verdict is longer gets no second turn, and is counted."""
    credit: Literal["max", "mean"] = "max"
    """A first turn's reward rises towards the maximum, or the mean, of its second turns', where that is higher."""
    credit_share: float = Field(1.0, ge=0, le=1)
    """How far it rises. At 1 a repaired failure is worth as much as a right program, and such groups teach nothing."""
    shuffled: bool = False
    """A placebo, for ablations: each failed program is shown the verdict on one for another problem of its shard."""


class DiffusionConfig(UncoveringSettings):
    """How a masked-diffusion model uncovers its canvas of max_response_length positions (rollout.engine=diffusion)."""

    batch: int = Field(128, ge=1, le=MOST_SAMPLES, json_schema_extra=ONLY_ROUNDING)
    """Rows denoised together. Part of the fingerprint: batch composition changes the last bits."""


class RolloutConfig(Strict):
    """How responses are sampled."""

    engine: str = "transformers"
    """What generates: `transformers` is the deterministic reference, `vllm` the fast one; both on CPU and GPU.
    `diffusion` denoises: for model.family=masked_diffusion. Or path/to/file.py:Name (docs/extending.md)."""
    settings: dict[str, Any] = Field({})
    """Settings of an engine in a file of yours."""
    vllm: VllmConfig = VllmConfig()
    diffusion: DiffusionConfig = DiffusionConfig()
    max_mismatch: Annotated[float, Field(gt=0)] | Literal["auto"] | None = Field("auto", json_schema_extra=NO_EFFECT)
    """Mean |log-prob difference| of engine and learner on a step's tokens, or on 64 responses of the bootstrap or an
    evaluation (nats), beyond which the run stops: the engine samples from the wrong weights. auto: .02 in float32, .1
    in bfloat16, which alone makes .04 of SmolLM2's. None: a step's is only measured (mismatch/*), and nothing else is
    compared."""
    n: int = Field(8, ge=2, le=MOST_SAMPLES)
    """Samples per prompt. Group estimators compare within the group, so one is not enough."""
    prompts: int = Field(16, ge=1, le=MOST)
    """Prompts whose groups make one training batch, counted after online filtering."""
    max_response_length: int = Field(1024, ge=1, le=MOST_TOKENS)
    """Tokens. A response (of an episode: each turn) that reaches it is truncated."""
    temperature: float = Field(1.0, ge=LEAST_TEMPERATURE, le=100)
    """Sampling temperature; log-probs, ratios and entropies are taken at the same temperature."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Nucleus sampling, for evaluations and masked diffusion. Other training needs 1: below it, responses are drawn
    from another distribution than the one whose log-probs are trained."""
    shard_prompts: int = Field(64, ge=1, le=MOST, json_schema_extra=ONLY_ROUNDING)
    """Prompts generated together. On a CPU the unit of recomputation: batch composition changes rounding. With small
    shards a kill loses little, but every shard ends in a tail of its longest responses, while an engine is nearly
    idle."""
    max_staleness: int = Field(0, ge=0, le=16)
    """k: a step's first responses are sampled and graded while the k steps before it are under way, from the policy
    before those, and importance weights correct for it (algorithm.policy.importance_cap). Memory holds the weights of
    k + 1 policies. 0: from the newest policy."""
    parts: int = Field(1, ge=1, le=17)
    """p: these responses are drawn in p parts of at most max_response_length / p tokens, each from a policy one step
    newer than the part before, together with the current parts of other steps' responses: no step waits for more
    than one part, however long a response. Needs max_staleness ≥ p − 1; at p − 1 the last part is the newest
    policy's, and the step waits for it. 1: one policy samples a whole response."""
    second_turn: SecondTurnConfig = SecondTurnConfig()
    threads: int = Field(1, ge=1, le=MOST_PROCESSES, json_schema_extra=ONLY_ROUNDING)
    """CPU threads of each engine. Part of the fingerprint: a different count gives different bits."""
    placement: Literal["colocate", "split"] = Field("colocate", json_schema_extra=NO_EFFECT)
    """With GPUs: engines and learner on the same ones in turn, or each on its own."""
    engines: int = Field(1, ge=1, le=MOST_PROCESSES)
    """Engine processes that share every shard, one GPU (vLLM: tensor_parallel GPUs) each if there are any. Part of the
    fingerprint: batch composition changes the last bits."""
