"""Reward functions of the user run in a process of their own: on its main thread, in turn, within a time limit."""

import ast
import os
import re
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest

from ares.config import DataConfig, RewardConfig
from ares.data import load_problems
from ares.grading import RewardError, answered
from ares.grading.grader import Grader
from ares.grading.graders import load_grader
from tests.ares.builders import tokenizer
from tests.ares.grading.test_data_goldens import written
from tests.waiting import wait_for, wait_for_the_end

ROWS = pd.DataFrame(
    {"id": ["a", "a", "b"], "slot": [0, 0, 1], "sample": [0, 1, 0], "prompt": "?", "answer": [["1"], ["1"], ["2"]],
     "response": ["one", "two", "three"]}
)  # fmt: skip
Open = Callable[..., Grader]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """The grader of a file with this text; ended after the test."""
    graders = []

    def grader(text: str, timeout: float = 5.0) -> Grader:
        (tmp_path / "own.py").write_text(text)
        graders.append(load_grader(RewardConfig(kind=f"{tmp_path / 'own.py'}:f", timeout=timeout)))
        return graders[-1]

    yield grader
    for each in graders:
        each.close()


def scores(grader: Grader, rows: pd.DataFrame = ROWS) -> list[float | None]:
    return [None if pd.isna(value) else float(value) for value in grader.grade(rows)["accuracy"]]


def test_it_runs_on_the_main_thread_of_another_process_that_stays_and_shards_are_called_in_turn(opened: Open) -> None:
    grader = opened(
        "import os, signal, threading, time\n"
        "calls, busy = [], []\n"
        "def f(completions, **columns):\n"
        "    signal.signal(signal.SIGALRM, signal.SIG_IGN)\n"
        "    assert threading.current_thread() is threading.main_thread()\n"
        f"    assert os.getpid() != {os.getpid()}\n"
        "    calls.append(os.getpid())\n"
        "    assert len(set(calls)) == 1 and not busy\n"
        "    busy.append(1); time.sleep(0.05); busy.pop()\n"
        "    return [len(calls) / 10] * len(completions)\n"
    )
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda _: scores(grader), range(4)))
    assert sorted(result[0] for result in results) == [0.1, 0.2, 0.3, 0.4]


HANGS = "    while 'two' in {text}: time.sleep(9)\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(solution_str, **k):\n" + HANGS.format(text="solution_str") + "    return 1.0\n", [1.0, None, 1.0]),
        ("def f(completions, **k):\n" + HANGS.format(text="completions") + "    return [1.0]\n", [None] * 3),
        ("import asyncio\nasync def f(solution_str, **k):\n    await asyncio.sleep(9 if 'two' in solution_str else 0)\n"
         "    return {'score': 1.0}\n", [1.0, None, 1.0]),
        ("import os\ndef f(solution_str, **k):\n    'two' in solution_str and os._exit(1)\n    return 1.0\n",
         [1.0, None, 1.0]),
    ],
    ids=["verl", "trl", "async", "dies"],
)  # fmt: skip
def test_what_overruns_or_dies_has_no_score(text: str, expected: list[float | None], opened: Open) -> None:
    grader = opened("import time\n" + text, timeout=0.7)
    assert scores(grader) == expected
    assert scores(grader, ROWS[:1]) == [1.0]


def test_async_functions_are_awaited_and_verls_samples_together(opened: Open) -> None:
    trl = opened("import asyncio\nasync def f(completions, **k):\n    await asyncio.sleep(0)\n    return [0.5] * 3\n")
    assert scores(trl) == [0.5] * 3
    together = (
        "import asyncio\n"
        "there = []\n"
        "async def f(solution_str, ground_truth, **k):\n"
        "    there.append(solution_str)\n"
        "    while len(there) < 3: await asyncio.sleep(0.01)\n"  # one at a time they would wait for ever
        "    return float(ground_truth == ['2'])\n"
    )
    assert scores(opened(together)) == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("signature", ["solution_str, **k", "completions, **k"])
def test_a_function_that_raises_is_told_by_its_own_line_first(signature: str, opened: Open, tmp_path: Path) -> None:
    grader = opened(
        f"import json\ndef parse(text):\n    return json.loads(text)\ndef f({signature}):\n    return parse('{{')\n"
    )
    with pytest.raises(RewardError) as caught:
        scores(grader)
    first, *rest = str(caught.value).splitlines()
    file = re.search(r"(\S*own\.py):3 in parse: json\.decoder\.JSONDecodeError: Expecting property name", first)
    assert first.startswith(f"reward.kind={file[1]}:f failed: ")
    assert rest[0] == "Traceback (most recent call last):"
    assert "own.py" in rest[1]  # none of our own frames before it
    assert not any("function_process" in line for line in rest)


MAY_PASS = {
    "KeyError('solution')": False,
    "ZeroDivisionError": False,
    "SystemExit('no key')": False,
    "ConnectionError('the judge is down')": True,
    "TimeoutError": True,
    "RuntimeError('503')": True,
    "json.JSONDecodeError('not', 'JSON', 0)": True,
    "ExceptionGroup('two', [KeyError('solution'), OSError('down')])": True,
    "ExceptionGroup('two', [KeyError('solution'), TypeError('f')])": False,
    "type('Own', (Exception,), {'__module__': 'own'})('no network')": True,
}


