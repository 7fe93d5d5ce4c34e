"""A step as its own flow run: its name and identity, a suspended run, a server that is slow, down or lost.

Not covered: that a whole run ends bit-identical through all this (tests/e2e/test_deployment.py, tests/resume).
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import httpx
import pytest
from prefect import flow, get_client, runtime, tags, task
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId
from prefect.client.schemas.objects import FlowRun
from prefect.context import TaskRunContext
from prefect.exceptions import Pause
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Cancelling, Suspended

from flows.child_run import ChildRuns

NOBODY = "http://127.0.0.1:9/api"
calls: list[int] = []
told: list[str] = []


async def a_part(number: int) -> None:
    calls.append(number)


async def an_unlucky_part(number: int) -> None:
    calls.append(number)
    raise httpx.ConnectError("the judge's line is dead")


async def a_wrong_part(number: int) -> None:
    calls.append(number)
    raise ValueError("wrong")


@task
async def a_phase() -> None:
    context = TaskRunContext.get()
    assert context is not None
    told.append(str(context.task_run.flow_run_id))


async def a_part_with_a_phase(number: int) -> None:
    told.append(str(runtime.flow_run.id))
    await a_phase()


async def a_part_of_phases(number: int) -> None:
    for _ in range(1000):
        await a_phase()
        await asyncio.sleep(0.05)


async def an_endless_part(number: int) -> None:
    calls.append(number)
    await asyncio.sleep(60)


async def a_part_that_is_cancelled_on_the_page(number: int) -> None:
    async with get_client() as client:
        await client.set_flow_run_state(UUID(str(runtime.flow_run.id)), Cancelling(), force=True)


@pytest.fixture(autouse=True)
def no_calls() -> None:
    calls.clear()
    told.clear()


def within_a_flow(body: Callable[[ChildRuns], Awaitable[Any]], retries: int = 0) -> UUID:
    """Run `body` as a flow; returns the flow run's id."""

    @flow(name="parent", retries=retries)
    async def parent() -> str:
        children = ChildRuns()
        try:
            await body(children)
        finally:
            children.end()
        return str(runtime.flow_run.id)

    return UUID(asyncio.run(parent()))


def below(parent: UUID) -> list[FlowRun]:
    async def read() -> list[FlowRun]:
        async with get_client() as client:
            below = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[parent]))
            return await client.read_flow_runs(flow_run_filter=below)

    return sorted(asyncio.run(read()), key=lambda child: child.name)


@pytest.mark.usefixtures("prefect")
def test_each_part_is_a_flow_run_with_its_own_name() -> None:
    async def body(children: ChildRuns) -> None:
        with tags("run:first"):
            await children.conducted(a_part, "step-000001", 1)
            await children.conducted(a_part, "step-000002", 2)

    parts = below(within_a_flow(body))
    assert calls == [1, 2]
    assert [(child.name, child.parameters, child.tags) for child in parts] == [
        ("step-000001", {"number": 1}, ["run:first"]), ("step-000002", {"number": 2}, ["run:first"])
    ]  # fmt: skip
    assert all(child.state is not None and child.state.is_completed() for child in parts)


@pytest.mark.usefixtures("prefect")
def test_a_phase_of_a_part_is_a_task_run_of_its_flow_run() -> None:
    async def body(children: ChildRuns) -> None:
        await children.conducted(a_part_with_a_phase, "step-000001", 1)

    (child,) = below(within_a_flow(body))
    assert told == [str(child.id), str(child.id)]


@pytest.mark.usefixtures("prefect")
def test_a_retried_run_runs_another_step_in_the_place_of_a_finished_one() -> None:
    """Prefect would return the result of the child that finished in its place."""

    async def body(children: ChildRuns) -> None:
        await children.conducted(a_part, f"step-{len(calls) + 1:06d}", len(calls) + 1)
        if len(calls) == 1:
            raise RuntimeError("the first attempt breaks off")

    parts = below(within_a_flow(body, retries=1))
    assert calls == [1, 2]
    assert [child.name for child in parts] == ["step-000001", "step-000002"]


@pytest.mark.usefixtures("prefect")
@pytest.mark.parametrize(("part", "error"), [(a_wrong_part, ValueError), (an_unlucky_part, httpx.ConnectError)])
def test_an_error_of_the_part_itself_passes_through_and_nothing_is_done_twice(
    part: Callable[..., Awaitable[None]], error: type[Exception]
) -> None:
    async def body(children: ChildRuns) -> None:
        with pytest.raises(error):
            await children.conducted(part, "step-000001", 1)

    (child,) = below(within_a_flow(body))
    assert calls == [1]
    assert child.state is not None
    assert child.state.is_failed()
    assert error.__name__ in str(child.state.message)


