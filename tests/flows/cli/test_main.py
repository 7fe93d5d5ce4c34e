"""`ares train`, `status` of all runs, `profiles`, how commands print. Of one run: tests/e2e/test_command_line.py."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from ares.config import profile_names, profiles
from ares.runs import Run
from ares.store import RunStore
from flows.cli import command, main
from tests.ares.builders import config
from tests.ares.store_builders import commit


def test_a_profile_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read twice, it could differ from what was checked."""
    read: list[str] = []
    whole = profiles._read

    def counted(profile: str, seen: list[str]) -> Any:
        read.append(profile)
        return whole(profile, seen)

    def opened(config: Any, name: str, *more: Any, may_round: bool) -> None:
        raise RuntimeError(f"{name}: {config.rollout.n}")

    monkeypatch.setenv("ARES_RUNS", str(tmp_path))
    monkeypatch.setattr(profiles, "_read", counted)
    monkeypatch.setattr(Run, "open", opened)
    result = CliRunner().invoke(main.app, ["train", "tiny-math", "--plain", "--run", "one", "rollout.n=3"])
    assert str(result.exception) == "one: 3"
    assert read == ["tiny-math", "base"]


def test_all_runs_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing name was an error."""
    monkeypatch.setenv("ARES_RUNS", str(tmp_path))
    for name, steps in (("begun", 1), ("new", 0)):
        store = RunStore(tmp_path / name)
        store.write_run({"config": config("train.steps=4").model_dump(mode="json"), "digests": {}})
        for step in range(steps):
            store.write_commit(commit(step, None, state={"counters": {"tokens": 0}, "evaluations": []}))
    (tmp_path / "mlflow.db").touch()
    RunStore(tmp_path / "damaged").write_run({})
    told = CliRunner().invoke(main.app, ["status"], catch_exceptions=False)
    assert told.stdout.splitlines() == ["begun  stopped  step 0 of 4", "new  new  step 0 of 4"]
    assert "damaged" in told.stderr
    as_json = CliRunner().invoke(main.app, ["status", "--json"], catch_exceptions=False).stdout.splitlines()
    assert [json.loads(line)["run"] for line in as_json] == ["begun", "new"]


def test_what_profiles_are_for_is_in_one_column_of_whole_sentences() -> None:
    *lines, last = CliRunner().invoke(main.app, ["profiles"]).stdout.splitlines()
    names = [line.split()[0] for line in lines]
    assert last == "next: ares train NAME, or ares new MINE --from NAME"
    assert [name for name in names if not name.startswith("algorithm=")] == profile_names()
    assert "algorithm=dapo" in names
    column = max(map(len, names)) + 2
    for name, line in zip(names, lines, strict=True):
        assert line[:column] == name.ljust(column)
        assert line[column] != " "
        assert line.endswith(".")
    assert any(line.startswith("algorithm=distill") and "teacher" in line for line in lines)
    (secret,) = [line for line in lines if line.startswith("tiny-code-secret")]  # whose comment has two lines
    assert secret.endswith("a second one can read it from the failed test, if all but the guess was right.")


@pytest.mark.parametrize(
    ("evaluations", "following"),
    [([], "next: ares inspect a --step 1"), ([{}], "next: ares eval a, or ares inspect a --step 1")],
)
def test_a_run_without_held_out_problems_is_not_to_be_evaluated(
    evaluations: list[Any], following: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimpleNamespace(store=SimpleNamespace(directory=tmp_path))
    monkeypatch.setattr("flows.start.open_run", lambda *given, **named: run)
    monkeypatch.setattr("flows.start.train_plainly", lambda run: {"run": "a", "evaluations": evaluations})
    monkeypatch.setattr(main, "keep_in", lambda folder: None)
    assert CliRunner().invoke(main.app, ["train", "tiny-math", "--plain"]).stdout.splitlines() == [following]


@pytest.mark.parametrize("words", [["train", "tiny-math"], ["resume", "first"]])
def test_without_prefect_a_run_that_is_not_plain_ends_with_the_option_in_one_line(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ended in a traceback: No module named 'prefect'."""
    for name in [name for name in sys.modules if name.startswith(("flows.servers", "flows.prefect_", "prefect"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "prefect", None)
    monkeypatch.setattr(sys, "argv", ["ares", *words])
    with pytest.raises(SystemExit, match="2"):
        main.main()
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "error: this needs prefect, which is not installed; with --plain, train and resume do without"


def test_the_number_of_a_line_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Rich turns :100: into an emoji unless it is told not to."""
    for console in (command.console, command.errors):
        console.print("rows.jsonl:100: not JSON", markup=False)
    assert capsys.readouterr() == ("rows.jsonl:100: not JSON\n", "rows.jsonl:100: not JSON\n")


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["train", "tiny-math", "model.path=/nowhere[/y]", "--dry-run"], 0, "/nowhere[/y]"),  # Rich read it as markup
        (["serve", "examples", "--port", "70000"], 2, "--port"),  # a traceback
        (["ablate", "math-kl", "train.steps=3", "--name", "fast", "--dry-run"], 0,
         "next: the same command without --dry-run"),
        (["data", "check", "--help"], 0, "[FILE,"),  # as markup, a list in brackets was nothing
    ],
)  # fmt: skip
def test_what_a_command_is_given_is_what_it_says(arguments: list[str], code: int, told: str) -> None:
    result = CliRunner().invoke(main.app, arguments)
    assert result.exit_code == code, result.output
    assert told in result.output.replace("\n", " ")
