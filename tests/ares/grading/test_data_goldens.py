"""Each row format with the exact Python objects that reach the prompt, the math grader and a user's reward."""

import ast
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from datasets import Dataset

from ares.config import DataConfig, Needs, RewardConfig
from ares.data import DataError, Problems, check_rows, load_problems
from ares.grading import RewardError
from ares.grading.graders import load_grader
from ares.step import readable_rows
from tests.ares.builders import to_batch, tokenizer
from tests.ares.data.code_rows import written as rows_in

HEAD, TAIL = "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"
TRL = (
    "def f(completions, **columns):\n    open({out!r}, 'w').write(repr(columns))\n    return [1.0] * len(completions)\n"
)
VERL = (
    "seen = []\n"
    "def f(data_source, solution_str, ground_truth, extra_info):\n"
    "    seen.append((data_source, solution_str, ground_truth, extra_info))\n"
    "    open({out!r}, 'w').write(repr(seen))\n"
    "    return 1.0\n"
)


def written(rows: list[dict[str, Any]], kind: str, folder: Path) -> str:
    """The rows as a file (or, `hub`, a folder with a Hugging Face data set) of a kind."""
    if kind == "hub":
        (folder / "hub" / "data").mkdir(parents=True)
        Dataset.from_list(rows).to_parquet(folder / "hub/data/train-00000-of-00001.parquet")
        return str(folder / "hub")
    return str(rows_in(folder / f"rows.{kind}", *rows))


def loaded(rows: list[dict[str, Any]], kind: str, folder: Path, needs: Needs = "nothing", **settings: Any) -> Problems:
    source = written(rows, kind, folder)
    return load_problems(source, "train", DataConfig(train=source, **settings), tokenizer(), needs)


def answered(problems: Problems, responses: list[str]) -> pd.DataFrame:
    """The rows that a grader is given."""
    return problems.frame.assign(slot=range(len(responses)), sample=0, response=responses)


def given(text: str, problems: Problems, folder: Path) -> Any:
    """What a user's reward is passed."""
    (folder / "reward.py").write_text(text.format(out=str(folder / "seen")))
    grader = load_grader(RewardConfig(kind=f"{folder / 'reward.py'}:f"))
    accuracy = grader.grade(answered(problems, ["so"] * len(problems)))["accuracy"]
    assert accuracy.tolist() == [1.0] * len(problems)
    return ast.literal_eval((folder / "seen").read_text())


def graded(problems: Problems, *boxed: str) -> list[float | None]:
    rows = answered(problems, [f"\\boxed{{{each}}}" for each in boxed])
    return load_grader(RewardConfig()).grade(rows)["accuracy"].tolist()


def same(actual: Any, expected: Any) -> None:
    """Equal, and of the same types: True is not 1, and 1 is not 1.0."""
    assert repr(actual) == repr(expected)


FILES = pytest.mark.parametrize("kind", ["jsonl", "parquet", "hub"])


@FILES
def test_verls_rows(kind: str, tmp_path: Path) -> None:
    rows = [
        {
            "data_source": "lab/sums",
            "prompt": [{"role": "system", "content": "Add."}, {"role": "user", "content": f"{place}?"}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": truth},
            "extra_info": {"index": place, "tries": [1, 2], "hints": {"easy": True}, "share": 0.5},
        }
        for place, truth in enumerate([["27", "31"], ["4"]])
    ]
    problems = loaded(rows, kind, tmp_path)
    assert problems.frame["prompt"][1] == f"<|im_start|>system\nAdd.<|im_end|>\n{HEAD}1?{TAIL}"
    same(
        given(VERL, problems, tmp_path),
        [("lab/sums", "so", row["reward_model"]["ground_truth"], row["extra_info"]) for row in rows],  # type: ignore[index]
    )


@FILES
def test_columns_of_trl(kind: str, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"prompt": "a", "answer": 3, "share": 0.25, "flag": True, "tags": ["x", "y"], "count": 7, "note": "n",
         "meta": {"level": 1, "parts": [{"p": 1}]}},
        {"prompt": "b", "answer": 10**16, "share": 1e-05, "flag": False, "tags": [], "count": None, "note": None,
         "meta": {"level": 2, "parts": []}},
    ]  # fmt: skip
    problems = loaded(rows, kind, tmp_path)
    columns = given(TRL, problems, tmp_path)
    for name in ("answer", "share", "flag", "tags", "count", "note", "meta"):
        # A parquet file that pandas writes has no ints with gaps: the file itself then holds 7.0.
        expected = [7.0, None] if (kind, name) == ("parquet", "count") else [row[name] for row in rows]
        if (kind, name) == ("parquet", "count"):
            columns[name] = [None if value != value else value for value in columns[name]]
        same(columns[name], expected)
    same(columns["prompts"], ["a", "b"])
    same(columns["prompt"], ["a", "b"])
    assert graded(problems, "3", "10000000000000000") == [1.0, 1.0]


