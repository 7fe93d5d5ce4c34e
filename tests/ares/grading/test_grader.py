"""What all graders share: a first call before the run is created, and how many samples may lack a score."""

import contextlib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ares.config import ConfigError
from ares.grading import RewardError, check_scored, try_on
from ares.grading.graders import load_grader
from ares.runs.run import Run
from tests.ares.builders import config

GRADER = """
from ares.grading import ID_COLUMNS, Grader
class f(Grader):
    def __init__(self, settings): pass
    def grade(self, rows):
        return rows[ID_COLUMNS].assign({columns})
"""


def opened(folder: Path, text: str, *settings: str) -> Run:
    (folder / "own.py").write_text(text)
    small = ["data.limit=4", f"reward.kind={folder / 'own.py'}:f"]
    run = Run.open(config(*small, *settings), "here", folder / "runs")
    run.close()
    return run


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def f(completions, **k): return [len(c.split()[0]) for c in completions]", r"own\.py:1 in .*: IndexError"),
        ("import os\ndef f(completions, **k): os._exit(3)", r"own\.py:f: .*its process died"),
        (GRADER.format(columns="accuracy=5.0, format=1.0"), r"2 rows .* in \[0, 1\] .*column `score`"),
        (GRADER.format(columns="accuracy=1.0"), r"2 rows with id, slot, sample, accuracy for 2 .* a format"),
        (GRADER.format(columns="accuracy=1.0, format=1.0, slot=7"), r"2 rows .* slot and sample as given"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_before_the_run_is_created(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(
        RewardError, match=rf"(?s)^First call, with 2 responses to problems of .*train\.jsonl: .*{told}"
    ):
        opened(tmp_path, text)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("def f(completions, **k): return [-1.0, 5.0]", ["reward.accuracy=0.5"]),
        ("def f(completions, **k): return [None, None]", []),
        ("import time\ndef f(solution_str, **k): time.sleep(0.3); return 1.0", ["reward.timeout=0.1"]),  # 1st call
        (GRADER.format(columns="accuracy=1.0, format=1.0, score=-5.0"), []),
    ],
)  # fmt: skip
def test_what_can_be_trained_with_is_not_refused(text: str, settings: list[str], tmp_path: Path) -> None:
    assert opened(tmp_path, text, *settings).store.exists()


def test_one_of_the_responses_is_right_the_other_empty_and_both_sets_are_tried(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    text = (
        "def f(prompts, completions, completion_ids, answer, trainer_state, **k):\n"
        f"    print(completions, completion_ids, answer, trainer_state.global_step, file=open({str(seen)!r}, 'a'))\n"
        "    return [1.0, 0.0]\n"
    )
    run = opened(tmp_path, text)
    lines = seen.read_text().splitlines()
    for problems, line in zip((run.train_set, run.validation_set), lines, strict=True):
        first, second = problems.frame["answer"][:2]
        assert f"\\\\boxed{{{first}}}" in line
        assert line.endswith(f", []] ['{first}', '{second}'] 0")
        assert ", '']" in line
    opened(tmp_path, text)  # no step was committed, so the reward is tried again
    assert len(seen.read_text().splitlines()) == 4
    grader = load_grader(run.config.reward)
    with contextlib.closing(grader):
        try_on(grader, run.train_set.first(1), run.tokenizer)  # of a set of one problem, that one is asked twice


@pytest.mark.parametrize(("settings", "is_said"), [([], True), (["reward.accuracy=1"], False)])
def test_that_scores_count_as_accuracies_is_said_before_anything_is_sampled(
    settings: list[str], is_said: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    opened(tmp_path, "def f(completions, **k): return [1.0, 0.0]", *settings)
    said = "so that one outside [0, 1] ends the run; those of the first call are within it"
    assert (said in caplog.text) == is_said


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["reward.kind=[{own}:f, {own}:g]"], "reward.accuracy: a sum need not be in .*: name one of f, g"),
        (["reward.kind=[{own}:f, code]", "reward.accuracy=0.5"], "kind: code stands alone"),
        (["reward.kind=[{own}:f, {own}:G]", "reward.accuracy=0.5"], r"kind: .*own.py:G stands alone"),
        (["reward.kind=[{own}:f, {own}:f]", "reward.accuracy=0.5"], "have the same name"),
        (["reward.kind=[]"], "reward.kind: name a grader, or functions"),
        (["reward.kind=[{own}:f, mth]", "reward.accuracy=0.5"], "'mth' is not a grader .did you mean math"),
        (["reward.kind={own}:f", "reward.weights=[1, 2]"], "weights: 2 values for the 1 of kind"),
        (["reward.kind={own}:f", "reward.weights=[.inf]"], "reward.weights"),
        (["reward.kind={own}:f", "reward.timeout=[1, 2]"], "timeout: 2 values for the 1 of kind"),
        (["reward.kind={own}:f", "reward.timeout=[0]"], "reward.timeout"),
        (["reward.accuracy=0.5"], "weights and accuracy are for functions of yours; math itself says"),
        (["reward.kind=code", "reward.weights=[2]"], "accuracy are for functions of yours; code itself says"),
        (["reward.kind={own}:f", "reward.accuracy={own}:G"], "accuracy: .*own.py:G is not a function"),
        (["reward.kind={own}:f", "reward.accuracy={own}:h"], "has no 'h'"),
    ],
)
def test_settings_that_do_not_fit_are_told_by_name(settings: list[str], told: str, tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(
        "def f(completions, **k): pass\ndef g(completions, **k): pass\n"
        "from ares.grading import Grader\nclass G(Grader):\n    def grade(self, rows): pass\n"
    )
    given: list[Any] = [each.replace("{own}", str(own)) for each in settings]
    with pytest.raises(ConfigError, match=told):
        config(*given)


# ---- samples without a score ----------------------------------------------------------------------------------------


def rows(*accuracies: list[float | None]) -> pd.DataFrame:
    """One problem per list."""
    names = [str(place) for place, each in enumerate(accuracies) for _ in each]
    return pd.DataFrame(
        {"id": names, "accuracy": pd.array([value for each in accuracies for value in each], dtype="Float64")}
    )


def stops(scores: pd.DataFrame, limit: float = 0.2) -> bool:
    try:
        check_scored(scores, limit, "step 3")
    except RewardError:
        return True
    return False


def test_one_problem_that_cannot_be_graded_never_stops_a_run_and_a_grader_that_is_down_does() -> None:
    assert not stops(rows([None] * 4, [1, 0, 1, 0]))
    assert not stops(rows([None] * 4, [None, 0, 0, 0], *[[1, 0, 1, 0]] * 20))
    assert stops(rows([None] * 4))
    assert stops(rows([None] * 4, [None] * 4))
    assert stops(rows([None] * 4, [None, 0, 0, 0]))
    assert not stops(rows([None] * 4, [None, 0, 0, 0]), limit=5 / 8)
    assert not stops(rows())
    with pytest.raises(RewardError, match=r"step 3: 5 of 8 responses, of 2 problems, .*reward\.max_unscored=0\.2"):
        check_scored(rows([None] * 4, [None, 0, 0, 0]), 0.2, "step 3")
