"""Servers with passwords behind proxies with TLS, as deploy/nginx.conf says: a command and a worker through them.

Covered: Prefect's and MLflow's own passwords, a certificate that only their settings name, the deployments registered
from outside, a worker that was started without ares. The proxy is nginx with deploy/nginx.conf where it is installed,
else one that forwards bytes. Not covered: other proxies, other certificates.
"""

import os
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from flows.environment import DEFAULTS
from tests.prefect_server import free_port
from tests.shared_run import REPOSITORY, SMALL
from tests.tls_proxy import nginx, tls_proxy, write_certificate

pytest.importorskip("flask_wtf", reason="the extra `servers`")
pytestmark = pytest.mark.slow
USER, PASSWORD = "ares", "a-word-of-the-tests"
PREFECT = [sys.executable, "-m", "prefect"]


class GuardedServers:
    """Both servers, and the settings with which another machine reaches them."""

    def __init__(self, directory: Path, prefect: int, mlflow: int, certificate: Path) -> None:
        self.directory = directory
        self.api = f"https://127.0.0.1:{prefect}/api"
        self.mlflow = f"https://127.0.0.1:{mlflow}"
        self.trusting = ssl.create_default_context(cafile=str(certificate))
        # As on a machine where ares has never run: Prefect's worker does not know flows/environment.py.
        plain = {name: value for name, value in os.environ.items() if name not in DEFAULTS}
        self.stranger = plain | {
            "ARES_RUNS": str(directory / "runs"), "PREFECT_HOME": str(directory / "home"), "PREFECT_API_URL": self.api,
            "PREFECT_API_SSL_CERT_FILE": str(certificate), "MLFLOW_TRACKING_URI": self.mlflow,
            "MLFLOW_TRACKING_SERVER_CERT_PATH": str(certificate),
        }  # fmt: skip
        self.environment = self.stranger | {
            "PREFECT_API_AUTH_STRING": f"{USER}:{PASSWORD}", "MLFLOW_TRACKING_USERNAME": USER,
            "MLFLOW_TRACKING_PASSWORD": PASSWORD,
        }  # fmt: skip

    def ask(self, url: str, body: Any = None, known: bool = True, origin: str | None = None) -> httpx.Response:
        """origin: of the page that asks."""
        auth = (USER, PASSWORD) if known else None
        method, headers = "GET" if body is None else "POST", {"Origin": origin} if origin else {}
        return httpx.request(method, url, json=body, auth=auth, headers=headers, verify=self.trusting, timeout=30)

    def run(self, *command: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=REPOSITORY, env=environment or self.environment, capture_output=True, text=True, timeout=3600
        )


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedServers]:
    directory = tmp_path_factory.mktemp("guarded")
    certificate, key = write_certificate(directory)
    prefect, mlflow = free_port(), free_port()
    outside = free_port(), free_port()
    (directory / "auth.ini").write_text(
        (REPOSITORY / "deploy" / "mlflow-auth.ini").read_text().replace("/data/", f"{directory}/")
    )
    environment = os.environ | {
        "PREFECT_HOME": str(directory / "server"), "PREFECT_SERVER_API_AUTH_STRING": f"{USER}:{PASSWORD}",
        "PREFECT_API_AUTH_STRING": f"{USER}:{PASSWORD}", "PREFECT_UI_API_URL": "/api",
        "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED": "true",
        "MLFLOW_AUTH_CONFIG_PATH": str(directory / "auth.ini"), "MLFLOW_AUTH_ADMIN_USERNAME": USER,
        "MLFLOW_AUTH_ADMIN_PASSWORD": PASSWORD, "MLFLOW_FLASK_SERVER_SECRET_KEY": "a secret of the tests",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS": f"https://127.0.0.1:{outside[1]}",
        "MLFLOW_BACKEND_STORE_URI": f"sqlite:///{directory / 'mlflow.db'}",
        "MLFLOW_ARTIFACTS_DESTINATION": str(directory / "mlartifacts"),
    }  # fmt: skip
    commands = {
        "prefect": [*PREFECT, "server", "start", "--host", "127.0.0.1", "--port", str(prefect)],
        "mlflow": [sys.executable, "-m", "mlflow", "server", "--app-name", "basic-auth", "--host", "127.0.0.1",
                   "--port", str(mlflow), "--workers", "1"],
    }  # fmt: skip
    with ExitStack() as stack:
        servers = []
        for name, command in commands.items():
            log = stack.enter_context((directory / f"{name}.log").open("w"))
            servers.append(subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT))
            stack.callback(servers[-1].wait)
            stack.callback(servers[-1].terminate)
        if shutil.which("nginx"):
            ports = {4200: (prefect, outside[0]), 5000: (mlflow, outside[1])}
            stack.enter_context(nginx(ports, certificate, key))
        else:
            for inside, port in zip((prefect, mlflow), outside, strict=True):
                stack.enter_context(tls_proxy(inside, certificate, key, port))
        behind = GuardedServers(directory, *outside, certificate)
        deadline = time.monotonic() + 300
        for server, name, page in zip(servers, commands, (behind.api, behind.mlflow), strict=True):
            while True:
                assert server.poll() is None, (directory / f"{name}.log").read_text()
                assert time.monotonic() < deadline
                try:
                    if behind.ask(f"{page}/health", known=False).status_code == 200:
                        break
                except httpx.TransportError:
                    time.sleep(0.2)
        yield behind


