"""The grader of a run: math, functions of the user with TRL's and verl's signature, their scales and weights."""

import contextlib
import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ares.config import ConfigError, RewardConfig, load
from ares.grading import RewardError
from ares.grading.functions import FunctionScore
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


def column(table: pd.DataFrame, name: str = "accuracy") -> list[Any]:
    return [None if pd.isna(value) else value for value in table[name]]


def function(scores: str, name: str = "f") -> str:
    return f"def {name}(completions, **columns): return {scores}\n"


def test_the_built_in_grader_compares_the_last_box_with_the_answer() -> None:
    table = load_grader(RewardConfig()).grade(ROWS)
    assert table[["id", "slot", "sample"]].equals(ROWS[["id", "slot", "sample"]])
    assert column(table) == table["format"].tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("profile", ["tiny-math", "tiny-reason"])
def test_where_the_data_are_arithmetic_a_question_copied_into_the_box_is_not_an_answer(profile: str) -> None:
    rows = ROWS.assign(response=["\\boxed{1+1}", "\\boxed{2}", "\\boxed{4}"])
    assert column(load_grader(load(profile).reward).grade(rows)) == [0.0, 1.0, 1.0]


# ---- functions: signatures and results -----------------------------------------------------------------------------


def test_a_trl_function_gets_completions_and_every_column_of_the_data(graded: Graded) -> None:
    table = graded(
        "def f(completions, prompts, answer, level, **kwargs):\n"
        "    assert prompts == ['<1+1>', '<1+1>', '<2+2>'] and level == [1, 1, 2]\n"
        "    assert not {'token_ids', 'log_probs', 'prompt_token_ids', 'response'} & set(kwargs), kwargs\n"
        "    return [float(a in c) for c, a in zip(completions, answer)]\n"
    )
    assert column(table) == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("result", ["s", "{'score': s, 'acc': 1}"])
def test_a_verl_function_gets_one_sample_and_may_answer_with_a_dict(result: str, graded: Graded) -> None:
    table = graded(
        "def f(data_source, solution_str, ground_truth, extra_info=None):\n"
        "    assert data_source == ('y' if extra_info['index'] else 'x')\n"
        "    s = float(ground_truth in solution_str)\n"
        f"    return {result}\n"
    )
    assert column(table) == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("text", "scores"),
    [
        (function("[None, 0.5, 1]"), [None, 0.5, 1.0]),
        ("import numpy as np\n" + function("[np.float32(0.5), np.True_, None]"), [0.5, 1.0, None]),
        ("def f(solution_str, **kwargs): return None if 'four' in solution_str else 0", [0.0, 0.0, None]),
    ],
)
def test_none_is_no_score_and_never_zero(text: str, scores: list[float | None], graded: Graded) -> None:
    assert column(graded(text)) == scores


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("[1.0] * 4", "returned 4 scores for 3 responses"),
        ("1.0", "returned a float for 3 responses"),
        ("None", "returned a NoneType for 3 responses"),
        *((f"[1, {score}, 0]", f"gave {told} to problem 'a', sample 1; a score is a finite number") for score, told in (
            ("float('inf')", "inf"), ("float('nan')", "nan"), ("'1'", "'1'"), ("[1]", "[1]"), ("{1}", "'{1}'"),
            ("b'1'", '"b'), ("1j", "'1j'"), ("object()", "'<object object"))),
    ],
)  # fmt: skip
def test_what_is_no_list_of_scores_is_an_error_that_names_the_sample(returned: str, said: str, graded: Graded) -> None:
    with pytest.raises(RewardError) as caught:
        graded(function(returned), accuracy=0.5)
    before, _, after = said.partition(" to problem")
    assert before in str(caught.value)
    assert after in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(solution_str, **kwargs): return {'acc': 1}", r"a dict without 'score' \(keys: acc\)"),
        ("def f(completions, **kwargs):\n    return 1 / 0", r"own\.py:2 in f: ZeroDivisionError: division by zero\n"),
    ],
)
def test_an_error_of_the_function_is_told_with_its_keys_or_line(text: str, said: str, graded: Graded) -> None:
    with pytest.raises(RewardError, match=said):
        graded(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def g(completions): pass", "has no 'f'"),
        ("f = 3", "is not a grader"),
        ("def f(answers, truth): pass", r"takes neither `completions` \(TRL\) nor `solution_str` \(verl\); its param"),
        ("def f(:", r"own\.py:1: SyntaxError"),
        ("import no_such_module", r"own\.py:1: ModuleNotFoundError"),
    ],
)
def test_a_file_without_a_usable_function_is_refused_at_loading(text: str, said: str, graded: Graded) -> None:
    with pytest.raises(ConfigError, match=said):
        graded(text)


@pytest.mark.parametrize(
    ("kind", "said"), [("maths", "'maths' is not a grader (did you mean math?)"), ("x/y.py:f", "x/y.py")]
)
def test_a_reward_that_is_not_there_is_refused_at_loading(kind: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_grader(RewardConfig(kind=kind))
    assert said in str(caught.value)


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


@pytest.mark.parametrize("score", ["5.0", "-1"])
def test_without_one_another_scale_is_refused_with_the_setting_that_takes_it(score: str, graded: Graded) -> None:
    with pytest.raises(
        RewardError, match=rf"gave {float(score)} to problem 'a', sample 1; .*reward\.accuracy="
    ) as told:
        graded(function(f"[1, {score}, 0]"))
    assert "0.5" in str(told.value)


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


@pytest.mark.parametrize(("response", "accuracy"), [("so \\boxed{2}? I", 0.0), ("4</think>\\boxed{2}", 1.0)])
def test_a_guess_in_thoughts_that_were_cut_off_is_no_answer_where_the_prompt_opens_them(
    response: str, accuracy: float
) -> None:
    rows = ROWS.head(1).assign(prompt="<|im_start|>assistant\n<think>\n", response=response)
    assert column(load_grader(RewardConfig(kind="math")).grade(rows)) == [accuracy]
