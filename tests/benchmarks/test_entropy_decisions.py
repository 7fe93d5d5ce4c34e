"""The study of window entropies: its areas, its estimators, and what it draws."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from algorithms.entropy import ThresholdTracker, entropy_percentile_thresholds, hwe_count, hwe_mask
from benchmarks.auroc import auroc, aurocs
from benchmarks.entropy_decisions import (
    CHECKOUT,
    MODEL,
    Branches,
    Sampler,
    drawn_branches,
    hwe_by_checks,
    problems,
    results,
    token_table,
    truths,
    variance_of_success,
)


def test_an_area_counts_the_pairs_in_order_and_half_of_the_equal_ones() -> None:
    truth = np.array([False, True, False, True])
    assert auroc(np.array([1.0, 2.0, 3.0, 4.0]), truth) == 0.75
    assert auroc(np.array([1.0, 1.0, 1.0, 1.0]), truth) == 0.5
    assert auroc(np.array([1.0, 3.0, 3.0, 4.0]), truth) == 0.875
    assert auroc(np.array([4.0, 1.0, 3.0, 2.0]), truth) == 0.0
    with pytest.raises(ValueError, match="NaN"):
        auroc(np.array([1.0, np.nan, 3.0, 4.0]), truth)


def test_a_weight_is_how_often_a_token_counts() -> None:
    rng = np.random.default_rng(0)
    score, truth, weights = rng.integers(0, 5, 40).astype(float), rng.random(40) < 0.4, rng.integers(0, 3, (6, 40))
    found = auroc(score, truth, weights)
    for counts, value in zip(weights, found, strict=True):
        assert value == pytest.approx(float(auroc(np.repeat(score, counts), np.repeat(truth, counts))), abs=1e-12)


def test_an_interval_is_over_responses_not_over_tokens() -> None:
    rng = np.random.default_rng(1)
    response = np.repeat(np.arange(30), 4)
    truth = rng.random(120) < 0.5
    score = {"one": truth + rng.normal(0, 1, 120), "other": rng.normal(0, 1, 120)}
    once = aurocs(score, truth, response, ("a key",))
    # Each token four times over, in the same responses: nothing more is known.
    often = aurocs({name: np.tile(of, 4) for name, of in score.items()}, np.tile(truth, 4), np.tile(response, 4),
                   ("a key",))  # fmt: skip
    for name, area in once.items():
        assert vars(often[name]) == pytest.approx(vars(area), abs=1e-12)
        assert area.low < area.value < area.high
    assert once["one"].behind == once["one"].behind_low == 0
    assert once["other"].behind == pytest.approx(once["one"].value - once["other"].value)
    with pytest.raises(ValueError, match="both"):
        aurocs(score, np.full(120, True), response, ("a key",))


@pytest.mark.parametrize("chance", [0.0, 0.1, 0.5, 0.83, 1.0])
def test_the_variance_of_success_is_without_bias(chance: float) -> None:
    successes, count = np.arange(33), np.full(33, 32)
    expected = (stats.binom.pmf(successes, 32, chance) * variance_of_success(successes, count)).sum()
    assert expected == pytest.approx(chance * (1 - chance), abs=1e-12)


def table_of(successes: list[int], entropies: list[float], problem: str = "one") -> pd.DataFrame:
    """Of one response and 32 continuations."""
    return token_table(
        [Branches(problem, 1, list("abcdefghijkl")[: len(entropies)], entropies, successes, 32, 0, "a model", True)]
    )


def test_a_line_holds_the_window_after_the_token_and_the_successes_around_it() -> None:
    table = table_of([16, 16, 32, 32], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert table["window_entropy"].tolist() == [2.5, 3.5, 4.5]
    assert table["entropy"].tolist() == [0.0, 1.0, 2.0]
    assert table["before"].tolist() == [16, 16, 32]
    assert table["after"].tolist() == [16, 32, 32]
    assert truths(table)["decision"].tolist() == [True, False, False]
    assert truths(table)["turn"].tolist() == [False, True, False]


def test_known_areas_of_a_small_table() -> None:
    # Open after the first two tokens of each response, decided after the third, whose windows hold least entropy.
    successes, entropies = [16, 16, 16, 32], [0.0, 2.0, 2.0, 2.0, 2.0, 0.0, 0.0]
    table = pd.concat([table_of(successes, entropies, name) for name in "abc"], ignore_index=True)
    found = results(table)["decision", "all"]
    assert found["window_entropy"].value == found["window_entropy"].low == 1.0  # 2, 1.5, 1
    assert found["entropy"].value == 0.25  # 0 and 2 against 2
    assert found["earliness"].value == 1.0
    assert found["entropy"].behind == 0.75


@pytest.fixture(scope="module")
def sampler() -> Sampler:
    return Sampler(MODEL, 0)


def test_continuations_keep_what_they_continue_and_draw_by_key(sampler: Sampler) -> None:
    row = problems(MODEL, 4)[1]
    prompt = sampler.tokenizer(row["prompt"])["input_ids"]
    ((*response, _),) = sampler.drawn(prompt, [[]], 1, "a problem")
    kept = [response[:2], response[:6]]
    found = sampler.drawn(prompt, kept, 3, "a problem")
    assert found == sampler.drawn(prompt, kept, 3, "a problem")
    assert [tokens[:2] for tokens in found[:3]] + [tokens[:6] for tokens in found[3:]] == [kept[0]] * 3 + [kept[1]] * 3
    assert found != sampler.drawn(prompt, kept, 3, "another")


def test_from_the_end_of_a_right_response_every_continuation_succeeds(sampler: Sampler) -> None:
    row = problems(MODEL, 4)[0]
    found = sampler.branches(row, 4)
    assert len(found.successes) == len(found.tokens) - 3  # none kept … all but the window's
    assert len(found.entropies) == len(found.tokens)
    assert "".join(found.tokens).startswith("<think>")
    boxed = sampler.tokenizer(f"<think> try {row['answer']} </think> \\boxed{{{row['answer']}}}")["input_ids"]
    assert sampler.right([boxed, boxed[:-2]], row["answer"]).tolist() == [True, False]


class Fresh(Sampler):
    """In place of the model: what it draws are no tokens."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed

    def branches(self, row: dict[str, str], continuations: int) -> Branches:
        return Branches(row["id"], 1, [], [], [], continuations, self.seed, "drawn", True)


