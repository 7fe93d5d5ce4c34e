"""Steps and phases in Prefect: names and states, Suspend, a server that is slow or down, a second SIGTERM, the log.

Not covered: that a whole run ends bit-identical through all this (tests/e2e/test_deployment.py, tests/resume).
"""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import httpx
import pytest
from prefect import flow, get_client, runtime
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowRunFilter, LogFilter, TaskRunFilter
from prefect.client.schemas.objects import FlowRun, TaskRun
from prefect.exceptions import Pause, TerminationSignal
from prefect.logging.handlers import APILogHandler
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.states import Running, Suspended

from flows import prefect_conductor
from flows.prefect_client import run_until_suspended
from flows.prefect_conductor import PrefectConductor
from flows.run_log import run_log

pytestmark = pytest.mark.usefixtures("prefect")
NOBODY = "http://127.0.0.1:9/api"
Body = Callable[[PrefectConductor], Awaitable[Any]]
RUN: Any = SimpleNamespace(store=SimpleNamespace(name="first"), commit=None)


def within_a_flow(body: Body, flow_run: UUID | None = None) -> UUID:
    """Run `body` inside a flow run, a new one or one that was made before; returns its id.

    Not in Prefect's engine, which waits for the server for a second or two.
    """
    if flow_run is None:
        with get_client(sync_client=True) as client:
            flow_run = client.create_flow_run(parent, state=Running()).id

    async def conducted() -> None:
        with PrefectConductor(RUN) as conductor:
            await body(conductor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT__FLOW_RUN_ID", str(flow_run))
        try:
            asyncio.run(conducted())
        finally:
            wait_for_records()
    return flow_run


def wait_for_records() -> None:
    """On a slow machine the thread goes on sending after END_SECONDS, into the next test."""
    for thread in threading.enumerate():
        if thread.name == "prefect-records":
            thread.join(60)


@flow
def parent() -> None:
    """Named in records only."""


def steps_of(parent: UUID) -> list[FlowRun]:
    with get_client(sync_client=True) as client:
        below = FlowRunFilter.model_validate({"parent_flow_run_id": {"any_": [parent]}})
        return sorted(client.read_flow_runs(flow_run_filter=below), key=lambda child: child.name)


def phases_of(flow_run: UUID) -> list[TaskRun]:
    with get_client(sync_client=True) as client:
        within = TaskRunFilter.model_validate({"flow_run_id": {"any_": [flow_run]}})
        return sorted(client.read_task_runs(task_run_filter=within), key=lambda phase: phase.name)


def names_and_states(records: Sequence[Any]) -> list[tuple[str, str]]:
    return [(record.name, record.state.name) for record in records]


def set_state(flow_run: UUID, state: Any) -> None:
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(flow_run, state, force=True)


def why_suspended_for_ever(flow_run: UUID) -> str | None:
    """The UI's Suspend allows 300 s for Resume; then the run ended as failed."""
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(flow_run).state
    assert state is not None
    assert (state.name, state.state_details.pause_timeout) == ("Suspended", None)
    assert state.state_details.pause_reschedule
    return state.message


async def nothing() -> None:
    """A step or phase without work."""


def failing(error: BaseException) -> Callable[[], Awaitable[None]]:
    async def fail() -> None:
        raise error

    return fail


def test_each_step_is_a_flow_run_and_each_phase_one_task_run_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.runs.conductor.RETRY_SECONDS", 0.0)
    tried: list[int] = []

    async def unlucky() -> str:
        tried.append(1)
        if len(tried) < 3:
            raise RuntimeError("the judge is down")
        return "rows"

    async def body(conductor: PrefectConductor) -> None:
        async def work() -> None:
            assert await conductor.phase("rollout 0", unlucky, 2) == "rows"
            await conductor.phase("update", nothing, 0)

        await conductor.step("first step-000001", 1, work)
        await conductor.step("first step-000002", 2, nothing)
        await conductor.phase("score", nothing, 0)

    parent = within_a_flow(body)
    one, two = steps_of(parent)
    assert names_and_states([one, two]) == [("first step-000001", "Completed"), ("first step-000002", "Completed")]
    assert [(step.parameters, step.tags) for step in (one, two)] == [
        ({"number": 1}, ["run:first"]), ({"number": 2}, ["run:first"])
    ]  # fmt: skip
    assert names_and_states(phases_of(one.id)) == [("rollout 0", "Completed"), ("update", "Completed")]
    assert all(phase.start_time and phase.end_time and phase.run_count == 1 for phase in phases_of(one.id))
    assert ("score", "Completed") in names_and_states(phases_of(parent))


def test_a_retried_run_runs_another_step_in_the_place_of_a_finished_one() -> None:
    """Prefect would return the result of the child that finished in its place."""

    def begins_with(number: int) -> Body:
        return lambda conductor: conductor.step(f"step-{number:06d}", number, nothing)

    run = within_a_flow(begins_with(2), within_a_flow(begins_with(1)))
    assert names_and_states(steps_of(run)) == [("step-000001", "Completed"), ("step-000002", "Completed")]


def test_an_error_passes_through_and_fails_its_phase_and_step() -> None:
    """One of a connection, too: it is not Prefect's."""
    error = httpx.ConnectError("the judge's line is dead")

    async def body(conductor: PrefectConductor) -> None:
        with pytest.raises(type(error)):
            await conductor.step("step-000001", 1, lambda: conductor.phase("score", failing(error), 0))

    (step,) = steps_of(within_a_flow(body))
    found: list[Any] = [step.state, *(phase.state for phase in phases_of(step.id))]
    assert [(state.name, state.message) for state in found] == [("Failed", f"{type(error).__name__}: {error}")] * 2


@pytest.mark.parametrize("part", ["step", "phase"])
def test_a_suspended_run_leaves_at_its_next_step_or_phase_for_ever(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefect_conductor, "LOOK_SECONDS", 0.1)
    suspended: list[UUID] = []

    async def body(conductor: PrefectConductor) -> None:
        async def phases() -> None:
            while part == "phase":
                await conductor.phase("rollout", lambda: asyncio.sleep(0.3), 0)
            await asyncio.sleep(0.3)  # the server keeps up

        suspended.append(UUID(str(runtime.flow_run.id)))
        set_state(suspended[0], Suspended(timeout_seconds=60))
        for number in range(1, 1000):
            await conductor.step(f"step-{number:06d}", number, phases)

    with pytest.raises(Pause):
        within_a_flow(body)
    *before, last = steps_of(suspended[0])
    assert {step.state_name for step in before} <= {"Completed"}
    assert last.state_name == ("Completed" if part == "step" else "Cancelled")
    why_suspended_for_ever(suspended[0])


def test_a_run_that_pauses_itself_is_suspended_and_its_warnings_are_events(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, str]] = []
    monkeypatch.setattr(prefect_conductor, "has_ui", lambda: True)
    monkeypatch.setattr(
        prefect_conductor, "emit_event", lambda event, resource, payload: told.append((event, payload["text"]))
    )
    made: list[UUID] = []

    async def body(conductor: PrefectConductor) -> None:
        made.append(UUID(str(runtime.flow_run.id)))
        conductor.warn("first", "kl_above", "step 9: KL 3")
        conductor.pause("first is paused")

    with pytest.raises(Pause, match="first is paused"):
        within_a_flow(body)
    assert why_suspended_for_ever(made[0]) == "first is paused"
    assert (prefect_conductor.EVENT, "step 9: KL 3") in told


