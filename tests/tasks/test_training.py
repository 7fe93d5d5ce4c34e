"""What lies between samples and commit, on a real run directory; no actor is started."""

import asyncio
import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from algorithms.protocol import DataProto
from ares.config.algorithm import FilterConfig
from ares.grading.grader import RewardError
from ares.learner.learner import Learner
from ares.runs.run import Run
from ares.step.collate import token_batch
from ares.step.slots import GREEDY
from ares.step.state import RunState
from ares.store.store import Ref
from tasks.training import (
    Batch,
    EngineMismatch,
    Evaluated,
    Samples,
    Updated,
    check_mismatch,
    evaluate,
    finished_state,
    joined_rows,
    keep_groups,
    shape_batch,
    summarise_bootstrap,
    with_evaluation,
)
from tests.ares.builders import config, rows

SOME = Ref(path="x", sha256="0", bytes=1)


@pytest.fixture
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run.open(config("rollout.prompts=3", "learner.global_batch_prompts=3"), "r", tmp_path_factory.mktemp("runs"))


def written(run: Run, purpose: str, groups: list[dict[int, float | None]], shards: int = 1) -> Samples:
    """Rollouts and scores in the store: one group per dict of sample number → accuracy, shuffled within each shard."""
    problems = run.problems(purpose).frame
    table = [
        {
            "id": problems["id"][slot], "slot": slot, "sample": sample, "accuracy": accuracy, "format": 1.0,
            "token_ids": [5] * (sample + 2), "log_probs": [-0.5] * (sample + 2), "response": f"{slot}/{sample}",
            "finish_reason": "length" if sample == 1 else "stop",
        }
        for slot, group in enumerate(groups)
        for sample, accuracy in group.items()
    ]  # fmt: skip
    whole = pd.DataFrame(table).astype({"accuracy": "Float64"}).sample(frac=1.0, random_state=0)
    samples = Samples(rollouts=[], scores=[], slots=[])
    for shard in range(shards):
        part = whole[whole["slot"] % shards == shard]
        scored = part[["id", "slot", "sample", "accuracy", "format"]][::-1]
        samples.rollouts.append(
            run.store.write_rows(f"rollout-{shard}.parquet", part.drop(columns=["accuracy", "format"]))
        )
        samples.scores.append(run.store.write_rows(f"score-{shard}.parquet", scored))
    return samples


# ---- joined_rows ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_rows_meet_their_scores_and_problems_in_the_order_of_slot_and_sample(run: Run, shards: int) -> None:
    samples = written(run, "rollout", [{0: 1, 1: 0}, {0: 0, 1: None}, {0: 1, 1: 1}], shards)
    found = joined_rows(run.step(1), samples, "rollout")
    assert found["response"].tolist() == ["0/0", "0/1", "1/0", "1/1", "2/0", "2/1"]
    assert [None if pd.isna(value) else value for value in found["accuracy"]] == [1, 0, 0, None, 1, 1]
    problems = run.train.frame.set_index("id")
    for row in found.to_dict("records"):
        assert row["answer"] == problems["answer"][row["id"]]
        assert row["prompt_token_ids"] == problems["prompt_token_ids"][row["id"]]
    assert "baseline" not in found


def test_only_the_chosen_slots_are_joined(run: Run) -> None:
    samples = written(run, "rollout", [{0: 1, 1: 0}, {0: 0, 1: 0}, {0: 1, 1: 0}], shards=2)
    samples.slots = [2, 0]
    assert joined_rows(run.step(1), samples, "rollout")["response"].tolist() == ["0/0", "0/1", "2/0", "2/1"]


def test_the_greedy_answer_becomes_its_groups_baseline_and_no_row_of_it(run: Run) -> None:
    groups: list[dict[int, float | None]] = [
        {GREEDY: 1, 0: 0, 1: 0},
        {GREEDY: 0, 0: 1, 1: 1},
        {GREEDY: None, 0: 1, 1: 0},
    ]
    found = joined_rows(run.step(1), written(run, "rollout", groups, shards=2), "rollout")
    assert found["sample"].tolist() == [0, 1] * 3
    # An ungraded greedy answer leaves its group without a baseline, and a group without one is not trained on.
    assert found["baseline"].fillna(-1).tolist() == [1, 1, 0, 0, -1, -1]
    assert not set(found["slot"][found["baseline"].isna()]) & set(kept(found, enabled=False))


def test_a_sample_without_a_score_row_is_left_out_and_a_doubled_one_is_an_error(run: Run) -> None:
    samples = written(run, "rollout", [{0: 1, 1: 0}])
    samples.scores.append(samples.scores[0])
    with pytest.raises(pd.errors.MergeError):
        joined_rows(run.step(1), samples, "rollout")


# ---- keep_groups ---------------------------------------------------------------------------------------------------


def groups_of(*groups: list[float | None], greedy: float | None = None) -> pd.DataFrame:
    table = [
        {"slot": slot, "sample": sample, "accuracy": accuracy}
        for slot, group in enumerate(groups)
        for sample, accuracy in [*([(GREEDY, greedy)] if greedy is not None else []), *enumerate(group)]
    ]
    return pd.DataFrame(table).astype({"accuracy": "Float64"})


