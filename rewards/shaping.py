"""Rewards of code responses from their verdicts: one branch per sample, never a sum (RLTF, arXiv 2307.04349).

Covered: the reward designs (`RewardDesign`) over whole batches, RLTF's coarse and adaptive feedback, the late
efficiency term. Not covered: running programs (sandbox/), running pass rates (rewards/pass_rates.py), DAPO's soft
overlong term, which any reward can have (rewards/overlong.py), advantages.

Branches by the verdict's error type, in order of precedence:

    truncated, or the response was cut off    NaN: masked, no reward
    internal_error                            NaN: the sandbox failed, no score
    syntax_error (no code block too)          −1
    memory, timeout, output_limit,            −.6, if the sample counts as an error under the error policy
    runtime_error
    wrong_answer, accepted                    by the tests passed
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from rewards.verpo import VerpoSettings
from sandbox import ERROR_TYPES, Verdict

SYNTAX_REWARD = -1.0
ERROR_REWARD = -0.6
FAILURE_REWARD = -0.3
ANCHOR = 0.3
RUNTIME_ERRORS = frozenset({"memory", "timeout", "output_limit", "runtime_error"})
UNSCORED = frozenset({"internal_error", "truncated"})
LATE_FROM = 0.8
ErrorPolicy = Literal["any", "all"]


class RewardDesign(enum.StrEnum):
    """The reward designs; p is the share of tests passed, p_w the weighted share, [AC] 1 if all passed."""

    SPARSE = "sparse"
    """1[AC], without the override."""
    DENSE_LINEAR = "dense_linear"
    """−.3 + 1.3·p."""
    DENSE_WEIGHTED = "dense_weighted"
    """−.3 + 1.3·p_w."""
    OUTCOME_ANCHOR = "outcome_anchor"
    """−.3 + p + .3·[AC]."""
    VERPO = "verpo"
    """β·Σ w_j·1_j + γ·[AC], without the override; not bounded by 1."""
    PASS_RATIO = "pass_ratio"
    """p, without the override (DiffuCoder, Murphy)."""


OVERRIDDEN = frozenset({RewardDesign.DENSE_LINEAR, RewardDesign.DENSE_WEIGHTED, RewardDesign.OUTCOME_ANCHOR})
"""Designs in which syntax and runtime errors override the reward by tests."""


@dataclasses.dataclass(frozen=True)
class CodeOutcomes:
    """Verdicts on a batch of B responses. Raises ValueError naming the row and what is wrong."""

    error_type: np.ndarray
    """[B], the verdict's error type, one of sandbox.ERROR_TYPES."""
    truncated: np.ndarray
    """bool [B]: the response was cut off at the length limit."""
    passed: Sequence[np.ndarray]
    """B arrays bool [T], one entry per test, at least one."""
    errored: np.ndarray
    """int [B]: number of tests that ended in one of RUNTIME_ERRORS."""

    def __post_init__(self) -> None:
        rows = len(self.passed)
        for name in ("error_type", "truncated", "errored"):
            if np.shape(getattr(self, name)) != (rows,):
                raise ValueError(f"{name} must have shape [{rows}], got {list(np.shape(getattr(self, name)))}")
        sizes = self.tests
        for row in np.flatnonzero(sizes == 0):
            raise ValueError(f"row {row} has no tests; a program needs at least one")
        for row in np.flatnonzero(~np.isin(self.error_type.astype(str), ERROR_TYPES)):
            raise ValueError(
                f"row {row}: unknown error type {self.error_type[row]!r} (one of {', '.join(ERROR_TYPES)})"
            )
        for row in np.flatnonzero((self.errored < 0) | (self.errored + self.passes > sizes)):
            raise ValueError(
                f"row {row}: {self.errored[row]} errors and {self.passes[row]} passes of {sizes[row]} tests"
            )
        runtime = np.isin(self.error_type.astype(str), list(RUNTIME_ERRORS))
        for row in np.flatnonzero(runtime & (self.errored == 0)):
            raise ValueError(f"row {row}: error type {self.error_type[row]!r}, but none of its tests ended in an error")
        for row in np.flatnonzero((self.error_type.astype(str) == "accepted") & (self.passes < sizes)):
            raise ValueError(f"row {row} is accepted, but passes {self.passes[row]} of {sizes[row]} tests")

    @classmethod
    def from_verdicts(cls, verdicts: Sequence[Verdict], truncated: ArrayLike) -> CodeOutcomes:
        """From the verdicts [B] of a sandbox pool (`no_code_verdict` for a response without a program)."""
        return cls(
            error_type=np.array([verdict.error_type for verdict in verdicts], dtype=object),
            truncated=np.asarray(truncated, dtype=bool),
            passed=[np.array([test.verdict == "accepted" for test in verdict.tests]) for verdict in verdicts],
            errored=np.array(
                [sum(test.verdict in RUNTIME_ERRORS for test in verdict.tests) for verdict in verdicts], dtype=np.int64
            ),
        )

    @functools.cached_property
    def tests(self) -> np.ndarray:
        """int64 [B], the number of tests."""
        return np.fromiter((len(row) for row in self.passed), dtype=np.int64, count=len(self.passed))

    @functools.cached_property
    def passes(self) -> np.ndarray:
        """int64 [B], the number of tests passed."""
        return np.fromiter((np.count_nonzero(row) for row in self.passed), dtype=np.int64, count=len(self.passed))

    @functools.cached_property
    def accepted(self) -> np.ndarray:
        """bool [B], all tests passed."""
        return self.passes == self.tests

    @property
    def pass_ratio(self) -> np.ndarray:
        """float64 [B] in [0, 1]; NaN where the sandbox failed, not where a response was truncated."""
        return np.where(self.error_type == "internal_error", np.nan, self.passes / self.tests)

    @functools.cached_property
    def scored(self) -> np.ndarray:
        """bool [B]: neither truncated nor a failure of the sandbox."""
        return ~(self.truncated | np.isin(self.error_type.astype(str), list(UNSCORED)))


