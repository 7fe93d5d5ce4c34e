"""The stand-in for Ray's agents: it reports that they have no ports, and does not outlive the raylet."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from ares.workers import absent_agent


@pytest.mark.parametrize(("agent", "ports"), absent_agent.PORTS.items())
def test_it_tells_of_no_ports_and_ends_with_who_started_it(agent: str, ports: tuple[str, ...], tmp_path: Path) -> None:
    options = f"--session-dir={tmp_path} --node-id=abc --head"
    command = f"{sys.executable} -S -E {absent_agent.__file__} /ray/{agent} {options}"
    raylet = subprocess.Popen(f"{command} & echo $!; read line", shell=True, text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    assert raylet.stdout is not None
    agent_process = psutil.Process(int(raylet.stdout.readline()))
    while not {f"{name}_abc" for name in ports} <= {path.name for path in tmp_path.iterdir()}:
        assert agent_process.is_running()
        time.sleep(0.01)
    assert {path.read_text() for path in tmp_path.iterdir()} == {"-1"}
    raylet.kill()
    raylet.communicate()
    assert psutil.wait_procs([agent_process], timeout=30)[1] == []