TRAIN = [sys.executable, "-m", "flows.cli", "train", "tiny-math", *SMALL, "--run"]


def test_nothing_is_answered_without_the_password(guarded: GuardedServers) -> None:
    for url, body in (
        (f"{guarded.api}/flow_runs/filter", {}),
        (f"{guarded.mlflow}/api/2.0/mlflow/experiments/search", {"max_results": 5}),
    ):
        assert guarded.ask(url, body, known=False).status_code == 401
        assert guarded.ask(url, body).status_code == 200
    assert guarded.ask(url, body, origin=guarded.mlflow).status_code == 200  # MLflow's own page may
    assert guarded.ask(url, body, origin="https://elsewhere.example").status_code == 403
    settings = guarded.ask(guarded.api.replace("/api", "/ui-settings")).json()
    assert settings["api_url"] == "/api"  # the page asks the server it came from, over TLS
    assert settings["auth"] == "BASIC"
    ended = guarded.run(*TRAIN, "stranger", environment=guarded.stranger)
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.count("error: ") == 1
    assert "PREFECT_API_AUTH_STRING=user:password" in ended.stderr


def assert_tracked(guarded: GuardedServers, run: str) -> None:
    """Its flow run, with its steps, and its metrics are at the servers."""
    named = {"flow_runs": {"name": {"any_": [run, *(f"{run} step-{step:06d}" for step in (1, 2, 3, 4))]}}}
    flow_runs = guarded.ask(f"{guarded.api}/flow_runs/filter", named).json()
    assert [each["state"]["name"] for each in flow_runs] == ["Completed"] * 5
    experiments = guarded.ask(f"{guarded.mlflow}/api/2.0/mlflow/experiments/search", {"max_results": 50}).json()
    body = {"experiment_ids": [each["experiment_id"] for each in experiments["experiments"]],
            "filter": f"attributes.run_name = '{run}'"}  # fmt: skip
    (entry,) = guarded.ask(f"{guarded.mlflow}/api/2.0/mlflow/runs/search", body).json()["runs"]
    assert entry["info"]["status"] == "FINISHED"
    assert {"val/accuracy", "critic/kl"} <= {metric["key"] for metric in entry["data"]["metrics"]}


def test_a_command_trains_through_both_proxies(guarded: GuardedServers) -> None:
    ended = guarded.run(*TRAIN, "direct")
    assert ended.returncode == 0, ended.stderr
    assert "away" not in ended.stdout + ended.stderr
    assert_tracked(guarded, "direct")


def test_a_worker_trains_what_is_started_there(guarded: GuardedServers) -> None:
    registered = guarded.run(sys.executable, "-m", "flows.servers.deployment")
    assert registered.returncode == 0, registered.stderr
    with (guarded.directory / "worker.log").open("w") as log:
        worker = subprocess.Popen(
            [*PREFECT, "worker", "start", "--pool", "ares"], cwd=REPOSITORY, env=guarded.environment, stdout=log,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            overrides = ", ".join(f'"{setting}"' for setting in SMALL)
            parameters = f'{{"profile": "tiny-math", "run": "deployed", "overrides": [{overrides}]}}'
            started = guarded.run(
                *PREFECT, "deployment", "run", "ares-train/ares-train", "--params", parameters, "--watch"
            )
        finally:
            worker.terminate()
            worker.wait()
    log_of_worker = (guarded.directory / "worker.log").read_text()
    assert started.returncode == 0, started.stdout + started.stderr + log_of_worker
    assert_tracked(guarded, "deployed")
    beats = {"filter": {"event": {"name": ["prefect.flow-run.heartbeat"]}}}
    assert guarded.ask(f"{guarded.api}/events/filter", beats).json()["total"] > 0
