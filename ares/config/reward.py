"""Settings of the reward: who grades a response, and what a graded program is worth."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from ares.config.extensions import GRADERS, REWARD_DESIGNS
from ares.config.strict import LONGEST_WAIT, MOST_PROCESSES, MOST_TOKENS, NO_EFFECT, Strict


class VerpoConfig(Strict):
    """Hyper-parameters of VeRPO; the paper names no defaults."""

    alpha: float = Field(ge=0)
    """How much more a hard test weighs than an easy one."""
    sigma: float = Field(gt=0)
    """Pass rates this close count as one cluster, whose tests share their weight."""
    delta: float = Field(gt=0)
    """Added to a cluster's density."""
    gamma: float = Field(ge=0, le=1)
    """Outcome anchor: what all tests passed adds."""
    beta: float = Field(ge=0)
    """Weight of the dense part beside the outcome anchor."""


class CodeConfig(Strict):
    """What a program is worth, and where it is judged (reward.kind=code)."""

    design: Annotated[str, AfterValidator(REWARD_DESIGNS.known)] = "dense_linear"
    """What the tests passed are worth: sparse, dense_linear, dense_weighted, outcome_anchor, verpo, pass_ratio
    (docs/rewards.md has the formulas), or path/to/file.py:Name (docs/extending.md)."""
    settings: Annotated[dict[str, Any], AfterValidator(REWARD_DESIGNS.settled)] = Field({})
    """Settings of a design in a file of yours."""
    error_policy: Literal["any", "all"] = "any"
    """A program counts as a runtime error (or timeout) when any of its tests ends so, or only when all do."""
    accuracy: Literal["all_passed", "pass_ratio"] = "all_passed"
    """What accuracy means to filtering, difficulty buckets and AEPO's entropy shaping."""
    weight: float = Field(1.0, gt=0)
    """Factor of the code reward."""
    format_weight: float = Field(0.0, ge=0)
    """Factor of the format reward that is added to it (one fenced block that parses: 1)."""
    efficiency: float = Field(0.0, ge=0, le=0.26)
    """Late-only efficiency: what a long program that passes nearly everything loses at most; 0: off."""
    efficiency_start: int = Field(0, ge=0, le=MOST_TOKENS)
    """Tokens from which on length costs; it costs all of `efficiency` at rollout.max_response_length."""
    test_alpha: float = Field(1.0, ge=0)
    """dense_weighted: how much more a test that rarely passes weighs; 0: all alike."""
    test_ema: float = Field(0.1, gt=0, le=1)
    """dense_weighted: weight of a new group in a test's running pass rate."""
    verpo: VerpoConfig | None = None
    """Settings of design verpo, which needs them all."""
    cpu_seconds: float = Field(2.0, gt=0, le=LONGEST_WAIT)
    """CPU seconds for each test."""
    memory_mb: int = Field(512, ge=16, le=2**20)
    """MiB of address space of a program."""
    untrusted: Literal["accept", "drop", "zero"] = "accept"
    """How tests count that run in the program's own process, which could forge the outcome (docs/sandbox.md): as they
    came out, not at all (such a problem has no score), or as failed. accept, because the text of a test alone decides
    where it runs, never the response, and any other would silently take all problems about classes out of the data."""
    provider: Literal["local", "e2b", "morph"] = Field("local", json_schema_extra=NO_EFFECT)
    """Where programs run: on this machine (or the CPU nodes of the Ray cluster), or on rented machines."""
    workers: int | None = Field(None, ge=1, le=MOST_PROCESSES, json_schema_extra=NO_EFFECT)
    """Sandbox processes. None: one a core."""
    min_isolation: Literal["standard", "none"] = Field("standard", json_schema_extra=NO_EFFECT)
    """Isolation below which nothing runs (docs/sandbox.md)."""

    @model_validator(mode="after")
    def _settings_fit_the_design(self) -> "CodeConfig":
        if (self.design == "verpo") != (self.verpo is not None):
            raise ValueError(
                "the section verpo (alpha, sigma, delta, gamma, beta) belongs to design=verpo, which needs it"
            )
        if self.design in ("outcome_anchor", "pass_ratio") and self.efficiency > 0.2:
            raise ValueError(f"efficiency ({self.efficiency}) is at most 0.2 with design={self.design}")
        if self.efficiency and self.design not in REWARD_DESIGNS.builtin:
            raise ValueError(f"efficiency is for the built-in designs: {self.design} charges for length itself")
        return self


class RewardConfig(Strict):
    """Where accuracy comes from."""

    kind: Annotated[str, AfterValidator(GRADERS.known)] = "math"
    """`math` (last \\boxed{} against the answer), `code` (unit tests in the sandbox), or `path.py:Name`: a function
    with TRL's or verl's signature, or a grader (docs/extending.md)."""
    settings: Annotated[dict[str, Any], AfterValidator(GRADERS.settled)] = Field({})
    """Settings of a grader in a file of yours."""
    timeout: float = Field(5.0, gt=0, le=LONGEST_WAIT)
    """Seconds a single answer may take to grade before the grader is killed and the sample has no score. A function
    with TRL's signature, which is called once a shard, may take so long for each of its completions."""
    max_unscored: float = Field(0.2, ge=0, le=1)
    """Share of a step's responses that may have no score, a single problem's aside, before the run stops."""
    code: CodeConfig = CodeConfig()

    @property
    def judges_programs(self) -> bool:
        """Whether problems have unit tests, and graded rows have what became of them."""
        return bool(GRADERS.fact(self.kind, "judges_programs"))
