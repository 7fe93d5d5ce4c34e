"""Estimates of an evaluation from its graded samples: pass@k and means over problems, with intervals.

Covered: base tests and all tests, first and second attempts, samples without a score, writing the results. Not covered:
sampling and grading (tasks/sampling.py), comparing evaluations (ares/evaluation/comparison.py).
"""

from typing import Any

import numpy as np
import pandas as pd

from algorithms.keys import derive_seed
from algorithms.pass_at_k import mean_interval, pass_at_k
from ares.evaluation.comparison import compared
from ares.evaluation.evaluation import Evaluation
from ares.evaluation.paired import CONFIDENCE
from ares.evaluation.suite_problems import BASE_TESTS
from ares.grading import SCORE
from ares.step import is_second_turn, with_scores
from ares.store import Ref

OF_ENGINES = ["prompt_token_ids", "token_ids", "log_probs", "finish_reason", "token_entropies", "canvas"]
"""Columns of samples that are dropped."""
GRADED = ("accuracy", SCORE, "pass_ratio")
"""Means that are estimated besides pass@k, if the grader gives them."""
BASE = "base/"
"""Prefix of estimates by base tests alone, for suites that extend another one."""
SECOND_TURN = "second_turn/"
"""Prefix of estimates after failed programs had a second attempt."""


def finish(
    evaluation: Evaluation, rollouts: list[Ref], scores: list[Ref], mismatch: dict[str, float]
) -> dict[str, Any]:
    """Write samples.parquet, problems.parquet and summary.json from the shards and their scores; returns the summary,
    with the comparison if one was requested.

    mismatch: metrics of the difference between the engine's and the learner's log-probs; empty if not measured.
    """
    store, request = evaluation.run.store, evaluation.request
    shards = [
        with_scores(rows, store.read_rows(scored))
        for rows, scored in zip(map(store.read_rows, rollouts), scores, strict=True)
        if len(rows)  # empty if all programs of the shard passed and none got a second turn
    ]
    samples = pd.concat(shards, ignore_index=True)
    if request.turns > 1:
        samples["turn"] = is_second_turn(samples) + 1
    samples = samples.drop(columns=[*OF_ENGINES, "slot"], errors="ignore")
    if "prompt" not in samples:
        prompts = evaluation.run.train_set.frame.set_index("id")["prompt"]
        samples.insert(1, "prompt", samples["id"].map(prompts))
    summary, problems = summarise(evaluation, samples)
    summary |= mismatch
    store.write_rows("samples.parquet", samples)
    store.write_rows("problems.parquet", problems)
    store.write_json("summary.json", summary)
    if evaluation.other is not None:
        comparison = compared(problems, list(summary["estimates"]), request.samples, evaluation.other)
        store.write_json(f"comparison-{comparison['with']}.json", comparison)
        summary = summary | {"comparison": comparison}
    return summary


def summarise(evaluation: Evaluation, samples: pd.DataFrame) -> tuple[dict[str, Any], pd.DataFrame]:
    """The estimates and the row of each problem from the graded samples, whose column `turn` numbers attempts.

    A sample is correct when its accuracy is 1: all tests passed, the answer right. One without a score is left out and
    counted; a problem with fewer than k scored samples is left out of pass@k.
    """
    first, attempts = samples, {"": samples}
    if "turn" in samples:
        first = samples[samples["turn"] == 1]
        last = samples.sort_values("turn", kind="stable").drop_duplicates(["id", "sample"], keep="last")
        attempts = {"": first, SECOND_TURN: last}
    problems, measures = _problems(evaluation, attempts)
    seed = derive_seed(evaluation.config.train.seed, "evaluation")  # one for all measures
    of = problems["id"].str.partition("/")[0]
    summary = evaluation.description | {
        "problems": len(problems),
        "unscored": int(samples["accuracy"].isna().sum()),
        "mean_length": float(first["tokens"].mean()),
        "truncated": float(first["truncated"].mean()),
        "estimates": _estimates(problems, measures, seed),
        "sets": {name: _estimates(problems[of == name], measures, seed) for name in evaluation.sets},
    }
    if "error_type" in first:
        shares = first["error_type"].value_counts(normalize=True)
        summary["error_types"] = {str(name): float(share) for name, share in shares.items()}
    return summary, problems.reset_index(drop=True)


def _problems(evaluation: Evaluation, attempts: dict[str, pd.DataFrame]) -> tuple[pd.DataFrame, list[str]]:
    """A row of results per problem, and which of its columns are estimated. attempts: samples by prefix; the last
    attempts are those of each sample, whether it had a second one or not."""
    rows, ks = evaluation.run.train_set.frame, evaluation.request.ks
    ids = rows["id"]
    problems = pd.DataFrame({"id": ids}).set_index("id", drop=False)
    measures: list[str] = []
    for attempt, samples in attempts.items():
        scored = samples[samples["accuracy"].notna()]
        problems[f"{attempt}samples"] = counts = scored.groupby("id").size().reindex(ids, fill_value=0)
        right = {attempt: scored["accuracy"].astype(float) >= 1.0}
        if BASE_TESTS in rows:
            passes = _passes_base_tests(scored, rows.set_index("id")[BASE_TESTS])
            right = {f"{attempt}{BASE}": passes} | right
        for of, is_right in right.items():
            problems[f"{of}correct"] = correct = is_right.groupby(scored["id"]).sum().reindex(ids, fill_value=0)
            for k in ks:
                enough = counts >= k
                rates = pass_at_k(counts[enough].to_numpy(), correct[enough].to_numpy(), k)
                problems[f"{of}pass@{k}"] = pd.Series(rates, ids[enough.to_numpy()]).reindex(ids)
                measures.append(f"{of}pass@{k}")
        for name in (name for name in GRADED if name in scored):
            means = scored[name].astype(float).groupby(scored["id"]).mean()
            problems[f"{attempt}{name}"] = means.reindex(ids)
            measures.append(f"{attempt}{name}")
    return problems, measures


def _passes_base_tests(scored: pd.DataFrame, counts: pd.Series) -> pd.Series:
    """For each sample whether the base tests of its problem, the first `counts` ones, pass."""
    firsts = zip(scored["test_outcomes"], counts.loc[scored["id"]], strict=True)
    return pd.Series(
        [all(outcome == "accepted" for outcome in outcomes[:count]) for outcomes, count in firsts], scored.index, bool
    )


def _estimates(problems: pd.DataFrame, measures: list[str], seed: int) -> dict[str, dict[str, Any]]:
    return {name: _estimate(problems[name].dropna().to_numpy(), seed, not name.endswith(SCORE)) for name in measures}


def _estimate(values: np.ndarray, seed: int, is_share: bool) -> dict[str, Any]:
    """Mean and interval. is_share: values are in [0, 1], so that all 0 or all 1 has the binomial's interval.

    Other equal values say nothing of what else there may be, and have no interval.
    """
    if not len(values):
        return {"value": None, "low": None, "high": None, "problems": 0}
    low: float | None = None
    high: float | None = None
    if np.ptp(values) > 0 or (is_share and values[0] in (0, 1)):
        low, high = mean_interval(values, seed, CONFIDENCE)
    return {"value": float(values.mean()), "low": low, "high": high, "problems": len(values)}
