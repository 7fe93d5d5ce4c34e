"""A deployed run, and what a user does with it in Prefect's UI: a real server, a real worker, real processes killed.

Every run ends bit-identical to the undisturbed run: weights, controllers, chain of commits, MLflow history.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from flows.servers.service import answers
from tests.ares.runs.test_retention import a_run
from tests.deployed import Deployment
from tests.short_runs import assert_same, told

ENDED = ("Completed", "Failed", "Crashed", "Cancelled")
CRASH_SECONDS = 120.0
"""Seconds within which a run killed together with its worker is marked crashed."""


@pytest.mark.slow
def test_up_registers_everything_on_loopback_and_down_leaves_nothing(tmp_path: Path) -> None:
    deployed = Deployment(tmp_path)
    deployed.start()
    assert deployed.up is not None
    try:
        assert len(deployed.post("deployments/filter", {})) == 5  # test_notifications.py
        assert [one["enabled"] for one in deployed.post("automations/filter", {})] == [True]

        below = psutil.Process(deployed.up.pid).children(recursive=True)
        inet = [one for process in below for one in process.net_connections("inet")]
        assert {one.laddr.ip for one in inet if one.status == "LISTEN"} <= {"127.0.0.1", "::1"}
        refused = told(deployed.runs, "up", "--data", str(deployed.runs))
        assert refused.returncode == 2
        assert "running already" in refused.stderr
    finally:
        deployed.stop()
    assert not psutil.wait_procs(below, timeout=60)[1]


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A deployment with room for two runs, and a run `uninterrupted`."""
    deployment = Deployment(tmp_path_factory.mktemp("deployed"), concurrent_runs=2)
    deployment.start()
    try:
        assert deployment.wait_for(deployment.run("uninterrupted"), *ENDED, seconds=600) == "Completed", (
            deployment.logs()
        )
        yield deployment
    finally:
        deployment.stop()


def ended_like_uninterrupted(deployed: Deployment, flow_run: str, name: str) -> None:
    assert deployed.wait_for(flow_run, *ENDED, seconds=600) == "Completed", deployed.logs()
    assert_same(deployed.runs, "uninterrupted", name)
    # Every step that was finished was run once, under its own name; a retry runs those that are missing.
    completed = [child for child, state in deployed.children(flow_run) if state == "Completed"]
    assert completed == [f"{name} bootstrap", *(f"{name} step-{step:06d}" for step in range(1, 5))]


@pytest.mark.slow
def test_retry_after_an_error(deployed: Deployment) -> None:
    (deployed.directory / "fail").write_text("11")
    flow_run = deployed.run("error")
    assert deployed.wait_for(flow_run, *ENDED, seconds=600) == "Failed"
    assert "the judge is down" in deployed.message(flow_run)
    (deployed.directory / "fail").unlink()
    deployed.retry(flow_run)
    ended_like_uninterrupted(deployed, flow_run, "error")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "killed", "seconds"),
    [
        ("flow-killed", ["prefect.engine"], 60.0),
        # The worker first: it would report its run. `ares up` starts another one.
        ("worker-killed", ["worker start", "prefect.engine"], CRASH_SECONDS),
    ],
)
def test_retry_after_sigkill(name: str, killed: list[str], seconds: float, deployed: Deployment) -> None:
    flow_run = deployed.held(name)
    for process in [deployed.processes(part)[0] for part in killed]:
        process.kill()
    deployed.release()
    assert deployed.wait_for(flow_run, *ENDED, seconds=seconds) == "Crashed"
    deployed.retry(flow_run)
    ended_like_uninterrupted(deployed, flow_run, name)


@pytest.mark.slow
def test_an_actors_death_needs_no_retry(deployed: Deployment) -> None:
    flow_run = deployed.held("actor-killed")
    deployed.processes("ray::LearnerActor")[0].kill()
    deployed.release()
    ended_like_uninterrupted(deployed, flow_run, "actor-killed")


