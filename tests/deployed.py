"""A deployment for tests: `ares up` on free ports in a directory of its own, and what a user does in Prefect's UI.

The UI's buttons are calls of Prefect's API; the calls here are the same. Runs are held, or made to fail, by their own
reward function, which looks for files beside it.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from ares.store.store import RunStore
from tests.prefect_server import call_api, free_port
from tests.shared_run import REPOSITORY, SMALL
from tests.short_runs import told
from tests.waiting import wait_for

REWARD = '''
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
calls = 0


def reward(completions, answer, **columns):
    """1 for a right answer; waits while `hold` names a number of calls that was reached, fails while `fail` does."""
    global calls
    calls += 1
    while (HERE / "hold").exists() and calls >= int((HERE / "hold").read_text() or 0):
        (HERE / "held").touch()
        time.sleep(0.02)
    if (HERE / "fail").exists() and calls >= int((HERE / "fail").read_text() or 0):
        raise RuntimeError("the judge is down")
    return [float(f"boxed{{{a}}}" in c) for a, c in zip(answer, completions)]
'''


class Deployment:
    """`ares up` in a process of its own."""

    def __init__(self, directory: Path, concurrent_runs: int = 1) -> None:
        self.directory = directory
        self.runs = directory / "runs"
        self.ports = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.ports[0]}/api"
        self.concurrent_runs = concurrent_runs
        (directory / "reward.py").write_text(REWARD)
        self.settings = [*SMALL, f"reward.kind={directory / 'reward.py'}:reward"]
        self.up: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "flows.cli", "up", "--data", str(self.runs), "--prefect-port",
                   str(self.ports[0]), "--mlflow-port", str(self.ports[1]), "--concurrent-runs",
                   str(self.concurrent_runs)]  # fmt: skip
        self.up = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.up.stdout is not None
        said = ""
        for line in self.up.stdout:
            said += line
            if "Ctrl-C" in line:
                return
        raise AssertionError(f"ares up ended:\n{said}\n{self.logs()}")

    def stop(self) -> None:
        if self.up is not None and self.up.poll() is None:
            ended = told(self.runs, "down", "--data", str(self.runs))
            assert ended.returncode == 0, ended.stderr
            assert self.up.wait(timeout=120) == 0

    def logs(self) -> str:
        logs = (self.runs / ".services" / "logs").glob("*.log")
        return "\n".join(f"== {log.name}\n{log.read_text()[-6000:]}" for log in logs)

    # ---- what a user does ------------------------------------------------------------------------------------------

    def run(self, name: str) -> str:
        """`prefect deployment run`; returns the flow run's id."""
        return self.start_flow("ares-train", {"profile": "tiny-math", "run": name, "overrides": self.settings})

    def start_flow(self, flow: str, parameters: dict[str, Any]) -> str:
        deployment = self.get(f"deployments/name/{flow}/{flow}")["id"]
        body = {"parameters": parameters, "state": {"type": "SCHEDULED"}}
        return str(self.post(f"deployments/{deployment}/create_flow_run", body)["id"])

    def retry(self, flow_run: str) -> None:
        """The Retry button, once the worker has seen the process end: its report would overwrite the retry."""
        self.until(lambda: not self.processes("prefect.engine"), "the process is gone")
        time.sleep(10)
        self.set_state(flow_run, {"type": "SCHEDULED", "name": "AwaitingRetry", "message": "Retry from the page"})

    def suspend(self, flow_run: str) -> None:
        """The Suspend button."""
        self.set_state(flow_run, {"type": "PAUSED", "name": "Suspended", "message": "Suspended from the page",
                                  "state_details": {"pause_reschedule": True, "pause_timeout": None}})  # fmt: skip

    def resume(self, flow_run: str) -> None:
        """The Resume button."""
        self.post(f"flow_runs/{flow_run}/resume", {})

    # ---- what a user sees ------------------------------------------------------------------------------------------

    def state(self, flow_run: str) -> str:
        return str(self.get(f"flow_runs/{flow_run}")["state"]["name"])

    def message(self, flow_run: str) -> str:
        return str(self.get(f"flow_runs/{flow_run}")["state"]["message"])

    def wait_for(self, flow_run: str, *states: str, seconds: float = 300.0) -> str:
        self.until(lambda: self.state(flow_run) in states, f"{flow_run} in {states}", seconds)
        return self.state(flow_run)

    def until(self, true: Callable[[], bool], what: str, seconds: float = 300.0) -> None:
        try:
            wait_for(true, what, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from None

    def children(self, flow_run: str) -> list[tuple[str, str]]:
        """Names and states of the step runs, in the order of their start."""
        body = {"flow_runs": {"parent_flow_run_id": {"any_": [flow_run]}}, "sort": "START_TIME_ASC"}
        return [(run["name"], run["state"]["name"]) for run in self.post("flow_runs/filter", body)]

    # ---- what happens to it ----------------------------------------------------------------------------------------

    def held(self, name: str) -> str:
        """A run that is blocked while its first step's second shard is scored: its reward function's eleventh call.

        While the first one is, Prefect may not have been told yet that the bootstrap is finished.
        """
        (self.directory / "held").unlink(missing_ok=True)
        (self.directory / "hold").write_text("11")
        flow_run = self.run(name)
        self.until((self.directory / "held").exists, "a run is held")
        return flow_run

    def release(self) -> None:
        (self.directory / "hold").unlink()

    def processes(self, part: str) -> list[psutil.Process]:
        """The running processes below `ares up` whose command line has `part` in it."""
        assert self.up is not None
        return [one for one in psutil.Process(self.up.pid).children(recursive=True) if part in _command(one)]

    def survivors(self) -> list[str]:
        """Command lines of processes anywhere that name this directory of runs."""
        commands = [_command(one) for one in psutil.process_iter()]
        return [one for one in commands if str(self.runs) in one]

    def steps(self, name: str) -> int:
        """Committed steps after the bootstrap."""
        return len(RunStore(self.runs / name).committed_steps()) - 1

    # ---- the API ---------------------------------------------------------------------------------------------------

    def set_state(self, flow_run: str, state: dict[str, Any]) -> None:
        answer = self.post(f"flow_runs/{flow_run}/set_state", {"state": state})
        assert answer["status"] == "ACCEPT", json.dumps(answer)

    def get(self, path: str) -> Any:
        return call_api(self.url, "GET", path)

    def post(self, path: str, body: Any) -> Any:
        return call_api(self.url, "POST", path, body)


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
