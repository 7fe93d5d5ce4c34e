"""Metrics of a shaped batch (rewards, lengths, advantages, entropy; over all rows and by bucket), of everything that a
step drew (scores of functions; programs: how they ended, what passed, the cost of a solved problem), of an evaluation.

Not covered: metrics of controllers (their own `metrics`) and of second turns (ares/step/second_turn.py).
"""

import json
import sys
from collections.abc import Iterable

import numpy as np
import pandas as pd
import torch

from algorithms.buckets import BUCKETS
from algorithms.difficulty import difficulty_codes
from algorithms.groups import SECOND_TURN_SLOT
from algorithms.protocol import DataProto
from ares.grading import EXTRAS, SCORE
from ares.step.episodes import episode_metrics
from ares.step.rows import FEW_STEPS_SLOT, is_second_turn, scored_rows
from sandbox import ERROR_TYPES

OF_EVALUATIONS = (
    "id", "sample", "prompt", "media_references", "response", "accuracy", SCORE, "finish_reason", "pass_ratio",
    "error_type", "test_outcomes", "turns", "episode_error", "transcript",
)  # fmt: skip
OF_A_FUNCTION = f"{SCORE}_"
"""Prefix of the columns with the score of each reward function."""
ENDINGS = tuple(ending for ending in ERROR_TYPES if ending not in ("internal_error", "untrusted"))
"""How a program can end. One that the sandbox failed to judge has no ending and is not counted here."""


def batch_metrics(
    batch: DataProto, rewards: np.ndarray, parts: dict[str, np.ndarray], counts: np.ndarray
) -> dict[str, float]:
    """Metrics of a shaped batch. rewards, and their parts by name: [B], NaN for none; counts: bool [B], rows that are
    compared within their group."""
    mask, scored = batch.tensor("response_mask"), ~np.isnan(rewards)
    lengths = mask.sum(1).double().numpy()
    valid = mask.bool() & torch.from_numpy(scored)[:, None]
    metrics = {f"reward/{name}": float(values[scored].mean()) for name, values in parts.items()}
    metrics |= _spread("critic/score", rewards[scored])
    metrics |= _spread("critic/rewards", batch.tensor("token_level_rewards").sum(1).double().numpy()[scored])
    metrics |= _spread("critic/advantages", batch.tensor("advantages")[valid].double().numpy())
    metrics |= _spread("critic/returns", batch.tensor("returns")[valid].double().numpy())
    metrics |= length_metrics(batch) | {
        "response_length/clip_ratio": float(batch.non_tensor_batch["truncated"].astype(float).mean()),
        "reward/format": float(batch.non_tensor_batch["format"].astype(float).mean()),
        "entropy/mean": float((batch.tensor("entropies") * mask).sum() / mask.sum()),
        "entropy/hwe_fraction": float(batch.tensor("hwe_mask").sum() / mask.sum()),
    }
    if counts.any():
        spreads = pd.Series(rewards[counts]).groupby(batch.non_tensor_batch["uid"][counts]).std(ddof=1).dropna()
        metrics |= {"reward/std": float(spreads.mean()), "reward/zero_std_ratio": float((spreads < 1e-8).mean())}
    for bucket in BUCKETS:
        inside = batch.non_tensor_batch["difficulty"] == bucket
        if inside.any():
            metrics[f"bucket/{bucket}/len"] = float(lengths[inside].mean())
        if (inside & scored).any():
            metrics[f"bucket/{bucket}/reward"] = float(rewards[inside & scored].mean())
        if inside.any() and "kl_coefs" in batch.fields:
            rows = torch.from_numpy(inside)
            metrics[f"bucket/{bucket}/kl_coef"] = float(batch.tensor("kl_coefs")[rows][mask[rows].bool()].mean())
    return metrics


def length_metrics(batch: DataProto) -> dict[str, float]:
    """Numbers of learnt tokens and of tokens before the first response, over rows."""
    lengths = batch.tensor("response_mask").sum(1).double().numpy()
    prompts = batch.tensor("attention_mask")[:, : batch.tensor("prompts").shape[1]].sum(1).double().numpy()
    return _spread("response_length", lengths) | _spread("prompt_length", prompts)


def function_columns(rows: pd.DataFrame) -> list[str]:
    """The columns of reward functions; none if another grader judged."""
    return [str(name) for name in rows if name == EXTRAS or str(name).startswith(OF_A_FUNCTION)]


