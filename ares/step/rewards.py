"""The reward of a graded response before shaping by entropy or length: its score, accuracy, or program's reward.

Covered: scores of functions; accuracy for graders without scores; for code the design, format and late efficiency, and
the test weights they need; the credit of first turns for second ones; ReMax's baselines. Everything else reads the
columns made here. Not covered: the designs themselves (rewards/shaping.py), AEPO and soft overlong
(ares/step/shaping.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ares.config import REWARD_DESIGNS, Config
from ares.grading import SCORE, RewardError
from ares.step.rows import GREEDY
from ares.step.second_turn import second_turn_credit
from rewards.pass_rates import RunningPassRates, verpo_group_weights
from rewards.shaping import CodeOutcomes, late_efficiency, shape_code_rewards

PART = "reward_"
"""Prefix of the columns that hold the parts of a reward."""


def running_pass_rates(config: Config) -> RunningPassRates | None:
    """The controller of test weights; None if the design does not weight tests by running pass rates."""
    code = config.reward.code
    if not config.reward.judges_programs or REWARD_DESIGNS.fact(code.design, "test_weights") != "running":
        return None
    return RunningPassRates(code.test_alpha, code.test_ema)


def observe_tests(rates: RunningPassRates | None, rows: pd.DataFrame) -> None:
    """Update the running pass rates with judged rows (id, test_outcomes, pass_ratio, truncated)."""
    if rates is not None:
        outcomes = CodeOutcomes.of(rows["error_type"], rows["test_outcomes"], rows["truncated"])
        scored = np.flatnonzero(outcomes.scored)
        rates.update(rows["id"].to_numpy()[scored], [outcomes.passed[row] for row in scored])


def rewarded(rows: pd.DataFrame, config: Config, rates: RunningPassRates | None) -> pd.DataFrame:
    """Rows with the parts of their rewards as columns `reward_…` (NaN: none); their sum is the reward.

    rows: whole groups with both turns: slot, sample and accuracy; for code also id, format, pass_ratio, error_type,
    test_outcomes, truncated and tokens. Greedy answers (ReMax) become the column `baseline` of their group.
    """
    parts = _outcome_parts(rows, config, rates)
    if (is_greedy := (rows["sample"] == GREEDY).to_numpy()).any():
        worth = pd.Series(sum(parts.values()), index=rows["slot"], dtype="Float64")
        rows = rows.assign(baseline=rows["slot"].map(worth[is_greedy]))[~is_greedy]
        parts = {name: values[~is_greedy] for name, values in parts.items()}
    if config.rollout.second_turn.enabled:
        parts["second_turn"] = second_turn_credit(rows, np.asarray(sum(parts.values())), config.rollout.second_turn)
    return rows.assign(**{PART + name: values for name, values in parts.items()})


def reward_parts(columns: Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
    """The parts of rewards among the columns of rewarded rows, by name: [B] float64, NaN for none.

    Raises ValueError if the rows were not rewarded.
    """
    names = [name for name in columns if name.startswith(PART)]
    if not names:
        raise ValueError(f"these rows have no parts of a reward, no column {PART}…")
    return {name.removeprefix(PART): np.asarray(columns[name], dtype=float) for name in names}


def total_reward(rows: pd.DataFrame) -> np.ndarray:
    """The reward of each rewarded row: [B] float64, NaN for none."""
    return np.asarray(sum(reward_parts({str(name): rows[name] for name in rows}).values()))


def _outcome_parts(rows: pd.DataFrame, config: Config, rates: RunningPassRates | None) -> dict[str, np.ndarray]:
    """Parts of each row's own reward: [B] float64, NaN for none (unscored, or truncated)."""
    if not config.reward.judges_programs:
        part = SCORE if SCORE in rows else "accuracy"
        return {part: rows[part].to_numpy(dtype=float, na_value=np.nan)}
    code, overlong = config.reward.code, config.algorithm.overlong
    # If truncated responses count in the baseline, or are not masked, they need a reward.
    masked = np.array(rows["truncated"], dtype=bool) & overlong.leaves_out_truncated
    outcomes = CodeOutcomes.of(rows["error_type"], rows["test_outcomes"], masked)
    weights = None
    if rates is not None:
        weights = rates.weights(rows["id"].to_numpy(), outcomes.tests)
    elif code.verpo is not None:
        sampled = outcomes.scored & (rows["sample"] != GREEDY).to_numpy()
        weights = verpo_group_weights(rows["slot"].tolist(), outcomes.passed, sampled, code.verpo)
    parts = {"code": code.weight * _designed(JudgedPrograms(outcomes, rows, weights), config)}
    if code.efficiency:
        parts["efficiency"] = late_efficiency(
            code.design,
            outcomes,
            rows["tokens"].to_numpy(),
            code.efficiency,
            (code.efficiency_start, config.rollout.max_response_length),
            weights=weights,
            error_policy=code.error_policy,
        )
    if code.format_weight:
        format_score = code.format_weight * rows["format"].to_numpy(dtype=float)
        parts["format_score"] = np.where(outcomes.scored, format_score, np.nan)
    return parts


@dataclass(frozen=True)
class JudgedPrograms:
    """What a reward design sees of B responses with a program each."""

    outcomes: CodeOutcomes
    """From the sandbox: tests passed, how programs ended, which rows have a reward at all (`scored`)."""
    rows: pd.DataFrame
    """id, slot, sample, response, tokens, format, pass_ratio, truncated, … of each."""
    test_weights: list[np.ndarray] | None
    """Weights of each row's tests, for designs that ask for them."""


class RewardDesign(Protocol):
    """The reward of judged programs; made from its settings. docs/extending.md has an example."""

    def reward(self, seen: JudgedPrograms) -> np.ndarray:
        """Reward of each row, float64 [B]; values of rows that are not scored are ignored."""


def _designed(seen: JudgedPrograms, config: Config) -> np.ndarray:
    """Rewards under reward.code.design, NaN for none. Raises RewardError if a user's design breaks its contract."""
    code, outcomes = config.reward.code, seen.outcomes
    if code.design in REWARD_DESIGNS.builtin:
        return shape_code_rewards(
            code.design, outcomes, weights=seen.test_weights, error_policy=code.error_policy, verpo=code.verpo
        )
    design: RewardDesign = REWARD_DESIGNS.make(code)
    rewards = np.asarray(design.reward(seen))
    if rewards.shape != outcomes.scored.shape:
        raise RewardError(
            f"reward.code.design={code.design} returned {list(rewards.shape)} rewards for {len(outcomes.scored)} rows"
        )
    if not np.isfinite(rewards[outcomes.scored]).all():
        raise RewardError(f"reward.code.design={code.design} returned a reward that is no finite number")
    return np.where(outcomes.scored, rewards, np.nan)
