"""What monitoring reports of runs in training, and of servers that are down."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from prefect import flow, get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings
from prefect.states import Scheduled

from ares.errors import UserError
from ares.store.store import RunStore
from flows.servers.metrics import RunCollector, serve
from tests.ares.store_builders import commit
from tests.prefect_server import stub


@pytest.fixture
def well() -> Iterator[str]:
    with stub(queued=2) as port:
        yield f"http://127.0.0.1:{port}"


AWAY = "http://127.0.0.1:9"


def a_run(runs: Path, name: str, age: float) -> RunStore:
    store = RunStore(runs / name)
    store.write_run({"config": {}})
    state = {"counters": {"samples": 200, "unscored_samples": 50}}
    timestamp = int((time.time() - age) * 1000)
    store.write_commit(
        commit(0, None, state=state, metrics={"filter/kept_share": 0.75}, timings={"perf/throughput": 120.0},
               timestamp=timestamp)
    )  # fmt: skip
    return store


def test_a_run_in_training_is_reported_and_others_are_not(tmp_path: Path, well: str) -> None:
    a_run(tmp_path, "finished", 10)
    server = serve(RunCollector(tmp_path, well, {"Prefect": well, "MLflow": AWAY}), 0)
    address = f"http://127.0.0.1:{server.server_address[1]}"
    with a_run(tmp_path, "first", 1000).lock():
        text = httpx.get(f"{address}/metrics").text
    gauges = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert {name for name in gauges if "finished" in name} == set()
    expected = {"ares_run_is_trained": 1.0, "ares_step": 0.0, "ares_tokens_per_second": 120.0, "ares_kept_share": 0.75,
                "ares_unscored_share": 0.25}  # fmt: skip
    assert {name: float(gauges[f'{name}{{run="first"}}']) for name in expected} == expected
    assert 1000 <= float(gauges['ares_last_step_age_seconds{run="first"}']) < 1100
    assert (gauges["ares_queued_runs"], gauges['ares_server_is_up{server="Prefect"}']) == ("2.0", "1.0")
    assert gauges['ares_server_is_up{server="MLflow"}'] == "0.0"
    server.shutdown()


def test_queued_runs_are_counted_where_there_is_a_password(tmp_path: Path) -> None:
    with stub(queued=1, password="someone:a word") as port:
        collector = RunCollector(tmp_path, f"http://127.0.0.1:{port}/api", {})
        assert collector.queued() is None
        with temporary_settings({PREFECT_API_AUTH_STRING: "someone:a word"}):
            assert collector.queued() == 1.0


@flow
def waiting() -> None:
    """Named in records only."""


@pytest.mark.usefixtures("prefect")
def test_the_days_to_come_of_a_schedule_wait_for_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collector, count = RunCollector(tmp_path, str(PREFECT_API_URL.value()), {}), SyncPrefectClient.count_flow_runs
    made: list[UUID] = []

    def count_made(client: SyncPrefectClient, flow_run_filter: FlowRunFilter) -> int:
        mine = flow_run_filter.model_copy(update={"id": FlowRunFilterId(any_=made)})
        return count(client, flow_run_filter=mine)

    monkeypatch.setattr(SyncPrefectClient, "count_flow_runs", count_made)
    for days, queued in ((1, 0.0), (0, 1.0)):
        when = datetime.now(UTC) + timedelta(days)
        with get_client(sync_client=True) as client:
            made.append(client.create_flow_run(waiting, state=Scheduled(scheduled_time=when)).id)
        assert collector.queued() == queued


@pytest.mark.parametrize("is_well", [True, False])
def test_health_is_that_of_the_servers(tmp_path: Path, well: str, is_well: bool) -> None:
    server = serve(RunCollector(tmp_path, AWAY, {"Prefect": well if is_well else AWAY}), 0)
    answer = httpx.get(f"http://127.0.0.1:{server.server_address[1]}/health")
    assert (answer.status_code, answer.text) == (
        (200, "Prefect: ok\n") if is_well else (503, "Prefect: no answer\n")
    )  # fmt: skip
    with pytest.raises(UserError, match="is taken"):
        serve(RunCollector(tmp_path, AWAY, {}), int(server.server_address[1]))
    server.shutdown()
