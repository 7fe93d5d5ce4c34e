"""A flow's log. Not covered: Prefect's Logs tabs (test_prefect_conductor.py), the terminal (cli/test_logs.py)."""

import pytest
from prefect.exceptions import Pause
from prefect.states import Suspended

from flows.run_log import run_log


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
