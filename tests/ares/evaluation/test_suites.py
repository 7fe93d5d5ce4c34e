"""Suites: where their files are found, their prompts, which tests are base ones, what a completion's program is."""

import copy
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants
from tokenizers.processors import TemplateProcessing

from ares.config import ConfigError
from ares.data import DataError
from ares.evaluation.evaluation import Evaluation
from ares.evaluation.request import EvaluationRequest
from ares.evaluation.suite_problems import SuiteProblems, files_of, load_suite
from ares.evaluation.suites import SUITES
from ares.grading.code import written
from tests.ares.builders import config, tokenizer, with_template
from tests.ares.data.code_rows import APPS, HUMANEVAL, HUMANEVAL_PLUS, LIVE, MBPP, MBPP_PLUS, SCRIPT, Row
from tests.ares.data.code_rows import written as rows_in


@pytest.fixture(autouse=True)
def nothing_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no hub."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub._snapshot_download.HF_HUB_CACHE", str(tmp_path / "cache"), raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.delenv("ARES_TEST_DATA", raising=False)
    return tmp_path


def cached(folder: Path, name: str, file: str, *rows: Row) -> Path:
    """A data set as huggingface_hub keeps it."""
    repository = folder / "cache" / f"datasets--{name.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True, exist_ok=True)
    (repository / "refs" / "main").write_text("0" * 40)
    return rows_in(repository / "snapshots" / ("0" * 40) / file, *rows)


def asked(name: str, data: Path | None = None, form: str | None = None, model: Any = None) -> SuiteProblems:
    of_run = config().data
    return load_suite(name, None if data is None else str(data), form, of_run, model or tokenizer(), None)


# ---- places --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "file", "data"),
    [
        ("humaneval", "own/HumanEval.jsonl", "own/HumanEval.jsonl"),
        ("humaneval", "own/HumanEval.jsonl", "own"),
        ("humaneval", "sets/humaneval/HumanEval.jsonl.gz", "sets"),
        # As `hf download evalplus/humanevalplus --local-dir sets/humanevalplus` fills it.
        ("humaneval+", "sets/humanevalplus/data/test-0.parquet", "sets/humanevalplus"),
        ("humaneval+", "sets/humanevalplus/data/test-0.parquet", "sets"),
        ("apps", "sets/test.jsonl", "sets"),
    ],
)
def test_data_names_a_file_or_a_folder(name: str, file: str, data: str, nothing_at_hand: Path) -> None:
    there = rows_in(nothing_at_hand / file, HUMANEVAL)
    cached(nothing_at_hand, "openai/openai_humaneval", "openai_humaneval/test-0.parquet", HUMANEVAL)
    assert files_of(name, str(nothing_at_hand / data)) == [str(there)]
    (nothing_at_hand / "empty").mkdir()
    for absent in ("empty", "absent"):  # which no other place replaces
        with pytest.raises(DataError, match=rf"no .* or .* in {nothing_at_hand}/{absent}\. Get it"):
            files_of(name, str(nothing_at_hand / absent))


