"""`ares data check` as a user calls it: what it prints, and its exit status."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, DatasetDict
from typer.testing import CliRunner

from flows.cli.data import app
from tests.ares.builders import MODEL
from tests.ares.data.code_rows import written

GOOD = {
    "id": "a",
    "question": "Write inc.",
    "test_cases": ["assert inc(1) == 2"],
    "solution": "def inc(x): return x + 1",
}
WRONG = GOOD | {"id": "b", "solution": "def inc(x): return [x]"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "p.jsonl"


def check(source: Path, rows: list[dict[str, Any]], *options: str) -> tuple[int, str]:
    written(source, *rows)
    result = CliRunner().invoke(app, ["check", str(source), "reward.code.workers=1", *options])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout


def test_the_exit_status_says_whether_the_set_is_good(source: Path) -> None:
    assert check(source, [GOOD], "--code")[0] == 0
    status, told = check(source, [GOOD, WRONG, GOOD | {"id": "c", "test_cases": []}], "--code")
    assert status == 1
    assert "rows without tests, left out                     1: 3 (c)" in told
    assert "wrong_answer" in told


def test_json_holds_every_row(source: Path) -> None:
    status, told = check(source, [GOOD, WRONG], "--code", "--json")
    report = json.loads(told)
    assert (status, report["good"], report["counts"]["rows"]) == (1, False, 2)
    (failure,) = report["failures"]
    assert (failure["row"], failure["id"], failure["test"]) == (2, "b", "assert inc(1) == 2")


def test_settings_come_from_the_profile_and_dotted_overrides(source: Path) -> None:
    rows = [{"q": "1+1=?", "answer": "2"}]
    assert check(source, rows)[0] == 1
    assert check(source, rows, "--profile", "tiny-math", "data.prompt_key=q", "data.validation=null")[0] == 0
    levels = source.with_name("levels.yaml")  # of which FILE is one
    levels.write_text("{extends: tiny-math, data: {train: [a, b], curriculum: {}, prompt_key: q, validation: null}}")
    assert check(source, rows, "--profile", str(levels))[0] == 0


def test_what_would_be_trained_on_is_shown_with_three_whole_prompts(source: Path) -> None:
    rows = [{"question": text, "answer": "2"} for text in ("1+1=?", "1+1+0=?", "2=?", "1+1+0+0+0+0=?", "2" * 99)]
    settings = ["data.prompt_key=question", "data.format_prompt=Solve: {prompt}", "data.max_prompt_length=60"]
    status, told = check(source, rows, *settings, "--model", str(MODEL), "data.system_prompt=Think.")
    assert status == 0
    tops, bodies = zip(*re.findall(r"(row \d+, \d+ tokens) ─+\n(.*?)(?=\n\n)", told, re.S), strict=True)
    assert [top.partition(",")[0] for top in tops] == ["row 1", "row 3", "row 4"]  # the first, shortest and longest
    assert bodies[2] == (
        "<|im_start|>system\nThink.<|im_end|>\n<|im_start|>user\nSolve: 1+1+0+0+0+0=?<|im_end|>\n<|im_start|>assistant"
    )
    *_, count, too_few, following = told.splitlines()
    assert following.endswith(" rollout.prompts=4 learner.global_batch_prompts=4")
    assert [count, too_few] == [
        "4 problems to train on",
        "4 problems are fewer than rollout.prompts=16: set rollout.prompts=4 learner.global_batch_prompts=4",
    ]
    report = json.loads(check(source, rows, *settings, "--model", str(MODEL), "--json", "data.limit=2")[1])
    (first, second) = report["prompts"]
    assert (report["trained_on"], report["counts"]["rows"], first["row"], second["row"]) == (2, 2, 1, 2)


def test_held_out_sets_are_checked_with_their_own_columns(source: Path) -> None:
    rows = [{"problem": "1+1=?", "answer": "2"}, {"problem": "3+3", "answer": None}]
    held_out = written(source.with_name("heldout.jsonl"), *rows)
    sets = f"data.validation={{aime: {{source: {held_out}, prompt_key: problem}}, same: {held_out}}}"
    status, told = check(source, [{"prompt": "1+1=?", "answer": "2"}], sets, "--json")
    report = json.loads(told)
    assert status == 1
    assert report["counts"]["prompts that are held out in aime too"] == "1: row 1"
    assert {(each["row"], each["what"]) for each in report["findings"]} == {
        (f"{held_out}:2", "column 'answer' is missing or null. Name it with data.answer_key=…"),
        (
            str(held_out),
            "column 'prompt' is missing (columns: problem, answer). Name it with data.prompt_key=…",
        ),
    }


def test_a_list_and_a_split_are_taken_as_training_takes_them(source: Path) -> None:
    row = {"prompt": "1+1=?", "answer": "2"}
    several, saved = written(source.with_name("a.jsonl"), row, row, row), source.with_name("saved")
    DatasetDict({"dev": Dataset.from_list([row])}).save_to_disk(saved)

    def rows(*arguments: str) -> int:
        told = CliRunner().invoke(app, ["check", *arguments, "--json"])
        return int(json.loads(told.stdout)["counts"]["rows"])

    assert rows(f"[{several}, {saved}]", "data.train_split=dev") == 4


def test_of_many_wrong_rows_some_are_named(source: Path) -> None:
    told = check(source, [{"prompt": f"{n}", "answer": None} for n in range(50)])[1]
    assert "\n1 (0): " in told
    assert "\n20 (19): " in told
    assert "21 (20)" not in told
    assert "\n30 more: --json" in told


def test_what_is_wrong_with_the_whole_set_is_in_no_row(source: Path) -> None:
    told = check(source, [{"question": "1+1=?", "answer": "2"}])[1]
    assert "rows with an error                               0" in told
    assert "\n0: " not in told


def test_prompts_without_tests_are_compared_with_suites_that_have_some(source: Path, tmp_path: Path) -> None:
    """They were not, and the suite's file was not even opened."""
    words = "a train leaves at noon and another one an hour later how far apart are they"
    rows = [{"prompt": f"Hello. {words.title()}!", "answer": "2"}, {"prompt": "1+1=?", "answer": "2"}]
    suite = written(tmp_path / "suite.jsonl", GOOD | {"id": "S/1", "question": f"Now {words}"})
    around = "data.format_prompt={prompt} Let us think step by step and then write the last answer into a box."
    status, told = check(source, rows, "--json", "--against", str(suite), around)
    assert status == 0
    assert json.loads(told)["counts"][f"problems with 13 words in a row of {suite}"] == "1: row 1 with S/1"
    result = CliRunner().invoke(app, ["check", str(source), "--against", str(written(suite, {"q": words}))])
    assert "suite.jsonl: no row has tests" in str(result.exception)


