"""A flow's log. Not covered: Prefect's Logs tabs (test_prefect_conductor.py), the terminal (cli/test_logs.py)."""

import io
import logging
import sys

import pytest
from prefect.exceptions import Pause
from prefect.states import Suspended

from flows.run_log import JsonLines, run_log


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
