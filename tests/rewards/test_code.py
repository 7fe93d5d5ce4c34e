"""Rewards for code: the block, its format, and the tests it passes in the sandbox."""

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rewards.code
from rewards.code import (
    binary_code_reward,
    code_format_score,
    code_reward,
    completion_text,
    execution_feedback,
    extract_code,
    get_code_format_reward,
)
from sandbox import SandboxUnavailable

RIGHT = "```python\ndef f(x):\n    return x + 1\n```\n"
HALF = "```python\ndef f(x):\n    return 2\n```\n"
TESTS = ["assert f(1) == 2", "assert f(2) == 3"]
PIECES = ["```", "`", "python", "bash", "\n", "x = 1", " ", "text"]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=10).map("".join), st.sampled_from(["python", "bash", "c++"]))
def test_the_format_is_the_published_expression(text, language):
    pattern = rf"^(?:(?!```)[\s\S])*?```{re.escape(language)}\n(?:(?!```)[\s\S])*?```\n$"
    assert (code_format_score(text, language) > 0) == (re.fullmatch(pattern, text) is not None)
    if code_format_score(text, language) > 0:
        assert language != "python" or extract_code(text) is not None
        assert code_format_score(text, language, allow_trailing_text=True) > 0


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Here:\n```python\nx = 1\n```\nand\n```python\ny = 2\n```\n", "x = 1\n"),
        ("```bash\nls\n```\n```python\nx = 1\n```", "x = 1\n"),
        ("```\nx = 1\n```\n", None),
        ("```python\nx = 1\n", None),
        ("```Python \r\nx = 1\n```", "x = 1\n"),
        ("```py\nx = 1\n```", "x = 1\n"),
        ("```python3\nx = 1\n```", "x = 1\n"),
        ("```pyx\nx = 1\n```", None),
        ("x = 1", None),
        # In a list: it was an IndentationError.
        ("1. Here:\n   ```python\n   def f():\n       return 1\n   ```\n", "def f():\n    return 1\n"),
        ("- ```python\n\n\tx = 1\n\n\ty = 2\n  ```\n", "\nx = 1\n\ny = 2\n"),
        ("   ```python\nif x:\n    y = '''\n    \n'''\n   ```\n", "if x:\n    y = '''\n    \n'''\n   "),
    ],
)
def test_the_first_closed_block_of_the_language_is_the_code(text, code):
    assert extract_code(text) == code


def test_text_after_the_block_needs_the_switch():
    for tail in ("", "\n\n", "\nThis adds one.\n"):
        text = RIGHT.removesuffix("\n") + tail
        assert code_format_score(text) == 0.0
        assert code_format_score(text, allow_trailing_text=True) == 1.0
    assert code_format_score(RIGHT + RIGHT, allow_trailing_text=True) == 0.0
    assert get_code_format_reward(allow_trailing_text=True)([RIGHT + "\n"], prompts=["p"]) == [1.0]


@pytest.mark.parametrize(
    "source",
    ["-" * 100_000 + "1", "(" * 100_000, "a" + ".b" * 100_000, "a" + "+a" * 100_000, "1" * 5000, "\0", "\ud800", "f'{"],
    ids=["minus", "parentheses", "attributes", "sums", "digits", "null", "surrogate", "f-string"],
)
def test_text_that_exhausts_the_parser_is_no_python(source):
    assert code_format_score(f"```python\n{source}\n```\n") == 0.5


@pytest.mark.parametrize(
    ("block", "score"),
    [("\tx = 1", 1.0), ("\n\n    return_value = 1\n", 1.0), ("\tif x:\n\t\ty = 1", 1.0), ("\tx = 1\n\ty = 2", 0.5)],
)
def test_as_published_a_block_is_stripped_before_it_is_parsed(block, score):
    assert get_code_format_reward()([f"```python\n{block}\n```\n"]) == [score]


def test_the_reply_is_the_last_message_of_the_assistant():
    chat = [{"role": "assistant", "content": "no"}, {"role": "assistant", "content": RIGHT}]
    assert completion_text([*chat, {"role": "tool", "content": "ok"}]) == RIGHT
    assert completion_text([{"role": "assistant", "content": [{"type": "text", "text": RIGHT}]}]) == RIGHT
    assert completion_text([{"role": "assistant", "content": None}]) == ""
    with pytest.raises(ValueError, match="roles here: user"):
        completion_text([{"role": "user", "content": RIGHT}])