def rltf_coarse(error_type: Sequence[str] | np.ndarray) -> np.ndarray:
    """RLTF's coarse feedback: pass 1, failure −.3, error −.6, syntax error −1; NaN if unscored: float64 [B]."""
    kinds = np.asarray(error_type, dtype=str)
    return np.select(
        [kinds == "accepted", kinds == "wrong_answer", kinds == "syntax_error", np.isin(kinds, list(RUNTIME_ERRORS))],
        [1.0, FAILURE_REWARD, SYNTAX_REWARD, ERROR_REWARD],
        np.nan,
    )


def rltf_adaptive(pass_ratio: ArrayLike) -> np.ndarray:
    """RLTF's adaptive feedback −.3 + 1.3·p, positive from p = .3/1.3 = .2308 on: [B] in [0, 1] → float64 [B]."""
    return FAILURE_REWARD + (1.0 - FAILURE_REWARD) * np.asarray(pass_ratio, dtype=np.float64)


def shape_code_rewards(
    design: RewardDesign | str,
    outcomes: CodeOutcomes,
    *,
    weights: Sequence[np.ndarray] | None = None,
    error_policy: ErrorPolicy = "any",
    verpo: VerpoSettings | None = None,
) -> np.ndarray:
    """Reward of each response under a design: float64 [B], NaN where there is none (truncated, or sandbox failure).

    weights: B arrays [T], for dense_weighted (RunningPassRates.weights; only proportions matter) and verpo
    (verpo_group_weights, unnormalised). error_policy: a sample counts as an error if "any" of its tests, or only if
    "all" of them, ended in one. verpo: settings of that design.
    In [−1, 1], except verpo: [0, β·Σw + γ]. Raises ValueError on an unknown design or policy, and if weights are
    missing, superfluous, negative, or do not match the tests.
    """
    design = RewardDesign(design)
    if (verpo is None) == (design is RewardDesign.VERPO):
        raise ValueError(f"design {design}: the verpo design, and no other, needs verpo settings")
    passed_weight, weight = _weight(design, outcomes, weights)
    ratio, accepted = passed_weight / weight, outcomes.accepted
    if verpo is not None:
        rewards = verpo.beta * passed_weight + verpo.gamma * accepted
    elif design not in OVERRIDDEN:
        rewards = accepted.astype(np.float64) if design is RewardDesign.SPARSE else ratio
    else:
        anchored = design is RewardDesign.OUTCOME_ANCHOR
        by_tests = FAILURE_REWARD + ratio + ANCHOR * accepted if anchored else rltf_adaptive(ratio)
        rewards = np.select(
            [outcomes.error_type == "syntax_error", _ran_into_error(outcomes, error_policy)],
            [SYNTAX_REWARD, ERROR_REWARD],
            by_tests,
        ).clip(-1.0, 1.0)
    return np.where(outcomes.scored, rewards, np.nan)