@pytest.mark.slow
def test_a_run_outlives_a_restart_of_the_server(deployed: Deployment) -> None:
    flow_run = deployed.held("server-killed")
    deployed.processes("prefect server start")[0].kill()
    deployed.release()  # `ares up` starts the server again; until it answers the run continues without it
    deployed.until(lambda: deployed.steps("server-killed") == 4, "the run continues", seconds=300)
    deployed.until(lambda: answers(f"{deployed.url}/health"), "the server answers")
    if deployed.wait_for(flow_run, *ENDED, seconds=300) != "Completed":
        deployed.retry(flow_run)
    assert deployed.wait_for(flow_run, "Completed", seconds=300)
    assert_same(deployed.runs, "uninterrupted", "server-killed")


@pytest.mark.slow
def test_suspend_and_resume(deployed: Deployment) -> None:
    flow_run = deployed.held("suspended")
    deployed.suspend(flow_run)
    time.sleep(1)
    deployed.release()
    deployed.until(lambda: not deployed.processes("prefect.engine"), "the process has left", seconds=120)
    assert deployed.state(flow_run) == "Suspended"
    assert deployed.steps("suspended") < 4
    assert not deployed.processes("ray::")  # actors released
    deployed.resume(flow_run)
    ended_like_uninterrupted(deployed, flow_run, "suspended")


@pytest.mark.slow
def test_resume_before_the_suspended_process_has_left(deployed: Deployment) -> None:
    """The second process was refused by the first, and failed the flow run."""
    flow_run = deployed.held("early")
    deployed.suspend(flow_run)
    time.sleep(4)
    deployed.resume(flow_run)
    logged = {"logs": {"flow_run_id": {"any_": [flow_run]}}}
    waits = "early: waits for the process that was suspended"
    deployed.until(lambda: waits in str(deployed.post("logs/filter", logged)), "the second process waits", seconds=120)
    deployed.release()
    ended_like_uninterrupted(deployed, flow_run, "early")


@pytest.mark.slow
def test_cancel_releases_the_actors_and_the_run_can_be_resumed(deployed: Deployment) -> None:
    flow_run = deployed.held("cancelled")
    deployed.set_state(flow_run, {"type": "CANCELLING", "name": "Cancelling"})  # the Cancel button
    assert deployed.wait_for(flow_run, *ENDED, seconds=120) == "Cancelled"
    deployed.release()
    deployed.until(lambda: not deployed.processes("ray::"), "actors released", seconds=60)
    another = deployed.run("cancelled")
    assert deployed.wait_for(another, *ENDED, seconds=600) == "Completed"
    assert_same(deployed.runs, "uninterrupted", "cancelled")


@pytest.mark.slow
def test_retention_waits_for_no_run_and_touches_none_in_training(deployed: Deployment) -> None:
    """The queue of runs is full meanwhile."""
    flow_runs = {"beside": deployed.held("beside"), "beside-too": deployed.run("beside-too")}
    deployed.wait_for(flow_runs["beside-too"], "Running")
    a_run(deployed.runs, "old", 50, None)
    collected = deployed.start_flow("ares-gc", {"older_than": 30, "working_files": True})
    assert deployed.wait_for(collected, *ENDED) == "Completed", deployed.message(collected)
    assert [deployed.state(each) for each in flow_runs.values()] == ["Running", "Running"]
    assert not (deployed.runs / "old").exists()
    deployed.release()
    for name, flow_run in flow_runs.items():
        ended_like_uninterrupted(deployed, flow_run, name)


@pytest.mark.slow
def test_down_in_the_middle_of_a_run_and_up_again(deployed: Deployment) -> None:
    flow_run = deployed.held("down")
    deployed.stop()
    deployed.release()
    assert not deployed.survivors()
    deployed.start()
    deployed.wait_for(flow_run, *ENDED, seconds=CRASH_SECONDS)
    deployed.retry(flow_run)
    ended_like_uninterrupted(deployed, flow_run, "down")
