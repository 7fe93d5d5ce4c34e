"""Settings of the reward: who grades a response, and what a graded program is worth."""

from typing import Literal

from pydantic import Field

from ares.strict import NO_EFFECT, Strict

Design = Literal["sparse", "dense_linear", "dense_weighted", "outcome_anchor", "verpo", "pass_ratio"]


class CodeConfig(Strict):
    """What a program is worth, and where it is judged (reward.kind=code)."""

    design: Literal["sparse", "dense_linear", "dense_weighted", "outcome_anchor", "verpo", "pass_ratio"] = (
        "dense_linear"
    )
    """sparse: 1 if every test passed; dense_linear: −.3 + 1.3 · pass ratio below syntax (−1) and runtime errors (−.6);
    dense_weighted: the same with harder tests weighing more; outcome_anchor: a bonus for all passed; verpo: weights
    from the group's own pass rates; pass_ratio: the plain share, 0 without a well-formed block (DiffuCoder)."""
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
    efficiency_start: int = Field(0, ge=0)
    """Tokens from which on length costs; it costs all of `efficiency` at rollout.max_response_length."""
    rate_ema: float = Field(0.1, gt=0, le=1)
    """dense_weighted: weight of a new group in a test's running pass rate."""
    verpo_sigma: float = Field(0.1, gt=0)
    """verpo: width within which tests of similar pass rate share their weight. The paper names no default."""
    verpo_alpha: float = Field(1.0, ge=0)
    """verpo: how much more hard tests weigh. The paper names no default."""
    verpo_delta: float = Field(1e-3, gt=0)
    """verpo: keeps a weight finite."""
    cpu_seconds: float = Field(2.0, gt=0)
    """CPU seconds for each test."""
    memory_mb: int = Field(512, ge=16)
    """MiB of address space of a program."""
    provider: Literal["local", "e2b", "morph"] = Field("local", json_schema_extra=NO_EFFECT)
    """Where programs run: on this machine (or the CPU nodes of the Ray cluster), or on rented machines."""
    workers: int | None = Field(None, ge=1, json_schema_extra=NO_EFFECT)
    """Sandbox processes. None: one a core."""
    min_isolation: Literal["standard", "none"] = Field("standard", json_schema_extra=NO_EFFECT)
    """Isolation below which nothing runs (docs/sandbox.md)."""


class RewardConfig(Strict):
    """Where accuracy comes from."""

    kind: str = "math"
    """`math` (last \\boxed{} against the answer), `code` (unit tests in the sandbox), or `path.py:function` with TRL's
    or verl's signature."""
    timeout: float = Field(5.0, gt=0)
    """Seconds a single answer may take to grade before the grader is killed and the sample has no score."""
    code: CodeConfig = CodeConfig()
