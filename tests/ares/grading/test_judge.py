"""reward.kind=judge, before a server on loopback that speaks OpenAI's protocol and counts what it is asked."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ares.config import ConfigError, JudgeConfig, RewardConfig, load
from ares.grading import RewardError, load_grader
from ares.grading.judge import REPLIES, JudgeScorer
from tests.ares.grading.stand_in import StandIn

pytest.importorskip("openai", reason="pip install 'ares[judge]'")
ROWS = pd.DataFrame({"id": ["a", "a", "b"], "slot": [0, 0, 1], "sample": [0, 1, 0], "prompt": ["1+1", "1+1", "2+2"],
                     "response": ["it is 2", "it is 3 {answer}", "four"], "answer": ["2", "2", "4"]})  # fmt: skip
TEMPLATE = "Q {prompt} R {response} A {answer}"


class Judge(StandIn):
    """Gives the mark 10 if the answer stands in the response, else 2; `says` changes that."""

    def __init__(self) -> None:
        super().__init__()
        self.says: dict[int, str] = {}
        """By the seed of the request, which is the number of the vote."""

    def reply(self, request: dict[str, Any]) -> dict[str, Any]:
        question = request["messages"][0]["content"]
        response, _, answer = question.partition(" R ")[2].rpartition(" A ")
        said = self.says.get(request["seed"], f"Let me see. Score: {10 if answer in response else 2}")
        message = {"role": "assistant", "content": said}
        return {"id": "x", "object": "chat.completion", "created": 0, "model": "m",
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}  # fmt: skip


@pytest.fixture
def judge() -> Iterator[Judge]:
    with Judge().serving() as server:
        yield server


def asking(judge: Judge, replies: Path, **settings: Any) -> JudgeScorer:
    config = JudgeConfig(url=judge.url, model="m", **{"template": TEMPLATE, **settings})
    return JudgeScorer(config, replies / REPLIES)


def test_marks_become_scores_between_the_ends_of_the_scale(judge: Judge, tmp_path: Path) -> None:
    said = asking(judge, tmp_path)(ROWS)
    assert [each.score for each in said] == [1.0, 0.2, 0.2]
    assert said[0].extras == {"marks": [10.0], "reply": "Let me see. Score: 10"}
    assert sorted(each["messages"][0]["content"] for each in judge.asked)[1] == "Q 1+1 R it is 3 {answer} A 2"


@pytest.mark.parametrize(
    ("says", "score"),
    [
        ("", None),
        ("Very good!", None),
        ("Score: 11", None),  # off the scale
        ("Score: -3", None),
        ("Score: 1. No: Score: 9.5", 0.95),
        ("**Score:** 7/10", 0.7),
    ],
)
def test_the_last_mark_counts(judge: Judge, tmp_path: Path, says: str, score: float | None) -> None:
    judge.says = {0: says}
    said = asking(judge, tmp_path)(ROWS[:1])
    assert (said[0].score, said[0].failed) == (score and pytest.approx(score), score is None)


def test_a_reply_without_a_mark_is_asked_for_again_and_a_refusal_is_no_score(judge: Judge, tmp_path: Path) -> None:
    judge.says = {0: "Very good!"}
    assert asking(judge, tmp_path)(ROWS[:1])[0].failed
    judge.says = {}
    assert asking(judge, tmp_path)(ROWS[:1])[0].score == 1.0
    judge.status = 400
    assert [each.failed for each in asking(judge, tmp_path)(ROWS)] == [False, True, True]


def test_votes_are_averaged_and_those_without_a_mark_left_out(judge: Judge, tmp_path: Path) -> None:
    judge.says = {0: "Score: 4", 1: "hm", 2: "Score: 8"}
    (said,) = asking(judge, tmp_path, votes=3, temperature=1.0)(ROWS[:1])
    assert said.score == pytest.approx(0.6)
    assert said.extras["marks"] == [4.0, 8.0]


def test_a_question_is_paid_for_once_whoever_asks_it(judge: Judge, tmp_path: Path) -> None:
    first = [each.score for each in asking(judge, tmp_path)(ROWS)]
    judge.status = 500  # would be noticed
    assert [each.score for each in asking(judge, tmp_path)(ROWS)] == first
    assert len(judge.asked) == 3


def test_a_judge_that_is_away_is_asked_again_later_and_one_that_refuses_is_not(judge: Judge, tmp_path: Path) -> None:
    judge.status = 404
    with pytest.raises(RewardError, match=r"m at http://127.*no such model") as refused:
        asking(judge, tmp_path)(ROWS)
    away = JudgeScorer(JudgeConfig(url="http://127.0.0.1:9/v1", model="m"), tmp_path / REPLIES)
    with pytest.raises(RewardError, match=r"m at http://127.0.0.1:9/v1: .*refused") as absent:
        away(ROWS[:1])
    assert (refused.value.may_pass, absent.value.may_pass) == (False, True)


def test_the_first_call_must_give_a_mark_and_requests_can_be_bounded(judge: Judge, tmp_path: Path) -> None:
    judge.says = {0: "I like it"}
    with pytest.raises(RewardError, match=r"no mark by reward\.judge\.mark=.* in 'I like it'"):
        asking(judge, tmp_path)(ROWS, first=True)
    with pytest.raises(RewardError, match=r"most_requests=2 requests were made"):
        asking(judge, tmp_path / "new", most_requests=2, at_once=1)(ROWS)
    assert len(judge.asked) == 5


def test_a_judge_is_a_function_among_others(judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARES_RUNS", str(tmp_path))
    asked = JudgeConfig(url=judge.url, model="m", template=TEMPLATE)
    grader = load_grader(RewardConfig(kind=("math", "judge"), weights=(1.0, 0.5), accuracy="math", judge=asked))
    table = grader.grade(ROWS.assign(response=["\\boxed{2}", "\\boxed{3}", "\\boxed{4}"]))
    grader.close()
    assert table["score"].tolist() == [1.5, 0.1, 1.5]
    assert table["accuracy"].tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["model=m"], r"needs reward\.judge\.url .*and reward\.judge\.model"),
        (["url=http://x", "model=m", "template=Well?"], r"has no \{response\}"),
        (["url=http://x", "model=m", "mark=[0-9]+"], r"needs one group"),
        (["url=http://x", "model=m", "scale=[5,1]"], r"5 must be below 1"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load("tiny-math", ["reward.kind=judge", *(f"reward.judge.{each}" for each in settings)])
