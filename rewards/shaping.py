"""Rewards of code responses from their verdicts: one branch per sample, never a sum (RLTF, arXiv 2307.04349).

Covered: the reward designs over whole batches, RLTF's adaptive feedback, the late efficiency term, DAPO's soft overlong
term. Not covered: running programs (sandbox/), weights of tests (rewards/pass_rates.py), advantages.

Branches by the verdict's error type, in order of precedence:

    truncated, or the response was cut off    NaN: masked, no reward
    internal_error                            NaN: the sandbox failed, no score
    syntax_error (no code block too)          −1
    memory, timeout, output_limit,            −.6, if the sample counts as an error under the error policy
    runtime_error
    wrong_answer, accepted                    by the tests passed

and the last by design, p the share of tests passed, p_w the weighted share, [AC] 1 if all passed:

    sparse                                    [AC]
    dense_linear                              −.3 + 1.3·p
    dense_weighted                            −.3 + 1.3·p_w
    outcome_anchor                            −.3 + p + .3·[AC]
    verpo                                     β·Σ w_j·1_j + γ·[AC]; not bounded by 1
    pass_ratio                                p (DiffuCoder, Murphy)
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from rewards.pass_rates import VerpoSettings

SYNTAX_REWARD = -1.0
ERROR_REWARD = -0.6
FAILURE_REWARD = -0.3
ANCHOR = 0.3
RUNTIME_ERRORS = ("memory", "timeout", "output_limit", "runtime_error")
UNSCORED = ("internal_error", "untrusted", "truncated")
LATE_FROM = 0.8
DESIGNS = ("sparse", "dense_linear", "dense_weighted", "outcome_anchor", "verpo", "pass_ratio")
OVERRIDDEN = ("dense_linear", "dense_weighted", "outcome_anchor")
"""Designs in which syntax and runtime errors override the reward by tests; sparse, verpo and pass_ratio have no such
branches."""
WEIGHTED = ("dense_weighted", "verpo")
ErrorPolicy = Literal["any", "all"]


@dataclasses.dataclass(frozen=True)
class CodeOutcomes:
    """Verdicts on a batch of B responses. Raises ValueError naming a row without tests."""

    error_type: np.ndarray
    """[B], the verdict's error type, one of sandbox.ERROR_TYPES."""
    truncated: np.ndarray
    """bool [B]: the response was cut off at the length limit."""
    passed: Sequence[np.ndarray]
    """B arrays bool [T], one entry per test, at least one."""
    errored: np.ndarray
    """int [B]: number of tests that ended in one of RUNTIME_ERRORS."""

    def __post_init__(self) -> None:
        for row in np.flatnonzero(self.tests == 0):
            raise ValueError(f"row {row} has no tests; a program needs at least one")

    @classmethod
    def of(cls, error_type: ArrayLike, endings: Iterable[Sequence[str]], truncated: ArrayLike) -> CodeOutcomes:
        """From the error type of each verdict [B], how each of its tests ended, and which responses were cut off."""
        of_tests = [np.asarray(each, dtype=str) for each in endings]
        return cls(
            error_type=np.asarray(error_type, dtype=object),
            truncated=np.asarray(truncated, dtype=bool),
            passed=[each == "accepted" for each in of_tests],
            errored=np.array([np.isin(each, RUNTIME_ERRORS).sum() for each in of_tests], dtype=np.int64),
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

    @functools.cached_property
    def scored(self) -> np.ndarray:
        """bool [B], whether the row has a reward."""
        return ~(self.truncated | np.isin(self.error_type.astype(str), UNSCORED))

    def overridden(self, policy: ErrorPolicy) -> list[np.ndarray]:
        """Syntax errors, and runtime errors: a sample is one if "any" of its tests ended in one, or only if "all" did:
        two bool [B]."""
        errors = self.errored > 0 if policy == "any" else self.errored == self.tests
        return [self.error_type == "syntax_error", errors]


def rltf_adaptive(pass_ratio: ArrayLike) -> np.ndarray:
    """RLTF's adaptive feedback −.3 + 1.3·p, positive from p = .3/1.3 = .2308 on: [B] in [0, 1] → float64 [B]."""
    return FAILURE_REWARD + (1.0 - FAILURE_REWARD) * np.asarray(pass_ratio, dtype=np.float64)


def shape_code_rewards(
    design: str,
    outcomes: CodeOutcomes,
    *,
    weights: Sequence[np.ndarray] | None = None,
    error_policy: ErrorPolicy = "any",
    verpo: VerpoSettings | None = None,
) -> np.ndarray:
    """Reward of each response under a design: float64 [B], NaN where there is none (truncated, or sandbox failure).

    weights: B arrays [T], for dense_weighted (RunningPassRates.weights; only proportions matter) and verpo
    (verpo_group_weights, unnormalised). error_policy: `CodeOutcomes.overridden`. verpo: settings of that design.
    In [−1, 1], except verpo: [0, β·Σw + γ]. Raises ValueError on an unknown design, and if weights or settings are
    missing, superfluous, or do not match the tests.
    """
    if (verpo is None) == (design == "verpo"):
        raise ValueError(f"design {design}: the verpo design, and no other, needs verpo settings")
    passed_weight, weight = _weigh(design, outcomes, weights)
    ratio, accepted = passed_weight / weight, outcomes.accepted
    if verpo is not None:
        rewards = verpo.beta * passed_weight + verpo.gamma * accepted
    elif design not in OVERRIDDEN:
        rewards = accepted.astype(np.float64) if design == "sparse" else ratio
    else:
        anchored = design == "outcome_anchor"
        by_tests = FAILURE_REWARD + ratio + ANCHOR * accepted if anchored else rltf_adaptive(ratio)
        rewards = np.select(outcomes.overridden(error_policy), [SYNTAX_REWARD, ERROR_REWARD], by_tests).clip(-1.0, 1.0)
    return np.where(outcomes.scored, rewards, np.nan)


def late_efficiency(
    design: str,
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
    if design in ("sparse", "verpo"):
        ratio = outcomes.accepted.astype(np.float64)
    else:
        passed_weight, weight = _weigh(design, outcomes, weights)
        ratio = passed_weight / weight
    if design in OVERRIDDEN:
        ratio = np.where(np.logical_or(*outcomes.overridden(error_policy)), 0.0, ratio)
    late = np.clip((ratio - LATE_FROM) / (1.0 - LATE_FROM), 0.0, 1.0)
    free, most = span
    long = np.clip((np.asarray(lengths, dtype=np.float64) - free) / (most - free), 0.0, 1.0)
    return np.where(outcomes.scored, 0.0 - coefficient * late * long, np.nan)


def _weigh(design: str, outcomes: CodeOutcomes, weights: Sequence[np.ndarray] | None) -> tuple[np.ndarray, np.ndarray]:
    """Total weight of the tests passed and of all tests: two float64 [B], exactly equal if all passed."""
    if design not in DESIGNS:
        raise ValueError(f"unknown design {design!r} (one of {', '.join(DESIGNS)})")
    if (design in WEIGHTED) != (weights is not None):
        raise ValueError(f"design {design} {'needs' if weights is None else 'takes no'} weights of tests")
    sizes = outcomes.tests
    if weights is None or len(weights) == 0:
        return outcomes.passes.astype(np.float64), sizes.astype(np.float64)
    for row in np.flatnonzero([len(weight) for weight in weights] != sizes):
        raise ValueError(f"row {row}: {len(weights[row])} weights for {sizes[row]} tests")
    flat = np.concatenate(weights).astype(np.float64)
    starts = np.cumsum(sizes) - sizes
    # The same terms in the same order in both: if all tests passed, the two sums are bit-identical.
    passed = np.add.reduceat(np.where(np.concatenate(outcomes.passed), flat, 0.0), starts)
    return passed, np.add.reduceat(flat, starts)


def soft_overlong(lengths: ArrayLike, max_length: int, cache: int) -> np.ndarray:
    """DAPO's soft overlong punishment (arXiv 2503.14476, eq. 13), a ramp before the length limit, not a cliff at it.

    A term in [−1, 0]: 0 up to max_length − cache tokens, then linear, −1 above max_length. lengths: [B] tokens; cache:
    tokens over which the penalty grows, at most max_length; 0 makes it a step. Returns float64 [B].
    """
    lengths = np.asarray(lengths, dtype=np.float64)
    ramp = (max_length - cache - lengths) / max(cache, 1)
    return np.where(lengths > max_length, -1.0, np.minimum(ramp, 0.0))