@pytest.mark.usefixtures("prefect")
def test_a_suspended_run_leaves_before_its_next_part() -> None:
    async def body(children: ChildRuns) -> None:
        async with get_client() as client:
            await client.set_flow_run_state(UUID(str(runtime.flow_run.id)), Suspended(timeout_seconds=60), force=True)
        await children.conducted(a_part, "step-000001", 1)

    with pytest.raises(Pause):
        within_a_flow(body)
    assert calls == []


@pytest.mark.usefixtures("prefect")
def test_a_run_that_is_suspended_during_a_part_leaves_at_a_phase_of_it() -> None:
    async def body(children: ChildRuns) -> None:
        children.expect(a_part_of_phases, "step-000001", 1)
        while not children._expected["step-000001"].done():
            await asyncio.sleep(0.01)
        async with get_client() as client:
            await client.set_flow_run_state(UUID(str(runtime.flow_run.id)), Suspended(timeout_seconds=60), force=True)
        children.expect(a_part, "step-000002", 2)
        await children.conducted(a_part_of_phases, "step-000001", 1)

    with pytest.raises(Pause):
        within_a_flow(body)
    assert 0 < len(told) < 1000


@pytest.mark.usefixtures("prefect")
def test_the_flow_run_of_the_next_part_is_there_before_it_begins_and_is_cancelled_if_it_never_does() -> None:
    async def body(children: ChildRuns) -> None:
        for number in (1, 2):
            children.expect(a_part, f"step-00000{number}", number)
        await children.conducted(a_part, "step-000001", 1)
        while not children._expected["step-000002"].done():
            await asyncio.sleep(0.01)
        told.append(str(children._expected["step-000002"].result().id))
        children.expect(a_part, "step-000003", 3)
        await children.conducted(a_part, "step-000002", 2)

    parts = below(within_a_flow(body))
    assert calls == [1, 2]
    assert [(child.name, child.state and child.state.name) for child in parts] == [
        ("step-000001", "Completed"), ("step-000002", "Completed"), ("step-000003", "Cancelled")
    ]  # fmt: skip
    assert str(parts[1].id) == told[0]


@pytest.mark.usefixtures("prefect")
def test_a_part_that_its_runs_end_interrupts_is_not_left_running() -> None:
    async def body(children: ChildRuns) -> None:
        part = asyncio.create_task(children.conducted(an_endless_part, "step-000001", 1))
        while not calls:
            await asyncio.sleep(0.01)
        part.cancel()
        await asyncio.wait([part])

    (child,) = below(within_a_flow(body))
    assert child.state is not None
    assert child.state.is_crashed()


@pytest.mark.usefixtures("prefect")
def test_a_part_does_not_wait_until_prefect_knows_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    set_state, slow = SyncPrefectClient.set_flow_run_state, threading.Event()

    def slowly(*arguments: Any) -> Any:
        assert slow.wait(60)
        return set_state(*arguments)

    monkeypatch.setattr(SyncPrefectClient, "set_flow_run_state", slowly)

    async def body(children: ChildRuns) -> None:
        await children.conducted(a_part, "step-000001", 1)
        assert calls == [1]
        slow.set()

    (child,) = below(within_a_flow(body))
    assert child.state is not None
    assert child.state.is_completed()


@pytest.mark.usefixtures("prefect")
@pytest.mark.parametrize("error", [httpx.ReadTimeout("too slow"), RuntimeError("a bug of the client")])
def test_a_state_that_cannot_be_sent_is_reported_and_ends_nothing(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*arguments: Any) -> None:
        raise error

    monkeypatch.setattr(SyncPrefectClient, "set_flow_run_state", failing)

    async def body(children: ChildRuns) -> None:
        with caplog.at_level(logging.WARNING, "flows.child_run"):
            await children.conducted(a_part, "step-000001", 1)
            await children.conducted(a_part, "step-000002", 2)

    within_a_flow(body)
    assert calls == [1, 2]
    assert f"step-000001: Prefect does not know that it is Running: {error}" in caplog.text


@pytest.mark.usefixtures("prefect")
def test_a_state_that_prefect_refuses_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def body(children: ChildRuns) -> None:
        with caplog.at_level(logging.WARNING, "flows.child_run"):
            await children.conducted(a_part_that_is_cancelled_on_the_page, "step-000001", 1)
            children.end()

    within_a_flow(body)
    assert "step-000001: Prefect does not know that it is Completed: " in caplog.text


@pytest.mark.usefixtures("prefect")
def test_a_server_that_is_down_is_reported_and_the_part_is_called_plainly(caplog: pytest.LogCaptureFixture) -> None:
    async def body(children: ChildRuns) -> None:
        with temporary_settings({PREFECT_API_URL: NOBODY}), caplog.at_level(logging.WARNING, "flows.child_run"):
            await children.conducted(a_part, "step-000001", 1)
        await children.conducted(a_part, "step-000002", 2)

    (child,) = below(within_a_flow(body))
    assert calls == [1, 2]
    assert child.name == "step-000002"
    assert "step-000001: Prefect's server is away ([Errno 111] Connection refused)" in caplog.text
