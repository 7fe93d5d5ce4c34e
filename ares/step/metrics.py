"""Metrics of a shaped batch (rewards, lengths, advantages, entropy; over all rows and by bucket) and of an evaluation.

Not covered: metrics of programs (ares/step/code_metrics.py) and of controllers (their own `metrics`).
"""

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd
import torch

from algorithms.buckets import BUCKETS
from algorithms.difficulty import difficulty_codes
from algorithms.protocol import DataProto
from ares.config import RolloutConfig
from ares.grading import SCORE
from ares.step.code_metrics import ending_shares
from ares.step.function_metrics import function_columns, function_metrics
from ares.step.rows import scored_rows
from ares.step.slots import FEW_STEPS_SLOT, SECOND_TURN_SLOT

OF_EVALUATIONS = (
    "id", "sample", "prompt", "media_references", "response", "accuracy", SCORE, "finish_reason", "pass_ratio",
    "error_type", "test_outcomes",
)  # fmt: skip


def batch_metrics(
    batch: DataProto, rewards: np.ndarray, parts: dict[str, np.ndarray], scored: np.ndarray, truncated: np.ndarray
) -> dict[str, float]:
    mask = batch.tensor("response_mask")
    lengths = mask.sum(1).double().numpy()
    prompts = (batch.tensor("attention_mask").sum(1) - mask.sum(1)).double().numpy()
    valid = mask.bool() & torch.from_numpy(scored)[:, None]
    metrics = {f"reward/{name}": float(values[scored].mean()) for name, values in parts.items()}
    metrics |= _spread("critic/score", rewards[scored])
    metrics |= _spread("critic/rewards", batch.tensor("token_level_rewards").sum(1).double().numpy()[scored])
    metrics |= _spread("critic/advantages", batch.tensor("advantages")[valid].double().numpy())
    metrics |= _spread("critic/returns", batch.tensor("returns")[valid].double().numpy())
    metrics |= _spread("response_length", lengths) | {"response_length/clip_ratio": float(truncated.mean())}
    metrics |= _spread("prompt_length", prompts)
    metrics |= {
        "reward/format": float(batch.non_tensor_batch["format"].astype(float).mean()),
        "entropy/mean": float((batch.tensor("entropies") * mask).sum() / mask.sum()),
        "entropy/hwe_fraction": float(batch.tensor("hwe_mask").sum() / mask.sum()),
    }
    if scored.any():
        spreads = pd.Series(rewards[scored]).groupby(batch.non_tensor_batch["uid"][scored]).std(ddof=1).dropna()
        metrics |= {"reward/std": float(spreads.mean()), "reward/zero_std_ratio": float((spreads < 1e-8).mean())}
    difficulty = batch.non_tensor_batch["difficulty"]
    for bucket in BUCKETS:
        inside = difficulty == bucket
        if inside.any():
            metrics[f"bucket/{bucket}/len"] = float(lengths[inside].mean())
            if (inside & scored).any():
                metrics[f"bucket/{bucket}/reward"] = float(rewards[inside & scored].mean())
            if "kl_coefs" in batch.fields:
                rows = torch.from_numpy(inside)
                used = batch.tensor("kl_coefs")[rows][mask[rows].bool()]
                metrics[f"bucket/{bucket}/kl_coef"] = float(used.mean())
    return metrics


def lag_metrics(rows: pd.DataFrame, step: int, settings: RolloutConfig) -> dict[str, float]:
    """`rollout/staleness_mean` and `rollout/staleness_share/{0…max_staleness}`: how many updates older the policy that
    sampled a token is than the one trained on it, and the share of tokens by that number.

    rows: slot and tokens of what is trained on; slots from `prompts` on were drawn by refills, from the newest policy.
    """
    lags, stale = np.zeros(settings.max_staleness + 1), settings.max_staleness
    size = settings.max_response_length // settings.parts
    first = rows["slot"] < settings.prompts
    for part in range(settings.parts):
        lags[min(stale - part, step - 1)] += (rows.loc[first, "tokens"] - part * size).clip(0, size).sum()
    lags[0] += rows.loc[~first, "tokens"].sum()
    shares = lags / lags.sum()
    metrics = {"rollout/staleness_mean": float(shares @ np.arange(len(shares)))}
    return metrics | {f"rollout/staleness_share/{lag}": float(share) for lag, share in enumerate(shares)}


def evaluation_metrics(rows: pd.DataFrame, names: Iterable[str] = (), turns: int = 1) -> dict[str, float]:
    """`val/…`: accuracy and length on the held-out problems, shares of buckets, scores of reward functions; with two
    turns `val/second_turn/accuracy`, of each sample's last turn; `val/few_steps/accuracy`, of samples drawn in few
    passes.

    rows: held-out samples with scores, in training order. Lengths, format and truncation are over all samples, the rest
    over graded ones. names: the sets, if there are several, whose problems are called `set/problem`: each set with any
    grade has the same metrics as `val/SET/…`. Raises RewardError if nothing was graded.
    """
    first = _first_attempts(rows)
    metrics = {f"val/{name}": value for name, value in _evaluated(first).items()}
    of = first["id"].str.partition("/")[0]
    for name in names:
        part = first[of == name]
        if part["accuracy"].notna().any():
            metrics |= {f"val/{name}/{measure}": value for measure, value in _evaluated(part).items()}
    few = rows["slot"] % SECOND_TURN_SLOT >= FEW_STEPS_SLOT
    if turns > 1:
        metrics["val/second_turn/accuracy"] = _accuracy(rows[~few].drop_duplicates(["id", "sample"], keep="last"))
    if few.any():
        metrics["val/few_steps/accuracy"] = _accuracy(rows[few])
    return metrics


def _first_attempts(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["slot"] < FEW_STEPS_SLOT]


def _accuracy(rows: pd.DataFrame) -> float:
    return float(scored_rows(rows)["accuracy"].astype(float).mean())


def _evaluated(rows: pd.DataFrame) -> dict[str, float]:
    scored = scored_rows(rows)
    accuracy = scored["accuracy"].astype(float)
    per_problem = accuracy.groupby(scored["id"]).agg(["mean", "max"])
    codes = difficulty_codes(per_problem["mean"].to_numpy())
    metrics = {
        "accuracy": float(accuracy.mean()),
        "pass_at_n": float(per_problem["max"].mean()),
        "response_length": float(rows["tokens"].mean()),
        "format": float(rows["format"].mean()),
        "clip_ratio": float(rows["truncated"].mean()),
    } | {f"{bucket}_share": float(np.mean(codes == code)) for code, bucket in enumerate(BUCKETS)}
    if SCORE in rows:
        metrics["reward"] = float(scored[SCORE].mean())
        metrics |= function_metrics(rows)
    if "pass_ratio" in rows:
        metrics["pass_ratio"] = float(scored["pass_ratio"].astype(float).mean())
        metrics |= ending_shares(scored)
    return metrics


def evaluation_table(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of held-out samples that is kept: first attempts only."""
    rows = _first_attempts(rows)
    return rows[[*(name for name in OF_EVALUATIONS if name in rows), *function_columns(rows)]]


def mean_accuracy(batch: DataProto, graded: np.ndarray) -> float:
    values = batch.non_tensor_batch["accuracy"][graded].astype(float)
    return float(values.mean()) if len(values) else math.nan


def _spread(name: str, values: np.ndarray) -> dict[str, float]:
    if not len(values):
        return {}
    return {
        f"{name}/mean": float(values.mean()),
        f"{name}/max": float(values.max()),
        f"{name}/min": float(values.min()),
    }
