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


SLURM = "/scratch/a-user-of-a-cluster/slurm.12345678.0"


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"no_proxy": "intern.example"}, "no_proxy", "intern.example,127.0.0.1,localhost"),
        ({"NO_PROXY": "localhost"}, "NO_PROXY", "localhost,127.0.0.1"),
        ({"TMPDIR": SLURM}, "RAY_TMPDIR", "/tmp"),
        ({"TMPDIR": SLURM, "RAY_TMPDIR": "/ray"}, "RAY_TMPDIR", "/ray"),
        ({"TMPDIR": "/scratch"}, "RAY_TMPDIR", "None"),
    ],
)
def test_what_the_users_environment_would_break_is_mended(given: dict[str, str], name: str, value: str) -> None:
    """A proxy was asked for the run's own servers; Ray's sockets were too deep in the TMPDIR of a Slurm job."""
    program = f"import flows.environment, os; print(os.environ.get({name!r}))"
    inherited = {key: text for key, text in os.environ.items() if key.lower() != "no_proxy" and key != "RAY_TMPDIR"}
    ended = subprocess.run([sys.executable, "-c", program], env=inherited | given, capture_output=True, text=True)
    assert ended.stdout == f"{value}\n"
