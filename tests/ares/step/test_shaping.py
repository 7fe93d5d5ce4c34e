import functools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from algorithms.entropy import entropy_percentile_thresholds, hwe_count, hwe_mask
from algorithms.groups import SECOND_TURN_SLOT
from algorithms.protocol import DataProto
from ares.config import ESTIMATORS, Config
from ares.grading import RewardError
from ares.step.collate import graded
from ares.step.rewards import rewarded
from ares.step.shaping import shape
from ares.step.state import RunState
from rewards.aepo import compute_score
from tests.algorithms.test_advantages import gdpo
from tests.ares.builders import config, handmade, rows, to_batch

# An easy (3 of 4), a medium (2 of 4) and a hard prompt (1 of 4).
ACCURACIES: list[list[float | None]] = [[1, 1, 1, 0], [1, 0, 1, 0], [0, 0, 0, 1]]
LENGTHS = [[5, 3, 8, 6], [4, 8, 7, 2], [6, 5, 8, 8]]
WINDOW = 2
SMALL = (
    "rollout.prompts=3",
    "learner.global_batch_prompts=3",
    f"algorithm.entropy={{window: {WINDOW}, percentile: 50, threshold_ema: 0.5}}",
)


def entropies(lengths: list[list[int]] = LENGTHS, seed: int = 0) -> list[list[float]]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(0, 3, length).round(3).tolist() for group in lengths for length in group]


def shaped(
    *overrides: str,
    accuracies: list[list[float | None]] = ACCURACIES,
    kl: float = 0.0,
    state: RunState | None = None,
    seed: int = 0,
    **tensors: torch.Tensor,
) -> tuple[DataProto, dict[str, float], RunState]:
    """The batch of these rows after `shape`; every token's log-ratio to the reference is `kl`."""
    settings = config(*SMALL, *overrides)
    batch = handmade(entropies(seed=seed), accuracies, **tensors)
    batch.batch["ref_log_probs"] = batch.tensor("old_log_probs") - kl * batch.tensor("response_mask")
    after = state or RunState.initial(settings, 10)
    return batch, shape(batch, after, settings), after


def column(batch: DataProto, name: str) -> list[Any]:
    return batch.non_tensor_batch[name].tolist()


TOKENS = handmade(entropies(), ACCURACIES)
TAU = float(
    np.median(entropy_percentile_thresholds(TOKENS.tensor("entropies"), TOKENS.tensor("response_mask"), WINDOW, 50))
)
HWE = hwe_count(hwe_mask(TOKENS.tensor("entropies"), TOKENS.tensor("response_mask"), TAU, WINDOW))
MEANS = dict(zip(("easy", "medium", "hard"), HWE.reshape(3, 4).mean(1).tolist(), strict=True))


# ---- rows into a batch ---------------------------------------------------------------------------------------------


def test_rows_are_padded_left_and_right_and_keep_their_order() -> None:
    table = rows(ACCURACIES, LENGTHS)
    batch = to_batch(table, 0)
    width = batch.tensor("prompts").shape[1]
    for row, sample in enumerate(table.to_dict("records")):
        mask = batch.tensor("attention_mask")[row].bool()
        prompt, response = mask[:width], mask[width:]
        assert batch.tensor("prompts")[row][prompt].tolist() == sample["prompt_token_ids"]
        assert batch.tensor("responses")[row][response].tolist() == sample["token_ids"].tolist()
        assert batch.tensor("engine_log_probs")[row][response].tolist() == sample["log_probs"].tolist()
        assert prompt.tolist() == sorted(prompt.tolist())
        assert response.tolist() == sorted(response.tolist(), reverse=True)
    assert torch.equal(batch.tensor("response_mask"), batch.tensor("attention_mask")[:, width:])
    assert column(batch, "uid") == table["slot"].tolist()
    assert column(batch, "truncated") == [length == 8 for group in LENGTHS for length in group]
    assert batch.meta_info["global_token_num"] == batch.tensor("attention_mask").sum(1).tolist()


# ---- difficulty, targets, alpha ------------------------------------------------------------------------------------


