"""What a graded response is worth before shaping: accuracy, or its program's reward by the profile's design."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from algorithms.groups import SECOND_TURN_SLOT
from ares.config import Config, ConfigError
from ares.step.metrics import code_metrics, count_solved, ending_shares, function_metrics
from ares.step.rewards import observe_tests, reward_parts, rewarded, running_pass_rates, total_reward
from ares.step.rows import GREEDY
from rewards.pass_rates import RunningPassRates
from tests.ares.builders import config

ENDINGS = {
    "accepted": ["accepted"] * 5,
    "wrong_answer": ["accepted", "accepted", "accepted", "wrong_answer", "wrong_answer"],  # p = .6
    "runtime_error": ["accepted", "accepted", "accepted", "accepted", "runtime_error"],
    "syntax_error": ["syntax_error"] * 5,
    "internal_error": ["internal_error"] * 5,
}


def judged(*endings: str, cut: tuple[int, ...] = ()) -> pd.DataFrame:
    """One row per ending, two rows per group; rows numbered in `cut` reached the length limit."""
    table: list[dict[str, Any]] = []
    for row, ending in enumerate(endings):
        outcomes = ENDINGS[ending]
        ratio = None if ending == "internal_error" else outcomes.count("accepted") / len(outcomes)
        table.append(
            {
                "id": f"p{row // 2}", "slot": row // 2, "sample": row % 2, "error_type": ending, "pass_ratio": ratio,
                "accuracy": None if ratio is None else float(ratio == 1.0), "test_outcomes": outcomes,
                "truncated": row in cut, "tokens": 10 + row, "format": 1.0 if ending != "syntax_error" else 0.5,
            }
        )  # fmt: skip
    return pd.DataFrame(table).astype({"accuracy": "Float64", "pass_ratio": "Float64"})


def code(*overrides: str) -> Config:
    return config("reward.kind=code", "algorithm.overlong.mask_truncated=true", *overrides)


def parts_of(rows: pd.DataFrame, settings: Config, rates: RunningPassRates | None = None) -> dict[str, np.ndarray]:
    return reward_parts({str(name): column for name, column in rewarded(rows, settings, rates).items()})


def worth(rows: pd.DataFrame, settings: Config) -> list[float]:
    return total_reward(rewarded(rows, settings, running_pass_rates(settings))).round(6).tolist()


@pytest.mark.parametrize(
    ("design", "expected"),
    [
        ("sparse", [1, 0, 0, 0]),
        ("dense_linear", [1, 0.48, -0.6, -1]),
        ("outcome_anchor", [1, 0.3, -0.6, -1]),
        ("pass_ratio", [1, 0.6, 0.8, 0]),
    ],
)
def test_the_design_decides_what_a_verdict_is_worth(design: str, expected: list[float]) -> None:
    rows = judged("accepted", "wrong_answer", "runtime_error", "syntax_error")
    assert worth(rows, code(f"reward.code.design={design}")) == expected


def test_truncated_and_unscored_programs_have_no_reward_unless_the_profile_lets_them_count() -> None:
    rows = judged("accepted", "wrong_answer", "internal_error", "accepted", cut=(1, 3))
    assert np.isnan(worth(rows, code())).tolist() == [False, True, True, True]
    for setting in ("algorithm.overlong.include_truncated_in_baseline=true", "algorithm.overlong.mask_truncated=false"):
        assert np.isnan(worth(rows, code(setting))).tolist() == [False, False, True, False]


def test_format_weight_and_efficiency_are_parts_of_their_own() -> None:
    rows = judged("accepted", "syntax_error")
    parts = parts_of(rows, code("reward.code.weight=2", "reward.code.format_weight=0.5"))
    assert {name: values.tolist() for name, values in parts.items()} == {
        "code": [2.0, -2.0],
        "format_score": [0.5, 0.25],
    }
    late = code("reward.code.efficiency=0.2", "rollout.max_response_length=20")
    assert parts_of(rows, late)["efficiency"].round(6).tolist() == [-0.1, 0.0]  # 10 of 20 tokens


def test_a_test_that_rarely_passes_weighs_more_once_it_was_seen_to() -> None:
    settings = code("reward.code.design=dense_weighted", "reward.code.test_alpha=2")
    rates = running_pass_rates(settings)
    rows = judged("wrong_answer", "accepted")
    assert parts_of(rows, settings, rates)["code"][0] == pytest.approx(0.48)  # never seen: all tests alike
    observe_tests(rates, rows)
    after = parts_of(rows, settings, rates)["code"]
    assert after[0] < 0.48
    assert after[1] == 1.0


def test_verpo_takes_its_weights_from_the_group_and_needs_its_settings() -> None:
    named = {"alpha": 1.0, "sigma": 0.1, "delta": 0.1, "gamma": 1.0, "beta": 0.5}
    settings = code("reward.code.design=verpo", f"reward.code.verpo={named}")
    full, part = total_reward(rewarded(judged("accepted", "wrong_answer"), settings, None))
    assert full > 1.0 > part > 0.0
    greedy = judged("accepted", "wrong_answer", "wrong_answer").assign(slot=0, sample=[0, 1, GREEDY])
    compared = rewarded(greedy, settings, None)
    assert total_reward(compared).tolist() == [full, part]  # a greedy answer changes no weights, and has the samples'
    assert compared["baseline"].tolist() == [part] * 2
    with pytest.raises(ConfigError, match="verpo"):
        code("reward.code.design=verpo")
    with pytest.raises(ConfigError, match="efficiency"):
        code("reward.code.design=outcome_anchor", "reward.code.efficiency=0.25")


# ---- figures -------------------------------------------------------------------------------------------------------


def test_the_endings_of_a_step_add_up_and_a_cut_off_program_counts_as_truncated() -> None:
    rows = judged("accepted", "wrong_answer", "runtime_error", "syntax_error", cut=(0, 2))
    shares = ending_shares(rows)
    assert sum(shares.values()) == 1.0
    assert {name for name, share in shares.items() if share} == {
        "error/accepted", "error/wrong_answer", "error/truncated", "error/syntax_error",
    }  # fmt: skip


def test_cost_counts_every_token_and_second_over_the_problems_that_were_solved() -> None:
    rows = judged("accepted", "wrong_answer", "runtime_error", "internal_error", "accepted", "accepted")
    metrics = code_metrics(rows, kept_slots=[0])
    assert metrics["code/pass_at_1"] == 3 / 5
    assert metrics["code/cost/tokens_per_solved"] == (10 + 11 + 12 + 14 + 15) / 2
    assert metrics["bucket/medium/code/kept_share"] == 1.0
    assert metrics["bucket/easy/code/kept_share"] == 0.0
    assert "bucket/hard/code/cost/tokens_per_solved" not in metrics  # nothing was solved there
    assert (count_solved(rows), count_solved(judged("wrong_answer"))) == (2, 0)
    # Both turns count, and a problem that both solve once.
    rows = judged("accepted", "accepted", "wrong_answer", "accepted")
    rows["slot"] = [0, SECOND_TURN_SLOT, 1, SECOND_TURN_SLOT + 1]
    assert count_solved(rows) == 2
    metrics = code_metrics(rows, kept_slots=[0])
    assert metrics["code/cost/tokens_per_solved"] == (10 + 11 + 12 + 13) / 2
    assert metrics["bucket/hard/code/cost/tokens_per_solved"] == 12 + 13
    assert metrics["code/pass_at_1"] == 0.5  # the rest is of first turns


def test_numbers_beside_a_score_are_averaged_where_they_are_finite() -> None:
    """One NaN among them made the mean NaN; an integer beyond floats, as of a parsed answer, ended the run."""
    parts = '"acc": 1, "kl": NaN, "why": "x", "answer": -1' + "0" * 400
    extras = [f'{{"f": {{{parts}}}}}', '{"f": {"acc": false, "kl": Infinity}}', None]
    rows = pd.DataFrame({"score_f": [1.0, 0.0, None], "extras": extras})
    assert function_metrics(rows) == {"rewards/f/mean": 0.5, "rewards/f/std": 0.5**0.5, "rewards/f/acc/mean": 0.5}
