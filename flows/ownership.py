"""Which flow runs belong to which run or ablation in Prefect's UI.

Covered: tags `run:NAME` and `ablation:NAME`, marking as crashed what a killed process left as Running, flow runs below
a task of another process. Not covered: which flow runs there are (flows/train.py, flows/ablate.py).
"""

import asyncio
import logging
import os
from typing import Any
from uuid import UUID

import httpx
from prefect import Flow, get_client, runtime
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import StateType
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.flow_engine import run_flow_async
from prefect.states import Crashed, Pending

logger = logging.getLogger(__name__)
PARENT = "ARES_PARENT_TASK_RUN"
"""Environment variable: the task run below which a command's flow run is shown."""
KNOWN_SECONDS = 10.0
"""Task runs are recorded with a delay; a child waits no longer than this for its link."""
LOST = "Its process ended without reporting; noticed when it was started again."


def claim(tag: str) -> None:
    """Tag this flow run, and mark as crashed whatever else has the tag and is shown as running or pending.

    Only the holder of the run or ablation may call it: whoever ran it before is then dead.
    """
    if not _has_page() or runtime.flow_run.id is None:
        return
    own = UUID(str(runtime.flow_run.id))
    tagged: dict[str, Any] = {"tags": {"all_": [tag]}}
    running: dict[str, Any] = {"state": {"type": {"any_": [StateType.RUNNING, StateType.PENDING]}, "name": None}}
    try:
        with get_client(sync_client=True) as client:
            for task in client.read_task_runs(
                flow_run_filter=FlowRunFilter.model_validate(tagged),
                task_run_filter=TaskRunFilter.model_validate(running),
            ):
                client.set_task_run_state(task.id, Crashed(message=LOST), force=True)
            for flow in client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(tagged | running)):
                if flow.id != own:
                    client.set_flow_run_state(flow.id, Crashed(message=LOST), force=True)
            client.update_flow_run(own, tags={*client.read_flow_run(own).tags, tag})
    except (httpx.TransportError, PrefectHTTPStatusError) as error:
        logger.warning("Prefect was not told of %s: %s", tag, error)


async def link_to_task() -> dict[str, str]:
    """Environment variables for a process whose flow run belongs below this task; empty if no server knows it."""
    task = runtime.task_run.id
    if not _has_page() or task is None:
        return {}
    try:
        async with asyncio.timeout(KNOWN_SECONDS), get_client() as client:
            while True:
                try:
                    await client.read_task_run(UUID(str(task)))
                    return {PARENT: str(task)}
                except ObjectNotFound:
                    await asyncio.sleep(0.5)
    except (TimeoutError, httpx.TransportError, PrefectHTTPStatusError) as error:
        logger.warning("a flow run is not linked to its ablation: Prefect does not know the task yet (%s)", error)
        return {}


async def run_flow(flow: Flow[..., Any], name: str, **parameters: Any) -> Any:
    """Run a flow under a name, below another process's task if the environment names one."""
    named, parent = flow.with_options(flow_run_name=name), os.environ.get(PARENT)
    if parent is None:
        return await named(**parameters)
    async with get_client() as client:
        made = await client.create_flow_run(
            named, parameters=parameters, name=name, parent_task_run_id=UUID(parent), state=Pending()
        )
    return await run_flow_async(named, flow_run=made, parameters=parameters)


def _has_page() -> bool:
    return "PREFECT_API_URL" in os.environ
