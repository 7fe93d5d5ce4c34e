"""Monitoring endpoints: `/metrics` for Prometheus, `/health` for supervisors.

Covered: runs in training on this machine, read from their directories on each request; runs queued at Prefect's server;
whether the servers answer. Not covered: curves (MLflow), alarms (`ares up --notify`).
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import httpx
from prefect.client.schemas.filters import FlowRunFilter
from prefect.exceptions import PrefectHTTPStatusError
from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import GaugeMetricFamily

from ares.errors import UserError
from ares.store import Commit, RunStore
from flows.prefect_client import impatient_client
from flows.servers.service import answers


def unscored_share(commit: Commit) -> float | None:
    """Share of all samples so far that could not be graded."""
    counters = commit.state.get("counters", {})
    samples = counters.get("samples", 0)
    return counters.get("unscored_samples", 0) / samples if samples else None


OF_RUN: dict[str, tuple[str, Callable[[Commit], float | None]]] = {
    "ares_step": ("Steps finished.", lambda commit: float(commit.step)),
    "ares_last_step_age_seconds": ("Since the last commit.", lambda commit: time.time() - commit.timestamp / 1000),
    "ares_tokens_per_second": ("Of the last step.", lambda commit: commit.timings.get("perf/throughput")),
    "ares_kept_share": ("Groups kept by the filter.", lambda commit: commit.metrics.get("filter/kept_share")),
    "ares_unscored_share": ("Samples without a score, of all.", unscored_share),
}
"""Gauges of a run in training: name, help, value after its last commit (None: unknown)."""


class RunCollector:
    """Gauges of the servers and of a directory's runs in training, collected on request.

    api: Prefect's. servers: health addresses by server, which answer 200 while it is well.
    """

    def __init__(self, runs: Path, api: str, servers: dict[str, str]) -> None:
        self.runs = runs
        self.api = api
        self.servers = servers
        self._stores: dict[str, RunStore] = {}
        """They keep the commits that they have read."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The gauges for Prometheus."""
        paths = [path for path in sorted(self.runs.glob("[!.]*")) if (path / "run.json").exists()]
        stores = [self._stores.setdefault(path.name, RunStore(path)) for path in paths]
        commits = {store.name: store.last_commit() for store in stores if store.is_held()}
        trained = dict.fromkeys(commits, 1.0)
        yield _gauge("ares_run_is_trained", "1 while a process of this machine trains it.", "run", trained)
        for name, (text, value) in OF_RUN.items():
            yield _gauge(name, text, "run", {run: value(commit) for run, commit in commits.items() if commit})
        up = {name: float(well) for name, well in self.health().items()}
        yield _gauge("ares_server_is_up", "1 while it answers.", "server", up)
        if (queued := self.queued()) is not None:
            yield GaugeMetricFamily("ares_queued_runs", "Flow runs that wait for a worker.", value=queued)

    def health(self) -> dict[str, bool]:
        """Which servers answer."""
        return {name: answers(address) for name, address in self.servers.items()}

    def queued(self) -> int | None:
        """Flow runs that wait for a worker; None if Prefect's server does not say."""
        now = datetime.now(UTC)  # the next days of a schedule are in the queue already
        states, due = {"type": {"any_": ["SCHEDULED", "PENDING"]}, "name": None}, {"before_": now}
        waiting = FlowRunFilter.model_validate({"state": states, "expected_start_time": due})
        try:
            with impatient_client(self.api) as client:
                return client.count_flow_runs(flow_run_filter=waiting)
        except (httpx.HTTPError, PrefectHTTPStatusError):
            return None


def _gauge(name: str, text: str, label: str, values: dict[str, Any]) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, text, labels=[label])
    for of, value in values.items():
        if value is not None:
            gauge.add_metric([of], value)
    return gauge


def serve(collector: RunCollector, port: int) -> WSGIServer:
    """Serve at a port of loopback, in a thread of this process, until `shutdown`. Raises UserError."""
    registry = CollectorRegistry()
    registry.register(collector)
    metrics = make_wsgi_app(registry)

    def app(environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environment["PATH_INFO"] != "/health":
            return metrics(environment, start)
        health = collector.health()
        start("200 OK" if all(health.values()) else "503 Service Unavailable", [("Content-Type", "text/plain")])
        return [f"{name}: {'ok' if well else 'no answer'}\n".encode() for name, well in health.items()]

    try:
        server = make_server("127.0.0.1", port, app, handler_class=_Quiet)
    except OSError as error:
        raise UserError(f"metrics: port {port} is taken ({error.strerror}); choose another") from error
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        """Silent: a monitor asks every few seconds."""