def kept(rows: pd.DataFrame, rewards: list[float] | None = None, **settings: Any) -> list[int]:
    """Slots that are kept when the reward is accuracy, or what is given."""
    of_rows = rows["accuracy"].to_numpy(dtype=float, na_value=np.nan) if rewards is None else np.array(rewards)
    return keep_groups(rows, FilterConfig(**settings), of_rows)


GROUPS: tuple[list[float | None], ...] = (
    [1, 1, 1, 1],
    [1, 0, 1, 1],
    [0, 0, 0, 0],
    [0, 0, 0, 1],
    [None, None, None, 1],
    [None, None, 0, 1],
    [None, None, 1, 1],
    [None, None, None, None],
)


def test_groups_that_are_neither_all_right_nor_all_wrong_are_kept() -> None:
    assert kept(groups_of(*GROUPS)) == [1, 3, 5]


def test_without_filtering_every_group_with_two_scores_is_kept() -> None:
    assert kept(groups_of(*GROUPS), enabled=False) == [0, 1, 2, 3, 5, 6]


def test_the_bounds_are_exclusive() -> None:
    assert kept(groups_of([0, 0, 0, 1], [0, 1], [1, 1, 1, 0]), low=0.25, high=0.75) == [1]


def test_by_reward_a_group_is_kept_when_its_rewards_differ_though_no_answer_is_right() -> None:
    rows = groups_of([0, 0], [0, 0], [1, 1], [0, 0])
    rewards = [-1.0, -0.6, -0.3, -0.3, 1.0, 0.9, math.nan, 0.4]  # the last group has one row with a reward
    assert kept(rows, rewards, key="reward") == [0, 2]


# ---- shape ---------------------------------------------------------------------------------------------------------

ACCURACIES: list[list[float | None]] = [[1, 1, 1, 0], [1, 0, None, 0], [0, 0, 0, 1]]


