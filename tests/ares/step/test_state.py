import json
from typing import Any

import pandas as pd
import pytest

from algorithms.kl import BatchKL
from algorithms.kl_controllers import AdaptiveKL, DualAscentKL, FixedKL
from algorithms.protocol import DataProto
from ares.step.refill import Refill
from ares.step.rewards import rewarded
from ares.step.state import Counters, Evaluation, RunState
from tests.ares.builders import config

SKIPPING = "algorithm.difficulty.drop_allpass_entropy_threshold=0.5"


def state(kind: str = "token_adaptive", *overrides: str) -> RunState:
    return RunState.initial(config(f"algorithm.kl.kind={kind}", SKIPPING, *overrides), 10)


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value, allow_nan=False))


def find_difficulties(found: RunState, **columns: list[Any]) -> None:
    found.difficulty.update_difficulty_and_skip_gid_set(DataProto.from_dict(non_tensors=columns))


def moved(kind: str) -> RunState:
    """A state in which everything differs from the start."""
    found = state(kind)
    found.step = 7
    find_difficulties(
        found,
        global_id=["a", "a", "b", "b", "c", "c"],
        accuracy=[1.0, 1.0, 0.0, 1.0, 0.0, 0.0],
        entropies=[0.1, 0.2, 1.0, 1.0, 1.0, 1.0],
        high_entropy_token_num=[3.0, 4.0, 5.0, 8.0, 1.0, 0.0],
    )
    found.threshold.update([1.0, 2.5])
    seen = BatchKL(0.5, 100, {"easy": 0.5, "hard": 0.0})
    found.kl.update(seen)
    if found.beta is not None:
        found.beta.update(seen)
    found.cursor.take(13, {2}.__contains__)
    found.counters = Counters(1, 2, 3, 4, 5, 6)
    found.evaluations = [Evaluation(0, 0.25, 10.0), Evaluation(5, 0.5, 12.0)]
    return found


@pytest.mark.parametrize(
    ("kind", "controller"),
    [("fixed", FixedKL), ("adaptive", AdaptiveKL), ("token_adaptive", DualAscentKL), ("bucket_beta", FixedKL)],
)
def test_every_part_of_the_state_survives_json(kind: str, controller: type) -> None:
    before = moved(kind)
    assert type(before.kl) is controller
    settings = config(f"algorithm.kl.kind={kind}", SKIPPING)
    after = RunState.restored(settings, 10, through_json(before.state_dict()))
    assert after.state_dict() == before.state_dict()
    assert after.metrics() == before.metrics()
    assert after.cursor.take(25, {2}.__contains__) == before.cursor.take(25, {2}.__contains__)
    fresh = RunState.initial(settings, 10).state_dict()
    unchanged = [name for name, value in before.state_dict().items() if value == fresh[name]]
    # A fixed coefficient cannot move, only bucket_beta has a β, and only code has tests.
    assert set(unchanged) == {"tests"} | ({"kl"} if kind in ("fixed", "bucket_beta") else set()) | (
        set() if kind == "bucket_beta" else {"beta"}
    )


def test_a_commit_holds_what_its_step_found_of_the_prompts_and_all_commits_together_hold_everything() -> None:
    """A step of three prompts writes three, however many are known; what is tracked is shared, not copied."""
    settings = config("algorithm.kl.kind=fixed", SKIPPING)
    first = moved("fixed")
    commits = [through_json(first.state_dict())]
    second = RunState.restored(settings, 10, first.settled().state_dict(), before=first)
    columns = {"accuracy": [1.0, 0.0], "entropies": [0.1, 1.0], "high_entropy_token_num": [2.0, 5.0]}
    find_difficulties(second, global_id=["d", "a"], **columns)
    commits.append(through_json(second.state_dict()))
    assert commits[1]["difficulty"]["difficulty"] == {"easy": ["d"], "medium": [], "hard": ["a"]}
    assert commits[1]["difficulty"]["skip"] == ["d"]
    assert first.difficulty.difficulty_dict_train == {"a": "easy", "b": "medium", "c": "hard"}

    resumed = RunState.restored(settings, 10, commits[0]).settled()
    resumed = RunState.restored(settings, 10, commits[1], before=resumed).settled()
    for whole in (second, resumed):
        assert whole.difficulty.difficulty_dict_train == {"a": "hard", "b": "medium", "c": "hard", "d": "easy"}
        assert whole.difficulty.skip_gid_set == {"a", "d"}
    assert resumed.metrics() == second.metrics()
    assert resumed.state_dict() == second.settled().state_dict()


