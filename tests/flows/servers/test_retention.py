"""What a Prefect server keeps and schedules: one of the test's own, with the settings of `ares up`."""

import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.servers.deployment import register
from flows.servers.local_server import LocalServer
from flows.servers.metrics import RunCollector
from tests.prefect_server import call_api
from tests.waiting import wait_for

pytestmark = pytest.mark.slow


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of its API; its database lies in `tmp_path`."""
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.setenv("PREFECT_SERVER_SERVICES_DB_VACUUM_LOOP_SECONDS", "1")
    local = LocalServer()
    try:
        with local.connected(), temporary_settings({PREFECT_API_URL: local.url}):
            yield local.url
    finally:
        local.stop()


def test_prefect_drops_old_runs_and_nothing_of_one_in_progress(server: str, tmp_path: Path) -> None:
    def made(kind: str, **body: object) -> str:
        return str(call_api(server, "POST", f"{kind}/", body)["id"])

    def flow_runs() -> set[str]:
        return {each["name"] for each in call_api(server, "POST", "flow_runs/filter", {})}

    flow, completed = made("flows", name="ares-train"), {"type": "COMPLETED"}
    for name, state in (("ended", "COMPLETED"), ("crashed", "CRASHED"), ("live", "RUNNING"), ("suspended", "PAUSED")):
        run = made("flow_runs", flow_id=flow, name=name, state={"type": state})
        task = made("task_runs", flow_run_id=run, task_key="step", dynamic_key="0", state=completed)
        made("flow_runs", flow_id=flow, name=f"{name} step-000001", parent_task_run_id=task, state=completed)
    made("flow_runs", flow_id=flow, name="yesterday", state=completed)
    with sqlite3.connect(tmp_path / "prefect.db", timeout=30) as database:
        long_ago = (datetime.now(UTC) - timedelta(days=31)).strftime("%Y-%m-%d %H:%M:%S.%f")
        database.execute(
            "UPDATE flow_run SET start_time = ?, end_time = CASE WHEN end_time IS NULL THEN NULL ELSE ? END "
            "WHERE name != 'yesterday'", (long_ago, long_ago),
        )  # fmt: skip
    stay = {"live", "live step-000001", "suspended", "suspended step-000001", "yesterday"}
    wait_for(lambda: flow_runs() == stay, "what is dropped")
    time.sleep(3)  # rounds in which more could go
    assert flow_runs() == stay


def test_the_schedule_stays_paused_and_its_days_to_come_wait_for_nobody(server: str, tmp_path: Path) -> None:
    call = partial(call_api, server)

    def schedule() -> dict[str, Any]:
        deployment = call("GET", "deployments/name/ares-gc/ares-gc")
        assert deployment["work_queue_name"] == "gc"
        (only,) = deployment["schedules"]
        return dict(only) | {"deployment": deployment["id"]}

    register(server, 1)
    first = schedule()
    assert (first["schedule"]["cron"], first["active"]) == ("0 4 * * *", True)
    path = f"deployments/{first['deployment']}"
    call("PATCH", f"{path}/schedules/{first['id']}", {"active": False})
    register(server, 3)
    assert (schedule()["id"], schedule()["active"]) == (first["id"], False)
    queues = call("POST", "work_pools/ares/queues/filter", {})
    assert {each["name"]: each["concurrency_limit"] for each in queues} == {"default": 3, "gc": 1}
    assert call("GET", "work_pools/ares")["concurrency_limit"] is None

    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    to_come = {"type": "SCHEDULED", "state_details": {"scheduled_time": tomorrow}}
    call("POST", f"{path}/create_flow_run", {"state": to_come})
    collector = RunCollector(tmp_path, server, {})
    assert collector.queued() == 0.0
    call("POST", f"{path}/create_flow_run", {"state": {"type": "SCHEDULED"}})
    assert collector.queued() == 1.0
