"""Two evaluations side by side: paired differences, who solves which, and refusals that name what differs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ares.config import ConfigError, override
from ares.evaluation.comparison import ComparedEvaluation, compared, measured
from ares.evaluation.estimates import summarise
from ares.evaluation.evaluation import Evaluation
from ares.evaluation.paired import p_of_draws
from flows.cli.evaluate import _show_comparison
from tests.ares.builders import MODEL, config
from tests.ares.evaluation.test_evaluation import ids_of, opened, samples

CORRECT = [4, 0, 2, 1]


def summarised(evaluation: Evaluation, correct: list[int]) -> tuple[dict[str, Any], pd.DataFrame]:
    """As if of four samples to each problem so many were right."""
    accuracies: Any = [[float(sample < right) for sample in range(4)] for right in correct]
    return summarise(evaluation, samples(ids_of(evaluation), accuracies))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of an evaluation that has finished, of CORRECT."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ARES_RUNS", str(tmp_path_factory.mktemp("finished")))
        evaluation = opened(n=4)
    summary, problems = summarised(evaluation, CORRECT)
    evaluation.run.store.write_rows("problems.parquet", problems)
    evaluation.run.store.write_json("summary.json", summary)
    return str(evaluation.run.store.directory)


def against(finished: str, correct: list[int]) -> dict[str, Any]:
    summary, problems = summarised(opened(n=4, compare=finished), correct)
    return compared(problems, list(summary["estimates"]), 4, ComparedEvaluation.read(finished))


def test_differences_are_paired_over_problems_whatever_their_order(finished: str, tmp_path: Path) -> None:
    comparison = against(finished, [4, 1, 2, 0])
    measure = comparison["measures"]["pass@1"]
    assert (measure["this"], measure["other"], measure["problems"]) == (7 / 16, 7 / 16, 4)
    assert (measure["difference"], measure["p"]) == (0.0, 1.0)
    assert measure["high"] == pytest.approx(3.182446 * np.std([0, 0.25, 0, -0.25], ddof=1) / 2, abs=1e-6)
    assert comparison["measures"].keys() >= {"pass@1", "pass@4"}
    assert comparison["solved"] == {
        "by": "at least one of 4 samples", "both": 2, "only_this": 1, "only_other": 1, "neither": 0,
    }  # fmt: skip
    summary, problems = summarised(opened(n=4), [4, 1, 2, 0])
    reversed_order = replace(other := ComparedEvaluation.read(finished), problems=other.problems.iloc[::-1])
    assert compared(problems, list(summary["estimates"]), 4, reversed_order) == comparison
    for measure in against(finished, CORRECT)["measures"].values():  # a policy against itself
        assert (measure["difference"], measure["low"], measure["high"], measure["p"]) == (0, 0, 0, 1)


def test_a_folder_that_holds_no_finished_evaluation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"--compare {tmp_path}: no folder of a finished evaluation"):
        ComparedEvaluation.read(str(tmp_path))
    with pytest.raises(ConfigError, match="no folder of a finished evaluation"):
        ComparedEvaluation.read(str(opened().run.store.directory))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"n": 2}, "samples: 4 → 2"),
        ({"temperature": 0.5}, "temperature: 1.0 → 0.5"),
        ({"greedy": True}, "samples: 4 → 1\n  temperature: 1.0 → 0.0"),
        ({"max_problems": 3}, "problems: 4 → 3\n"),
        ({"overrides": ["rollout.max_response_length=9"]}, "rollout.max_response_length: 72 → 9"),
        ({"overrides": ["data.system_prompt=Think.", "data.max_prompt_length=99"]}, "system_prompt: None → Think."),
        ({"overrides": ["reward.timeout=9"]}, "reward.timeout: 5.0 → 9.0"),
        ({"overrides": ["data.format_prompt={prompt}?"]}, "data.format_prompt: None → {prompt}?"),
        ({"data": str(MODEL / "train.jsonl")}, "problems: 4 → 4\n"),
    ],
)
def test_what_was_measured_otherwise_is_refused_at_once(settings: dict[str, Any], told: str, finished: str) -> None:
    with pytest.raises(ConfigError) as caught:
        opened(**{"n": 4, "compare": finished} | settings)
    assert told in str(caught.value)
    assert "Evaluate both in the same way" in str(caught.value)


def test_another_environment_or_content_of_a_reward_file_is_another_measure(tmp_path: Path) -> None:
    """Both were paired as if nothing had changed, and reward.accuracy=0 passed for none."""
    problems = opened(n=4).run.train_set
    (tmp_path / "mine.py").write_text("def score(completions, **columns): return [1.0] * len(completions)")
    before = config(
        f"reward.kind={tmp_path}/mine.py:score", "environment={kind: tools, tools: [calculator], max_turns: 8}"
    )
    was = measured(before, problems, {"samples": 4, "reward.kind mine.py": "1f"})

    def differs(*settings: str, **description: str) -> str:
        now = measured(
            override(before, list(settings)), problems, {"samples": 4, "reward.kind mine.py": "1f"} | description
        )
        with pytest.raises(ConfigError) as caught:
            ComparedEvaluation(tmp_path, {"measured": was}, problems.frame).check(problems.frame, now)
        return str(caught.value)

    assert "environment.max_turns: 8 → 1" in differs("environment.max_turns=1")
    assert "reward.kind mine.py: 1f → 2e" in differs(**{"reward.kind mine.py": "2e"})
    assert "reward.accuracy: None → 0.0" in differs("reward.accuracy=0.0")


def test_problems_are_the_same_in_any_order_and_others_under_one_anothers_ids(finished: str) -> None:
    """Rows of another order were refused, and the same rows with shifted ids were paired with one another."""
    batches = ["rollout.shard_prompts=3"]  # which may differ, as may k
    frame = opened(n=4, compare=finished, overrides=batches, k=[2]).run.train_set.frame
    how = json.loads((Path(finished) / "summary.json").read_text())["measured"]
    other = ComparedEvaluation.read(finished)
    other.check(frame.iloc[::-1], how)
    with pytest.raises(ConfigError, match="prompts and tests: "):
        other.check(frame.assign(id=[*frame["id"][1:], frame["id"].iloc[0]]), how)


def test_where_all_problems_differ_alike_there_is_no_interval(capsys: pytest.CaptureFixture[str]) -> None:
    """Three problems that one policy solves and the other does not showed an interval without width."""
    right = pd.DataFrame({"id": ["a", "b", "c"], "samples": 1, "correct": 1, "pass@1": 1.0})
    other = ComparedEvaluation(Path("x"), {"target": "model", "step": None}, right.assign(correct=0, **{"pass@1": 0.0}))
    comparison = compared(right, ["pass@1"], 1, other)
    assert comparison["measures"]["pass@1"] == {
        "problems": 3, "this": 1.0, "other": 0.0, "difference": 1.0, "low": None, "high": None, "p": None,
    }  # fmt: skip
    _show_comparison(comparison)
    assert "none: all are equal" in capsys.readouterr().out


def test_the_p_of_a_bootstrap_is_twice_the_smaller_share_of_draws() -> None:
    assert p_of_draws(np.zeros(10)) == 1.0
    assert p_of_draws(np.ones(99)) == pytest.approx(2 / 100)
    assert p_of_draws(np.full(99, 0.1 + 0.2 - 0.3)) == 1.0  # nothing but rounding
