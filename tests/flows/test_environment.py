"""The settings of every process of ares, as Prefect and others read them."""

import os
import subprocess
import sys
from datetime import timedelta

import pytest
from prefect.settings import get_current_settings


def test_prefects_database_keeps_no_events_and_flow_runs_for_thirty_days() -> None:
    services = get_current_settings().server.services
    assert not services.event_persister.enabled
    assert services.db_vacuum.enabled_vacuum_types == {"flow_runs"}
    assert services.db_vacuum.retention_period == timedelta(days=30)


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"no_proxy": "intern.example"}, "no_proxy", "intern.example,127.0.0.1,localhost"),
        ({"NO_PROXY": "localhost"}, "NO_PROXY", "localhost,127.0.0.1"),
    ],
)
def test_what_the_users_environment_would_break_is_mended(given: dict[str, str], name: str, value: str) -> None:
    """A proxy was asked for the run's own servers."""
    program = f"import flows.environment, os; print(os.environ.get({name!r}))"
    inherited = {key: text for key, text in os.environ.items() if key.lower() != "no_proxy"}
    ended = subprocess.run([sys.executable, "-c", program], env=inherited | given, capture_output=True, text=True)
    assert ended.stdout == f"{value}\n"
