"""A RAY_ADDRESS where nothing listens is reported at once, in one line; a local Ray is set up when it is imported."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ares.cluster.connection import check_cluster, connect
from ares.config import ConfigError


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:9", "ray://127.0.0.1:9", "no-such-host.invalid:6379", "somewhere", "127.0.0.1:99999"],
)
def test_a_cluster_that_is_not_there_is_told_before_ray_looks(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    monkeypatch.setattr("ray.init", lambda **settings: pytest.fail("Ray was asked"))
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    for asked in (check_cluster, lambda: connect(1)):
        with pytest.raises(ConfigError, match=r"RAY_ADDRESS=.*: no answer .*`unset RAY_ADDRESS`") as told:
            asked()
        assert address in str(told.value)
        assert "\n" not in str(told.value)


def test_a_port_that_is_open_is_left_to_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{there.getsockname()[1]}")
        check_cluster()
    for local in ("auto", "local", ""):
        monkeypatch.setenv("RAY_ADDRESS", local)
        check_cluster()


def test_what_ray_reads_when_it_is_imported_is_set_by_then(tmp_path: Path) -> None:
    """It was set after `import ray` in another module, and all of a run's Ray listened on every interface."""
    (tmp_path / "ray.py").write_text("import os\nraise SystemExit(os.environ['RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER'])")
    command = [sys.executable, "-c", "import ares.cluster"]
    path = os.pathsep.join([str(tmp_path), os.getcwd()])
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    ended = subprocess.run(command, env=environment | {"PYTHONPATH": path}, capture_output=True, text=True)
    assert ended.stderr == "0\n"