def late_efficiency(
    design: RewardDesign | str,
    outcomes: CodeOutcomes,
    lengths: ArrayLike,
    coefficient: float,
    span: tuple[int, int],
    *,
    weights: Sequence[np.ndarray] | None = None,
    error_policy: ErrorPolicy = "any",
) -> np.ndarray:
    """−c·clip((p − .8)/.2, 0, 1)·clip((L − Ls)/(Lmax − Ls), 0, 1): a cost of length for nearly right responses.

    To be added to `shape_code_rewards`, with the same design, weights and policy. p is the design's own ratio: p_w with
    dense_weighted, [AC] with sparse and verpo; so at equal length, passing one more test never costs reward.
    lengths: [B] tokens; coefficient: c, bounded for each design in ares/config/rules.py; span: (Ls, Lmax), no cost up
    to Ls tokens and all of c from Lmax on. Returns float64 [B] in [−c, 0]: 0 where an error overrides the reward, NaN
    where there is no reward.
    """
    design = RewardDesign(design)
    if design in (RewardDesign.SPARSE, RewardDesign.VERPO):
        ratio = outcomes.accepted.astype(np.float64)
    else:
        passed_weight, weight = _weight(design, outcomes, weights)
        ratio = passed_weight / weight
        if design in OVERRIDDEN:
            overridden = (outcomes.error_type == "syntax_error") | _ran_into_error(outcomes, error_policy)
            ratio = np.where(overridden, 0.0, ratio)
    late = np.clip((ratio - LATE_FROM) / (1.0 - LATE_FROM), 0.0, 1.0)
    free, most = span
    long = np.clip((np.asarray(lengths, dtype=np.float64) - free) / (most - free), 0.0, 1.0)
    return np.where(outcomes.scored, 0.0 - coefficient * late * long, np.nan)


def _ran_into_error(outcomes: CodeOutcomes, policy: ErrorPolicy) -> np.ndarray:
    if policy not in get_args(ErrorPolicy):
        raise ValueError(f"error_policy must be one of {get_args(ErrorPolicy)}, got {policy!r}")
    return outcomes.errored > 0 if policy == "any" else outcomes.errored == outcomes.tests


def _weight(
    design: RewardDesign, outcomes: CodeOutcomes, weights: Sequence[np.ndarray] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Total weight of the tests passed and of all tests: two float64 [B], exactly equal if all passed."""
    weighted = design in (RewardDesign.DENSE_WEIGHTED, RewardDesign.VERPO)
    if weighted != (weights is not None):
        raise ValueError(f"design {design} {'needs' if weighted else 'takes no'} weights of tests")
    if weights is None or len(weights) == 0:
        return outcomes.passes.astype(np.float64), outcomes.tests.astype(np.float64)
    sizes = outcomes.tests
    for row, (weight, size) in enumerate(zip(weights, sizes, strict=True)):
        if np.shape(weight) != (size,):
            raise ValueError(f"row {row}: weights of shape {list(np.shape(weight))} for {size} tests")
    flat = np.concatenate(weights).astype(np.float64)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    total = np.add.reduceat(flat, starts)
    for row in np.flatnonzero(~(np.isfinite(total) & (total > 0) & (np.minimum.reduceat(flat, starts) >= 0))):
        raise ValueError(f"row {row}: weights {weights[row]} must be finite, not negative, and not all 0")
    # The same terms in the same order as in `total`: if all tests passed, the two sums are bit-identical.
    return np.add.reduceat(np.where(np.concatenate(outcomes.passed), flat, 0.0), starts), total
