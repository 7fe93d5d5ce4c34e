"""What a Prefect server needs to run the flows: the work pool, the automations, the deployments of prefect.yaml.

Covered: registering them (idempotent), by `ares up` or, at your own server, by `python -m flows.servers.deployment`.
Not covered: servers and workers (flows/servers/services.py).
"""

import argparse
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import yaml
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.events.schemas.automations import AutomationCore
from prefect.exceptions import ObjectAlreadyExists
from prefect.settings import PREFECT_API_URL, temporary_settings

from ares.errors import UserError
from flows.parameters import describe_profiles
from flows.servers import POOL
from flows.servers.local_server import check_answers

CHECKOUT = Path(__file__).resolve().parents[2]
AUTOMATIONS = CHECKOUT / "deploy" / "automations.yaml"
BLOCK = "ares-notify"
"""Prefect's name of the webhook of --notify, which gets a POST of {"text": …}, as Slack and Mattermost take it."""


def register(api: str, concurrent_runs: int, notify: str | None = None) -> None:
    """Create or update pool, automations and deployments on the server at `api`. Raises UserError.

    notify: an address to be told of failed or crashed runs, and of alarms; None: nobody is told.
    """
    with temporary_settings({PREFECT_API_URL: api}), get_client(sync_client=True) as client:
        _register_queues(client, {"default": concurrent_runs, "gc": 1})
        register_automations(client, notify)
    named = {"PREFECT_API_URL": api, "ARES_CHECKOUT": str(CHECKOUT), "ARES_PROFILES": describe_profiles()}
    deployed = subprocess.run(
        [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"],
        cwd=CHECKOUT,
        env=os.environ | named,
        capture_output=True,
        text=True,
    )
    if deployed.returncode:
        raise UserError(f"prefect deploy --all failed:\n{deployed.stdout}\n{deployed.stderr}")


def register_automations(client: SyncPrefectClient, notify: str | None) -> None:
    """Create, update or take away the automations of deploy/automations.yaml. notify: see `register`."""
    text = AUTOMATIONS.read_text(encoding="utf-8")
    if notify is not None:
        body = {"text": "{{subject}}\n{{body}}"}
        webhook = CustomWebhookNotificationBlock(name="ares", url=notify, headers=None, json_data=body)
        text = text.replace("NOTIFY", str(webhook.save(BLOCK, overwrite=True)))
    for fields in yaml.safe_load(text):
        known = client.read_automations_by_name(fields["name"])
        if "NOTIFY" in str(fields):
            for automation in known:
                client.delete_automation(automation.id)
            continue
        wanted = AutomationCore.model_validate(fields)
        if not known:
            client.create_automation(wanted)
        elif AutomationCore.model_validate(known[0].model_dump(include=set(AutomationCore.model_fields))) != wanted:
            # An update forgets the awaited heartbeats: a run that died with `ares up` would never be marked.
            client.update_automation(known[0].id, wanted)


def _register_queues(client: SyncPrefectClient, limits: dict[str, int]) -> None:
    """The pool, a queue for runs and one for `ares-gc`, which a run of weeks must not hold up."""
    with suppress(ObjectAlreadyExists):
        client.create_work_pool(WorkPoolCreate(name=POOL, type="process"))
    for name, limit in limits.items():
        with suppress(ObjectAlreadyExists):
            client.create_work_queue(name, work_pool_name=POOL)
        queue = client.read_work_queue_by_name(name, work_pool_name=POOL)
        client.update_work_queue(queue.id, concurrency_limit=limit)


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
        check_answers()
        register(api, given.concurrent_runs, given.notify)
    except UserError as error:
        parser.exit(2, f"error: {error}\n")


if __name__ == "__main__":
    main()
