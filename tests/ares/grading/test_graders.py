"""The grader of a run: math, functions of the user with TRL's and verl's signature, their scales and weights."""

import contextlib
import json
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ares.config import RewardConfig, load
from ares.grading import RewardError
from ares.grading.code import written
from ares.grading.functions import FunctionScore
from ares.grading.grader import ANSWERED, Grader
from ares.grading.graders import FunctionGrader, load_grader

ROWS = pd.DataFrame(
    {
        "id": ["a", "a", "b"],
        "slot": [0, 0, 1],
        "sample": [0, 1, 0],
        "prompt": ["<1+1>", "<1+1>", "<2+2>"],
        "response": ["<think>x</think>\\boxed{2}", "\\boxed{3}", "four"],
        "answer": ["2", "2", "4"],
        "token_ids": [[1], [2], [3]],
        "log_probs": [[0.1], [0.2], [0.3]],
        "prompt_token_ids": [[5], [5], [6]],
        "level": [1, 1, 2],
        "data_source": ["x", "x", "y"],
        "extra_info": [{"index": 0}, {"index": 0}, {"index": 1}],
    }
)
Graded = Callable[..., pd.DataFrame]


@pytest.fixture
def graded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Graded]:
    """ROWS graded by the functions of this file, own.py."""
    monkeypatch.chdir(tmp_path)
    graders = []

    def grade(text: str, kind: Any = "own.py:f", **settings: Any) -> pd.DataFrame:
        Path("own.py").write_text(text)
        graders.append(load_grader(RewardConfig(kind=kind, **settings)))
        return graders[-1].grade(ROWS)

    yield grade
    for grader in graders:
        grader.close()


def column(table: pd.DataFrame, name: str = "accuracy") -> list[Any]:
    return [None if pd.isna(value) else value for value in table[name]]


def function(scores: str, name: str = "f") -> str:
    return f"def {name}(completions, **columns): return {scores}\n"


def test_the_built_in_grader_compares_the_last_box_with_the_answer() -> None:
    table = load_grader(RewardConfig()).grade(ROWS)
    assert table[["id", "slot", "sample"]].equals(ROWS[["id", "slot", "sample"]])
    assert column(table) == table["format"].tolist() == [1.0, 0.0, 0.0]


def test_thoughts_that_the_template_opens_have_a_format_and_no_answer() -> None:
    """It was always 0 where the prompt ends with <think>; and an answer that an episode submitted was a thought."""
    opened = ROWS.head(1).assign(prompt="1+1=?<think>\n", episode_reward=1.0, success=1.0)
    for kind in ("math", ("math", "environment")):
        grader = load_grader(RewardConfig(kind=kind, accuracy="math"))
        for said, right in (("4.</think>\\boxed{2}", 1.0), ("so \\boxed{2}? I", 0.0)):
            table = grader.grade(opened.assign(response=said))
            assert (table["accuracy"][0], table["format"][0]) == (right, right)
        for said, right in ((ANSWERED.format(answer=2), 1.0), ("<think>\\boxed{2}", 0.0)):
            rows = opened.assign(response=said, episode_error="")
            assert grader.grade(rows)["accuracy"][0] == right
    program = {"prompt": "<think>\n", "response": "```python\nx\n```", "episode_error": ""}
    assert written(program) == "x\n"


@pytest.mark.parametrize("profile", ["tiny-math", "tiny-reason"])
def test_where_the_data_are_arithmetic_a_question_copied_into_the_box_is_not_an_answer(profile: str) -> None:
    rows = ROWS.assign(response=["\\boxed{1+1}", "\\boxed{2}", "\\boxed{4}"])
    assert column(load_grader(load(profile).reward).grade(rows)) == [0.0, 1.0, 1.0]


# ---- functions: signatures and results -----------------------------------------------------------------------------