def test_held_out_sets_are_judged_by_their_names_where_rows_do_not_say(source: Path, tmp_path: Path) -> None:
    held_out = written(tmp_path / "held_out.jsonl", {"prompt": "1+2=?", "answer": "3"})
    rows = [{"prompt": "1+1=?", "answer": "2", "grader": "math"}]
    assert check(source, rows, "reward.kind=[math, code]", "reward.by_row=true",
                 f"data.validation={{math: {{source: {held_out}}}}}")[0] == 0  # fmt: skip


def test_problems_of_a_suite_are_named_with_where_they_are_from(source: Path, tmp_path: Path) -> None:
    words = "given a list of whole numbers return the longest run of them that never falls"
    rows = [
        GOOD,
        GOOD | {"id": "taken", "question": f"Hello. {words.upper()}!"},
        GOOD | {"id": "c", "question": "Write inc, or else."},
    ]
    suite = written(tmp_path / "suite.jsonl", GOOD | {"id": "S/1", "question": words}, {"id": "S/2"})
    held_out = written(tmp_path / "held_out.jsonl", GOOD | {"id": "H/1", "question": "Write inc (or else)"})
    status, told = check(
        source, rows, "--code", "--json", "--against", str(suite), f"data.validation={{own: {{source: {held_out}}}}}"
    )
    report = json.loads(told)
    assert (status, report["good"], report["findings"]) == (0, True, [])  # what a suite's rows lack is no fault of ours
    for name, pair in (("own", "row 3 with H/1"), (suite, "row 2 with S/1")):
        assert report["counts"][f"problems with 13 words in a row of {name}"] == f"1: {pair}"