@pytest.mark.slow
def test_what_was_drawn_before_it_was_stopped_is_kept(tmp_path: Path) -> None:
    whole = drawn_branches(tmp_path / "whole.jsonl", MODEL, 4, 2, 0)
    lines = (tmp_path / "whole.jsonl").read_text().splitlines(keepends=True)
    marked = json.loads(lines[0]) | {"successes": [2] * len(whole[0].successes)}
    (tmp_path / "cut.jsonl").write_text(json.dumps(marked) + "\n" + lines[1] + lines[2][:40])
    resumed = drawn_branches(tmp_path / "cut.jsonl", MODEL, 4, 2, 0)
    assert resumed == drawn_branches(tmp_path / "cut.jsonl", MODEL, 4, 2, 0)
    assert resumed[0].successes == marked["successes"]
    assert resumed[1:] == whole[1:]
    assert drawn_branches(tmp_path / "cut.jsonl", MODEL, 4, 2, seed=1)[0].tokens != whole[0].tokens


def test_rows_of_another_checkout_are_kept_and_those_of_another_model_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were known by the model's whole path: nothing was found again when the checkout had moved."""
    monkeypatch.setattr("benchmarks.entropy_decisions.Sampler", Fresh)
    rows, (problem,) = tmp_path / "rows.jsonl", problems(MODEL, 4)[:1]
    below = MODEL.relative_to(CHECKOUT)
    for name, is_kept in (
        (str(MODEL), True), (f"/elsewhere/{below}", True), (str(below), True), ("/elsewhere/reason", False),
        (f"/elsewhere/{below}/other", False),
    ):  # fmt: skip
        kept = Branches(problem["id"], 1, [], [], [7], 2, 0, name, True)
        rows.write_text(json.dumps(asdict(kept)) + "\n")
        assert (drawn_branches(rows, MODEL, 4, 2, 0)[0] == kept) == is_kept, name


def test_hwe_tokens_are_counted_as_a_run_counts_them() -> None:
    rng = np.random.default_rng(2)
    entropies = [rng.exponential(0.3, length).round(6) for length in (12, 20, 33)]
    responses = [
        Branches(
            f"problem {number}",
            1,
            [" check"] * 2 + ["7"] * (len(of) - 2),
            of.tolist(),
            [0] * (len(of) - 3),
            32,
            0,
            "",
            True,
        )
        for number, of in enumerate(entropies)
    ]
    width = max(map(len, entropies))
    entropy = torch.tensor([[*of, *[0.0] * (width - len(of))] for of in entropies])
    mask = torch.tensor([[1] * len(of) + [0] * (width - len(of)) for of in entropies])
    threshold = ThresholdTracker().update(entropy_percentile_thresholds(entropy, mask, 4, 80.0))
    found, counts = hwe_by_checks(token_table(responses), 80)
    assert found == pytest.approx(threshold, abs=1e-5)
    assert counts["hwe"].tolist() == hwe_count(hwe_mask(entropy, mask, threshold - 1e-5)).tolist()
    assert counts["checks"].tolist() == [2, 2, 2]
