"""Logging: ours on the terminal, libraries' in the run's log.txt, which a command's error names."""

import json
import logging
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from ares.errors import UserError
from flows.cli import logs
from flows.cli import main as command_line
from flows.run_log import FORMAT

OURS, THEIRS = logging.getLogger("ares.cluster.cluster"), logging.getLogger("somelibrary")


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    root, shown = logging.getLogger(), warnings.showwarning
    before = (root.handlers[:], root.level)
    logging.captureWarnings(False)  # a command that an earlier test called in this process has left it on
    yield
    logging.captureWarnings(False)
    root.handlers, warnings.showwarning = before[0], shown
    root.setLevel(before[1])


def test_librarys_warnings_go_to_the_file_ours_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(verbose=False)
    THEIRS.warning("before the run is known")
    logs.keep_in(tmp_path)
    THEIRS.info("nobody wants to know")
    warnings.warn("a warning of Python's", UserWarning, stacklevel=1)
    OURS.info("replayed 3 updates")
    OURS.warning("learner died (attempt 1 of 3)")
    assert capsys.readouterr() == ("", "warning: learner died (attempt 1 of 3)\n")
    kept = (tmp_path / "log.txt").read_text()
    for text in ("before the run is known", "UserWarning: a warning of", "replayed 3 updates", "learner died"):
        assert kept.count(text) == 1
    assert "nobody wants to know" not in kept


def test_a_full_disk_under_the_file_is_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(verbose=False)
    (tmp_path / "log.txt").symlink_to("/dev/full")
    logs.keep_in(tmp_path)
    for number in range(3):
        OURS.info("line %d", number)
    told = capsys.readouterr().err.splitlines()
    assert told == [f"warning: {tmp_path / 'log.txt'}: cannot be written: No space left on device"]


def test_the_folder_of_a_new_ablation_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(verbose=False)
    THEIRS.warning("before its folder is there")
    logs.keep_in(tmp_path / "runs" / "math-kl")
    assert "before its folder is there" in (tmp_path / "runs" / "math-kl" / "log.txt").read_text()
    assert capsys.readouterr().err == ""


def test_with_v_libraries_are_on_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(verbose=True)
    logs.keep_in(tmp_path)
    THEIRS.info("somebody wants to know")
    assert "INFO somelibrary: somebody wants to know" in capsys.readouterr().err


def test_without_anything_to_keep_there_is_no_file(tmp_path: Path) -> None:
    logs.set_up(verbose=False)
    logs.keep_in(tmp_path)
    assert (logs.kept_file(), list(tmp_path.iterdir())) == (None, [])


def test_an_error_is_a_line_of_json_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(FORMAT, "json")
    monkeypatch.setattr(sys, "argv", ["ares", "status", "no-such-run"])
    for console in (command_line.console, command_line.errors):
        monkeypatch.setattr(console, "quiet", False)  # as it is afterwards
    with pytest.raises(SystemExit):
        command_line.main()
    OURS.info("step 1", extra={"about": {"run": "first", "step": 1}})
    printed = capsys.readouterr()
    assert printed.err == ""
    error, step = (json.loads(line) for line in printed.out.splitlines())
    assert (error["level"], error["message"].partition(" in ")[0]) == ("error", "There is no run 'no-such-run'")
    assert (step["level"], step["message"], step["run"], step["step"]) == ("info", "step 1", "first", 1)
    assert step["logger"] == "ares.cluster.cluster"
    assert step["time"].endswith("+00:00")


@pytest.mark.parametrize("place", [["-v", "train", "x"], ["train", "x", "-v"]])
def test_an_error_names_the_file_and_v_may_stand_anywhere(
    place: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def app() -> None:
        assert sys.argv == ["ares", "-v", "train", "x"]
        logs.keep_in(tmp_path)
        THEIRS.warning("the cause")
        raise UserError("it failed")

    monkeypatch.setattr(command_line, "app", app)
    monkeypatch.setattr("sys.argv", ["ares", *place])
    with pytest.raises(SystemExit):
        command_line.main()
    told = capsys.readouterr().err.splitlines()
    assert told[-1] == f"error: it failed (more: {tmp_path / 'log.txt'})"
    assert "the cause" in told[0]