def test_pass_rates_of_plain_and_conversational_completions():
    completions = [RIGHT, HALF, "no code", [{"role": "assistant", "content": RIGHT}], RIGHT.removesuffix("\n")]
    columns = {
        "test_cases": [TESTS, np.array(TESTS, dtype=object), TESTS, json.dumps(TESTS), TESTS],
        "prompts": ["p"] * 5,
    }
    assert code_reward(completions, provider_type="local", **columns) == [1.0, 0.5, 0.0, 1.0, 0.0]
    loose = code_reward(completions, provider_type="local", allow_trailing_text=True, **columns)
    assert loose == [1.0, 0.5, 0.0, 1.0, 1.0]
    assert binary_code_reward(completions, provider_type="local", **columns) == [1.0, 0.0, 0.0, 1.0, 0.0]


def test_a_failure_of_the_sandbox_is_no_score_and_counted(caplog):
    counted = {}
    rewards = code_reward(
        [RIGHT, RIGHT, "no code"],
        provider_type="local",
        # The sandbox cannot judge by a test that does not compile.
        test_cases=[["assert f(1 =="], TESTS, TESTS],
        log_metric=counted.__setitem__,
    )
    assert rewards == [None, 1.0, 0.0]
    assert counted == {"code_reward/no_score": 1.0, "code_reward/untrusted": 0.0}
    assert "1 of 3 completions have no score" in caplog.text


@pytest.mark.parametrize(("untrusted", "reward"), [("accept", 1.0), ("zero", 0.5), ("drop", None)])
def test_tests_that_run_in_the_programs_process_count_as_the_caller_says(untrusted, reward):
    completion = "```python\ndef f(): return 1\n```\n"
    counted = {}
    rewards = code_reward(
        [completion],
        provider_type="local",
        test_cases=[["assert type(f()) is int", "assert f() == 1"]],
        untrusted=untrusted,
        log_metric=counted.__setitem__,
    )
    assert rewards == [reward]
    assert counted == {"code_reward/no_score": 0.0, "code_reward/untrusted": 1.0}


def test_a_provider_without_machines_is_no_score_but_a_missing_isolation_is_an_error(monkeypatch, caplog):
    def unavailable(provider, num_workers, packages):
        raise SandboxUnavailable("no worker starts")

    monkeypatch.setattr(rewards.code, "open_sandbox", unavailable)
    assert code_reward([RIGHT, "no code"], provider_type="e2b", test_cases=[TESTS, TESTS]) == [None, 0.0]
    assert "no sandbox from e2b" in caplog.text
    with pytest.raises(SandboxUnavailable):
        code_reward([RIGHT], provider_type="local", test_cases=[TESTS])


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({}, "column 'test_cases' is missing"),
        ({"test_cases": [TESTS]}, "zip"),
        ({"test_cases": [TESTS, []]}, "row 1: test_cases is not a list of at least one assert"),
        ({"test_cases": [TESTS, [1]]}, "row 1: test_cases is not a list of at least one assert"),
        ({"test_cases": [TESTS, TESTS], "language": ["python", "cpp"]}, "row 1: language 'cpp'"),
        (
            {"test_cases": [TESTS, TESTS], "language": ["python", "cpp"], "enforce_same_language": True},
            "enforce_same_language: found cpp, python",
        ),
        ({"test_cases": [TESTS, TESTS], "num_parallel": 0}, "num_parallel"),
        ({"test_cases": [TESTS, TESTS], "provider_type": "locale"}, "unknown sandbox provider 'locale'"),
    ],
)
def test_bad_input_is_named_before_anything_runs(options, match, monkeypatch):
    if "provider_type" not in options:
        monkeypatch.setattr(rewards.code, "open_sandbox", lambda *a, **k: pytest.fail("a sandbox was opened"))
    with pytest.raises(ValueError, match=match):
        code_reward([RIGHT, RIGHT], **options)


def test_nothing_to_judge_opens_no_sandbox(monkeypatch):
    monkeypatch.setattr(rewards.code, "open_sandbox", lambda *a, **k: pytest.fail("a sandbox was opened"))
    assert code_reward([], test_cases=[]) == []
    assert code_reward(["no code"], test_cases=[TESTS], language=[None]) == [0.0]


def test_the_program_is_the_one_after_the_thinking():
    """The first block inside the thinking was judged, and made the format wrong."""
    thought = f"<think>\n{HALF}But it must add one.\n</think>\n{RIGHT}"
    cut_off = f"<think>\n{RIGHT}"
    assert code_reward([thought, cut_off], provider_type="local", test_cases=[TESTS] * 2) == [1.0, 0.0]
    assert get_code_format_reward()([[{"role": "assistant", "content": thought}], cut_off]) == [1.0, 0.0]


def test_the_first_failing_test_is_told_with_how_it_ended() -> None:
    told = execution_feedback(["assert f(1) == 1", "assert f(2) == 4"], ["accepted", "wrong_answer"])
    assert told == "1 of 2 tests passed. wrong answer: assert f(2) == 4"
    assert len(execution_feedback(["assert f() == " + "9" * 1000], ["timeout"])) < 260
