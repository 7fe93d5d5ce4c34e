"""What lies between samples and commit, on a real run directory; no actor is started."""

import asyncio
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from torch import Tensor

from algorithms.groups import SECOND_TURN_SLOT
from algorithms.protocol import DataProto
from ares.config.profiles import load
from ares.learner.learner import Learner
from ares.runs.run import Run
from ares.runs.step import Step
from ares.step.collate import token_batch
from ares.step.metrics import evaluation_metrics
from ares.step.refill import Refill
from ares.step.rows import GREEDY, sampled_rows
from tasks.mismatch import EngineMismatch, check_draw, check_mismatch, compare
from tasks.training import (
    Experience,
    Samples,
    ShapedBatch,
    choose,
    evaluate,
    shape_batch,
    summarise_bootstrap,
)
from tests.ares.builders import config, rows


@pytest.fixture
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run.open(config("rollout.prompts=3", "learner.global_batch_prompts=3"), "r", tmp_path_factory.mktemp("runs"))


ACCURACIES: list[list[float | None]] = [[1, 1, 1, 0], [1, 0, None, 0], [0, 0, 0, 1]]


def written(run: Run, purpose: str, table: pd.DataFrame, shards: int = 1) -> Samples:
    """Rollouts and scores of rows of the first problems in the run's store."""
    table = table.assign(id=table["slot"].map(run.problems(purpose).frame["id"]), response="…")
    samples = Samples(rollouts=[], scores=[], slots=[])
    for shard in range(shards):
        part = table[table["slot"] * shards // (table["slot"].max() + 1) == shard].reset_index(drop=True)
        sampled = part[["id", "slot", "sample", "token_ids", "log_probs", "response", "finish_reason"]]
        scored = part[["id", "slot", "sample", "accuracy", "format"]].astype({"accuracy": "Float64"})[::-1]
        samples.rollouts.append(run.store.write_rows(f"rollout-{shards}-{shard}.parquet", sampled))
        samples.scores.append(run.store.write_rows(f"score-{shards}-{shard}.parquet", scored))
    return samples


def stored(run: Run, accuracies: list[list[float | None]], shards: int = 1) -> tuple[Samples, list[Experience]]:
    """Samples of the run's first problems, and what the learner found of each shard of them, in the run's store."""
    samples, batches = written(run, "rollout", rows(accuracies), shards), []
    for rollout in samples.rollouts:
        batch = token_batch(sampled_rows([run.store.read_rows(rollout)], run.train_set), run.pad_id)
        measured = run.store.write_file(f"{rollout.path}.safetensors", Learner(run.config).experience(batch).save)
        batches.append(Experience(rollouts=[rollout], slots=[], measured=measured))
    return samples, batches


def shaped_by(step: Step, samples: Samples, measured: list[Experience]) -> ShapedBatch:
    """The step's batch of the groups of `samples`."""
    refill = Refill(step.number, step.config)
    refill.ask()
    choose(step, samples, refill)
    slots = samples.slots or step.drawn[0]["slot"].unique().tolist()
    return asyncio.run(shape_batch.function(step, samples.model_copy(update={"slots": slots}), measured))


def test_shape_stores_a_batch_a_table_and_the_state_and_gives_the_same_twice(run: Run) -> None:
    samples, batches = stored(run, ACCURACIES)
    first = shaped_by(run.step(1), samples, batches)
    again = shaped_by(run.step(1), samples, batches)
    assert first == again
    assert run.store.intact([first.batch, first.samples])
    table = run.store.read_rows(first.samples)
    assert table["slot"].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert table["sample"].tolist() == [0, 1, 2, 3] * 3
    unscored = table["accuracy"].isna()
    assert unscored.tolist() == [accuracy is None for group in ACCURACIES for accuracy in group]
    assert table["reward"].isna().equals(unscored)
    np.testing.assert_allclose(table["reward"], table["accuracy"] + table["reward_entropy_score"])
    batch = DataProto.load(run.store.path(first.batch))
    assert (
        table["tokens"].tolist()
        == batch.tensor("attention_mask")[:, -batch.tensor("responses").shape[1] :].sum(1).tolist()
    )
    after, before = first.state, run.state.state_dict()
    easy, medium, hard = run.train_set.frame["id"][:3]
    assert after["difficulty"]["difficulty"] == {"easy": [easy], "medium": [medium], "hard": [hard]}
    assert before["difficulty"]["difficulty"] == {"easy": [], "medium": [], "hard": []}


def test_a_batch_of_several_rollouts_is_that_of_one_but_for_its_padding(run: Run) -> None:
    """Refilled groups were looked at by the learner apart; shaping sees them side by side, the chosen ones alone."""
    metrics, tables, batches = [], [], []
    for parts in (1, 3):
        samples, measured = stored(run, ACCURACIES, parts)
        chosen = samples.model_copy(update={"slots": [0, 2]})
        shaped = shaped_by(run.step(parts), chosen, measured)
        metrics.append(shaped.metrics)
        tables.append(run.store.read_rows(shaped.samples))
        batches.append(DataProto.load(run.store.path(shaped.batch)))
    assert metrics[0] == pytest.approx(metrics[1], rel=1e-5)
    assert tables[0]["slot"].tolist() == [0] * 4 + [2] * 4
    pd.testing.assert_frame_equal(*tables, rtol=1e-5)
    for name in ("responses", "old_log_probs", "advantages"):
        first, second = (batch.tensor(name)[batch.tensor("response_mask").bool()] for batch in batches)
        np.testing.assert_allclose(first.numpy(), second.numpy(), rtol=1e-4, atol=1e-5)


def test_the_bootstrap_sees_every_shard_before_it_counts(run: Run) -> None:
    """Two shards give what one whole shard gives: τ is known before the first token is compared with it."""
    one, other = (
        asyncio.run(summarise_bootstrap.function(run.step(0), *stored(run, ACCURACIES, parts))) for parts in (1, 3)
    )
    assert one.metrics == pytest.approx(other.metrics, rel=1e-5)
    state = other.state
    assert state["step"] == 0
    easy, medium, hard = run.train_set.frame["id"][:3]
    assert state["difficulty"]["difficulty"] == {"easy": [easy], "medium": [medium], "hard": [hard]}
    assert state["threshold"]["threshold"] is not None
    counters = state["counters"]
    assert (counters["prompts"], counters["samples"], counters["unscored_samples"]) == (3, 12, 1)
    assert counters["tokens"] == int(rows(ACCURACIES)["token_ids"].map(len).sum())
    assert other.metrics["bootstrap/accuracy"] == pytest.approx(5 / 11)


def test_greedy_answers_are_counted_too(tmp_path: Path) -> None:
    """ReMax's: a run that ends after so many tokens had sampled more than it counted."""
    run, _ = Run.check(config("algorithm.advantage.estimator=remax"), "r", tmp_path)
    step, refill = run.step(1), Refill(1, run.config)
    refill.ask()
    choose(step, written(run, "rollout", rows([[1, 0, 1]]).assign(sample=[GREEDY, 0, 1])), refill)
    tokens = int(rows([[1, 0, 1]])["token_ids"].map(len).sum())
    assert (step.state.counters.samples, step.state.counters.tokens) == (3, tokens)


def test_a_first_turn_is_credited_with_second_turns_that_are_not_trained_on(tmp_path: Path) -> None:
    """A second turn that is alone, or a group of them that all passed, teaches nothing itself."""
    settings = ["data.limit=20", "rollout.second_turn.enabled=true", "rollout.second_turn.children=1"]
    run, _ = Run.check(load("tiny-code-feedback", settings), "r", tmp_path)
    outcomes = {(0, 0): "wrong_answer", (0, 1): "accepted", (SECOND_TURN_SLOT, 0): "accepted"}
    table = pd.DataFrame(
        {
            "id": run.train_set.frame["id"][0], "slot": slot, "sample": sample, "response": "…", "prompt": "?",
            "prompt_token_ids": [5], "token_ids": [5], "log_probs": [-0.5], "finish_reason": "stop",
            "accuracy": float(ending == "accepted"), "format": 1.0, "pass_ratio": float(ending == "accepted"),
            "error_type": ending, "test_outcomes": [ending],
        }
        for (slot, sample), ending in outcomes.items()
    )  # fmt: skip
    judged = ["accuracy", "format", "pass_ratio", "error_type", "test_outcomes"]
    rollout = run.store.write_rows("rollout.parquet", table.drop(columns=judged))
    scores = run.store.write_rows("score.parquet", table[["id", "slot", "sample", *judged]])
    step, refill = run.step(1), Refill(1, run.config)
    refill.ask()
    choose(step, Samples(rollouts=[rollout], scores=[scores]), refill)
    credited = step.drawn[0][step.drawn[0]["slot"] == 0]
    assert refill.slots == [0]
    assert credited["reward_second_turn"].iloc[0] > 0.0


# ---- evaluate ------------------------------------------------------------------------------------------------------


def test_an_evaluation_measures_what_was_graded_and_the_lengths_of_all(run: Run) -> None:
    accuracies: list[list[float | None]] = [[1, 1, 1], [0, 1, None], [0, 0, 0], [None] * 3]
    samples = written(run, "validation", rows(accuracies, [[2, 8, 5]] * 4), shards=2)
    averaged = written(run, "validation", rows([[1, 1]], [[4, 6]]))
    evaluated = asyncio.run(evaluate.function(run.step(20), samples, averaged))
    assert evaluated.metrics["val/accuracy"] == pytest.approx(4 / 8)
    assert evaluated.metrics["val/pass_at_n"] == pytest.approx(2 / 3)
    assert evaluated.metrics["val/response_length"] == 5.0
    assert evaluated.metrics["val/clip_ratio"] == pytest.approx(1 / 3)
    assert [evaluated.metrics[f"val/{bucket}_share"] for bucket in ("easy", "medium", "hard")] == pytest.approx(
        [1 / 3] * 3
    )
    assert (evaluated.metrics["val/ema/accuracy"], evaluated.metrics["val/ema/response_length"]) == (1.0, 5.0)
    assert len(run.store.read_rows(evaluated.rows)) == 12
    assert all(math.isfinite(value) for value in evaluated.metrics.values())


def test_held_out_sets_with_names_are_measured_together_and_each() -> None:
    def rows(name: str, accuracies: list[float | None], tokens: int) -> pd.DataFrame:
        return pd.DataFrame({
            "id": name, "slot": 0, "sample": range(len(accuracies)), "tokens": tokens, "format": 1.0,
            "truncated": False, "accuracy": pd.array(accuracies, dtype="Float64"),
        })  # fmt: skip

    answers = evaluation_metrics(
        pd.concat([rows("aime/1", [1, 0], 2), rows("own/a/b", [1, 1], 4), rows("late/1", [None, None], 6)]),
        ["aime", "own", "late"],
    )
    assert (answers["val/accuracy"], answers["val/aime/accuracy"], answers["val/own/accuracy"]) == (0.75, 0.5, 1.0)
    assert (answers["val/own/pass_at_n"], answers["val/own/response_length"]) == (1.0, 4.0)
    assert not any(name.startswith("val/late/") for name in answers)  # nothing of it was graded: no figure
    assert {name.removeprefix("val/") for name in answers if name.count("/") == 1} == {
        name.removeprefix("val/own/") for name in answers if name.startswith("val/own/")
    }


def test_an_engine_that_samples_from_other_weights_stops_the_run_and_its_samples_are_drawn_again(run: Run) -> None:
    samples = written(run, "rollout", rows([[1, 0]]))
    check_mismatch(run.step(3), samples.rollouts, {"mismatch/logprob_diff_mean": 0.019})
    assert run.store.intact(samples.rollouts)
    with pytest.raises(EngineMismatch, match=r"step 3.*0\.12 nats.*max_mismatch=0\.02"):
        check_mismatch(run.step(3), samples.rollouts, {"mismatch/logprob_diff_mean": 0.12})
    assert not run.store.intact(samples.rollouts)
    measured = run.step(3)
    measured.run.config = config("model.dtype=bfloat16")
    check_mismatch(measured, samples.rollouts, {"mismatch/logprob_diff_mean": 0.038})
    measured.run.config = config("rollout.max_mismatch=null")
    check_mismatch(measured, samples.rollouts, {"mismatch/logprob_diff_mean": 0.12})


class Observer:
    """In place of the cluster: keeps what the learner is shown, and finds a difference."""

    def __init__(self, difference: float) -> None:
        self.difference = difference
        self.seen: list[tuple[int, DataProto, float]] = []

    async def log_probs(self, version: int, rows: DataProto, temperature: float) -> Tensor:
        self.seen.append((version, rows, temperature))
        return rows.tensor("engine_log_probs") + self.difference


def test_of_a_bootstrap_or_an_evaluation_responses_from_all_over_it_are_compared(run: Run) -> None:
    table = rows([[1, 1, 0, 0, 0]] * 40)
    samples = written(run, "validation", table.assign(sample=table["sample"] + GREEDY), shards=10)
    run.workers = looking = Observer(0.01)  # type: ignore[assignment]
    found = asyncio.run(compare.function(run.step(4), samples.rollouts, "validation", 0.7))
    assert found.mean == pytest.approx(0.01, abs=1e-6)
    ((version, shown, temperature),) = looking.seen
    assert (version, temperature, len(shown)) == (4, 0.7, 64)
    assert GREEDY not in shown.non_tensor_batch["sample"]
    shards = set(shown.non_tensor_batch["uid"].astype(int) // 4)
    assert len(shards) == 8
    assert {0, 9} <= shards
    run.config = config("rollout.max_mismatch=null")
    assert asyncio.run(check_draw(run.step(5), samples.rollouts, "validation", 0.7)) == {}
    assert len(looking.seen) == 1