@pytest.mark.parametrize("name", ["difficulty", "threshold", "kl", "cursor", "counters", "evaluations", "step"])
def test_a_stored_state_without_a_part_is_refused(name: str) -> None:
    stored = through_json(moved("token_adaptive").state_dict())
    del stored[name]
    with pytest.raises((KeyError, ValueError)):
        RunState.restored(config(), 10, stored)
    with pytest.raises(ValueError, match="KL state"):  # nor is that of another controller
        RunState.restored(config("algorithm.kl.kind=token_adaptive"), 10, through_json(moved("fixed").state_dict()))
    with pytest.raises(ValueError, match="KL state is missing"):  # nor one that the run did not have
        RunState.restored(config("algorithm.kl.kind=bucket_beta"), 10, through_json(moved("fixed").state_dict()))


def sampled(*groups: tuple[str, list[float | None], float]) -> pd.DataFrame:
    """Groups of (problem, accuracies, log-prob of every token), two tokens a sample."""
    table = [
        {"id": name, "slot": slot, "sample": sample, "accuracy": accuracy, "token_ids": [1, 2], "tokens": 2,
         "log_probs": [log_prob, log_prob]}
        for slot, (name, accuracies, log_prob) in enumerate(groups)
        for sample, accuracy in enumerate(accuracies)
    ]  # fmt: skip
    return pd.DataFrame(table).astype({"accuracy": "Float64"})


def test_what_a_rollout_spent_is_counted() -> None:
    found = state()
    rows = sampled(("a", [1, 1], -1.0), ("b", [1, 0], -1.0), ("c", [None, 0], -1.0))
    found.count_sampled(rows)
    found.absorb_sampled(rows, [1])
    assert found.counters == Counters(
        prompts=3, samples=6, tokens=12, filtered_groups=2, unscored_samples=1, skipped_updates=0
    )
    found.absorb_sampled(sampled(("d", [1, 0], -1.0)), [0])
    assert (found.counters.prompts, found.counters.filtered_groups) == (4, 2)


def test_a_dropped_group_teaches_its_difficulty_and_a_kept_one_waits_for_the_batch() -> None:
    found = state()
    found.absorb_sampled(
        sampled(("a", [1, 1], -1.0), ("b", [1, 0], -1.0), ("c", [0, None], -1.0), ("d", [None, None], -1.0)), [1]
    )
    assert found.difficulty.difficulty_dict_train == {"a": "easy", "c": "hard"}


def test_a_group_that_the_batch_had_no_room_for_teaches_its_difficulty_and_pass_rates() -> None:
    """Groups worth training on beyond the batch's need were recorded neither for difficulty nor for pass rates."""
    judging = ["reward.kind=code", "reward.code.design=dense_weighted"]
    of = Refill(1, config("rollout.prompts=1", "learner.global_batch_prompts=1", *judging))
    found = state("fixed", *judging)
    of.ask()
    ends = [["accepted", "accepted"], ["wrong_answer", "accepted"]] * 2
    rows = sampled(("a", [1, 0], -1.0), ("b", [1, 0], -1.0)).assign(
        test_outcomes=ends, error_type=["accepted", "wrong_answer"] * 2, truncated=False, tokens=2, format=1.0,
        pass_ratio=pd.array([1.0, 0.5] * 2, dtype="Float64"),
    )  # fmt: skip
    found.absorb_sampled(rows, of.take(rewarded(rows, of.config, found.tests)))
    assert of.slots == [0]
    assert found.difficulty.difficulty_dict_train == {"b": "medium"}
    assert found.tests is not None
    assert found.tests.state_dict() == {"problems": ["b"], "rates": [[5_000, 10_000]]}


def test_an_always_solved_group_of_low_entropy_joins_the_skip_set() -> None:
    """The threshold is 0.5 nats; the mean negative log-prob stands in for the entropy."""
    groups = sampled(("sure", [1, 1], -0.4), ("unsure", [1, 1], -0.6), ("wrong", [0, 0], -0.1), ("kept", [1, 1], -0.1))
    found = state()
    found.absorb_sampled(groups, [3])
    uneven = sampled(("uneven", [1, 1], 0.0)).assign(log_probs=[[-1.0] * 2, [-0.1] * 100])  # as in a batch: .55 nats
    found.absorb_sampled(uneven, [])
    assert found.difficulty.skip_gid_set == {"sure"}
    never = RunState.initial(config(), 10)
    never.absorb_sampled(groups, [3])
    assert never.difficulty.skip_gid_set == set()


def test_the_committed_state_has_the_updates_beta_the_skipped_updates_and_the_evaluations() -> None:
    found = state("bucket_beta")
    beta = through_json(found.state_dict()["beta"]) | {"updates": 3}
    for step in (1, 2):
        found.take_update(beta, skipped=2)
        found.add_evaluation(step, {"val/accuracy": 0.5, "val/response_length": 7.0})
    kept = through_json(found.state_dict())
    assert (kept["beta"], kept["counters"]["skipped_updates"]) == (beta, 4)
    assert kept["evaluations"] == [{"step": step, "accuracy": 0.5, "mean_length": 7.0} for step in (1, 2)]
    without = state()
    without.take_update(None, skipped=0)
    assert without.state_dict()["beta"] is None
