"""Wrong inputs as users give them: each is one line that names the file, row, field or option, and leaves nothing.

Covered: the command line in this process, for what is found before anything is started. Not covered: what is
noticed only during a run (tests/resume), and what changes results (tests/e2e/test_command_line.py).
"""

import functools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer.main

from flows.cli.main import main
from tests.e2e.wrong_inputs import FOLDER, WRONG, Content
from tests.short_runs import told

made_once = functools.cache(typer.main.get_command)
"""The command line's commands, which typer would rebuild on every call."""


def write(files: dict[str, Content], folder: Path) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is FOLDER:
            path.mkdir()
        elif isinstance(content, bytes):
            path.write_bytes(content)
        elif isinstance(content, list):
            path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in content))
        else:
            path.write_text(json.dumps(content) if isinstance(content, dict) else content)


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture(autouse=True)
def _nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that nobody needs takes a second; asked for a server or for Ray, a command has gone too far."""

    @contextmanager
    def none() -> Iterator[None]:
        yield None

    def started(*arguments: Any, **named: Any) -> None:
        raise AssertionError("something was started")

    monkeypatch.setattr("typer.main.get_command", made_once)
    monkeypatch.setattr("flows.servers.local_server.local_api", none)
    monkeypatch.setattr("flows.run_log.run_in_flow", started)
    monkeypatch.setattr("ray.init", started)


@pytest.mark.parametrize("what", WRONG)
def test_wrong_input_is_one_line_and_leaves_nothing(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong = WRONG[what]
    arguments = wrong.command.split() if isinstance(wrong.command, str) else wrong.command
    monkeypatch.setattr("sys.argv", ["ares", *arguments])
    monkeypatch.setenv("ARES_RUNS", "runs")
    write(wrong.files, tmp_path)
    monkeypatch.chdir(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capfd.readouterr()
    output = printed.out + printed.err
    assert ended.value.code not in (0, None), output
    assert "Traceback" not in output
    assert wrong.told in output
    if arguments[:2] != ["data", "check"]:  # which shows counts, too
        assert printed.out == ""
        assert len(printed.err.splitlines()) <= wrong.lines, output
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("export uninterrupted --out {bad}", "cannot be written"),
        ("inspect uninterrupted --step 2 --id nowhere", "nowhere"),
        ("inspect uninterrupted --step 99", "no committed step 99"),
        ("fork uninterrupted --at 99 --run new", "has not got there: its last commit is 4"),
        ("fork uninterrupted --at 2 --run uninterrupted", "There is a run 'uninterrupted' already"),
        ("fork uninterrupted --at 2 --run new model.lora.rnk=3", "model.lora.rnk is unknown"),
        ("export uninterrupted --out {bad} --step 0", "cannot be written"),
    ],
)
def test_wrong_input_about_a_run_is_one_line_and_leaves_nothing(
    command: str, said: str, runs: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    before = contents(runs) | contents(tmp_path)
    ended = told(runs, *command.format(bad=tmp_path / "file" / "beneath").split())
    assert ended.returncode == 2
    assert said in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert contents(runs) | contents(tmp_path) == before
