"""Difficulty buckets, HWE targets and the entropy-reward coefficient of each bucket (AEPO; ARES, arXiv 2510.08457)."""

from __future__ import annotations

import math
from collections.abc import KeysView, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from algorithms.buckets import BUCKETS, of_rows, per_bucket
from algorithms.groups import group_numbers
from algorithms.keys import derive_seed
from algorithms.protocol import DataProto, object_column
from algorithms.settings import DifficultySettings
from algorithms.state import DeltaDict, check_state


def difficulty_bucket(accuracy: float) -> str:
    """Bucket of one prompt by its mean accuracy p: easy p ≥ 2/3, medium 1/3 ≤ p < 2/3, hard p < 1/3 (ARES).

    Exact for k of n: 2 of 3 is easy. Raises ValueError outside [0, 1].
    """
    return BUCKETS[int(difficulty_codes(np.array([accuracy]))[0])]


def difficulty_codes(accuracy: np.ndarray) -> np.ndarray:
    """Bucket of each prompt as an index into BUCKETS: accuracy float [G] in [0, 1] → int64 [G]."""
    accuracy = np.asarray(accuracy, dtype=np.float64)
    bad = ~((accuracy >= 0.0) & (accuracy <= 1.0))
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"accuracy must lie in [0, 1]; entry {row} is {accuracy[row]}")
    return np.where(accuracy >= 2 / 3, 0, np.where(accuracy >= 1 / 3, 1, 2))