def test_threshold_counts_and_buckets_are_those_of_the_definition() -> None:
    batch, metrics, state = shaped()
    assert state.threshold.threshold == pytest.approx(TAU, abs=1e-6)
    assert state.difficulty.target_high_entropy_token_num_dict == {
        bucket: round(mean) for bucket, mean in MEANS.items()
    }
    assert batch.meta_info["high_entropy_threshold"] == state.threshold.threshold
    assert column(batch, "high_entropy_token_num") == HWE.tolist()
    assert column(batch, "difficulty") == ["easy"] * 4 + ["medium"] * 4 + ["hard"] * 4
    for bucket, accuracy in (("easy", 0.75), ("medium", 0.5), ("hard", 0.25)):
        assert metrics[f"bucket/{bucket}/acc"] == accuracy
        assert metrics[f"bucket/{bucket}/count"] == 1
        assert metrics[f"bucket/{bucket}/hwe"] == pytest.approx(MEANS[bucket])
    assert batch.tensor("hwe_mask").sum() == HWE.sum() > 0


def test_trigger_tokens_restrict_the_count_to_themselves() -> None:
    settings = config(*SMALL)
    batch = handmade(entropies(), ACCURACIES)
    is_trigger = torch.zeros(320, dtype=torch.bool)
    is_trigger[::2] = True
    shape(batch, RunState.initial(settings, 10), settings, is_trigger)
    even = batch.tensor("responses") % 2 == 0
    assert not (batch.tensor("hwe_mask") & ~even).any()
    plain, _, _ = shaped()
    assert torch.equal(batch.tensor("hwe_mask"), plain.tensor("hwe_mask") & even)


# ---- rewards -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("switch", [True, False])
def test_the_reward_is_compute_scores_overall_at_the_last_token(switch: bool) -> None:
    batch, _, _ = shaped(
        f"algorithm.aepo={{zero_baseline: {str(switch).lower()}, guard_inversion: {str(switch).lower()}}}"
    )
    names = (
        "accuracy", "high_entropy_token_num", "target_high_entropy_token_num", "alpha_entropy", "difficulty",
    )  # fmt: skip
    inputs = [
        {"response": "", "ground_truth": "1"} | dict(zip(names, values, strict=True))
        for values in zip(*(column(batch, name) for name in names), strict=True)
    ]
    expected = [found["overall"] for found in compute_score(inputs, zero_baseline=switch, guard_inversion=switch)]
    assert column(batch, "reward") == pytest.approx(expected)
    assert len({round(value, 6) for value in expected}) > 3
    scores, mask = batch.tensor("token_level_scores"), batch.tensor("response_mask")
    torch.testing.assert_close(scores.sum(1), torch.tensor(expected, dtype=torch.float32))
    last = mask.sum(1) - 1
    assert torch.equal(scores.nonzero()[:, 1], last[scores.sum(1) != 0])


DENSE = "reward.code.design=dense_linear"


@pytest.mark.parametrize(
    "settings", [(DENSE,), (DENSE, "reward.code.weight=3"), (DENSE, "reward.code.weight=0.2"),
                 ("reward.code.design=outcome_anchor",), (DENSE, "reward.code.format_weight=0.5"),
                 (DENSE, "algorithm.overlong.soft_punish_cache=4", "algorithm.aepo.zero_baseline=true")]
)  # fmt: skip
def test_no_program_that_fails_a_test_outscores_a_right_one_of_its_group(settings: tuple[str, ...]) -> None:
    """Three right programs had 1.0 and one that fails 1 of 10 tests 1.185: advantages -.5, -.5, -.5, +1.5."""
    aepo = "algorithm.aepo={enabled: true, zero_baseline: false, guard_inversion: true}"
    of_run = config(*SMALL, "reward.kind=code", "algorithm.overlong.mask_truncated=false", aepo, *settings)
    right = ["accepted"] * 10
    nearly = [*right[:9], "wrong_answer"]
    ends = [right if accuracy else nearly for group in ACCURACIES for accuracy in group]
    sampled = rows(ACCURACIES, LENGTHS).assign(
        test_outcomes=ends, error_type=[each[-1] for each in ends], tokens=5,
        truncated=[length == 8 for group in LENGTHS for length in group],
        pass_ratio=[each.count("accepted") / 10 for each in ends],
        format=[0.0 if each == right else 1.0 for each in ends],
    )  # fmt: skip
    batch = handmade(entropies(), ACCURACIES)
    batch = graded(batch, rewarded(sampled, of_run, None))
    batch.non_tensor_batch.pop("reward_accuracy")
    shape(batch, RunState.initial(of_run, 10), of_run)
    rewards = np.array(column(batch, "reward"), dtype=float).reshape(3, 4)
    for group, accuracies in zip(rewards, np.array(ACCURACIES, dtype=bool), strict=True):
        assert group[~accuracies].max() <= group[accuracies].min() + 1e-9
    parts = [column(batch, name) for name in batch.non_tensor_batch if name.startswith("reward_")]
    assert np.sum(parts, axis=0) == pytest.approx(rewards.ravel())


