"""The settings of every process of ares, as Prefect reads them, and its end."""

import subprocess
import sys
from datetime import timedelta

from prefect.settings import get_current_settings

# A cycle prints when it is collected. What a module holds is released when Python ends, too.
ENDS = """
import sys
import {imported}
class Circle:
    def __init__(self): self.own = self
    def __del__(self): print("collected", flush=True)
Circle()
sys.stderr.write("an error\\n")
sys.exit(3)
"""


def test_a_process_ends_without_looking_for_circles_and_says_its_errors() -> None:
    ended = {
        name: subprocess.run([sys.executable, "-c", ENDS.format(imported=name)], capture_output=True, text=True)
        for name in ("json", "flows.environment")
    }
    assert (ended["json"].stdout, ended["flows.environment"].stdout) == ("collected\n", "")
    assert (ended["flows.environment"].returncode, ended["flows.environment"].stderr) == (3, "an error\n")


def test_prefects_database_keeps_no_events_and_flow_runs_for_thirty_days() -> None:
    services = get_current_settings().server.services
    assert not services.event_persister.enabled
    assert services.db_vacuum.enabled_vacuum_types == {"flow_runs"}
    assert services.db_vacuum.retention_period == timedelta(days=30)
