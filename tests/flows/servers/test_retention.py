"""What a Prefect server keeps and schedules: one of the test's own, with the settings of `ares up`."""

import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.servers.deployment import register
from flows.servers.local_server import LocalServer
from flows.servers.metrics import RunCollector
from tests.prefect_server import call_api

pytestmark = pytest.mark.slow


class Server:
    """Prefect's API, and its database."""

    def __init__(self, url: str, database: Path) -> None:
        self.url, self.database = url, database

    def call(self, method: str, path: str, body: Any = None) -> Any:
        return call_api(self.url, method, path, body)

    def flow_run(self, name: str, state: str, parent: str | None = None) -> str:
        """A flow run in a state, below a task run."""
        flow = self.call("POST", "flows/", {"name": "ares-train"})["id"]
        body = {"flow_id": flow, "name": name, "parent_task_run_id": parent, "state": {"type": state}}
        return str(self.call("POST", "flow_runs/", body)["id"])

    def task_run(self, flow_run: str) -> str:
        body = {"flow_run_id": flow_run, "task_key": "step", "dynamic_key": "0", "state": {"type": "COMPLETED"}}
        return str(self.call("POST", "task_runs/", body)["id"])

    def flow_runs(self) -> set[str]:
        return {each["name"] for each in self.call("POST", "flow_runs/filter", {})}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.setenv("PREFECT_SERVER_SERVICES_DB_VACUUM_LOOP_SECONDS", "1")
    local = LocalServer()
    try:
        with local.connected(), temporary_settings({PREFECT_API_URL: local.url}):
            yield Server(local.url, tmp_path / "prefect.db")
    finally:
        local.stop()


def test_prefect_drops_old_runs_and_nothing_of_one_in_progress(server: Server) -> None:
    for name, state in (("ended", "COMPLETED"), ("crashed", "CRASHED"), ("live", "RUNNING"), ("suspended", "PAUSED")):
        task = server.task_run(server.flow_run(name, state))
        server.flow_run(f"{name} step-000001", "COMPLETED", task)
    server.flow_run("yesterday", "COMPLETED")
    with sqlite3.connect(server.database, timeout=30) as database:
        long_ago = (datetime.now(UTC) - timedelta(days=31)).strftime("%Y-%m-%d %H:%M:%S.%f")
        database.execute(
            "UPDATE flow_run SET start_time = ?, end_time = CASE WHEN end_time IS NULL THEN NULL ELSE ? END "
            "WHERE name != 'yesterday'", (long_ago, long_ago),
        )  # fmt: skip
    stay = {"live", "live step-000001", "suspended", "suspended step-000001", "yesterday"}
    deadline = time.monotonic() + 60
    while server.flow_runs() != stay and time.monotonic() < deadline:
        time.sleep(0.5)
    time.sleep(3)  # rounds in which more could go
    assert server.flow_runs() == stay


def test_the_schedule_stays_paused_and_its_days_to_come_wait_for_nobody(server: Server, tmp_path: Path) -> None:
    def schedule() -> dict[str, Any]:
        deployment = server.call("GET", "deployments/name/ares-gc/ares-gc")
        assert deployment["work_queue_name"] == "gc"
        (only,) = deployment["schedules"]
        return dict(only) | {"deployment": deployment["id"]}

    register(server.url, 1)
    first = schedule()
    assert (first["schedule"]["cron"], first["active"]) == ("0 4 * * *", True)
    path = f"deployments/{first['deployment']}"
    server.call("PATCH", f"{path}/schedules/{first['id']}", {"active": False})
    register(server.url, 3)
    assert (schedule()["id"], schedule()["active"]) == (first["id"], False)
    limits = {each["name"]: each["concurrency_limit"] for each in
              server.call("POST", "work_pools/ares/queues/filter", {})}  # fmt: skip
    assert limits == {"default": 3, "gc": 1}
    assert server.call("GET", "work_pools/ares")["concurrency_limit"] is None

    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    to_come = {"type": "SCHEDULED", "state_details": {"scheduled_time": tomorrow}}
    server.call("POST", f"{path}/create_flow_run", {"state": to_come})
    collector = RunCollector(tmp_path, server.url, {})
    assert collector.queued() == 0.0
    server.call("POST", f"{path}/create_flow_run", {"state": {"type": "SCHEDULED"}})
    assert collector.queued() == 1.0