def test_accuracy_is_that_of_first_turns() -> None:
    """Second turns, which are of harder problems but know the verdict, were counted too."""
    settings = config(*SMALL)
    batch = handmade(entropies(), ACCURACIES)
    batch.non_tensor_batch["uid"] = np.array([0] * 4 + [1] * 4 + [SECOND_TURN_SLOT] * 4, dtype=object)
    batch.non_tensor_batch["global_id"][8:] = "p0"
    assert shape(batch, RunState.initial(settings, 10), settings)["reward/accuracy"] == 5 / 8


@pytest.mark.parametrize("aepo", ["true", "false"])
@pytest.mark.parametrize("weight", [1, 0.25])
def test_the_soft_overlong_punishment_grows_to_the_limit_and_the_stored_parts_add_up(weight: float, aepo: str) -> None:
    settings = ("algorithm.overlong.soft_punish_cache=4", f"algorithm.overlong.soft_punish_weight={weight}")
    batch, _, _ = shaped(*settings, f"algorithm.aepo.enabled={aepo}")
    lengths = [length for group in LENGTHS for length in group]
    assert column(batch, "reward_overlong") == [-weight * max(0, length - 4) / 4 for length in lengths]
    names = [name for name in batch.non_tensor_batch if name == "accuracy" or name.startswith("reward_")]
    parts = [column(batch, name) for name in names]
    assert len(parts) == (3 if aepo == "true" else 2)
    assert np.sum(parts, axis=0) == pytest.approx(column(batch, "reward"))


# ---- KL ------------------------------------------------------------------------------------------------------------


def test_the_kl_is_in_the_reward_or_in_the_loss_and_never_in_both() -> None:
    mask = shaped()[0].tensor("attention_mask")[:, -8:].float()
    plain = "algorithm.kl={kind: fixed, coef: 0.5, penalty: abs, placement: %s}"
    none, _, _ = shaped(plain % "none", kl=0.2)
    assert torch.equal(none.tensor("token_level_rewards"), none.tensor("token_level_scores"))
    assert "kl_coefs" not in none.fields

    loss, _, _ = shaped(plain % "loss", kl=0.2)
    assert torch.equal(loss.tensor("token_level_rewards"), loss.tensor("token_level_scores"))
    assert (loss.tensor("kl_coefs") > 0).all()

    reward, _, _ = shaped(plain % "reward", kl=0.2)
    assert "kl_coefs" not in reward.fields
    paid = reward.tensor("token_level_scores") - reward.tensor("token_level_rewards")
    torch.testing.assert_close(paid, 0.5 * 0.2 * mask)
    torch.testing.assert_close(reward.tensor("token_level_scores"), loss.tensor("token_level_scores"))


@pytest.mark.parametrize("placement", ["loss", "reward"])
def test_each_bucket_has_its_coefficient_as_it_was_before_the_batch(placement: str) -> None:
    coefs = {"easy": 0.1, "medium": 0.2, "hard": 0.4}
    batch, metrics, state = shaped(
        f"algorithm.kl={{kind: token_adaptive, placement: {placement}, penalty: abs, coef: {json.dumps(coefs)}, "
        "target: 0.05, relax_hwe: 1.0}",
        kl=0.2,
    )
    rows_of = {"easy": slice(0, 4), "medium": slice(4, 8), "hard": slice(8, 12)}
    for bucket, place in rows_of.items():
        mask = batch.tensor("response_mask")[place].bool()
        if placement == "loss":
            used = batch.tensor("kl_coefs")[place][mask]
        else:
            used = (batch.tensor("token_level_scores") - batch.tensor("token_level_rewards"))[place][mask] / 0.2
        torch.testing.assert_close(used, torch.full_like(used, coefs[bucket]), atol=1e-4, rtol=1e-4)
        assert metrics[f"bucket/{bucket}/kl"] == pytest.approx(0.2, abs=1e-6)
        # Dual ascent for the next batch: λ = 1 + 0.01·(kl − target).
        assert state.kl.state_dict()["kl_coefs"][bucket] == pytest.approx(coefs[bucket] * (1 + 0.01 * 0.15))
    assert metrics["critic/kl"] == pytest.approx(0.2, abs=1e-6)
    assert metrics["critic/kl_coef"] == pytest.approx(np.mean(list(coefs.values())))


