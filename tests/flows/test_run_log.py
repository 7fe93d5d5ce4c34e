"""A run's log as lines of JSON. Not covered: Prefect's Logs tabs (test_prefect_conductor.py)."""

import io
import json
import logging
import sys

import pytest
from prefect.exceptions import Pause
from prefect.states import Suspended

from flows.cli import main as command_line
from flows.run_log import FORMAT, JsonLines, run_log

LOGGER = logging.getLogger("ares.cluster.cluster")


def test_an_error_is_a_line_of_json_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_a_log_without_a_reader_ends_no_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ARES_LOG_FORMAT=json ares train | head -1` ended with a BrokenPipeError."""

    class Closed(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(sys, "stdout", Closed())
    JsonLines().handle(logging.makeLogRecord({"msg": "step"}))
    assert "Broken pipe" in capsys.readouterr().err


def test_a_flow_that_leaves_suspended_says_so_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its heartbeats went on until then, and what waits for the next one marked it as crashed."""
    sent: list[str] = []
    monkeypatch.setattr("flows.run_log.has_ui", lambda: True)
    monkeypatch.setattr("prefect.events.emit_event", lambda event, resource: sent.append(event))
    with run_log():
        pass
    with pytest.raises(Pause), run_log():
        raise Pause(state=Suspended())
    assert sent == ["prefect.flow-run.Suspended"]