def function_metrics(rows: pd.DataFrame) -> dict[str, float]:
    """Metrics of reward functions under TRL's names; nothing if there are no columns of functions, or none applied.

    `rewards/NAME/mean` and `std` of unweighted scores over the responses that a function applies to;
    `rewards/NAME/PART/mean` of a finite number that its dict holds beside the score.
    """
    logged: dict[str, list[float]] = {}
    metrics = {}
    for column in function_columns(rows):
        if column == EXTRAS:
            for function, parts in (pair for text in rows[EXTRAS].dropna() for pair in json.loads(text).items()):
                for part, value in parts.items():
                    # Not math.isfinite, which raises for integers beyond floats.
                    if isinstance(value, bool | int | float) and abs(value) <= sys.float_info.max:
                        logged.setdefault(f"rewards/{function}/{part}/mean", []).append(float(value))
            continue
        values = rows[column].to_numpy(dtype=float, na_value=np.nan)
        values = values[~np.isnan(values)]
        name = f"rewards/{column.removeprefix(OF_A_FUNCTION)}"
        if len(values):
            metrics[f"{name}/mean"] = float(values.mean())
        if len(values) > 1:
            metrics[f"{name}/std"] = float(values.std(ddof=1))
    return metrics | {name: float(np.mean(values)) for name, values in logged.items()}


def ending_shares(rows: pd.DataFrame) -> dict[str, float]:
    """Share of each ending, as error/TYPE; a truncated response that did not pass counts as truncated only."""
    cut = rows["truncated"].astype(bool) & (rows["pass_ratio"].astype(float) < 1.0)
    endings = rows["error_type"].mask(cut, "truncated")
    return {f"error/{ending}": float((endings == ending).mean()) for ending in ENDINGS}


def code_metrics(rows: pd.DataFrame, kept_slots: list[int]) -> dict[str, float]:
    """`code/…` and `bucket/{easy,medium,hard}/code/…` of a step's rows.

    rows: of both turns: slot, accuracy, pass_ratio, error_type, truncated, tokens and, if known, trusted. All is of
    first turns but the cost per solved problem, which counts both and is missing if none was solved. A group's bucket
    is that of its mean accuracy. code/untrusted is the share of programs with tests that are not trusted.
    """
    first = rows[~is_second_turn(rows)]
    scored = rows[rows["pass_ratio"].notna()]
    metrics = {"code/untrusted": float((~first["trusted"].astype(bool)).mean())} if "trusted" in rows else {}
    if scored.empty:
        return metrics
    metrics |= {f"code/{name}": value for name, value in _figures(scored).items()}
    of_first = scored[~is_second_turn(scored)]
    groups = of_first["accuracy"].astype(float).groupby(of_first["slot"]).mean()
    codes = pd.Series(difficulty_codes(groups.to_numpy()), index=groups.index)
    for code, bucket in enumerate(BUCKETS):
        slots = codes.index[codes == code]
        if len(slots):
            figures = _figures(scored[(scored["slot"] % SECOND_TURN_SLOT).isin(slots)])
            figures["kept_share"] = float(np.isin(slots, kept_slots).mean())
            metrics |= {f"bucket/{bucket}/code/{name}": value for name, value in figures.items()}
    return metrics


def _figures(rows: pd.DataFrame) -> dict[str, float]:
    first = rows[~is_second_turn(rows)]
    ratio = first["pass_ratio"].astype(float)
    figures = {
        "pass_at_1": float((ratio == 1.0).mean()),
        "pass_ratio": float(ratio.mean()),
        "timeout_rate": float((first["error_type"] == "timeout").mean()),
        **ending_shares(first),
    }
    solved = count_solved(rows)
    return figures | ({"cost/tokens_per_solved": float(rows["tokens"].sum()) / solved} if solved else {})


def count_solved(rows: pd.DataFrame) -> int:
    """Problems that at least one sample solved, in either turn."""
    return int((rows.loc[rows["pass_ratio"] == 1.0, "slot"] % SECOND_TURN_SLOT).nunique())


def evaluation_metrics(rows: pd.DataFrame, names: Iterable[str] = (), turns: int = 1) -> dict[str, float]:
    """`val/…`: accuracy and length on the held-out problems, shares of buckets, scores of reward functions; with two
    turns `val/second_turn/accuracy`, of each sample's last turn; `val/few_steps/accuracy`, of samples drawn in few
    passes.

    rows: held-out samples with scores, in training order. Lengths, format and truncation are over all samples, the rest
    over graded ones. names: the sets, if there are several, whose problems are called `set/problem`: each set with any
    grade has the same metrics as `val/SET/…`. Raises RewardError if nothing was graded.
    """
    first = rows[rows["slot"] < FEW_STEPS_SLOT]
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
    metrics |= episode_metrics(rows)
    if "denoising_passes" in rows:
        metrics["denoising_passes"] = float(rows["denoising_passes"].mean())
    if SCORE in rows:
        metrics["reward"] = float(scored[SCORE].mean())
        metrics |= function_metrics(rows)
    if "pass_ratio" in rows:
        metrics["pass_ratio"] = float(scored["pass_ratio"].astype(float).mean())
        metrics |= ending_shares(scored)
    return metrics


def evaluation_table(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of held-out samples that is kept: first attempts only."""
    columns = [*(name for name in OF_EVALUATIONS if name in rows), *function_columns(rows)]
    return rows.loc[rows["slot"] < FEW_STEPS_SLOT, columns]


def _spread(name: str, values: np.ndarray) -> dict[str, float]:
    figures = ("mean", "max", "min") if len(values) else ()
    return {f"{name}/{figure}": float(getattr(values, figure)()) for figure in figures}
