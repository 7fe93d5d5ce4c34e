import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ares.config import ConfigError, RewardConfig
from ares.grading.grader import RewardError
from ares.grading.graders import load_grader

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
Source = Callable[[str], str]


@pytest.fixture
def source(tmp_path: Path) -> Source:
    """A reward file with the given text; returns reward.kind for its function `f`."""

    def write(text: str, name: str = "reward.py") -> str:
        (tmp_path / name).write_text(text)
        return f"{tmp_path / name}:f"

    return write


def scored(kind: str) -> list[float | None]:
    graded = load_grader(RewardConfig(kind=kind)).grade(ROWS)
    assert graded[["id", "slot", "sample"]].equals(ROWS[["id", "slot", "sample"]])
    return [None if pd.isna(value) else value for value in graded["accuracy"]]


def refusal(kind: str, error: type[Exception]) -> str:
    with pytest.raises(error) as caught:
        scored(kind)
    return str(caught.value)


def test_the_built_in_grader_compares_the_last_box_with_the_answer() -> None:
    assert scored("math") == [1.0, 0.0, 0.0]
    graded = load_grader(RewardConfig()).grade(ROWS)
    assert graded["format"].tolist() == [1.0, 0.0, 0.0]


def test_a_trl_function_gets_completions_and_every_column_of_the_data(source: Source) -> None:
    kind = source(
        "def f(completions, prompts, answer, level, **kwargs):\n"
        "    assert prompts == ['<1+1>', '<1+1>', '<2+2>'] and level == [1, 1, 2]\n"
        "    assert not {'token_ids', 'log_probs', 'prompt_token_ids', 'response'} & set(kwargs), kwargs\n"
        "    return [float(a in c) for c, a in zip(completions, answer)]\n"
    )
    assert scored(kind) == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("result", ["s", "{'score': s, 'acc': 1}"])
def test_a_verl_function_gets_one_sample_and_may_answer_with_a_dict(result: str, source: Source) -> None:
    kind = source(
        "def f(data_source, solution_str, ground_truth, extra_info=None):\n"
        "    assert data_source == ('y' if extra_info['index'] else 'x')\n"
        "    s = float(ground_truth in solution_str)\n"
        f"    return {result}\n"
    )
    assert scored(kind) == [1.0, 0.0, 0.0]


def test_none_is_no_score_and_never_zero(source: Source) -> None:
    assert scored(source("def f(completions, **kwargs): return [None, 0.5, 1]")) == [None, 0.5, 1.0]
    numpy = "import numpy as np\ndef f(completions, **kwargs): return [np.float32(0.5), np.True_, None]"
    assert scored(source(numpy)) == [0.5, 1.0, None]
    verl = "def f(solution_str, **kwargs): return None if 'four' in solution_str else 0"
    assert scored(source(verl)) == [0.0, 0.0, None]


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("[1.0]", "returned 1 scores for 3 responses"),
        ("[1.0] * 4", "returned 4 scores for 3 responses"),
        ("1.0", "returned a float for 3 responses"),
        ("None", "returned a NoneType for 3 responses"),
        ("[0, 1.5, 0]", "gave 1.5 to problem 'a', sample 1"),
        ("[0, 0, -0.1]", "gave -0.1 to problem 'b', sample 0"),
        ("[float('nan'), 0, 0]", "gave nan to problem 'a', sample 0"),
        ("[0, 'right', 0]", "gave 'right' to problem 'a', sample 1"),
        ("[0, [1], 0]", "gave [1] to problem 'a', sample 1"),
    ],
)
def test_what_is_no_list_of_scores_is_an_error_that_names_the_sample(returned: str, said: str, source: Source) -> None:
    assert said in refusal(source(f"def f(completions, **kwargs): return {returned}"), RewardError)


def test_a_verl_dict_without_a_score_is_an_error_that_names_the_keys(source: Source) -> None:
    said = refusal(source("def f(solution_str, **kwargs): return {'acc': 1}"), RewardError)
    assert "'score'" in said
    assert "acc" in said


def test_an_error_inside_the_function_is_told_with_its_line(source: Source) -> None:
    said = refusal(source("def f(completions, **kwargs):\n    return 1 / 0"), RewardError)
    assert "reward.py:2 in f: ZeroDivisionError: division by zero\n" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def g(completions): pass", "has no 'f'"),
        ("f = 3", "is not a grader"),
        ("def f(answers, truth): pass", "takes neither `completions` (TRL) nor `solution_str` (verl); its parameters"),
        ("def f(:", "reward.py:1: SyntaxError"),
        ("import no_such_module", "reward.py:1: ModuleNotFoundError"),
    ],
)
def test_a_file_without_a_usable_function_is_refused_at_loading(text: str, said: str, source: Source) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (pydantic's at validation, ours at loading)
        load_grader(RewardConfig(kind=source(text)))
    assert said in str(caught.value)
    assert "reward.py" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "said"), [("maths", "'maths' is not a grader: did you mean math?"), ("x/y.py:f", "x/y.py")]
)
def test_a_reward_that_is_not_there_is_refused_at_loading(kind: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_grader(RewardConfig(kind=kind))
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["grades.py", "random.py"])
def test_a_reward_file_may_hold_dataclasses_and_have_the_name_of_a_library(name: str, source: Source) -> None:
    text = (
        "from __future__ import annotations\n"
        "import dataclasses, math\n"
        "@dataclasses.dataclass\n"
        "class Grade:\n"
        "    value: float\n"
        "def f(completions, **kwargs): return [Grade(math.floor(0.5)).value] * len(completions)\n"
    )
    assert scored(source(text, name)) == [0.0, 0.0, 0.0]
    assert sys.modules["random"] is random


def test_two_reward_files_do_not_meet(source: Source) -> None:
    kinds: list[Any] = [load_grader(RewardConfig(kind=source(f"def f(completions, **k): return [{v}] * 3", n)))
                        for v, n in ((0.25, "one.py"), (0.75, "two.py"))]  # fmt: skip
    assert [kind.grade(ROWS)["accuracy"].tolist() for kind in kinds] == [[0.25] * 3, [0.75] * 3]