def test_reward_files_may_hold_dataclasses_have_the_name_of_a_library_and_do_not_meet(tmp_path: Path) -> None:
    text = (
        "from __future__ import annotations\n"
        "import dataclasses, math\n"
        "@dataclasses.dataclass\n"
        "class Grade:\n"
        "    value: float\n"
        "def f(completions, **kwargs): return [Grade(math.floor(0.5) + {}).value] * len(completions)\n"
    )
    graders = []
    for name, worth in (("grades.py", 0.25), ("random.py", 0.75)):
        (tmp_path / name).write_text(text.format(worth))
        graders.append(load_grader(RewardConfig(kind=f"{tmp_path / name}:f")))
    assert [column(grader.grade(ROWS)) for grader in graders] == [[0.25] * 3, [0.75] * 3]
    assert sys.modules["random"] is random
    for grader in graders:
        grader.close()


LISTS = [
    "(1, 0, 0.5)", "numpy.array([1, 0, .5])", "numpy.array([True, False, .5], dtype=object)",
    "torch.tensor([1, 0, .5])", "torch.tensor([1, 0, .5], dtype=torch.bfloat16, requires_grad=True)",
    "[torch.tensor(1), numpy.float32(0), fractions.Fraction(1, 2)]", "iter([1, 0, decimal.Decimal('.5')])",
    "pandas.Series([1, 0, .5])", "{'a': 1, 'b': 0, 'c': .5}.values()",
]  # fmt: skip
NUMBERS = [
    "0.5", "(0.5, 'why')", "[0.5]", "numpy.float64(.5)", "numpy.array([.5])",
    "{'score': numpy.array(.5), 'pred': None}",
]  # fmt: skip


def returning(results: Iterable[str], signature: str, folder: Path, **settings: Any) -> Grader:
    """A grader whose function returns these results, one a call: a process for each would take seconds."""
    made = ", ".join(f"lambda: {result}" for result in results)
    needed = [name for name in ("decimal", "fractions", "numpy", "pandas", "torch") if f"{name}." in made]
    text = f"import {', '.join(['sys', *needed])}\nnext_result = iter([{made}]).__next__\n"
    (folder / "own.py").write_text(f"{text}def f({signature}): return next_result()()\n")
    return load_grader(RewardConfig(kind=f"{folder / 'own.py'}:f", **settings))


@pytest.mark.parametrize(
    ("results", "signature", "calls", "scores"),
    [(LISTS, "completions, **columns", 1, [1.0, 0.0, 0.5]),
     (NUMBERS, "data_source, solution_str, ground_truth, extra_info", len(ROWS), [0.5] * 3)],
    ids=["of all samples", "of one sample"],
)  # fmt: skip
def test_scores_come_in_whatever_holds_numbers(
    results: list[str], signature: str, calls: int, scores: list[float], tmp_path: Path
) -> None:
    each_call = [result for result in results for _ in range(calls)]
    with contextlib.closing(returning(each_call, signature, tmp_path)) as grader:
        for result in results:
            assert column(grader.grade(ROWS), "score") == scores, result


NO_SCORES = {
    "[1.0] * 4": "returned 4 scores for 3 responses",
    "1.0": "returned a float for 3 responses",
    "None": "returned a NoneType for 3 responses",
    "[{'acc': 1}] * 3": "returned a dict without 'score' (keys: acc)",
} | {f"[1, {score}, 0]": f"gave {told}" for score, told in (
    ("float('inf')", "inf to"), ("float('nan')", "nan to"), ("'1'", "'1' to"), ("[1]", "[1] to"), ("{1}", "'{1}' to"),
    ("b'1'", '"b'), ("1j", "'1j' to"), ("object()", "'<object object"))}  # fmt: skip


def test_what_is_no_list_of_scores_is_an_error_that_names_the_sample(tmp_path: Path) -> None:
    with contextlib.closing(returning(NO_SCORES, "completions, **columns", tmp_path, accuracy=0.5)) as grader:
        for returned, said in NO_SCORES.items():
            with pytest.raises(RewardError) as caught:
                grader.grade(ROWS)
            assert (said in str(caught.value), caught.value.may_pass) == (True, False), returned
            if "gave" in said:
                assert "to problem 'a', sample 1; a score is a finite number" in str(caught.value)


# ---- functions: scale, weights, accuracy ---------------------------------------------------------------------------