def test_a_mistake_stays_one_and_what_lies_outside_may_pass(opened: Open) -> None:
    errors = ", ".join(MAY_PASS)
    grader = opened(f"import json\nerrors = iter([{errors}])\ndef f(completions, **columns):\n    raise next(errors)\n")
    for raised, may_pass in MAY_PASS.items():
        with pytest.raises(RewardError, match=r"own\.py:f failed") as raised_error:
            grader.grade(ROWS)
        assert raised_error.value.may_pass == may_pass, raised


def test_closing_ends_the_process(opened: Open, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    grader = opened(f"import os\ndef f(solution_str, **k):\n    open({str(note)!r}, 'w').write(str(os.getpid()))\n")
    scores(grader)
    grader.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)
    assert scores(grader) == [None] * 3  # and it starts again


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_chat_is_answered_in_messages_and_a_text_in_text(kind: str, opened: Open, tmp_path: Path) -> None:
    chat = [{"role": "system", "content": "Add."}, {"role": "user", "content": "1+1=?"}]
    grader = opened(
        "def f(completions, prompts, **columns):\n"
        "    assert 'prompt_messages' not in columns\n"
        "    for prompt, completion in zip(prompts, completions):\n"
        "        if isinstance(completion, str):\n"
        "            assert completion == 'so' and '1+2' in prompt\n"
        "        else:\n"
        f"            assert prompt == {chat} and completion == [{{'role': 'assistant', 'content': 'so'}}]\n"
        "    return [float(isinstance(each, list)) for each in completions]\n"
    )
    rows = [{"prompt": chat, "answer": "2"}, {"prompt": chat if kind == "parquet" else "1+2=?", "answer": "3"}]
    source = written(rows, kind, tmp_path)
    frame = load_problems(source, "train", DataConfig(train=source), tokenizer()).frame
    given_scores = scores(grader, frame.assign(slot=[0, 1], sample=0, response="so"))
    assert given_scores == [1.0, float(kind == "parquet")]
    verl = opened("def f(solution_str, **k): return float(solution_str == 'so')")
    assert scores(verl, frame.assign(slot=[0, 1], sample=0, response="so")) == [1.0, 1.0]


def test_trls_whole_signature(opened: Open, tmp_path: Path) -> None:
    """Each row's columns as it holds them, those whose names we use too, and the tokens and steps of the trainer."""
    seen = tmp_path / "seen"
    grader = opened(
        "def f(prompts, completions, completion_ids, trainer_state, question, prompt, answer, id, task, response,"
        " level, **others):\n"
        f"    open({str(seen)!r}, 'w').write(repr(dict(locals(), trainer_state=trainer_state.global_step)))\n"
        "    return [1.0, 0.0]\n"
    )
    rows = [
        {"question": f"1+{n}=?", "prompt": f"template {n}", "answer": f"steps {n}", "solution": n + 1, "id": n,
         "task": f"t{n}", "response": "a reference", "sample": "s", "slot": "x", "level": {"of": n}}
        for n in range(2)
    ]  # fmt: skip
    source = written(rows, "jsonl", tmp_path)
    settings = DataConfig(train=source, prompt_key="question", answer_key="solution", id_key="task")
    frame = load_problems(source, "train", settings, tokenizer()).frame
    sampled = pd.DataFrame({"id": frame["id"], "slot": [0, 1], "sample": 0, "response": ["a", "b"],
                            "token_ids": [[5, 1], [6]], "log_probs": [[0.0], [0.0]]})  # fmt: skip
    assert scores(grader, answered(sampled, frame, steps=7)) == [1.0, 0.0]
    arguments = ast.literal_eval(seen.read_text())
    expected = {name: [row[name] for row in rows] for name in rows[0]}
    expected |= {"prompts": expected["question"], "completions": ["a", "b"], "completion_ids": [[5, 1], [6]]}
    others = arguments.pop("others")
    assert arguments | others == expected | {"trainer_state": 7}


@pytest.mark.parametrize(
    "function",
    [
        "f({}, **columns): return [0.25] * len({})".replace("{}", name)
        for name in ("completions", "completion_ids", "prompts")
    ]
    + ["f(data_source, solution_str, ground_truth, extra_info): return float(extra_info.get('index', 0.25))"],
)
def test_one_of_trls_arguments_makes_it_trls_and_verls_extra_info_may_be_empty(function: str, opened: Open) -> None:
    assert scores(opened(f"def {function}"), ROWS.assign(token_ids=[[1], [2], [3]])) == [0.25] * 3


def test_a_process_ends_with_its_run(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import os, time\n"
        "def f(solution_str, **k):\n"
        f"    with open({str(tmp_path / 'pid')!r}, 'w') as file: file.write(str(os.getpid()))\n"
        "    time.sleep(60)\n"
    )
    run = os.fork()  # a new process would import torch first
    if run == 0:
        try:
            load_grader(RewardConfig(kind=f"{tmp_path / 'own.py'}:f", timeout=60)).grade(ROWS)
        finally:
            os._exit(1)
    wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "the function's first call")
    os.kill(run, signal.SIGKILL)
    assert os.waitpid(run, 0)[1] == signal.SIGKILL
    wait_for_the_end([int((tmp_path / "pid").read_text())])
