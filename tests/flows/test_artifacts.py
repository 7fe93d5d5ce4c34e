"""What Prefect's UI shows of a run: progress and summary are made once, then updated."""

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from prefect import flow, get_client, runtime
from prefect.client.schemas.filters import ArtifactFilter
from prefect.settings import PREFECT_API_URL

from ares.store import Commit
from flows import artifacts
from flows.artifacts import RunArtifacts, show_report
from tests.ares.store_builders import commit


@pytest.fixture
def run(prefect: None, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A run as far as its artifacts read it; MLflow's pages are at a named server."""
    monkeypatch.setenv("PREFECT_API_URL", str(PREFECT_API_URL.value()))
    monkeypatch.setattr(artifacts, "mlflow_page", lambda uri, runs: "http://127.0.0.1:5000")
    logged = {"mlflow_experiment_id": "7", "mlflow_run_id": "abc"}
    store = SimpleNamespace(name="First_run", directory=tmp_path / "First_run", read_run=lambda: logged)
    config = SimpleNamespace(
        train=SimpleNamespace(steps=4), model=SimpleNamespace(path="tiny"), tracking=SimpleNamespace(uri=None)
    )
    return SimpleNamespace(store=store, config=config, commit=None, state=SimpleNamespace(step=0, evaluations=[]))


def shown(flow_run: str) -> dict[str, Any]:
    """Artifacts of a flow run, by key. Each is there once."""
    with get_client(sync_client=True) as client:
        of_run = ArtifactFilter.model_validate({"flow_run_id": {"any_": [flow_run]}})
        found = client.read_artifacts(artifact_filter=of_run)
    assert len({artifact.key for artifact in found}) == len(found)
    return {str(artifact.key): artifact.data for artifact in found}


def _committed(step: int) -> Commit:
    return commit(step, None, metrics={"bucket/easy/acc": 0.125 * step}, timings={"timing_s/step": 1.0})


def test_progress_and_summary_are_shown_and_updated(run: Any) -> None:
    @flow
    def trains() -> str:
        with get_client(sync_client=True) as client:
            of_run = RunArtifacts(run, UUID(str(runtime.flow_run.id)), lambda about, request: request(client))
            for step in (1, 2):
                run.state.step, run.commit = step, _committed(step)
                of_run.committed()
            of_run.update()
        return str(runtime.flow_run.id)

    found = shown(trains())
    assert found.keys() == {"first-run-progress", "first-run-summary"}
    assert found["first-run-progress"] == 50.0
    summary = found["first-run-summary"]
    assert "step **2** of 4" in summary
    assert "| easy |  | 0.25 |" in summary
    assert "[curves in MLflow](http://127.0.0.1:5000/#/experiments/7/runs/abc)" in summary
    table = "http://127.0.0.1:5000/#/experiments/7/runs?workflowType=machine_learning&viewStateShareKey=ares"
    assert f"[beside the others]({table})" in summary  # without `workflowType` MLflow opened its page of traces


def test_without_a_ui_nothing_is_sent(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL")
    run.commit = _committed(1)
    of_run = RunArtifacts(run, UUID(int=0), lambda about, request: pytest.fail("sent"))
    of_run.committed()
    of_run.update()


def test_an_ablations_report_is_named(run: Any, tmp_path: Any) -> None:
    @flow
    async def ablates() -> str:
        await show_report("Study 1", "KL wins", tmp_path / "report.html", "http://127.0.0.1:5000/#/x")
        return str(runtime.flow_run.id)

    found = shown(asyncio.run(ablates()))
    assert "KL wins" in found["study-1-report"]
    assert "[report.html](http://127.0.0.1:5000/#/x/artifacts/report.html)" in found["study-1-report"]
