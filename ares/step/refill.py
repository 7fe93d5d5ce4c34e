"""Refill: how many prompts to draw next, which drawn groups to train on, and metrics of everything drawn.

Covered: choosing groups, the keep rate, the limit of tries. Pure: rows in, numbers out. Not covered: drawing and
grading (flows/draw.py), shaping the batch (ares/step/shaping.py).
"""

import math

import numpy as np
import pandas as pd

from algorithms.filtering import informative_rows, varied_rows
from algorithms.groups import SECOND_TURN_SLOT
from ares.config import AlgorithmConfig, Config
from ares.errors import UserError
from ares.step.episodes import episode_metrics
from ares.step.metrics import code_metrics, count_solved, function_metrics
from ares.step.rewards import total_reward
from ares.step.rows import is_second_turn
from ares.step.second_turn import second_turn_metrics

LOWEST_KEEP_RATE = 0.125
"""Lower bound: at most eight prompts are drawn for each missing group."""
SMALLEST_GROUP = 2
"""Scored samples that a group needs: a single one has nothing to compare with."""


class FilterExhausted(UserError, RuntimeError):
    """Online filtering found no full batch within algorithm.filter.max_tries rollouts."""


class Refill:
    """Groups of a step, rollout by rollout, until rollout.prompts of them are worth training on."""

    def __init__(self, step: int, config: Config) -> None:
        self.step = step
        self.config = config
        self.wanted = config.rollout.prompts
        self.drawn = 0
        """Prompts drawn so far: the next one's slot."""
        self.shards = 0
        """Shards of first turns so far."""
        self.slots: list[int] = []
        """Groups that are trained on, including second turns."""
        self._asked = self._kept = self._useful = 0
        self._rows: list[pd.DataFrame] = []

    @property
    def is_full(self) -> bool:
        """Whether the batch is complete."""
        return self._kept == self.wanted

    def ask(self) -> int:
        """How many prompts to draw next, by the share kept so far; at most a whole batch.

        Raises FilterExhausted after algorithm.filter.max_tries rollouts.
        """
        filtering = self.config.algorithm.filter
        if len(self._rows) == filtering.max_tries:
            raise FilterExhausted(
                f"step {self.step}: after {filtering.max_tries} rollouts ({self.drawn} prompts) only {self._kept} of "
                f"{self.wanted} groups were worth training on: the others are too easy or too hard by {filtering.key}, "
                f"or lack {SMALLEST_GROUP} samples with a score that are not truncated. Change the data, raise "
                "rollout.n or rollout.max_response_length, or set algorithm.filter.enabled=false."
            )
        keep_rate = max(self._kept / self.drawn, LOWEST_KEEP_RATE) if self.drawn else 1.0
        self._asked = min(self.wanted, math.ceil((self.wanted - self._kept) / keep_rate))
        return self._asked

    def take(self, rows: pd.DataFrame) -> list[int]:
        """Choose among the groups of a draw, no more than are missing; returns the slots of those trained on.

        rows: every sample of the draw, with rewards (ares/step/rewards.py).
        """
        good = keep_groups(rows, self.config.algorithm, total_reward(rows))
        first_turn = [slot for slot in good if slot < SECOND_TURN_SLOT]
        chosen = set(first_turn[: self.wanted - self._kept])
        trained = [slot for slot in good if slot % SECOND_TURN_SLOT in chosen]
        self.slots += trained
        self.drawn += self._asked
        self.shards += math.ceil(self._asked / self.config.rollout.shard_prompts)
        self._kept += len(chosen)
        self._useful += len(first_turn)
        self._rows.append(rows)
        return trained

    def metrics(self) -> dict[str, float]:
        """Metrics of everything drawn: `reward/…`, `filter/…`; of functions `rewards/…`, of episodes `episode/…`, of
        programs `code/…` and `second_turn/…`."""
        rows = self._drawn_rows()
        first = rows[~is_second_turn(rows)]
        scored = first["accuracy"].notna()
        metrics = (
            {
                "reward/sampled_accuracy": float(first["accuracy"].sum()) / max(int(scored.sum()), 1),
                "reward/unscored_groups": float((scored.groupby(first["slot"]).sum() < SMALLEST_GROUP).sum()),
                "filter/kept_share": self._useful / self.drawn,
                "filter/rollouts": float(len(self._rows)),
                "filter/drawn_prompts": float(self.drawn),
            }
            | self._set_metrics(first)
            | function_metrics(rows)
            | episode_metrics(rows)
        )
        if "denoising_passes" in rows:
            metrics["rollout/denoising_passes"] = float(rows["denoising_passes"].mean())
        if self.config.reward.judges_programs:
            metrics |= code_metrics(rows, self.slots)
            if self.config.rollout.second_turn.enabled:
                metrics |= second_turn_metrics(rows, self.config.rollout.second_turn.children)
        return metrics

    def _set_metrics(self, rows: pd.DataFrame) -> dict[str, float]:
        """`train/SET/…` of each source of a mixture: its share of the prompts, accuracy and length."""
        if not isinstance(self.config.data.train, dict):
            return {}
        metrics, of = {}, rows["id"].str.partition("/")[0]
        for name in self.config.data.train:
            own = rows[of == name]
            metrics[f"train/{name}/share"] = own["slot"].nunique() / rows["slot"].nunique()
            if own["accuracy"].notna().any():
                metrics[f"train/{name}/accuracy"] = float(own["accuracy"].astype(float).mean())
                metrics[f"train/{name}/response_length"] = float(own["tokens"].mean())
        return metrics

    def seconds_per_solved(self, seconds: float) -> dict[str, float]:
        """`perf/seconds_per_solved`: CPU seconds of all programs per problem solved in either turn, if any is."""
        solved = count_solved(self._drawn_rows())
        return {"perf/seconds_per_solved": seconds / solved} if solved else {}

    def _drawn_rows(self) -> pd.DataFrame:
        return pd.concat(self._rows, ignore_index=True)


def keep_groups(rows: pd.DataFrame, settings: AlgorithmConfig, rewards: np.ndarray) -> list[int]:
    """Slots of the groups worth training on: at least two rows that count and, with filtering, a signal.

    rows: slot, accuracy, where truncated rows are left out `truncated`, and for ReMax `baseline`: the greedy answer
    needs a score too. rewards: [B], NaN for none.
    """
    filtering, counts = settings.filter, _counted(rows, settings, rewards)
    scored, rewards = rows[counts], rewards[counts]
    slots = scored["slot"].to_numpy()
    keep = scored.groupby("slot")["slot"].transform("size").to_numpy() >= SMALLEST_GROUP
    if filtering.enabled and filtering.key == "reward":
        keep &= varied_rows(slots, rewards)
    elif filtering.enabled:
        keep &= informative_rows(slots, scored["accuracy"].to_numpy(dtype=float), filtering.low, filtering.high)
    return [int(slot) for slot in np.unique(slots[keep])]


def _counted(rows: pd.DataFrame, settings: AlgorithmConfig, rewards: np.ndarray) -> np.ndarray:
    """Which rows are compared with others of their group: bool [B]."""
    counts = ~np.isnan(rewards)
    if settings.overlong.leaves_out_truncated:
        counts &= ~rows["truncated"].to_numpy(dtype=bool)
    if "baseline" in rows:
        counts &= rows["baseline"].notna().to_numpy()
    return counts
