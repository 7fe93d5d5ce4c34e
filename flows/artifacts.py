"""What Prefect's UI shows of a run besides its steps: its progress, a summary, and links to its curves in MLflow.

Covered: a deployed run's artifacts, created once per execution and updated every few seconds, beside the steps. Not
covered: curves and comparisons (MLflow); the terminal (ares/reports/terminal.py).
"""

import logging
import re
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import httpx
from prefect.artifacts import acreate_markdown_artifact
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.exceptions import PrefectHTTPStatusError

from algorithms.buckets import BUCKETS
from ares.reports import VIEW, mlflow_page
from ares.runs import Run
from ares.store import tracking_uri
from flows.run_log import has_ui

logger = logging.getLogger(__name__)
Request = Callable[[SyncPrefectClient], object]
EVERY_SECONDS = 10.0
SHOWN = ("count", "acc", "hwe", "target", "alpha", "kl")
"""Metrics of a bucket in the summary."""


class RunArtifacts:
    """The artifacts of one execution of a run; none without a server that has a UI.

    send: queues a request to Prefect's server, with what it is about.
    """

    def __init__(self, run: Run, flow_run: UUID, send: Callable[[str, Request], None]) -> None:
        self.run = run
        self.flow_run = flow_run
        self.shown: dict[str, UUID] = {}
        self.updated = 0.0
        self._send = send

    def committed(self) -> None:
        """Show the step that was just committed, unless others were shown a moment ago."""
        if time.monotonic() - self.updated > EVERY_SECONDS:
            self.update()

    def update(self) -> None:
        """Show how the run stands."""
        if self.run.commit is not None and has_ui():
            self.updated = time.monotonic()
            done = 100.0 * max(self.run.state.step, 0) / self.run.config.train.steps
            contents: dict[str, float | str] = {"progress": done, "summary": summary(self.run)}
            self._send("of artifacts", lambda client: self._show(client, contents))

    def _show(self, client: SyncPrefectClient, contents: dict[str, float | str]) -> None:
        for name, data in contents.items():
            if name in self.shown:
                client.update_artifact(self.shown[name], ArtifactUpdate(data=data))
                continue
            kind = "progress" if name == "progress" else "markdown"
            key = f"{_key(self.run.store.name)}-{name}"
            artifact = ArtifactCreate(key=key, type=kind, data=data, flow_run_id=self.flow_run)
            self.shown[name] = client.create_artifact(artifact).id


def summary(run: Run) -> str:
    """The state of a run in markdown: progress, held-out accuracy, buckets, where its curves and files are."""
    config, commit = run.config, run.commit
    lines = [f"# {run.store.name}", "", f"step **{max(run.state.step, 0)}** of {config.train.steps}, "
             f"`{config.model.path}`"]  # fmt: skip
    if evaluations := run.state.evaluations:
        first, last = evaluations[0], evaluations[-1]
        gain = f"{last.accuracy:.3f} ({last.accuracy - first.accuracy:+.3f} since step {first.step})"
        lines += ["", f"held-out accuracy **{gain}**, mean length {last.mean_length:.1f}"]
    if commit is not None:
        lines += ["", f"| bucket | {' | '.join(SHOWN)} |", "|---" * (len(SHOWN) + 1) + "|"]
        for bucket in BUCKETS:
            values = [commit.metrics.get(f"bucket/{bucket}/{name}") for name in SHOWN]
            cells = ["" if value is None else f"{value:.4g}" for value in values]
            lines.append(f"| {' | '.join([bucket, *cells])} |")
    return "\n".join([*lines, *_links(run), "", f"`{run.store.directory.absolute()}`"])


def _links(run: Run) -> list[str]:
    """To the run in MLflow's UI and to the table of all; none before it is logged, or where there is no UI."""
    runs = run.store.directory.parent
    page, described = mlflow_page(tracking_uri(run.config.tracking.uri, runs), runs), run.store.read_run()
    if page is None or "mlflow_experiment_id" not in described:
        return []
    experiment = f"{page}/#/experiments/{described['mlflow_experiment_id']}/runs"
    table = f"{experiment}?workflowType=machine_learning&viewStateShareKey={VIEW}"  # else its page of traces
    return ["", f"[curves in MLflow]({experiment}/{described['mlflow_run_id']}), [beside the others]({table})"]


async def show_report(name: str, conclusion: str, report: Path, page: str | None) -> None:
    """Show an ablation's conclusion, and where its report is. page: of its run in MLflow."""
    if not has_ui():
        return
    where = (
        f"[report.html]({page}/artifacts/report.html), with its rows, in MLflow" if page else "`ares report` links it"
    )
    text = f"# {name}\n\n{conclusion}\n\n{where}\n\n`{report.absolute()}`"
    try:
        await acreate_markdown_artifact(text, f"{_key(name)}-report", "What an ablation has shown")
    except (httpx.TransportError, PrefectHTTPStatusError) as error:
        logger.warning("the report of %s is not shown in Prefect: %s", name, error)


def _key(name: str) -> str:
    """A valid key of an artifact: lower case and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