def test_without_data_files_come_from_the_sets_or_the_cache(
    nothing_at_hand: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARES_TEST_DATA", str(nothing_at_hand / "sets"))
    in_cache = cached(nothing_at_hand, "openai/openai_humaneval", "openai_humaneval/test-00000-of-1.parquet", HUMANEVAL)
    assert files_of("humaneval", None) == [str(in_cache)]
    at_hand = rows_in(nothing_at_hand / "sets/humaneval/HumanEval.jsonl", HUMANEVAL)
    assert files_of("humaneval", None) == [str(at_hand)]


def test_a_data_set_without_the_suites_files_is_named(nothing_at_hand: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.evaluation.suite_problems.snapshot_download", lambda *_, **__: str(nothing_at_hand))
    with pytest.raises(DataError, match="in openai/openai_humaneval"):
        files_of("humaneval", None)


@pytest.mark.parametrize("name", SUITES)
def test_a_missing_suite_says_what_is_missing_and_how_to_get_it(name: str) -> None:
    with pytest.raises(DataError) as caught:
        files_of(name, None)
    suite, told = SUITES[name], str(caught.value)
    assert all(each in told for each in (*suite.names, *suite.files, "HF_HUB_OFFLINE", "--data"))
    assert f"hf download {suite.hub} --repo-type dataset --include '{suite.files[0]}'" in told
    with pytest.raises(DataError, match=rf"did you mean {re.escape(name)}\?"):
        files_of(f"{name}l", None)


# ---- forms ---------------------------------------------------------------------------------------------------------


def test_a_chat_template_decides_the_form_unless_it_is_named(nothing_at_hand: Path) -> None:
    file = rows_in(nothing_at_hand / "HumanEval.jsonl", HUMANEVAL)
    assert asked("humaneval", file).form == "instruct"
    assert asked("humaneval", file, model=with_template(None)).form == "completion"
    assert asked("humaneval", file, "completion").form == "completion"
    with pytest.raises(DataError, match="no chat template"):
        asked("humaneval", file, "instruct", with_template(None))


def test_an_instruct_prompt_is_a_chat_and_a_completion_the_bare_head(nothing_at_hand: Path) -> None:
    file = rows_in(nothing_at_hand / "HumanEval.jsonl", HUMANEVAL)
    chat, bare = (asked("humaneval", file, form).problems.frame.iloc[0] for form in ("instruct", "completion"))
    assert all(text in chat["prompt"] for text in ("<|im_start|>", "```python block", HUMANEVAL["prompt"].strip()))
    assert bare["prompt"] == HUMANEVAL["prompt"]
    assert bare["prompt_token_ids"] == tokenizer()(HUMANEVAL["prompt"])["input_ids"]
    assert "begun" not in chat


def test_a_completions_prompt_does_not_end_with_the_end_token_that_some_tokenizers_add(nothing_at_hand: Path) -> None:
    ending, plain = copy.deepcopy(tokenizer()), tokenizer()(HUMANEVAL["prompt"])["input_ids"]
    end = (ending.eos_token, ending.eos_token_id)
    ending.backend_tokenizer.post_processor = TemplateProcessing(single=f"$A {end[0]}", special_tokens=[end])
    assert ending(HUMANEVAL["prompt"])["input_ids"] == [*plain, end[1]]
    file = rows_in(nothing_at_hand / "HumanEval.jsonl", HUMANEVAL)
    assert asked("humaneval", file, "completion", ending).problems.frame["prompt_token_ids"].tolist() == [plain]


ROWS = {"humaneval": HUMANEVAL, "humaneval+": HUMANEVAL_PLUS, "mbpp": MBPP, "mbpp+": MBPP_PLUS, "apps": APPS}


@pytest.mark.parametrize("name", ROWS)
def test_a_reference_that_a_base_model_writes_is_the_program(nothing_at_hand: Path, name: str) -> None:
    """What it writes after the program, from the first stop string on, is not part of it."""
    row = asked(name, rows_in(nothing_at_hand / "set.jsonl", ROWS[name]), "completion").problems.frame.iloc[0]
    whole = row["answer"].rstrip() + "\n"
    assert not row["begun"] or whole.startswith(row["begun"])
    for stop in row["stops"]:
        response = whole.removeprefix(row["begun"]).rstrip() + f"{stop}something else"
        assert written({**row, "response": response}).rstrip() == whole.rstrip()  # type: ignore[union-attr]


def test_a_chats_program_is_its_code_block_after_the_thinking() -> None:
    block = "```python\nx = {}\n```\n"
    assert written({"response": f"<think>{block.format(1)}</think>{block.format(2)}"}) == "x = 2\n"
    assert written({"response": f"<think>{block.format(1)}"}) is None  # cut off
    begins = "<|im_start|>assistant\n<think>\n"  # the template's
    assert written({"prompt": begins, "response": block.format(1)}) is None
    assert written({"prompt": begins, "response": f"{block.format(1)}</think>{block.format(2)}"}) == "x = 2\n"
    assert written({"response": "x = 1"}) is None


def test_contests_go_on_from_their_starter_code_and_a_docstring_stays_one(nothing_at_hand: Path) -> None:
    starter = "class Solution:\n    def add(self, a: int, b: int) -> int:\n        "
    row = {**APPS, "question": 'Add.\n"""quoted"""', "starter_code": starter}
    found = asked("apps", rows_in(nothing_at_hand / "apps.jsonl", row), "completion").problems.frame.iloc[0]
    compile(found["prompt"] + "        return a + b\n", "prompt", "exec")
    assert found["begun"] == starter.rstrip() + "\n"
    assert "standard input" not in found["prompt"]


# ---- tests ---------------------------------------------------------------------------------------------------------


def test_base_tests_come_first_and_are_counted(nothing_at_hand: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARES_TEST_DATA", str(nothing_at_hand))
    base = rows_in(nothing_at_hand / "HumanEval.jsonl", HUMANEVAL)
    for name, row, tests, where in (
        ("humaneval+", HUMANEVAL_PLUS, [HUMANEVAL["test"]], str(base)),
        ("mbpp+", MBPP_PLUS, MBPP_PLUS["test_list"], "column test_list"),
    ):
        found = asked(name, rows_in(nothing_at_hand / f"{name}.jsonl", row))
        frame = found.problems.frame
        assert frame["test_cases"].tolist() == [[*tests, row["test"]]]
        assert (frame["base_tests"].tolist(), found.base) == ([len(tests)], where)


def test_without_the_base_set_a_warning_is_given_and_all_tests_count(
    nothing_at_hand: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = asked("humaneval+", rows_in(nothing_at_hand / "HumanEvalPlus.jsonl", HUMANEVAL_PLUS))
    assert "base_tests" not in found.problems.frame
    assert str(found.base).startswith("no base tests: --suite humaneval: no HumanEval.jsonl")
    rows_in(nothing_at_hand / "HumanEval.jsonl", {**HUMANEVAL, "task_id": "HumanEval/1"})
    monkeypatch.setenv("ARES_TEST_DATA", str(nothing_at_hand))
    found = asked("humaneval+", nothing_at_hand / "HumanEvalPlus.jsonl")
    assert "lacks 1 of these problems, as HumanEval/0" in str(found.base)


def test_of_mbpps_file_the_test_split_is_used(nothing_at_hand: Path) -> None:
    rows = [{**MBPP, "task_id": name} for name in (10, 11, 510, 511)]
    file = rows_in(nothing_at_hand / "mbpp.jsonl", *rows)
    frame = asked("mbpp", file).problems.frame
    assert frame["id"].tolist() == ["11", "510"]
    tests: Any = MBPP["test_list"]
    assert all(test in frame["prompt"][0] for test in tests)
    with pytest.raises(DataError, match="no row of mbpp's test split"):
        asked("mbpp", rows_in(nothing_at_hand / "other.jsonl", rows[0]))


def test_an_own_file_is_a_suite(nothing_at_hand: Path) -> None:
    row = {"id": "inc", "prompt": "Write inc(x).", "test_cases": ["assert inc(1) == 2"]}
    assert asked(str(rows_in(nothing_at_hand / "own.jsonl", row))).problems.frame["id"].tolist() == ["inc"]
    of_heads = asked(str(rows_in(nothing_at_hand / "heads.jsonl", HUMANEVAL)), None, "completion")
    assert of_heads.problems.frame["begun"][0] == HUMANEVAL["prompt"]


def test_a_suites_columns_are_its_own(nothing_at_hand: Path) -> None:
    """All of these were accepted, and ignored."""
    for setting in ("data.prompt_key=task", "data.tests_key=hidden", "data.format_prompt='Now: {prompt}'"):
        with pytest.raises(ConfigError, match=r"the columns and prompts of --suite humaneval are its own"):
            opened([setting], suite="humaneval")


# ---- an evaluation of a suite --------------------------------------------------------------------------------------


def opened(overrides: Sequence[str] = (), **settings: Any) -> Evaluation:
    """An evaluation that was opened, its sandbox closed again."""
    small = ["reward.code.workers=1", *overrides]
    request = EvaluationRequest(target="examples/tiny/checkpoints/code", n=1, overrides=small, **settings)
    evaluation = Evaluation.open(request)
    evaluation.run.close()
    return evaluation


def test_an_evaluation_has_the_suites_limits_and_a_given_one_counts_more(nothing_at_hand: Path) -> None:
    file = str(rows_in(nothing_at_hand / "HumanEval.jsonl", HUMANEVAL))
    found = opened(suite="humaneval", data=file)
    settings, suite = found.config, SUITES["humaneval"]
    assert (settings.reward.kind, settings.reward.code.cpu_seconds) == ("code", suite.cpu_seconds)
    assert settings.rollout.max_response_length == suite.tokens
    assert settings.data.max_prompt_length == len(found.run.train_set.frame["prompt_token_ids"][0])
    shorter = opened(suite="humaneval", data=file, overrides=["rollout.max_response_length=9"])
    assert shorter.config.rollout.max_response_length == 9
    same, bare = (opened(suite="humaneval", data=file, form=form) for form in ("instruct", "completion"))
    assert found.run.store.directory == same.run.store.directory
    assert len({each.run.store.directory for each in (found, shorter, bare)}) == 3
    assert "humaneval" in shorter.run.store.directory.name


def test_known_failures_are_the_suites(nothing_at_hand: Path) -> None:
    wrong = {**HUMANEVAL_PLUS, "task_id": "HumanEval/32", "canonical_solution": "    return xs\n"}
    file = rows_in(nothing_at_hand / "HumanEvalPlus.jsonl", HUMANEVAL_PLUS, wrong)
    assert references("humaneval+", file) == {"solutions": 2, "accepted": 1, "known_failures": ["HumanEval/32"]}
    with pytest.raises(DataError, match=r"1 of 2 reference solutions .* HumanEval/32 \(wrong_answer\)"):
        references("humaneval", file)


def test_a_completion_needs_a_text_that_states_the_problem(nothing_at_hand: Path) -> None:
    """verl's prompts are messages, DeepCoder's column is called problem: both ended with StopIteration."""
    tests = {"tests": json.dumps([{"input": "1", "output": "2", "type": "stdin_stdout"}])}
    deepcoder = str(rows_in(nothing_at_hand / "deepcoder.jsonl", {"problem": "Add one.", **tests}))
    assert "Add one." in asked(deepcoder, None, "completion").problems.frame["prompt"][0]
    chats = str(rows_in(nothing_at_hand / "verl.jsonl", {"prompt": [{"role": "user", "content": "Add one."}], **tests}))
    with pytest.raises(DataError, match=r"verl\.jsonl:1: --form completion: no text states the problem \(columns"):
        asked(chats, None, "completion")
    assert asked(chats).form == "instruct"


def references(suite: str, data: Path | None = None, form: str | None = None) -> Any:
    found = opened(suite=suite, data=None if data is None else str(data), sanity=True, form=form)
    return found.description["references"]


SOLVED: dict[str, tuple[Row, Row]] = {
    "humaneval": (HUMANEVAL, {"canonical_solution": "    return xs\n"}),
    "livecodebench": ({**LIVE, "solution": SCRIPT}, {"solution": "print(2)"}),
}
"""A row of a suite, and a reference that passes at most some of its tests."""


@pytest.mark.parametrize("name", SOLVED)
def test_references_of_suites_are_judged_by_its_name_or_path(nothing_at_hand: Path, name: str) -> None:
    row, other = SOLVED[name]
    file = rows_in(nothing_at_hand / "set.jsonl", row)
    accepted = {"solutions": 1, "accepted": 1, "known_failures": []}
    assert references(name, file) == references(str(file), form="completion") == accepted
    wrong = rows_in(nothing_at_hand / "wrong.jsonl", row | other)
    for of, data in ((name, wrong), (str(wrong), None)):
        with pytest.raises(DataError, match=r"1 of 1 reference solutions fail .*\(wrong_answer\)"):
            references(of, data)


def test_unusable_rows_are_named_and_left_out(nothing_at_hand: Path) -> None:
    untested = {**APPS, "problem_id": 8, "input_output": ""}
    odd = {**APPS, "problem_id": 9, "input_output": json.dumps({"inputs": ["1 2\n"], "outputs": []})}
    file = rows_in(nothing_at_hand / "apps.jsonl", untested, APPS, odd)
    found = asked("apps", file)
    assert found.problems.frame["id"].tolist() == ["7"]
    left_out = {"1 (8)": "there is no test", "3 (9)": "input_output has 1 inputs and 0 outputs"}
    assert found.problems.left_out == left_out
    evaluation = opened(suite="apps", data=str(file))
    assert evaluation.description["left_out"] == left_out
    with pytest.raises(DataError, match=r"none.jsonl:1: there is no test"):
        asked("apps", rows_in(nothing_at_hand / "none.jsonl", untested))
