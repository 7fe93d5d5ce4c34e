"""What a Prefect server needs to run the flows: the work pool, the deployments of prefect.yaml, the crash automation.

Covered: registering them (idempotent), by `ares up` or, at your own server, by `python -m flows.servers.deployment`.
Not covered: servers and workers (flows/servers/services.py).
"""

import argparse
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_URL, temporary_settings

from ares.errors import UserError
from flows.servers import POOL, notifications

CHECKOUT = Path(__file__).resolve().parents[2]
AUTOMATION = "ares: a run without heartbeats has crashed"
SILENCE = timedelta(seconds=75)
"""Two heartbeats of 30 s may be missed; with the server's own round every 5 s a run is marked within two minutes."""
TERMINAL = ("Completed", "Failed", "Cancelled", "Crashed")
RESTING = ("Suspended", "Paused", "AwaitingRetry", "Scheduled")


class DeploymentError(UserError, RuntimeError):
    """The deployments could not be registered."""


def register(api: str, concurrent_runs: int, notify: str | None = None) -> None:
    """Create or update pool, deployments and automations on the server at `api`. Raises DeploymentError.

    notify: an address to be told of failed or crashed runs.
    """
    with temporary_settings({PREFECT_API_URL: api}):
        _register_pool(concurrent_runs)
        _register_automation()
        notifications.register(notify)
    deployed = subprocess.run(
        [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"],
        cwd=CHECKOUT,
        env=os.environ | {"PREFECT_API_URL": api, "ARES_CHECKOUT": str(CHECKOUT)},
        capture_output=True,
        text=True,
    )
    if deployed.returncode:
        raise DeploymentError(f"prefect deploy --all failed:\n{deployed.stdout}\n{deployed.stderr}")


def main() -> None:
    """Register at the server that PREFECT_API_URL, or Prefect's profile, names."""
    parser = argparse.ArgumentParser(prog="python -m flows.servers.deployment", description=main.__doc__)
    parser.add_argument("--concurrent-runs", type=int, default=1, help="that workers train at the same time")
    parser.add_argument("--notify", help="an address to be told of failed or crashed runs")
    given = parser.parse_args()
    api = PREFECT_API_URL.value()
    if api is None:
        parser.error("PREFECT_API_URL names no server")
    try:
        register(api, given.concurrent_runs, given.notify)
    except DeploymentError as error:
        parser.exit(2, f"error: {error}\n")


def _register_pool(concurrent_runs: int) -> None:
    """A queue for runs and one for `ares-gc`, which a run of weeks must not hold up."""
    with get_client(sync_client=True) as client:
        try:
            client.read_work_pool(POOL)
            client.update_work_pool(POOL, WorkPoolUpdate(concurrency_limit=None))
        except ObjectNotFound:
            client.create_work_pool(WorkPoolCreate(name=POOL, type="process"))
        for name, limit in (("default", concurrent_runs), ("gc", 1)):
            try:
                queue = client.read_work_queue_by_name(name, work_pool_name=POOL)
                client.update_work_queue(queue.id, concurrency_limit=limit)
            except ObjectNotFound:
                client.create_work_queue(name, concurrency_limit=limit, work_pool_name=POOL)


def _register_automation() -> None:
    """A flow run whose heartbeats stop before it has ended or paused is marked as crashed, so that Retry appears."""
    wanted = AutomationCore(
        name=AUTOMATION,
        description="Marks a run as crashed that was killed together with its worker.",
        trigger=EventTrigger(
            after={"prefect.flow-run.heartbeat"},
            expect={"prefect.flow-run.heartbeat", *(f"prefect.flow-run.{name}" for name in TERMINAL + RESTING)},
            match={"prefect.resource.id": "prefect.flow-run.*"},
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=SILENCE,
        ),
        actions=[
            ChangeFlowRunState(state=StateType.CRASHED, message="No heartbeat any more. Retry resumes from here.")
        ],
    )
    with get_client(sync_client=True) as client:
        known = client.read_automations_by_name(AUTOMATION)
        if not known:
            client.create_automation(wanted)
        elif AutomationCore.model_validate(known[0].model_dump(include=set(AutomationCore.model_fields))) != wanted:
            # An update forgets the awaited heartbeats: a run that died with `ares up` would never be marked.
            client.update_automation(known[0].id, wanted)


if __name__ == "__main__":
    main()