@pytest.mark.parametrize("accuracy", [0.5, "own.py:right", "math"])
def test_a_reward_on_any_scale_with_an_accuracy_beside_it(accuracy: Any, graded: Graded) -> None:
    table = graded(function("[5.0, -1, -2.5]") + function("[True, 0, 0.0]", "right"), accuracy=accuracy)
    assert column(table, "score") == column(table, "score_f") == [5.0, -1.0, -2.5]
    assert column(table, "accuracy") == [1.0, 0.0, 0.0]
    assert table["format"].tolist() == [1.0, 0.0, 0.0]


def test_without_one_the_score_is_the_accuracy_whatever_its_weight(graded: Graded) -> None:
    table = graded(function("[1, 0.25, None]"), weights=[-4])
    assert column(table, "accuracy") == [1.0, 0.25, None]
    assert column(table, "score") == [-4.0, -1.0, None]
    assert column(table, "score_f") == [1.0, 0.25, None]


def test_several_functions_are_weighted_and_added_and_each_part_is_kept(graded: Graded) -> None:
    text = function("[1.0, -1.0, None]", "right") + function("[3, 2, 1]", "brief")
    table = graded(text, ["own.py:right", "math", "own.py:brief"], weights=[2.0, 1.0, 0.5], accuracy="math")
    assert column(table, "score_right") == [1.0, -1.0, None]
    assert column(table, "score_math") == [1.0, 0.0, 0.0]
    assert column(table, "score_brief") == [3.0, 2.0, 1.0]
    assert column(table, "score") == [4.5, -1.0, 0.5]  # what does not apply adds nothing, as in TRL
    assert column(table, "accuracy") == [1.0, 0.0, 0.0]


def test_a_function_that_fails_leaves_no_score_nor_do_functions_none_of_which_applies() -> None:
    quick = [FunctionScore(1.0), FunctionScore(1.0), FunctionScore()]
    slow = [FunctionScore(1.0), FunctionScore(failed=True), FunctionScore()]
    scorers = {"quick": lambda rows, first: quick, "slow": lambda rows, first: slow}
    table = FunctionGrader(scorers, {"quick": 1.0, "slow": 1.0}, "quick").grade(ROWS)
    assert column(table, "score") == [2.0, None, None]
    assert column(table, "accuracy") == [1.0, None, None]


def test_each_function_has_a_limit_of_its_own(graded: Graded) -> None:
    text = "import time\n" + function("time.sleep(0.4 * 3) or [1.0] * 3", "slow") + function("[1.0] * 3", "quick")
    kinds = ["own.py:slow", "own.py:quick"]
    assert column(graded(text, kinds, accuracy="quick", timeout=[5, 0.2]), "score") == [2.0] * 3
    assert column(graded(text, kinds, accuracy="quick", timeout=[0.2, 5]), "score") == [None] * 3


COMPUTE_SCORE = (
    "def f(data_source, solution_str, ground_truth, extra_info):\n"
    "    right = ground_truth in solution_str\n"
    "    return {'score': 1.0 if right else -1.0, 'acc': right, 'pred': solution_str[-2:]}\n"
)


def test_a_dict_of_verls_is_a_score_and_what_it_holds_beside_it(graded: Graded) -> None:
    table = graded(COMPUTE_SCORE, accuracy="acc")
    assert column(table, "score") == [1.0, -1.0, -1.0]
    assert column(table, "accuracy") == [1.0, 0.0, 0.0]
    assert json.loads(table["extras"][0]) == {"f": {"acc": True, "pred": "2}"}}


@pytest.mark.parametrize(
    ("text", "settings", "said"),
    [
        (COMPUTE_SCORE, {"accuracy": "accuracy"}, r"reward\.accuracy=accuracy: the parts .* are f, acc, pred"),
        (COMPUTE_SCORE, {"accuracy": "pred"}, r"gave '2}' to problem 'a', sample 0; .*an accuracy"),
        (function("[1, 5.0, 0]"), {}, r"gave 5\.0 to problem 'a', sample 1; .*reward\.accuracy=.*0\.5"),
        (function("[1, -1, 0]"), {}, r"gave -1\.0 to problem 'a', sample 1; .*reward\.accuracy=.*0\.5"),
    ],
)
def test_a_part_that_is_absent_or_no_accuracy_is_refused(
    text: str, settings: dict[str, Any], said: str, graded: Graded
) -> None:
    with pytest.raises(RewardError, match=said):
        graded(text, **settings)