def test_hwe_tokens_have_a_relaxed_coefficient_and_wrong_answers_to_easy_problems_a_second_chance() -> None:
    """Unscored ones have none."""
    accuracies: list[list[float | None]] = [[1, 1, None, 0], [1, 0, 1, 0], [0, 0, 0, 1]]
    kl = "algorithm.kl={kind: fixed, coef: 0.5, relax_hwe: 0.25, relax_wrong_easy: 0.1}"
    batch, _, _ = shaped(kl, accuracies=accuracies)
    rows = torch.tensor([0.5] * 3 + [0.05] + [0.5] * 8)[:, None]
    torch.testing.assert_close(batch.tensor("kl_coefs"), torch.where(batch.tensor("hwe_mask"), 0.25 * rows, rows))


# ---- advantages ----------------------------------------------------------------------------------------------------


def grpo(rewards: list[float]) -> list[float]:
    mean, std = np.mean(rewards), np.std(rewards, ddof=1)
    return [(reward - mean) / (std + 1e-6) for reward in rewards]


def test_an_unscored_row_has_no_advantage_no_reward_and_no_effect_on_its_group() -> None:
    accuracies: list[list[float | None]] = [[1, 1, None, 0], [1, 0, 1, 0], [0, None, None, 1]]
    batch, metrics, state = shaped(accuracies=accuracies)
    unscored = [2, 9, 10]
    for row in range(12):
        learnt = batch.tensor("response_mask")[row].any()
        assert learnt == (row not in unscored)
    assert (batch.tensor("advantages")[unscored] == 0).all()
    for name in ("reward", "reward_entropy_score"):
        assert [row for row, value in enumerate(column(batch, name)) if math.isnan(value)] == unscored
    for place in (slice(0, 4), slice(8, 12)):
        kept = [row for row in range(12)[place] if row not in unscored]
        expected = grpo([column(batch, "reward")[row] for row in kept])
        assert batch.tensor("advantages")[kept, 0].tolist() == pytest.approx(expected, abs=1e-4)
    assert state.difficulty.difficulty_dict_train == {"p0": "easy", "p1": "medium", "p2": "medium"}
    assert metrics["bucket/easy/acc"] == pytest.approx(2 / 3)
    assert metrics["reward/unscored"] == 3
    assert metrics["reward/accuracy"] == pytest.approx(5 / 9)
    assert all(math.isfinite(value) for value in metrics.values())


anything = st.one_of(st.none(), st.sampled_from([0.0, 1.0]), st.floats(0, 1))
trained = st.lists(
    st.tuples(st.lists(anything, max_size=4), st.floats(0, 1), st.floats(0, 1)).map(
        lambda drawn: [*drawn[0], *drawn[1:]]
    ),
    min_size=1,
    max_size=4,
)
"""As the refill leaves them: at least two scores per group."""


@functools.cache
def settings_of(*overrides: str) -> Config:
    return config(*overrides)


@settings(max_examples=30, deadline=None)
@given(
    estimator=st.sampled_from([name for name in ESTIMATORS.builtin if not ESTIMATORS.fact(name, "by_turn")]),
    aepo=st.sampled_from(["true", "false"]),
    drawn=trained,
    noise=st.integers(0, 2**31),
)
def test_absent_scores_teach_nothing(estimator: str, aepo: str, drawn: list[list[float | None]], noise: int) -> None:
    assume(aepo == "false" or estimator not in ("gdpo", "maxrl", "pass_at_k"))
    assume(estimator != "none")  # its advantages are 0, whatever the scores
    of_run = settings_of(f"algorithm.advantage.estimator={estimator}", f"algorithm.aepo.enabled={aepo}")
    if ESTIMATORS.fact(estimator, "zero_or_one"):
        drawn = [[score if score is None else float(score > 0.5) for score in group] for group in drawn]
    size = sum(map(len, drawn))
    rng = np.random.default_rng(noise)
    batch = handmade([rng.uniform(0, 3, rng.integers(1, 8)).tolist() for _ in range(size)], drawn)
    batch.batch["values"] = torch.zeros_like(batch.tensor("entropies"))
    batch.non_tensor_batch["baseline"] = np.full(size, 0.5, dtype=object)
    metrics = shape(batch, RunState.initial(of_run, 10), of_run)

    absent = torch.tensor([score is None for group in drawn for score in group])
    for name in ("advantages", "returns", "token_level_scores"):
        assert batch.tensor(name).isfinite().all()
        assert (batch.tensor(name)[absent] == 0).all()
    assert not batch.tensor("response_mask")[absent].any()
    assert [math.isnan(value) for value in column(batch, "reward")] == absent.tolist()
    assert metrics["reward/unscored"] == absent.sum()
    assert not any(map(math.isinf, metrics.values()))


