"""Notifications: Prefect automations that call an address when a run fails, crashes or raises an alarm.

Covered: `ares up --notify URL`; for your own server, at PREFECT_API_URL, `python -m flows.servers.deployment --notify
URL`. The address gets a POST of {"text": …}, as Slack and Mattermost take it. Not covered: what an alarm is
(flows/alarms.py).
"""

from uuid import UUID

from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.client.orchestration import get_client
from prefect.events.actions import SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture

from flows.alarms import EVENT, RESOURCE

NAME = "ares: a run failed or crashed"
ALARM = "ares: a run raised an alarm"
BLOCK = "ares-notify"
ENDS = ("Failed", "Crashed")
SUBJECT = "{{ flow_run.name }}: {{ flow_run.state.name }}"
BODY = "{{ flow_run.state.message }} {{ flow_run | ui_url }}"
FLOWS = ["ares-train", "ares-bootstrap", "ares-eval", "ares-ablate", "ares-gc"]
"""Not steps: they are flow runs, too, and fail with their run."""


def register(url: str | None) -> None:
    """Have PREFECT_API_URL's server call an address when a run fails, crashes or raises an alarm; None: stop it."""
    with get_client(sync_client=True) as client:
        for name in (NAME, ALARM):
            for known in client.read_automations_by_name(name):
                client.delete_automation(known.id)
        if url is None:
            return
        block = CustomWebhookNotificationBlock(
            name="ares", url=url, headers=None, json_data={"text": "{{subject}}\n{{body}}"}
        )
        block_id = block.save(BLOCK, overwrite=True)
        assert isinstance(block_id, UUID)
        client.create_automation(_automation(block_id))
        client.create_automation(_of_alarms(block_id))


def _automation(block_id: UUID) -> AutomationCore:
    return AutomationCore(
        name=NAME,
        description="Calls the address of `ares up --notify`.",
        trigger=EventTrigger(
            expect={f"prefect.flow-run.{end}" for end in ENDS},
            match={"prefect.resource.id": "prefect.flow-run.*"},
            match_related={"prefect.resource.role": "flow", "prefect.resource.name": FLOWS},
            for_each={"prefect.resource.id"},
            posture=Posture.Reactive,
            threshold=1,
        ),
        actions=[SendNotification(block_document_id=block_id, subject=SUBJECT, body=BODY)],
    )


def _of_alarms(block_id: UUID) -> AutomationCore:
    return AutomationCore(
        name=ALARM,
        description="Calls the address of `ares up --notify`.",
        trigger=EventTrigger(
            expect={EVENT},
            match={"prefect.resource.id": f"{RESOURCE}.*"},
            for_each={"prefect.resource.id"},
            posture=Posture.Reactive,
            threshold=1,
        ),
        actions=[
            SendNotification(
                block_document_id=block_id, subject="{{ event.resource.name }}", body="{{ event.payload.text }}"
            )
        ],
    )
