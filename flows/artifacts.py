"""What Prefect's UI shows of a run besides its steps: progress, the last steps as a table, a summary, MLflow's link.

Covered: a deployed run's artifacts, created once per execution and updated every few seconds, beside the steps. Not
covered: curves and comparisons (MLflow); the terminal (ares/reports/terminal.py).
"""

import json
import logging
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from prefect.artifacts import acreate_markdown_artifact
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.exceptions import PrefectHTTPStatusError

from algorithms.buckets import BUCKETS
from ares.reports import VIEW, mlflow_page
from ares.runs import Run
from ares.store import Commit, tracking_uri

logger = logging.getLogger(__name__)
Request = Callable[[SyncPrefectClient], object]
EVERY_SECONDS = 10.0
ROWS = 20
COLUMNS = {
    "accuracy": "reward/sampled_accuracy",
    "reward": "critic/score/mean",
    "length": "response_length/mean",
    "entropy": "entropy/mean",
    "KL": "critic/kl",
    "kept": "filter/kept_share",
    "held out": "val/accuracy",
}
"""Columns of the table of recent steps, and their metrics."""
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
        self.recent: list[Commit] = []
        self._send = send
        self._key = _key(run.store.name)

    def committed(self, commit: Commit) -> None:
        """Add the step that was just committed."""
        self.recent = [*self.recent, commit][-ROWS:]
        if time.monotonic() - self.updated > EVERY_SECONDS:
            self.update()

    def update(self) -> None:
        """Show how the run stands."""
        if self.recent and "PREFECT_API_URL" in os.environ:
            self.updated = time.monotonic()
            contents = self._contents()
            self._send("of artifacts", lambda client: self._show(client, contents))

    def _contents(self) -> dict[str, tuple[str, str, Any]]:
        """Type, description and content of each artifact."""
        run, page = self.run, run_page(self.run)
        done = 100.0 * max(run.state.step, 0) / run.config.train.steps
        table = json.dumps([_row(commit) for commit in reversed(self.recent)])
        contents: dict[str, tuple[str, str, Any]] = {
            "progress": ("progress", f"steps of {run.store.name}", done),
            "steps": ("table", f"The last {ROWS} steps", table),
            "summary": ("markdown", "", summary(run)),
        }
        if page is not None:
            beside = f"{page.partition('/runs/')[0]}/runs?workflowType=machine_learning&viewStateShareKey={VIEW}"
            contents["mlflow"] = ("markdown", "", f"[curves in MLflow]({page})")
            contents["mlflow-all"] = ("markdown", "", f"[beside the others in MLflow]({beside})")
        return contents

    def _show(self, client: SyncPrefectClient, contents: dict[str, tuple[str, str, Any]]) -> None:
        for name, (kind, description, data) in contents.items():
            if name in self.shown:
                client.update_artifact(self.shown[name], ArtifactUpdate(data=data))
                continue
            artifact = ArtifactCreate(
                key=f"{self._key}-{name}", type=kind, description=description, data=data, flow_run_id=self.flow_run
            )
            self.shown[name] = client.create_artifact(artifact).id


def summary(run: Run) -> str:
    """The state of a run in markdown: progress, held-out accuracy, buckets, where its files are."""
    config, commit = run.config, run.commit
    step = max(run.state.step, 0)
    lines = [f"# {run.store.name}", "", f"step **{step}** of {config.train.steps}, `{config.model.path}`"]
    evaluations = run.state.evaluations
    if evaluations:
        first, last = evaluations[0], evaluations[-1]
        gain = f"{last.accuracy:.3f} ({last.accuracy - first.accuracy:+.3f} since step {first.step})"
        lines += ["", f"held-out accuracy **{gain}**, mean length {last.mean_length:.1f}"]
    if commit is not None:
        lines += ["", f"| bucket | {' | '.join(SHOWN)} |", "|---" * (len(SHOWN) + 1) + "|"]
        for bucket in BUCKETS:
            values = [commit.metrics.get(f"bucket/{bucket}/{name}") for name in SHOWN]
            cells = ["" if value is None else f"{value:.4g}" for value in values]
            lines.append(f"| {' | '.join([bucket, *cells])} |")
    return "\n".join([*lines, "", f"`{run.store.directory.absolute()}`"])


def run_page(run: Run) -> str | None:
    """Address of the run in MLflow's UI; None if there is none or the run is not logged yet."""
    runs = run.store.directory.parent
    page, description = mlflow_page(tracking_uri(run.config.tracking.uri, runs), runs), run.store.read_run()
    if page is None or "mlflow_experiment_id" not in description:
        return None
    return f"{page}/#/experiments/{description['mlflow_experiment_id']}/runs/{description['mlflow_run_id']}"


async def show_report(name: str, conclusion: str, report: Path, page: str | None) -> None:
    """Show an ablation's conclusion, and where its report is. page: of its run in MLflow."""
    if "PREFECT_API_URL" not in os.environ:
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


def _row(commit: Commit) -> dict[str, Any]:
    values = {title: commit.metrics.get(metric) for title, metric in COLUMNS.items()}
    shown = {title: "" if value is None else f"{value:.3f}" for title, value in values.items()}
    return {"step": commit.step} | shown | {"seconds": f"{commit.timings['timing_s/step']:.1f}"}
