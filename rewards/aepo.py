"""The AEPO reward: accuracy plus an entropy term shaped by difficulty (ARES, arXiv 2510.08457).

A right answer is penalised for more high-window-entropy (HWE) tokens than its target if easy, for deviating either way
if medium, and rewarded for exploring if hard; a wrong answer gets a small reward for exploring.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from algorithms.buckets import BUCKETS
from algorithms.difficulty import row_numbers
from algorithms.groups import group_numbers
from rewards.math import grade_answers

# One entry per difficulty, the last for any other label: margin fraction f, Huber κ, sigmoid temperature τ, cap scale
# c, and the share of the cap that a wrong answer can earn (0 for unknown labels, which have no entropy score).
MARGIN_FRACTION = np.array([0.15, 0.25, 0.35, 0.2])
KAPPA = np.array([2.0, 3.0, 4.0, 2.0])
TEMPERATURE = np.array([2.0, 2.5, 3.0, 2.0])
CAP_SCALE = np.array([1.0, 1.0, 1.2, 1.0])
WRONG_SHARE = np.array([0.6, 0.8, 1.0, 0.0])
EASY, MEDIUM, HARD, OTHER = range(4)
MIN_TEMPERATURE = 1e-6
_BLANKS_AFTER, _BLANKS_BEFORE = re.compile(r"([<>/])\s+"), re.compile(r"(?<!\s)\s+([<>/])")
# With (?>…), what was found first is not looked for again.
_FORMAT = re.compile(r"<think>(?>.*?</think>)(?>.*?\\boxed\{).*?\}", re.DOTALL)


def huber_penalty(x: ArrayLike, kappa: ArrayLike) -> np.ndarray:
    """H(x) = x²/(2κ) on [0, κ], x − κ/2 above, 0 below 0 (ARES code)."""
    x = np.maximum(np.asarray(x, dtype=np.float64), 0.0)
    kappa = np.asarray(kappa, dtype=np.float64)
    return np.where(x <= kappa, np.minimum(x, kappa) ** 2 / (2.0 * kappa), x - kappa / 2.0)


def sigmoid_saturate(x: ArrayLike, temp: ArrayLike) -> np.ndarray:
    """σ(x) = 1/(1 + exp(−x/max(temp, 1e-6))), without overflow for any x (ARES code)."""
    x = np.clip(np.asarray(x, dtype=np.float64), -1e300, 1e300)
    scaled = x / np.maximum(np.asarray(temp, dtype=np.float64), MIN_TEMPERATURE)
    # Only takes exp of non-positive numbers.
    decay = np.exp(-np.abs(scaled))
    return np.where(scaled >= 0, 1.0, decay) / (1.0 + decay)


def margin_from_target(target: ArrayLike, frac: ArrayLike, min_margin: float = 1.0) -> np.ndarray:
    """Tolerance around the target, m = max(min_margin, frac·max(target, 1)), in HWE tokens (ARES code)."""
    return np.maximum(min_margin, np.asarray(frac) * np.maximum(np.asarray(target, dtype=np.float64), 1.0))


def format_reward(response: str) -> float:
    r"""1.0 iff the whole text is `<think>…</think>…\boxed{…}…`, ignoring blanks around < > /, else 0.0 (ARES code).

    Accepts what the published regular expression does, by linear search: the expression backtracks for minutes on long
    responses that repeat its parts.
    """
    text = _BLANKS_BEFORE.sub(r"\1", _BLANKS_AFTER.sub(r"\1", response))
    return float(_FORMAT.match(text) is not None)


def entropy_score(
    accuracy: ArrayLike,
    counts: ArrayLike,
    targets: ArrayLike,
    alphas: ArrayLike,
    difficulty: Sequence[str] | np.ndarray,
    zero_baseline: bool = False,
    guard_inversion: bool = False,
) -> np.ndarray:
    """Entropy term of the AEPO reward for a whole batch (AEPO, hierarchical entropy reward; docs/algorithms.md).

    With m = max(1, f·max(T, 1)), Δ = N − T, o = max(Δ − m, 0), cap = α·c: right easy −cap·min(1, H(o)/(m+κ)); right
    medium the same of |Δ| − m; right hard cap·σ(Δ+m) where Δ ≥ −m, else −cap·min(1, ½H(−Δ−m)/(m+κ)); wrong
    {.6, .8, 1}·cap·σ(o) for easy, medium, hard. Any accuracy but 1 is wrong; an unknown difficulty scores 0.

    zero_baseline: 2σ − 1 in place of σ, so that a wrong answer within the margin earns nothing. guard_inversion: no
    wrong answer of a bucket may outscore a right one: cap is at most 1/(1 + share), where the best wrong answer meets
    the worst right one, and a partly right answer is raised no higher than that.
    All inputs [B] (N and T in HWE tokens, α ≥ 0). Returns float64 [B]. Raises ValueError naming the first bad row.
    """
    labels = np.asarray(difficulty, dtype=object)
    rows = len(labels)
    acc, n = row_numbers("accuracy", accuracy, rows), row_numbers("high_entropy_token_num", counts, rows)
    t, alpha = row_numbers("target_high_entropy_token_num", targets, rows), row_numbers("alpha_entropy", alphas, rows)
    bucket = np.select([labels == name for name in BUCKETS], range(len(BUCKETS)), OTHER)
    kappa, temp, share = KAPPA[bucket], TEMPERATURE[bucket], WRONG_SHARE[bucket]
    cap = alpha * CAP_SCALE[bucket]
    highest_cap = 1.0 / (1.0 + share)
    if guard_inversion:
        cap = np.minimum(cap, highest_cap)

    margin = margin_from_target(t, MARGIN_FRACTION[bucket])
    delta = n - t
    excess = np.maximum(delta - margin, 0.0)

    def saturate(x: np.ndarray) -> np.ndarray:
        value = sigmoid_saturate(x, temp)
        return 2.0 * value - 1.0 if zero_baseline else value

    def penalty(x: np.ndarray, weight: float = 1.0) -> np.ndarray:
        return -np.minimum(cap, weight * huber_penalty(x, kappa) / (margin + kappa) * cap)

    wrong = share * cap * saturate(excess)
    if guard_inversion:
        wrong = np.minimum(wrong, np.maximum(1.0 - highest_cap - acc, 0.0))
    hard = np.where(delta >= -margin, cap * saturate(delta + margin), penalty(-delta - margin, 0.5))
    right = np.select(
        [bucket == EASY, bucket == MEDIUM, bucket == HARD],
        [penalty(excess), penalty(np.abs(delta) - margin), hard],
        0.0,
    )
    return np.where(acc == 1.0, right, wrong)


def guard_groups(
    rewards: np.ndarray, bonus: np.ndarray, right: np.ndarray, groups: Sequence[Hashable] | np.ndarray
) -> np.ndarray:
    """The entropy term, limited so that no answer that is not right outscores a right one of its group.

    On any scale of rewards, as of partly passed tests. A right answer is lowered at most to the best reward that an
    answer of its group that is not right has without the term; then none of these may end above the lowest right one.
    For example, three right programs (1.0) and one that passes 9 of 10 tests (.87):

        term    0, −.2, −.5, +.3        kept    0, −.13, −.13, 0

    rewards: [B] without the term (NaN: none, ignored); bonus: [B], the term; right: bool [B]; groups: [B] labels.
    Returns float64 [B].
    """
    group, labels = group_numbers(groups)
    wrong = ~right & ~np.isnan(rewards)
    right = right & ~np.isnan(rewards)
    best_wrong, lowest_right = np.full(len(labels), -np.inf), np.full(len(labels), np.inf)
    np.maximum.at(best_wrong, group[wrong], rewards[wrong])
    lowered = np.maximum(bonus, np.minimum(best_wrong[group] - rewards, 0.0))
    np.minimum.at(lowest_right, group[right], (rewards + lowered)[right])
    return np.where(right, lowered, np.minimum(bonus, lowest_right[group] - rewards))


def compute_score(
    reward_inputs: list[dict[str, Any]],
    format_weight: float = 0.1,
    alpha_length_bonus: float = 0.5,
    alpha_entropy: float = 0.5,
    *,
    zero_baseline: bool = False,
    guard_inversion: bool = False,
) -> list[dict[str, float]]:
    """Score responses: overall = accuracy + entropy term (AEPO); `format` is reported and never added.

    Each input has `response`; optionally difficulty ("easy"), high_entropy_token_num (1),
    target_high_entropy_token_num (1), alpha_entropy (the keyword's), accuracy. A given accuracy is used, even 0.0;
    where it is None or absent, the answer is graded against `ground_truth`. format_weight and alpha_length_bonus belong
    to the published signature and have no effect there or here. Returns overall, accuracy, format and
    high_entropy_token_num_score per input, in order. Raises ValueError if the inputs are not a list, or a row has a
    NaN or negative number.
    """
    if not isinstance(reward_inputs, list):
        raise ValueError(f"reward_inputs must be a list of dicts, got {type(reward_inputs).__name__}")
    responses = [row["response"] for row in reward_inputs]
    accuracy: list[Any] = [row.get("accuracy") for row in reward_inputs]
    ungraded = [i for i, given in enumerate(accuracy) if given is None]
    truths = [reward_inputs[i]["ground_truth"] for i in ungraded]
    for i, grade in zip(ungraded, grade_answers([responses[i] for i in ungraded], truths), strict=True):
        accuracy[i] = grade
    scores = entropy_score(
        accuracy,
        [row.get("high_entropy_token_num", 1) for row in reward_inputs],
        [row.get("target_high_entropy_token_num", 1) for row in reward_inputs],
        [alpha_entropy if row.get("alpha_entropy") is None else row["alpha_entropy"] for row in reward_inputs],
        [row.get("difficulty", "easy") for row in reward_inputs],
        zero_baseline=zero_baseline,
        guard_inversion=guard_inversion,
    )
    return [
        {"overall": acc + score, "accuracy": acc, "format": format_reward(text), "high_entropy_token_num_score": score}
        for acc, score, text in zip(map(float, accuracy), scores.tolist(), responses, strict=True)
    ]
