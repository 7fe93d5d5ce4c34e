"""A step as a flow run of its own: its name and identity, a suspended run, a server that is away or is lost on the way.

Not covered: that a whole run ends bit-identical through all this (tests/e2e/test_deployment.py, tests/resume).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import httpx
import pytest
from prefect import flow, get_client, runtime
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import Pause
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Suspended

from flows.child_run import conducted

NOBODY = "http://127.0.0.1:9/api"
calls: list[int] = []


async def a_part(number: int) -> None:
    calls.append(number)


async def an_unlucky_part(number: int) -> None:
    calls.append(number)
    if len(calls) == 1:
        raise httpx.ConnectError("the line is dead")


async def a_wrong_part(number: int) -> None:
    calls.append(number)
    raise ValueError("wrong")


@pytest.fixture(autouse=True)
def no_calls() -> None:
    calls.clear()


def within_a_flow(body: Callable[[], Awaitable[Any]], retries: int = 0) -> UUID:
    """Run `body` as a flow; returns the flow run's id."""

    @flow(name="parent", retries=retries)
    async def parent() -> str:
        await body()
        return str(runtime.flow_run.id)

    return UUID(asyncio.run(parent()))


def children(parent: UUID) -> list[FlowRun]:
    async def read() -> list[FlowRun]:
        async with get_client() as client:
            below = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[parent]))
            return await client.read_flow_runs(flow_run_filter=below)

    return sorted(asyncio.run(read()), key=lambda child: child.name)


@pytest.mark.usefixtures("prefect")
def test_each_part_is_a_flow_run_with_its_own_name() -> None:
    async def body() -> None:
        await conducted(a_part, "step-000001", 1)
        await conducted(a_part, "step-000002", 2)

    parts = children(within_a_flow(body))
    assert calls == [1, 2]
    assert [child.name for child in parts] == ["step-000001", "step-000002"]
    assert all(child.state is not None and child.state.is_completed() for child in parts)


@pytest.mark.usefixtures("prefect")
def test_a_retried_run_runs_another_step_in_the_place_of_a_finished_one() -> None:
    """Prefect would hand back the result of the child that finished in that place."""

    async def body() -> None:
        await conducted(a_part, f"step-{len(calls) + 1:06d}", len(calls) + 1)
        if len(calls) == 1:
            raise RuntimeError("the first attempt breaks off")

    parts = children(within_a_flow(body, retries=1))
    assert calls == [1, 2]
    assert [child.name for child in parts] == ["step-000001", "step-000002"]


@pytest.mark.usefixtures("prefect")
def test_an_error_of_the_part_itself_passes_through_and_nothing_is_done_twice() -> None:
    async def body() -> None:
        with pytest.raises(ValueError, match="wrong"):
            await conducted(a_wrong_part, "step-000001", 1)

    (child,) = children(within_a_flow(body))
    assert calls == [1]
    assert child.state is not None
    assert child.state.is_failed()


@pytest.mark.usefixtures("prefect")
def test_a_suspended_run_leaves_before_its_next_part() -> None:
    async def body() -> None:
        async with get_client() as client:
            await client.set_flow_run_state(UUID(str(runtime.flow_run.id)), Suspended(timeout_seconds=60), force=True)
        await conducted(a_part, "step-000001", 1)

    with pytest.raises(Pause):
        within_a_flow(body)
    assert calls == []


@pytest.mark.usefixtures("prefect")
def test_a_server_lost_on_the_way_is_told_and_the_part_is_called_again(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        with caplog.at_level(logging.WARNING, "flows.child_run"):
            await conducted(an_unlucky_part, "step-000001", 1)

    within_a_flow(body)
    assert calls == [1, 1]
    assert "the line is dead" in caplog.text


def test_a_server_that_is_away_is_told_and_the_part_is_called_plainly(caplog: pytest.LogCaptureFixture) -> None:
    with temporary_settings({PREFECT_API_URL: NOBODY}), caplog.at_level(logging.WARNING, "flows.child_run"):
        asyncio.run(conducted(a_part, "step-000001", 1))
    assert calls == [1]
    assert "step-000001: Prefect's server is away (no answer)" in caplog.text