def stored(run: Run, accuracies: list[list[float | None]], parts: int = 1) -> tuple[Samples, list[Batch]]:
    """Samples of the run's first problems, and what the learner found of each part of them, in the run's store."""
    table = rows(accuracies)
    table = table.assign(id=table["slot"].map(run.train.frame["id"]), response="…")
    learner, samples, found = Learner(run.config), Samples(rollouts=[], scores=[], slots=[]), []
    for part in range(parts):
        mine = table[table["slot"] * parts // len(accuracies) == part].reset_index(drop=True)
        sampled = mine[["id", "slot", "sample", "token_ids", "log_probs", "response", "finish_reason"]]
        scored = mine[["id", "slot", "sample", "accuracy", "format"]].astype({"accuracy": "Float64"})
        name = f"{parts}-{part}"
        samples.rollouts.append(run.store.write_rows(f"rollout-{name}.parquet", sampled))
        samples.scores.append(run.store.write_rows(f"score-{name}.parquet", scored))
        prompts = mine["id"].map(run.train.frame.set_index("id")["prompt_token_ids"])
        batch = token_batch(mine.assign(prompt_token_ids=prompts), run.pad_id)
        folder = run.store.write_folder(name, batch.union(learner.experience(batch)).save)
        found.append(Batch(batch=folder))
    return samples, found


def test_shape_stores_a_batch_a_table_and_the_state_and_gives_the_same_twice(run: Run) -> None:
    samples, found = stored(run, ACCURACIES)
    before = RunState.initial(run.config, len(run.train)).state_dict()
    first = asyncio.run(shape_batch.function(run.step(1), samples, found, json.loads(json.dumps(before))))
    again = asyncio.run(shape_batch.function(run.step(1), samples, found, json.loads(json.dumps(before))))
    assert first == again
    assert run.store.intact([first.batch, first.samples, first.state])
    table = run.store.read_rows(first.samples)
    assert table["slot"].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert table["sample"].tolist() == [0, 1, 2, 3] * 3
    unscored = table["accuracy"].isna()
    assert unscored.tolist() == [accuracy is None for group in ACCURACIES for accuracy in group]
    assert table["reward"].isna().equals(unscored)
    np.testing.assert_allclose(table["reward"], table["accuracy"] + table["reward_entropy_score"])
    batch = DataProto.load(run.store.folder(first.batch))
    assert (
        table["tokens"].tolist()
        == batch.tensor("attention_mask")[:, -batch.tensor("responses").shape[1] :].sum(1).tolist()
    )
    after = run.store.read_json(first.state)
    easy, medium, hard = run.train.frame["id"][:3]
    assert after["difficulty"]["difficulty"] == {"easy": [easy], "medium": [medium], "hard": [hard]}
    assert before["difficulty"]["difficulty"] == {"easy": [], "medium": [], "hard": []}


def test_a_batch_of_several_rollouts_is_that_of_one_but_for_its_padding(run: Run) -> None:
    """Refilled groups were looked at by the learner apart; shaping sees them side by side, the chosen ones alone."""
    before = RunState.initial(run.config, len(run.train)).state_dict()
    metrics, tables, batches = [], [], []
    for parts in (1, 3):
        samples, found = stored(run, ACCURACIES, parts)
        chosen = samples.model_copy(update={"slots": [0, 2]})
        shaped = asyncio.run(shape_batch.function(run.step(parts), chosen, found, json.loads(json.dumps(before))))
        metrics.append(shaped.metrics)
        tables.append(run.store.read_rows(shaped.samples))
        batches.append(DataProto.load(run.store.folder(shaped.batch)))
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
    state = run.store.read_json(other.state)
    assert state["step"] == 0
    easy, medium, hard = run.train.frame["id"][:3]
    assert state["difficulty"]["difficulty"] == {"easy": [easy], "medium": [medium], "hard": [hard]}
    assert state["threshold"]["threshold"] is not None
    counters = state["counters"]
    assert (counters["prompts"], counters["samples"], counters["unscored_samples"]) == (3, 12, 1)
    assert counters["tokens"] == int(rows(ACCURACIES)["token_ids"].map(len).sum())
    assert other.metrics["bootstrap/accuracy"] == pytest.approx(5 / 11)


def test_a_bootstrap_in_which_nothing_was_graded_is_an_error_that_says_so(run: Run) -> None:
    with pytest.raises(RewardError, match="none of the 4 responses could be graded"):
        asyncio.run(summarise_bootstrap.function(run.step(0), *stored(run, [[None] * 4])))


# ---- evaluate ------------------------------------------------------------------------------------------------------


def test_an_evaluation_measures_what_was_graded_and_the_lengths_of_all(run: Run) -> None:
    groups: list[dict[int, float | None]] = [
        {0: 1, 1: 1, 2: 1}, {0: 0, 1: 1, 2: None}, {0: 0, 1: 0, 2: 0}, {0: None, 1: None, 2: None},
    ]  # fmt: skip
    samples = written(run, "validation", groups, shards=2)
    found = asyncio.run(evaluate.function(run.step(20), samples))
    assert found.accuracy == found.metrics["val/accuracy"] == pytest.approx(4 / 8)
    assert found.metrics["val/pass_at_n"] == pytest.approx(2 / 3)
    assert found.mean_length == found.metrics["val/response_length"] == 3.0
    assert found.metrics["val/clip_ratio"] == pytest.approx(1 / 3)
    assert [found.metrics[f"val/{bucket}_share"] for bucket in ("easy", "medium", "hard")] == pytest.approx([1 / 3] * 3)
    assert len(run.store.read_rows(found.rows)) == 12
    assert all(math.isfinite(value) for value in found.metrics.values())


def test_an_evaluation_in_which_nothing_was_graded_is_an_error_that_says_so(run: Run) -> None:
    samples = written(run, "validation", [{0: None, 1: None}])
    with pytest.raises(RewardError, match="none of the 2 responses could be graded"):
        asyncio.run(evaluate.function(run.step(20), samples))


# ---- the state that is committed -----------------------------------------------------------------------------------


def test_the_committed_state_has_the_updates_beta_the_skipped_updates_and_the_evaluation(run: Run) -> None:
    shaped = RunState.initial(run.config, 10).state_dict()
    beta = {"betas": {}, "kl_ema": {}, "error_ema": {}, "updates": 3}
    updated = Updated(metrics={"actor/skipped_updates": 2.0}, beta=beta)
    evaluated = Evaluated(rows=SOME, accuracy=0.5, mean_length=7.0, metrics={})
    before = json.dumps(shaped)
    state = finished_state(finished_state(shaped, updated, None, 1), updated, evaluated, 2)
    assert json.dumps(shaped) == before
    assert (state["step"], state["beta"], state["counters"]["skipped_updates"]) == (2, beta, 4)
    assert state["evaluations"] == [{"step": 2, "accuracy": 0.5, "mean_length": 7.0}]
    assert with_evaluation(state, None, 3) == state
    restored = RunState.restored(run.config, 10, with_evaluation(state, evaluated, 3))
    assert [evaluation.step for evaluation in restored.evaluations] == [2, 3]


def test_an_engine_that_samples_from_other_weights_stops_the_run_and_its_samples_are_drawn_again(run: Run) -> None:
    samples = written(run, "rollout", [{0: 1.0, 1: 0.0}])
    check_mismatch(run.step(3), samples, {"mismatch/logprob_diff_mean": 0.019})
    assert run.store.intact(samples.rollouts)
    with pytest.raises(EngineMismatch, match=r"step 3.*0\.12 nats.*max_mismatch=0\.02"):
        check_mismatch(run.step(3), samples, {"mismatch/logprob_diff_mean": 0.12})
    assert not run.store.intact(samples.rollouts)
    measured = run.step(3)
    measured.run.config = config("rollout.max_mismatch=null")
    check_mismatch(measured, samples, {"mismatch/logprob_diff_mean": 0.12})