@pytest.mark.parametrize("masked", [True, False])
def test_truncated_rows_are_left_out_where_that_is_configured(masked: bool) -> None:
    bonus = "algorithm.entropy_bonus={coef: 0.1, share: 0.5}"
    batch, metrics, _ = shaped(f"algorithm.overlong.mask_truncated={str(masked).lower()}", bonus)
    truncated = [row for row, length in enumerate(length for group in LENGTHS for length in group) if length == 8]
    assert metrics["response_length/clip_ratio"] == pytest.approx(len(truncated) / 12)
    spreads = []
    for group in range(3):
        kept = [row for row in range(4 * group, 4 * group + 4) if not (masked and row in truncated)]
        rewards = [column(batch, "reward")[row] for row in kept]
        spreads.append(np.std(rewards, ddof=1))
        assert batch.tensor("advantages")[kept, 0].tolist() == pytest.approx(grpo(rewards), abs=1e-4)
    for name in ("response_mask", "advantages", "entropy_coefs"):
        assert batch.tensor(name)[truncated].any() == (not masked)
    assert metrics["reward/std"] == pytest.approx(np.mean(spreads))


@pytest.mark.parametrize(
    ("cap", "kind", "expected"),
    [
        (1.5, "truncated", [1.5, 0.5, 1.25]),
        (None, "truncated", [1.0] * 3),
        (1.5, "masked, importance_floor: 0.4", [0.0, 0.5, 1.25]),
        (1.5, "rejected, importance_level: geometric", [0.0, 0.0, 1.0]),
    ],
)
def test_the_engines_mismatch_is_weighted_or_left_out(cap: float | None, kind: str, expected: list[float]) -> None:
    how = f"algorithm.policy={{importance_cap: {'null' if cap is None else cap}, importance_weights: {kind}}}"
    settings = config(*SMALL, how)
    batch = handmade(entropies(), ACCURACIES)
    mask = batch.tensor("response_mask").bool()
    for row, ratio in enumerate((2.0, 0.5, 1.25)):
        batch.batch["engine_log_probs"][row] = batch.tensor("old_log_probs")[row] - math.log(ratio)
    metrics = shape(batch, RunState.initial(settings, 10), settings)
    weights = batch.tensor("importance_weights")
    assert [weights[row][mask[row]][0].item() for row in range(3)] == pytest.approx(expected)
    assert metrics["mismatch/ratio_max"] == pytest.approx(2.0)
    assert metrics["mismatch/ratio_min"] == pytest.approx(0.5)


@pytest.mark.parametrize("estimator", ["maxrl", "pass_at_k"])
def test_a_reward_that_is_neither_0_nor_1_stops_what_is_for_these(estimator: str) -> None:
    settings = (f"algorithm.advantage.estimator={estimator}", "algorithm.aepo.enabled=false")
    shaped(*settings, accuracies=[[1, 1, None, 0], *ACCURACIES[1:]])
    with pytest.raises(RewardError, match=f"{estimator} is for rewards 0 and 1, but reward.kind=math gave 0.5"):
        shaped(*settings, accuracies=[[1, 1, 0.5, 0], *ACCURACIES[1:]])