class DifficultyTracker:
    """Difficulty of every prompt seen, and per bucket the HWE target and the coefficient α (AEPO).

    α_d ← clip(α_d + lr·δ_d, min, max); δ = mean − target for easy and medium, target − mean for hard (HWE tokens).
    `target_mode` says which target δ is taken against: "batch" (this batch's own rounded mean, as published, where
    δ is a rounding residue and α never adapts), "previous" (the last batch's) or "ema" (T ← (1 − target_ema)·T +
    target_ema·mean). In the last two, the first batch with a bucket is treated as "batch". Without settings it is as
    published. `shuffle_seed`: a placebo, shuffles the difficulties of each batch among its prompts (keyed).
    """

    def __init__(self, settings: DifficultySettings | None = None, shuffle_seed: int | None = None) -> None:
        self.settings = settings = settings or DifficultySettings(target_mode="batch")
        self.shuffle_seed = shuffle_seed
        self.difficulty_dict_train: DeltaDict[Any, str] = DeltaDict()
        self.target_high_entropy_token_num_dict: dict[str, float] = {}
        self.alpha_entropy_dict: dict[str, float] = per_bucket(settings.alpha_init)
        self._skipped: DeltaDict[Any, None] = DeltaDict()
        self._statistics: dict[str, dict[str, float]] = {}

    @property
    def skip_gid_set(self) -> KeysView[Any]:
        """Prompts that later batches leave out."""
        return self._skipped.keys()

    def skip(self, gid: Any) -> None:
        """Leave a prompt out of later batches."""
        self._skipped[gid] = None

    def update_difficulty_and_skip_gid_set(self, batch: DataProto) -> None:
        """Update from a scored batch: global_id, accuracy, entropies and high_entropy_token_num, one row a response.

        Buckets absent from the batch keep their target and α. Raises ValueError naming the field and row on a
        missing, NaN or negative value.
        """
        global_id, *measured = batch.require("global_id", "accuracy", "entropies", "high_entropy_token_num")
        inverse, gids = group_numbers(global_id)
        if not gids:
            return
        names = ("accuracy", "entropies", "high_entropy_token_num")
        columns = (row_numbers(*each, len(inverse)) for each in zip(names, measured, strict=True))
        acc, ent, hwe = (_group_means(values, inverse) for values in columns)
        codes = self._dealt(difficulty_codes(acc), gids)
        labels = np.array(BUCKETS, dtype=object)[codes]
        self.difficulty_dict_train.update(zip(gids, labels, strict=True))

        self._statistics = {}
        for code in np.flatnonzero(np.bincount(codes)):
            members, bucket = codes == code, BUCKETS[code]
            count = int(members.sum())
            # An exact sum: a mean that ends in .5 must round the same way in any order of the rows.
            means = {k: math.fsum(v[members]) / count for k, v in (("acc", acc), ("entropy", ent), ("hwe", hwe))}
            self._adapt(bucket, means["hwe"])
            self._statistics[bucket] = {"count": float(count)} | means

        if self.settings.drop_allpass_entropy_threshold >= 0:
            solved = (acc == 1.0) & (ent < self.settings.drop_allpass_entropy_threshold)
            for i in np.flatnonzero(solved):
                self.skip(gids[i])

    def _dealt(self, codes: np.ndarray, gids: list[Any]) -> np.ndarray:
        """The codes, with a shuffle seed permuted among the prompts, independently of the order of the rows."""
        if self.shuffle_seed is None:
            return codes
        in_order = sorted(range(len(gids)), key=lambda number: str(gids[number]))
        key = derive_seed("shuffled difficulties", self.shuffle_seed, *(str(gids[number]) for number in in_order))
        dealt = np.empty_like(codes)
        dealt[in_order] = np.random.default_rng(key).permutation(codes[in_order])
        return dealt

    def _adapt(self, bucket: str, mean: float) -> None:
        """Move α by the gap between the bucket's mean HWE count and its target, then move the target."""
        settings, rounded = self.settings, round(mean)
        in_force = self.target_high_entropy_token_num_dict.get(bucket)
        if settings.target_mode == "batch" or in_force is None:
            reference, target = float(rounded), float(rounded)
        elif settings.target_mode == "previous":
            reference, target = in_force, float(rounded)
        else:
            reference, target = in_force, (1.0 - settings.target_ema) * in_force + settings.target_ema * mean
        delta = reference - mean if bucket == "hard" else mean - reference
        alpha = self.alpha_entropy_dict[bucket] + settings.alpha_lr * delta
        self.alpha_entropy_dict[bucket] = min(max(alpha, settings.alpha_min), settings.alpha_max)
        # An EMA target stays fractional: rounding would swallow every small step.
        self.target_high_entropy_token_num_dict[bucket] = int(target) if target == rounded else target

    def annotate(self, batch: DataProto) -> None:
        """Write each row's difficulty, target_high_entropy_token_num and alpha_entropy, looked up by its global_id.

        Raises KeyError with a prompt that no update has seen.
        """
        (global_id,) = batch.require("global_id")
        labels = object_column(self.difficulty_dict_train[gid] for gid in global_id)
        targets = {name: self.target_high_entropy_token_num_dict.get(name, math.nan) for name in BUCKETS}
        batch.non_tensor_batch["difficulty"] = labels
        batch.non_tensor_batch["target_high_entropy_token_num"] = of_rows(targets, labels).astype(object)
        batch.non_tensor_batch["alpha_entropy"] = of_rows(self.alpha_entropy_dict, labels).astype(object)

    def metrics(self) -> dict[str, float]:
        """`bucket/<bucket>/{alpha,target}`; {count,acc,entropy,hwe} of the last batch, count in prompts."""
        values = {f"bucket/{name}/alpha": alpha for name, alpha in self.alpha_entropy_dict.items()}
        values |= {f"bucket/{b}/target": float(t) for b, t in self.target_high_entropy_token_num_dict.items()}
        values |= {f"bucket/{b}/{key}": v for b, stats in self._statistics.items() for key, v in stats.items()}
        return values | {"bucket/skipped": float(len(self.skip_gid_set))}

    def state_dict(self) -> dict[str, Any]:
        """What a resume restores, as JSON; of the per-prompt state only what changed since `settle`.

        Prompt ids are list entries, not keys, so that integers stay integers.
        """
        by_bucket: dict[str, list[Any]] = {name: [] for name in BUCKETS}
        for gid, name in self.difficulty_dict_train.recent.items():
            by_bucket[name].append(gid)
        return {
            "difficulty": by_bucket,
            "target": dict(self.target_high_entropy_token_num_dict),
            "alpha": dict(self.alpha_entropy_dict),
            "skip": sorted(self._skipped.recent, key=lambda gid: (isinstance(gid, str), gid)),
            "statistics": {bucket: dict(stats) for bucket, stats in self._statistics.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned as recent entries, beside those known before.

        Raises ValueError on an unknown or missing key, or a NaN.
        """
        check_state(state, self.state_dict(), "difficulty state")
        self.difficulty_dict_train.recent = {gid: name for name in BUCKETS for gid in state["difficulty"][name]}
        self.target_high_entropy_token_num_dict = dict(state["target"])
        self.alpha_entropy_dict = dict(state["alpha"])
        self._skipped.recent = dict.fromkeys(state["skip"])
        self._statistics = {name: dict(stats) for name, stats in state["statistics"].items()}

    def follow(self, before: DifficultyTracker) -> None:
        """Share, not copy, another tracker's per-prompt state; it must have no recent entries."""
        self.difficulty_dict_train.follow(before.difficulty_dict_train)
        self._skipped.follow(before._skipped)

    def settle(self) -> None:
        """Mark recent entries as committed: they need not be written again."""
        self.difficulty_dict_train.settle()
        self._skipped.settle()


def _group_means(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Mean per group [groups], bit-identical for any order of the rows."""
    order = np.lexsort((values, group))
    return np.bincount(group[order], weights=values[order]) / np.bincount(group)


def row_numbers(name: str, values: ArrayLike, rows: int) -> np.ndarray:
    """One field as float64 [rows], finite and not negative. Raises ValueError naming the first bad row."""
    numbers = np.asarray(values, dtype=np.float64)  # None becomes NaN
    if numbers.shape != (rows,):
        raise ValueError(f"{name} must have shape [{rows}], got {list(numbers.shape)}")
    bad = ~(np.isfinite(numbers) & (numbers >= 0))
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"row {row}: {name} is {numbers[row]}; it must be a number from 0 on")
    return numbers