def test_a_suspended_ablation_is_ended_and_may_be_resumed_for_ever() -> None:
    made: list[UUID] = []
    ended: list[str] = []

    @flow(name="ablation")
    async def ablation() -> None:
        made.append(UUID(str(runtime.flow_run.id)))
        await run_until_suspended(endless())

    async def endless() -> None:
        set_state(made[0], Suspended(timeout_seconds=60))
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("its children")

    with pytest.raises(Pause):
        asyncio.run(ablation())
    assert ended == ["its children"]
    why_suspended_for_ever(made[0])


def test_what_the_runs_end_interrupts_is_not_left_running() -> None:
    async def body(conductor: PrefectConductor) -> None:
        begun, before = asyncio.Event(), signal.getsignal(signal.SIGTERM)

        async def endless() -> None:
            begun.set()
            await asyncio.sleep(60)

        step = asyncio.create_task(conductor.step("step-000001", 1, lambda: conductor.phase("update", endless, 0)))
        await begun.wait()
        step.cancel()
        await asyncio.wait([step])
        signal.signal(signal.SIGTERM, before)

    (step,) = steps_of(within_a_flow(body))
    assert names_and_states([step, *phases_of(step.id)]) == [("step-000001", "Crashed"), ("update", "Crashed")]


def test_no_step_waits_for_prefect(monkeypatch: pytest.MonkeyPatch) -> None:
    create, slow, calls = SyncPrefectClient.create_task_run, threading.Event(), []

    def create_slowly(*arguments: Any, **named: Any) -> Any:
        assert slow.wait(60)
        return create(*arguments, **named)

    monkeypatch.setattr(SyncPrefectClient, "create_task_run", create_slowly)

    async def body(conductor: PrefectConductor) -> None:
        async def work() -> None:
            await conductor.phase("update", nothing, 0)
            calls.append(1)

        for number in (1, 2):
            await conductor.step(f"step-{number:06d}", number, work)
        assert len(calls) == 2
        slow.set()

    one, two = steps_of(within_a_flow(body))
    assert names_and_states([one, *phases_of(one.id), two]) == [
        ("step-000001", "Completed"), ("update", "Completed"), ("step-000002", "Completed")
    ]  # fmt: skip


