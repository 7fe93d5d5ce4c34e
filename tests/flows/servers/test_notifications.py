"""What `ares up` registers at a Prefect server besides deployments: notifications, the names of runs that wait."""

import asyncio
from uuid import UUID

import pytest
from prefect import flow, get_client
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.settings import PREFECT_API_URL
from prefect.states import Scheduled

from flows.servers.notifications import BLOCK, ENDS, FLOWS, NAME, register
from flows.servers.services import name_queued

pytestmark = pytest.mark.usefixtures("prefect")


def test_an_address_is_registered_once_replaced_and_taken_away() -> None:
    def registered() -> list[object]:
        with get_client(sync_client=True) as client:
            return [automation.model_dump() for automation in client.read_automations_by_name(NAME)]

    for url in ("http://127.0.0.1:9/first", "http://127.0.0.1:9/second"):
        register(url)
        (found,) = registered()
        assert isinstance(found, dict)
        assert found["trigger"]["expect"] == {f"prefect.flow-run.{end}" for end in ENDS}
        assert found["trigger"]["match_related"]["prefect.resource.name"] == FLOWS
        block = CustomWebhookNotificationBlock.load(BLOCK)
        assert isinstance(block, CustomWebhookNotificationBlock)
        assert block.url == url
    register(None)
    assert registered() == []


@flow(name="ares-train")
async def a_flow(run: str = "") -> None:
    """Never started."""


def test_a_run_that_waits_is_called_by_the_run_it_will_train() -> None:
    async def queued(run: str) -> UUID:
        async with get_client() as client:
            return (await client.create_flow_run(a_flow, parameters={"run": run}, state=Scheduled(), name="lemur")).id

    async def name_of(flow_run: UUID) -> str:
        async with get_client() as client:
            return (await client.read_flow_run(flow_run)).name

    named, unnamed = (asyncio.run(queued(run)) for run in ("first", ""))
    name_queued(str(PREFECT_API_URL.value()))
    assert [asyncio.run(name_of(each)) for each in (named, unnamed)] == ["first", "lemur"]
    name_queued("http://127.0.0.1:9/api")  # a server that is away is no error
