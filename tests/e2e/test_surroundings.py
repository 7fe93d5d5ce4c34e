"""What surrounds `ares train` on a user's machine: files beside it, a proxy, a deep TMPDIR, a network.

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
ARES = [sys.executable, "-P", "-m", "flows.cli", "train", "tiny-math", *SMALL, "--run", "alone"]
"""-P, as the command `ares` does: the working directory is not searched for modules."""


def surroundings(folder: Path) -> dict[str, str]:
    return os.environ | as_a_user(folder / "runs") | {"PYTHONPATH": str(REPOSITORY)}


def test_files_of_the_users_a_proxy_and_a_deep_tmpdir_keep_no_run_from_training(tmp_path: Path) -> None:
    """They ended it with "is PREFECT_HOME writable?" after 120 s, or with 120 lines about AF_UNIX."""
    work = tmp_path / "scratch-directory-of-a-user-of-a-cluster" / "slurm.1234567"
    work.mkdir(parents=True)
    for name in ("math", "rewards", "flows", "ares", "tasks"):
        (work / f"{name}.py").write_text("raise ImportError('a file of the user')")
    proxy = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    settings = surroundings(tmp_path) | proxy | {"TMPDIR": str(work)}
    ended = subprocess.run([*ARES, "train.steps=1"], cwd=work, env=settings, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""


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
    """It listens on loopback only: its Ray, its Prefect server, whatever else it starts."""
    log = tmp_path / "log"
    with log.open("w") as printed:
        run = subprocess.Popen(ARES, cwd=tmp_path, env=surroundings(tmp_path), stdout=printed, stderr=printed)
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
