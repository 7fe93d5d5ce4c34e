"""`ares up` and `ares down`: Prefect, MLflow and a worker on this machine."""

import os
from typing import Annotated

import typer

from ares.errors import UserError
from flows.cli.command import console

Data = Annotated[str | None, typer.Option(help="Directory of runs; default: ARES_RUNS, else runs.")]


def up(
    prefect_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of Prefect's UI.")] = 4200,
    mlflow_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of MLflow's UI.")] = 5000,
    data: Data = None,
    concurrent_runs: Annotated[int, typer.Option(min=1, help="Runs the worker trains at the same time.")] = 1,
    notify: Annotated[
        str | None, typer.Option(help="An address (Slack's, Mattermost's) that is told of runs that failed or crashed.")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Serve /metrics (Prometheus) and /health at this port.")
    ] = None,
) -> None:
    """Prefect, MLflow, a worker and the deployments on this machine, until interrupted or `ares down`."""
    from ares.store import runs_directory
    from flows.servers.metrics import RunCollector, serve
    from flows.servers.services import Services

    _use(data)
    if len({prefect_port, mlflow_port, metrics_port}) < 3:
        raise UserError("Prefect and MLflow need a port each, and so do the metrics")
    if notify is not None and not notify.startswith(("http://", "https://")):
        raise UserError(f"--notify {notify}: an address begins with http:// or https://")
    try:
        runs_directory().mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{runs_directory()}: no folder can be made there: {error.strerror}") from error
    services = Services(prefect_port, mlflow_port, console.print)
    try:
        with services.running(concurrent_runs, notify):
            given = os.environ.get("ARES_RUNS", "")
            copied = f", the copy of {given}" if "://" in given else ""
            console.print(f"Prefect  http://127.0.0.1:{prefect_port}")
            console.print(f"MLflow   {services.mlflow}")
            console.print(f"runs     {services.runs}{copied}")
            if metrics_port is not None:
                serve(RunCollector(services.runs, services.api, services.health), metrics_port)
                console.print(f"metrics  http://127.0.0.1:{metrics_port}/metrics, and /health")
            console.print(f"\nexport PREFECT_API_URL={services.api}")
            console.print("prefect deployment run ares-train/ares-train --param profile=tiny-math --param run=first")
            console.print("Ctrl-C or `ares down` ends all of it.", style="dim")
            services.watch()
    except KeyboardInterrupt:
        console.print("stopped", style="dim")


def down(data: Data = None) -> None:
    """End the `ares up` of a directory of runs. A run that is being trained ends, resumable."""
    from flows.servers.services import end_services

    _use(data)
    end_services()


def _use(data: str | None) -> None:
    if data is not None:
        os.environ["ARES_RUNS"] = data
