"""A run's log as lines of JSON. Not covered: Prefect's Logs tabs (test_prefect_conductor.py)."""

import io
import json
import logging
import sys

import pytest

from flows.cli import main as command_line
from flows.run_log import FORMAT, JsonLines

LOGGER = logging.getLogger("ares.cluster.cluster")


def test_an_error_is_a_line_of_json_and_nothing_else_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(FORMAT, "json")
    monkeypatch.setattr(sys, "argv", ["ares", "status", "no-such-run"])
    root, level = logging.getLogger(), logging.getLogger().level
    handlers = root.handlers[:]
    try:
        with pytest.raises(SystemExit):
            command_line.main()
        LOGGER.info("step 1", extra={"about": {"run": "first", "step": 1}})
    finally:
        root.handlers = handlers
        root.setLevel(level)
        logging.captureWarnings(False)
        command_line.console.quiet = command_line.errors.quiet = False
    printed = capsys.readouterr()
    assert printed.err == ""
    error, step = (json.loads(line) for line in printed.out.splitlines())
    assert (error["level"], error["message"].partition(" in ")[0]) == ("error", "There is no run 'no-such-run'")
    assert (step["level"], step["message"], step["run"], step["step"]) == ("info", "step 1", "first", 1)
    assert step["logger"] == "ares.cluster.cluster"
    assert step["time"].endswith("+00:00")


def test_a_run_does_not_end_because_nobody_reads_its_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ARES_LOG_FORMAT=json ares train | head -1` ended with a BrokenPipeError."""

    class Closed(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(sys, "stdout", Closed())
    JsonLines().handle(logging.makeLogRecord({"msg": "step"}))
    assert "Broken pipe" in capsys.readouterr().err
