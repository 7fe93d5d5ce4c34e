"""Rewards of functions: any finite scale, several with weights, what counts as accuracy; dicts, tensors, tuples."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ares.config import RewardConfig
from ares.grading import RewardError
from ares.grading.function_grader import FunctionGrader
from ares.grading.functions import FunctionScore
from ares.grading.graders import load_grader

ROWS = pd.DataFrame(
    {"id": ["a", "a", "b"], "slot": [0, 0, 1], "sample": [0, 1, 0], "prompt": "?", "answer": ["2", "2", "4"],
     "response": ["<think>x</think>\\boxed{2}", "\\boxed{3}", "four"]}
)  # fmt: skip
Graded = Callable[..., pd.DataFrame]
TRL = "def {name}(completions, **columns): return {scores}\n"


@pytest.fixture
def graded(tmp_path: Path) -> Iterator[Graded]:
    """ROWS graded by the functions of this file, which settings name as `own.py:f`."""
    graders = []

    def grade(text: str, kind: Any = "own.py:f", **settings: Any) -> pd.DataFrame:
        (tmp_path / "own.py").write_text(text)

        def there(value: Any) -> Any:
            return value.replace("own.py", str(tmp_path / "own.py")) if isinstance(value, str) else value

        kinds = there(kind) if isinstance(kind, str) else [there(each) for each in kind]
        named = {name: there(value) for name, value in settings.items()}
        graders.append(load_grader(RewardConfig(kind=kinds, **named)))
        return graders[-1].grade(ROWS)

    yield grade
    for grader in graders:
        grader.close()


def column(table: pd.DataFrame, name: str) -> list[Any]:
    return [None if pd.isna(value) else value for value in table[name]]


def function(scores: str, name: str = "f") -> str:
    return TRL.format(name=name, scores=scores)


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


@pytest.mark.parametrize("score", ["5.0", "-1"])
def test_without_one_another_scale_is_refused_with_the_setting_that_takes_it(score: str, graded: Graded) -> None:
    with pytest.raises(
        RewardError, match=rf"gave {float(score)} to problem 'a', sample 1; .*reward\.accuracy="
    ) as told:
        graded(function(f"[1, {score}, 0]"))
    assert "0.5" in str(told.value)


@pytest.mark.parametrize("score", ["float('inf')", "float('nan')", "'1'", "[1]", "{1}", "b'1'", "1j", "object()"])
def test_what_is_no_finite_number_is_refused_on_any_scale(score: str, graded: Graded) -> None:
    with pytest.raises(RewardError, match=r"own\.py:f gave .* to problem 'a', sample 1; a score is a finite number"):
        graded(function(f"[1, {score}, 0]"), accuracy=0.5)


def test_several_functions_are_weighted_and_added_and_each_part_is_kept(graded: Graded) -> None:
    text = function("[1.0, -1.0, None]", "right") + function("[3, 2, 1]", "brief")
    table = graded(text, ["own.py:right", "math", "own.py:brief"], weights=[2.0, 1.0, 0.5], accuracy="math")
    assert column(table, "score_right") == [1.0, -1.0, None]
    assert column(table, "score_math") == [1.0, 0.0, 0.0]
    assert column(table, "score_brief") == [3.0, 2.0, 1.0]
    assert column(table, "score") == [4.5, -1.0, 0.5]  # what does not apply adds nothing, as in TRL
    assert column(table, "accuracy") == [1.0, 0.0, 0.0]


def test_where_no_function_applies_there_is_no_score(graded: Graded) -> None:
    text = function("[1.0, None, None]", "one") + function("[0.0, None, 1.0]", "other")
    table = graded(text, ["own.py:one", "own.py:other"], accuracy=0.5)
    assert column(table, "score") == [1.0, None, 1.0]
    assert column(table, "accuracy") == [1.0, None, 1.0]


def test_a_function_that_fails_leaves_no_score_and_one_that_does_not_apply_does() -> None:
    failing = [FunctionScore(1.0), FunctionScore(failed=True), FunctionScore()]
    scorers = {"quick": lambda rows, first: [FunctionScore(1.0)] * 3, "slow": lambda rows, first: failing}
    table = FunctionGrader(scorers, {"quick": 1.0, "slow": 1.0}, "quick").grade(ROWS)
    assert column(table, "score") == [2.0, None, 1.0]
    assert column(table, "accuracy") == [1.0, None, 1.0]


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


def test_an_accuracy_that_nobody_says_is_refused_with_the_parts_there_are(graded: Graded) -> None:
    with pytest.raises(RewardError, match=r"reward\.accuracy=accuracy: the parts of the reward are f, acc, pred"):
        graded(COMPUTE_SCORE, accuracy="accuracy")


def test_a_part_that_is_no_accuracy_is_refused(graded: Graded) -> None:
    with pytest.raises(RewardError, match=r"gave '2}' to problem 'a', sample 0; .*an accuracy"):
        graded(COMPUTE_SCORE, accuracy="pred")


def imports(text: str) -> str:
    """The object that a text names; importing all of them would take seconds."""
    return "".join(f"import {name}\n" for name in ("decimal", "fractions", "numpy", "pandas", "torch") if name in text)


LISTS = [
    "(1, 0, 0.5)", "numpy.array([1, 0, .5])", "numpy.array([True, False, .5], dtype=object)",
    "torch.tensor([1, 0, .5])", "torch.tensor([1, 0, .5], dtype=torch.bfloat16, requires_grad=True)",
    "[torch.tensor(1), numpy.float32(0), fractions.Fraction(1, 2)]", "iter([1, 0, decimal.Decimal('.5')])",
    "pandas.Series([1, 0, .5])", "{'a': 1, 'b': 0, 'c': .5}.values()",
]  # fmt: skip
NUMBERS = [
    "(0.5, 'why')", "[0.5]", "numpy.float64(.5)", "torch.tensor(.5)", "torch.tensor([.5])",
    "{'score': numpy.array(.5), 'pred': None}",
]  # fmt: skip


@pytest.mark.parametrize(
    ("results", "signature", "calls", "scores"),
    [(LISTS, "completions, **columns", 1, [1.0, 0.0, 0.5]),
     (NUMBERS, "data_source, solution_str, ground_truth, extra_info", len(ROWS), [0.5] * 3)],
    ids=["of all samples", "of one sample"],
)  # fmt: skip
def test_scores_come_in_whatever_holds_numbers(
    results: list[str], signature: str, calls: int, scores: list[float], tmp_path: Path
) -> None:
    """One process for all values: importing what makes them takes seconds."""
    made = ", ".join(f"*[lambda: {result}] * {calls}" for result in results)
    text = f"import decimal, fractions, numpy, pandas, torch\nnext_result = iter([{made}]).__next__\n"
    (tmp_path / "own.py").write_text(f"{text}def f({signature}): return next_result()()\n")
    with contextlib.closing(load_grader(RewardConfig(kind=f"{tmp_path / 'own.py'}:f"))) as grader:
        for result in results:
            assert column(grader.grade(ROWS), "score") == scores, result
