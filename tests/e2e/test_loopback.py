"""A plain `ares train` listens on loopback only: its Ray, its Prefect server, whatever else it starts.

Not covered: several ranks and vLLM, where torch listens for the others on all interfaces.
"""

import os
import subprocess
import sys
import time
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

import psutil
import pytest

from tests.shared_run import REPOSITORY, SMALL, as_a_user

pytestmark = pytest.mark.slow


def listening(process: psutil.Process) -> set[tuple[str, str]]:
    """Addresses at which a process or its descendants accept connections, and which one does."""
    ports = set()
    with suppress(psutil.Error):  # it has ended
        for each in [process, *process.children(recursive=True)]:
            with suppress(psutil.Error):
                listeners = [port for port in each.net_connections("inet") if port.status == psutil.CONN_LISTEN]
                ports |= {(port.laddr.ip, f"{each.name()} {' '.join(each.cmdline())[:100]}") for port in listeners}
    return ports


def test_nobody_else_on_the_network_reaches_a_run(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "flows.cli", "train", "tiny-math", *SMALL, "--run", "alone"]
    log = tmp_path / "log"
    with log.open("w") as printed:
        run = subprocess.Popen(
            command, cwd=REPOSITORY, env=os.environ | as_a_user(tmp_path / "runs"), stdout=printed,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    seen: set[tuple[str, str]] = set()
    process = psutil.Process(run.pid)
    while run.poll() is None:
        seen |= listening(process)
        time.sleep(0.2)
    assert run.returncode == 0, log.read_text()
    assert any("raylet" in who for _, who in seen)
    assert any("flows.servers.service" in who for _, who in seen)
    assert not {(address, who) for address, who in seen if not is_loopback(address)}


def is_loopback(address: str) -> bool:
    ip = ip_address(address)
    return (getattr(ip, "ipv4_mapped", None) or ip).is_loopback
