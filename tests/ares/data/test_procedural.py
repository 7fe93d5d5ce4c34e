"""Procedural tasks: questions are made from their names alone; train and held-out ones differ; errors say what."""

import contextlib
import inspect
import re
from collections.abc import Iterator

import pandas as pd
import pytest

from ares.config import DataConfig, RewardConfig
from ares.data import load_held_out, load_train
from ares.data.procedural import read_procedural
from ares.data.sources import DataError, read_rows
from ares.grading import RewardError
from ares.grading.grader import Grader
from ares.grading.graders import load_grader
from rewards.procedural import REFUSED, make_task, reasoning_gym
from tests.ares.builders import tokenizer

pytest.importorskip("reasoning_gym", reason="pip install 'ares[real]'")
SUMS = "reasoning_gym:chain_sum?min_terms=2&max_terms=3"


def test_rows_name_their_question_and_are_the_same_every_time():
    rows, again = (read_procedural(SUMS, 7) for _ in range(2))
    assert rows.equals(again)
    assert list(rows.index) == [1, 2, 3, 4, 5, 6, 7]
    for row in rows.to_dict("records"):
        made = make_task(row["data_source"])[row["extra_info"]["index"]]
        assert (made["question"], made["answer"]) == (row["prompt"], row["answer"])


def test_held_out_questions_are_others_than_those_trained_on_whatever_their_splits_are_called():
    """`train[:90%]` had the held-out questions, and a held-out split called `train` those that are trained on."""
    source = f"{SUMS}&min_digits=5&max_digits=6&size=300"
    data = DataConfig(train=source, train_split="train[:90%]", validation=source, validation_split="train")
    train, held_out = load_train(data, tokenizer(), "answer"), load_held_out(data, tokenizer(), "answer")[""]
    assert len(train) == len(held_out) == 300
    assert not train.shared_with(held_out).any()
    assert train.frame["prompt"].equals(load_train(DataConfig(train=source), tokenizer(), "answer").frame["prompt"])


def test_seed_and_index_are_one_number_so_overlapping_seeds_repeat_questions():
    one, next_one = (read_procedural(f"{SUMS}&seed={seed}&size=5", None)["prompt"].tolist() for seed in (7, 8))
    assert one[1:] == next_one[:-1]


def test_levels_are_those_of_the_tasks_curriculum():
    lengths = [read_procedural(f"reasoning_gym:chain_sum?level={n}", 50)["prompt"].str.len().mean() for n in (0, 2)]
    assert lengths[0] < lengths[1]


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("reasoning_gym:chain_sun", r"no task 'chain_sun' \(near it: chain_sum"),
        ("reasoning_gym:chain_sum?max_trms=2", r"no setting 'max_trms' \(it has level, min_terms"),
        ("reasoning_gym:chain_sum?max_terms=0", "refuses its settings: max_terms must be >= min_terms"),
        ("reasoning_gym:chain_sum?level=high", "refuses its settings"),
        ("reasoning_gym:chain_sum?seed=x", "size and seed are whole numbers"),
        ("reasoning_gym:chain_sum?size=2.5", "size and seed are whole numbers"),
        ("reasoning_gym:chain_sum?allow_negation=maybe", "refuses its settings: allow_negation is not 'maybe'"),
        ("reasoning_gym:chain_sum?min_digits=two", "refuses its settings: min_digits is not 'two'"),
        ("reasoning_gym:chain_sum?size", "bad query field: 'size'"),
        ("reasoning_gym:acre?level=1", "no curriculum"),
        ("episodes?size=abc", "size and seed are whole numbers"),
        ("episodes?size=0", "size is 1 to 1000000, not 0"),
        ("reasoning_gym:chain_sum?size=1000001", "size is 1 to 1000000, not 1000001"),
        ("reasoning_gym:rubiks_cube?size=2", "no reference answer"),
        *((f"reasoning_gym:{name}", f"cannot be used: {why}") for name, why in REFUSED.items()),
    ],
)
def test_what_cannot_be_made_is_refused_by_name(source: str, what: str):
    with pytest.raises(DataError, match=what) as refusal:
        read_rows(source, "train")
    assert str(refusal.value).startswith(f"{source}: ")


def test_answers_are_scored_by_the_tasks_own_scorer():
    row = read_procedural(SUMS, 1).to_dict("records")[0]
    right, empty, verbose = (
        reasoning_gym(row["data_source"], answer, row["answer"], row["extra_info"])
        for answer in (row["answer"], "", f"it is {row['answer']}")
    )
    assert right == 1.0
    assert empty == 0.0
    assert 0.0 <= verbose < 1.0


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with contextlib.closing(load_grader(RewardConfig(kind="reasoning_gym", timeout=60.0))) as grader:
        yield grader


def asked(source: str, count: int) -> pd.DataFrame:
    return read_procedural(source, count).assign(id=list("abc")[:count], slot=range(count), sample=0)


def test_an_answer_of_several_lines_is_read_whole(grader: Grader) -> None:
    for task in ("sudoku", "rotate_matrix", "tower_of_hanoi", "chain_sum"):
        rows = asked(f"reasoning_gym:{task}", 2)
        for before in ("", "<think>\nHm.\n</think>\n", "So this is it.\nAnswer:\n"):
            assert grader.grade(rows.assign(response=before + rows["answer"]))["accuracy"].tolist() == [1.0, 1.0]
        grader.try_on(rows.assign(response=""))


def test_a_task_whose_own_answer_is_worth_nothing_as_it_is_read_is_refused_before_a_run() -> None:
    told = r"sudoku.*: its own reference answer is worth 0.*\(last_line; reward.answer"
    grader = load_grader(RewardConfig(kind="reasoning_gym", timeout=60.0, answer="last_line"))
    with contextlib.closing(grader), pytest.raises(RewardError, match=told):
        grader.try_on(asked("reasoning_gym:sudoku", 2).assign(response=""))


def test_another_version_that_makes_other_questions_is_noticed():
    row = read_procedural(SUMS, 1).to_dict("records")[0]
    with pytest.raises(ValueError, match="question 0 is another one now"):
        reasoning_gym(row["data_source"], "1", "another answer", row["extra_info"])


def test_no_scorer_that_is_used_evaluates_what_a_response_says():
    """The list of refused tasks is complete: of every other task, the scorer's source evaluates nothing."""
    from reasoning_gym.factory import DATASETS

    evaluates = re.compile(r"(?<!literal_)\beval\(\w*answer|parse_expr\(|\bexec\(")
    found = {name for name, (task, _) in DATASETS.items() if evaluates.search(inspect.getsource(task.score_answer))}
    assert found
    assert found <= REFUSED.keys()


def test_a_grader_reads_the_answer_and_a_scorer_that_raises_is_no_zero(grader: Grader) -> None:
    rows = asked(SUMS, 3)
    answers = rows["answer"].tolist()
    rows["response"] = [f"I think.\n{answers[0]}", f"The answer is {answers[1]}, not {answers[1]}0.", ""]
    assert grader.grade(rows)["accuracy"].tolist() == [1.0, 0.0, 0.0]
    by_pattern = RewardConfig(kind="reasoning_gym", timeout=60.0, answer=r"answer is (-?\d+)")
    with contextlib.closing(load_grader(by_pattern)) as first:
        assert first.grade(rows)["accuracy"].tolist() == [0.0, 1.0, 0.0]
    unscored = asked("reasoning_gym:prime_factorization", 1).assign(response="two")
    assert grader.grade(unscored)["accuracy"].isna().all()