def test_gdpo_compares_parts_of_the_reward_and_weighted_scores_of_functions(tmp_path: Path) -> None:
    by_part = (*SMALL, "algorithm.advantage.estimator=gdpo", "algorithm.aepo.enabled=false")
    settings = config(*by_part, "rollout.max_response_length=8", "algorithm.overlong.soft_punish_cache=4",
                      "algorithm.overlong.soft_punish_weight=0.25")  # fmt: skip
    batch = handmade(entropies(), ACCURACIES)
    shape(batch, RunState.initial(settings, 10), settings)
    mask, groups = batch.tensor("response_mask"), column(batch, "uid")
    parts = {"accuracy": column(batch, "accuracy"), "overlong": [4 * each for each in column(batch, "reward_overlong")]}
    expected, _ = gdpo(parts, {"overlong": 0.25}, mask, groups)
    torch.testing.assert_close(batch.tensor("advantages"), expected)

    batch = handmade(entropies(), ACCURACIES)
    scores = {
        "score_brief": [row % 3 for row in range(len(batch))],
        "score_kind": [row % 2 for row in range(len(batch))],
    }
    batch.non_tensor_batch |= {name: np.array(values, dtype=object) for name, values in scores.items()}
    functions = tmp_path / "mine.py"
    functions.write_text("def brief(completions, **columns): ...\ndef kind(completions, **columns): ...\n")
    reward = f"reward={{kind: ['{functions}:brief', '{functions}:kind'], weights: [2, 1], accuracy: 0.5}}"
    weighted = config(*by_part, reward)
    shape(batch, RunState.initial(weighted, 10), weighted)
    parts = {name.removeprefix("score_"): values for name, values in scores.items()}
    expected, _ = gdpo(parts | {"accuracy": column(batch, "accuracy")}, {"brief": 2.0}, mask, groups)
    torch.testing.assert_close(batch.tensor("advantages"), expected)


# ---- metrics and state ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["token_adaptive", "bucket_beta", "fixed"])
def test_every_bucket_has_its_panel_and_every_figure_is_a_finite_number(kind: str) -> None:
    _, metrics, _ = shaped(f"algorithm.kl={{kind: {kind}}}", kl=0.1)
    panel = {"count", "acc", "len", "entropy", "hwe", "target", "alpha", "kl", "kl_coef", "reward"}
    panel |= {"beta", "lambda"} if kind == "token_adaptive" else {"beta"} if kind == "bucket_beta" else set()
    for bucket in ("easy", "medium", "hard"):
        told = {key.rpartition("/")[2] for key in metrics if key.startswith(f"bucket/{bucket}/")}
        assert panel <= told
    assert all(type(value) is float and math.isfinite(value) for value in metrics.values())
    assert json.loads(json.dumps(metrics)) == metrics


def test_the_coefficients_in_the_metrics_are_those_that_the_loss_applies_beta_included() -> None:
    settings = config(*SMALL, "algorithm.kl={kind: bucket_beta, coef: 0.01, relax_hwe: 1}")
    state = RunState.initial(settings, 10)
    assert state.beta is not None
    stored = state.beta.state_dict() | {"betas": {"easy": 7.0, "medium": 1.0, "hard": 0.5}}
    state.beta.load_state_dict(stored)
    batch, metrics, _ = shaped("algorithm.kl={kind: bucket_beta, coef: 0.01, relax_hwe: 1}", kl=0.1, state=state)
    for bucket, beta in stored["betas"].items():
        assert metrics[f"bucket/{bucket}/kl_coef"] == pytest.approx(0.01 * beta)
    betas = [stored["betas"][name] for name in column(batch, "difficulty")]
    assert metrics["critic/kl_coef"] == pytest.approx(0.01 * np.mean(betas))


def test_lengths_and_shares_in_the_metrics_are_those_of_the_rows() -> None:
    batch, metrics, _ = shaped()
    lengths = [length for group in LENGTHS for length in group]
    assert metrics["response_length/mean"] == pytest.approx(np.mean(lengths))
    assert (metrics["response_length/min"], metrics["response_length/max"]) == (2, 8)
    assert (metrics["prompt_length/min"], metrics["prompt_length/max"]) == (3, 7)
    assert metrics["bucket/hard/len"] == pytest.approx(np.mean(LENGTHS[2]))
    assert metrics["entropy/mean"] == pytest.approx(np.mean(np.concatenate(entropies())), abs=1e-5)
    assert metrics["entropy/hwe_fraction"] == pytest.approx(HWE.sum() / sum(lengths))
    assert metrics["critic/score/mean"] == pytest.approx(np.mean(column(batch, "reward")), abs=1e-6)


def test_a_bucket_without_a_scored_sample_has_no_reward_instead_of_one_of_zero() -> None:
    state = RunState.initial(config(*SMALL), 10)
    state.difficulty.difficulty_dict_train["p2"] = "hard"  # known from the bootstrap; nothing of it is scored now
    state.difficulty.target_high_entropy_token_num_dict["hard"] = 2
    _, metrics, _ = shaped(accuracies=[[1, 1, 1, 0], [1, 0, 1, 0], [None] * 4], state=state)
    assert "bucket/hard/len" in metrics
    assert {name for name in metrics if name.endswith("/reward")} == {"bucket/easy/reward", "bucket/medium/reward"}
