"""Tags of runs, what a killed process leaves behind, and children of another process, at a real Prefect server."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from prefect import flow, get_client, runtime, tags, task
from prefect.client.schemas.objects import FlowRun, State
from prefect.settings import PREFECT_API_URL
from prefect.states import Pending, Running

from flows import ownership

pytestmark = pytest.mark.usefixtures("prefect")


@pytest.fixture(autouse=True)
def named_server(prefect: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", str(PREFECT_API_URL.value()))


@flow
async def a_run(run: str = "first") -> str:
    await asyncio.to_thread(ownership.claim, f"run:{run}")
    return str(runtime.flow_run.id)


@flow(name="a-step")
async def a_step() -> None:
    """Of a process that was killed."""


def read(flow_run: str) -> FlowRun:
    async def asked() -> FlowRun:
        async with get_client() as client:
            return await client.read_flow_run(UUID(flow_run))

    return asyncio.run(asked())


def test_what_a_killed_process_left_running_is_marked_and_nothing_else() -> None:
    async def left(tag: str, state: State) -> str:
        async with get_client() as client:
            with tags(tag):
                made = await client.create_flow_run(a_step, state=state, tags=[tag])
        return str(made.id)

    lost, others = (asyncio.run(left(tag, Running())) for tag in ("run:killed", "run:another"))
    next_of_lost = asyncio.run(left("run:killed", Pending()))
    own = asyncio.run(a_run("killed"))
    found = [flow_run.state.name if (flow_run := read(each)).state else None
             for each in (lost, next_of_lost, others, own)]  # fmt: skip
    assert found == ["Crashed", "Crashed", "Running", "Completed"]
    assert "run:killed" in read(own).tags


def test_the_flow_run_of_another_process_is_a_child_of_the_task_that_started_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @task
    async def child() -> dict[str, str]:
        return await ownership.link_to_task()

    @flow
    async def parent() -> tuple[str, dict[str, str]]:
        return str(runtime.flow_run.id), await child()

    ablation, environment = asyncio.run(parent())
    assert environment.keys() == {ownership.PARENT}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    made = asyncio.run(ownership.run_flow(a_run, "a-child", run="second"))
    flow_run = read(made)
    assert (flow_run.name, str(flow_run.parent_task_run_id)) == ("a-child", environment[ownership.PARENT])

    async def below() -> list[Any]:
        async with get_client() as client:
            answer = await client._client.post(
                "/flow_runs/filter", json={"flow_runs": {"parent_flow_run_id": {"any_": [ablation]}}}
            )
            return list(answer.json())

    assert [each["id"] for each in asyncio.run(below())] == [made]
