"""`ares data check` as a user calls it: what it prints, and its exit status."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.cli.data import app
from flows.cli.main import main

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
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = CliRunner().invoke(app, ["check", str(source), "--workers", "1", *options])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout


def test_the_exit_status_says_whether_the_set_is_good(source: Path) -> None:
    assert check(source, [GOOD], "--code")[0] == 0
    status, told = check(source, [GOOD, WRONG, GOOD | {"id": "c", "test_cases": []}], "--code")
    assert status == 1
    assert "3 (c)" in told
    assert "there is no test" in told
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
    assert check(source, rows, "--profile", "tiny-math", "data.prompt_key=q")[0] == 0


def test_the_command_line_knows_it_and_names_a_file_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["ares", "data", "check", str(tmp_path / "absent.jsonl")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "absent.jsonl: cannot be read" in capsys.readouterr().err


def test_prompts_that_are_held_out_too_are_counted_with_their_rows(source: Path) -> None:
    held_out = source.with_name("heldout.jsonl")
    held_out.write_text('{"prompt": "1+1=?", "answer": "2"}\n{"prompt": "2+2", "answer": "4"}\n')
    rows = [{"prompt": text, "answer": "4"} for text in ("1+1=?", "3+3=?", "2+2?")]
    status, told = check(source, rows, f"data.validation={held_out}", "--json")
    assert status == 0
    assert json.loads(told)["counts"]["prompts that are held out too"] == (
        "1 exactly, 2 but for case, spaces and closing punctuation: row 1, row 3"
    )
    assert "held out" not in check(source, rows, "--json")[1]