def test_what_cannot_be_sent_ends_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*arguments: Any, **named: Any) -> None:
        raise RuntimeError("a bug of the client")

    monkeypatch.setattr(SyncPrefectClient, "set_flow_run_state", fail)

    async def body(conductor: PrefectConductor) -> None:
        with caplog.at_level(logging.WARNING, "flows.prefect_conductor"):
            await conductor.step("step-000001", 1, nothing)
            await conductor.step("step-000002", 2, nothing)

    within_a_flow(body)
    assert "not told how step-000001 ended: a bug of the client; the run continues" in caplog.text


def test_a_server_that_is_down_is_reported_and_the_work_is_done(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    async def work() -> None:
        calls.append(1)

    async def body(conductor: PrefectConductor) -> None:
        caplog.set_level(logging.WARNING, "flows.prefect_conductor")
        nobody = temporary_settings({PREFECT_API_URL: NOBODY, PREFECT_CLIENT_MAX_RETRIES: 0})
        with nobody, PrefectConductor(conductor.run) as away:
            await away.step("step-000001", 1, lambda: away.phase("update", work, 0))
        await conductor.step("step-000002", 2, work)

    (step,) = steps_of(within_a_flow(body))
    assert calls == [1, 1]
    assert step.name == "step-000002"
    away = "Prefect's server is away, and not told of step-000001: [Errno 111] Connection refused; the run continues"
    assert caplog.text.count(away) == 1
    assert "update" not in caplog.text  # one warning a step
    assert "suspended" not in caplog.text  # which is asked every second


def test_a_second_sigterm_does_not_interrupt_the_clean_up() -> None:
    """It was a traceback, and left MLflow's run running."""
    cleaned: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda *_: cleaned.append("afterwards"))

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(60)

    @flow
    async def whole() -> None:
        try:
            with PrefectConductor(RUN) as conductor:
                await conductor.step("step-000001", 1, lambda: conductor.phase("update", work, 0))
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.1)
            cleaned.append("cleaned up")

    try:
        with pytest.raises(TerminationSignal):
            asyncio.run(whole())
    finally:
        signal.signal(signal.SIGTERM, before)
    assert cleaned == ["cleaned up", "afterwards"]


def test_the_run_has_all_lines_of_its_log_and_a_step_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", str(PREFECT_API_URL.value()))
    ours = logging.getLogger("ares.cluster.cluster")

    async def body(conductor: PrefectConductor) -> None:
        async def work() -> None:
            ours.warning("learner died (attempt 1 of 3)")
            await asyncio.to_thread(ours.info, "step 7  acc 0.500")
            logging.getLogger("somelibrary").warning("of a library")

        with run_log():
            ours.info("resumed after step 6 of 8")
            await conductor.step("first step-000007", 7, work)

    async def logged(flow_run: UUID) -> list[str]:
        await APILogHandler.aflush()
        async with get_client() as client:
            logs = await client.read_logs(LogFilter.model_validate({"flow_run_id": {"any_": [flow_run]}}))
        return sorted(log.message for log in logs if log.name.startswith("ares"))

    run = within_a_flow(body)
    (step,) = steps_of(run)
    of_step = ["learner died (attempt 1 of 3)", "step 7  acc 0.500"]
    assert asyncio.run(logged(step.id)) == of_step
    assert asyncio.run(logged(run)) == sorted(["resumed after step 6 of 8", *of_step])