def test_a_column_with_ints_beside_floats_keeps_both(tmp_path: Path) -> None:
    rows = [{"prompt": "a", "answer": value} for value in (10**16, 0.5, 1e-05, 1e16, 7, -2.5e-07)]
    problems = loaded(rows, "jsonl", tmp_path)
    same(given(TRL, problems, tmp_path)["answer"], [row["answer"] for row in rows])
    right = ["10000000000000000", "0.5", "0.00001", "10000000000000000", "7.0", "-0.00000025"]
    assert graded(problems, *right) == [1.0] * 6
    assert graded(problems, "\\frac{1}{2}", "\\frac12", "10^{-5}", "10^{16}", "\\sqrt{49}", "0") == [0, 1, 1, 1, 1, 0]


def test_an_answer_reaches_the_reward_as_the_row_holds_it(tmp_path: Path) -> None:
    answers: list[Any] = ["27", 27, 0.5, True, ["27", "31"], [1, [2.5]], {"any": ["a"], "none": None}, [{"x": True}]]
    problems = loaded([{"prompt": "a", "answer": answer} for answer in answers], "jsonl", tmp_path)
    same(given(TRL, problems, tmp_path)["answer"], answers)
    same(given(VERL, problems, tmp_path), [(None, "so", answer, {}) for answer in answers])


@pytest.mark.parametrize(("answer", "refused"), [(["27", "31"], True), ({"x": 1}, True), (["27"], False), (27, False)])
def test_the_math_grader_compares_with_one_answer(answer: Any, refused: bool, tmp_path: Path) -> None:
    source = written([{"id": "sum", "prompt": "a", "answer": answer}], "jsonl", tmp_path)
    assert len(load_problems(source, "train", DataConfig(train=source), tokenizer(), "nothing")) == 1
    if refused:
        with pytest.raises(DataError, match=r"rows.jsonl:1: the answer is a list, an object or bytes"):
            load_problems(source, "train", DataConfig(train=source), tokenizer())
    else:
        problems = load_problems(source, "train", DataConfig(train=source), tokenizer())
        assert graded(problems, "27") == [1.0]


def test_whatever_an_answer_is_the_table_of_samples_holds_it_as_text(tmp_path: Path) -> None:
    rows = [{"prompt": "a", "answer": each} for each in ("2", 3, ["a", 1], {"x": None}, 1e-05)]
    frame = loaded(rows, "jsonl", tmp_path).frame
    samples = frame.assign(slot=0, sample=0, token_ids=[[1]] * 5, log_probs=[[0.0]] * 5, accuracy=1.0, format=1.0,
                           finish_reason="stop", tokens=1)  # fmt: skip
    table = readable_rows(to_batch(samples, 0))
    assert table["ground_truth"].tolist() == ["2", "3", '["a", 1]', '{"x": null}', "0.00001"]
    table[["id", "ground_truth"]].to_parquet(tmp_path / "samples.parquet")


@FILES
def test_prompts_alone_do_where_only_functions_of_the_user_judge(kind: str, tmp_path: Path) -> None:
    rows = [{"prompt": "1+1=?", "topic": "sums"}, {"prompt": "2+2=?", "topic": "sums"}]
    source = written(rows, kind, tmp_path)
    problems = load_problems(source, "train", DataConfig(train=source), tokenizer(), "nothing")
    columns = given(TRL, problems, tmp_path)
    same({name: columns[name] for name in ("prompt", "topic")}, {"prompt": ["1+1=?", "2+2=?"], "topic": ["sums"] * 2})
    assert "answer" not in columns
    assert len(problems.digest()) == 16
    with pytest.raises(RewardError, match="takes ground_truth, and the rows have no answer: name its column"):
        given(VERL, problems, tmp_path)
    for needs, settings in (("answer", {}), ("nothing", {"answer_key": "solution"})):
        with pytest.raises(DataError, match=r"column '(answer|solution)' is missing"):
            load_problems(source, "train", DataConfig(train=source, **settings), tokenizer(), needs)
        assert not check_rows(source, "train", DataConfig(train=source, **settings), needs).good
    assert check_rows(source, "train", DataConfig(train=source), "nothing").good
