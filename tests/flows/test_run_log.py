"""A run's log: in the Logs tab of the run and of the step that logs, and as lines of JSON."""

import asyncio
import io
import json
import logging
import sys
from uuid import UUID

import pytest
from prefect import flow, get_client, runtime, task
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.logging.handlers import APILogHandler
from prefect.settings import PREFECT_API_URL

from flows.child_run import ChildRuns
from flows.cli import main as command_line
from flows.run_log import FORMAT, JsonLines, run_log

LOGGER = logging.getLogger("ares.workers.cluster")


@task
async def a_phase() -> None:
    LOGGER.warning("learner died (attempt 1 of 3)")


async def a_step(number: int) -> None:
    await a_phase()
    LOGGER.info("step %d  acc 0.500", number, extra={"about": {"run": "first", "step": number}})
    logging.getLogger("somelibrary").warning("of a library")
    told["step"] = UUID(str(runtime.flow_run.id))


told: dict[str, UUID] = {}


@flow
async def a_run() -> None:
    with run_log():
        told["run"] = UUID(str(runtime.flow_run.id))
        LOGGER.info("resumed after step 6 of 8")
        children = ChildRuns()
        await children.conducted(a_step, "first step-000007", 7)
        children.end()
    LOGGER.info("after it")


@pytest.mark.usefixtures("prefect")
def test_the_run_has_all_lines_and_a_step_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", str(PREFECT_API_URL.value()))

    async def logged() -> dict[str, list[str]]:
        await a_run()
        await APILogHandler.aflush()
        async with get_client() as client:
            entries = {
                name: await client.read_logs(LogFilter(flow_run_id=LogFilterFlowRunId(any_=[told[name]])))
                for name in ("run", "step")
            }
        return {
            name: sorted(log.message for log in logs if log.name.startswith("ares")) for name, logs in entries.items()
        }

    step = ["learner died (attempt 1 of 3)", "step 7  acc 0.500"]
    assert asyncio.run(logged()) == {"run": sorted(["resumed after step 6 of 8", *step]), "step": step}


def test_an_error_is_a_line_of_json_and_nothing_else_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(FORMAT, "text")
    monkeypatch.setattr(sys, "argv", ["ares", "status", "no-such-run", "--log-format", "json"])
    root, level = logging.getLogger(), logging.getLogger().level
    handlers = root.handlers[:]
    try:
        with pytest.raises(SystemExit):
            command_line.main()
        LOGGER.info("step 1", extra={"about": {"run": "first", "step": 1}})
    finally:
        root.handlers = handlers
        root.setLevel(level)
        logging.captureWarnings(False)
        command_line.console.quiet = command_line.errors.quiet = False
    printed = capsys.readouterr()
    assert printed.err == ""
    error, step = (json.loads(line) for line in printed.out.splitlines())
    assert (error["level"], error["message"].partition(" in ")[0]) == ("error", "There is no run 'no-such-run'")
    assert (step["level"], step["message"], step["run"], step["step"]) == ("info", "step 1", "first", 1)
    assert step["logger"] == "ares.workers.cluster"
    assert step["time"].endswith("+00:00")


def test_a_run_does_not_end_because_nobody_reads_its_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ares train --log-format json | head -1` ended with a BrokenPipeError."""

    class Closed(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(sys, "stdout", Closed())
    JsonLines().handle(logging.makeLogRecord({"msg": "step"}))
    assert "Broken pipe" in capsys.readouterr().err
