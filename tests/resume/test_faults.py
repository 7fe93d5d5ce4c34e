"""What goes wrong besides kills and damaged files, and what happens then: no committed step is lost or silently wrong.

The list with its remedies is docs/reliability.md. A run that met a fault and then continued is bit-identical to one
that met none.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from mlflow import MlflowClient

from ares.store.store import RunStore
from tests.deployed import REWARD
from tests.shared_run import SMALL
from tests.short_runs import REPOSITORY, ares, assert_same, is_logged, train
from tests.waiting import wait_for

# ---- the file system ------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, 96 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a file system needs root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.slow
def test_a_full_disk_is_told_and_the_last_commit_stays(small_disk: Path) -> None:
    assert train(small_disk, "uninterrupted") == 0
    assert train(small_disk, "full", kill_at="2:commit:after") == -signal.SIGKILL
    free = shutil.disk_usage(small_disk).free
    (small_disk / "ballast").write_bytes(bytes(free - 40_000))
    ended = ares(small_disk, "train", "tiny-math", *SMALL, "--run", "full")
    assert ended.returncode == 2, ended.stderr
    assert "The disk is full" in ended.stderr
    assert "Traceback" not in ended.stderr
    last = RunStore(small_disk / "full").last_commit()
    assert last is not None
    assert last.step >= 2
    (small_disk / "ballast").unlink()
    assert train(small_disk, "full") == 0
    assert_same(small_disk, "uninterrupted", "full")


@pytest.mark.slow
def test_a_disk_too_full_for_a_checkpoint_is_told_in_one_line(small_disk: Path) -> None:
    assert train(small_disk, "full", kill_at="3:update:after", whole=True) == -signal.SIGKILL
    (small_disk / "ballast").write_bytes(bytes(shutil.disk_usage(small_disk).free - 900_000))
    ended = ares(small_disk, "train", "tiny-math", *SMALL, "--run", "full", own_server=True)
    assert ended.returncode == 2
    *warnings, line = ended.stderr.splitlines()
    assert all(each.startswith("warning: ") for each in warnings), ended.stderr  # MLflow's database is on that disk too
    assert re.match(
        r"error: The learner failed: \S+/full/checkpoints/000003: cannot be written: \[Errno 28\] it takes [\d,]+ "
        r"bytes\. The disk is full: free some space and start the run again", line,
    )  # fmt: skip


@pytest.mark.slow
def test_a_read_only_run_directory_is_told_before_anything_is_started(small_disk: Path) -> None:
    assert train(small_disk, "run", kill_at="1:commit:after") == -signal.SIGKILL
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    ended = ares(small_disk, "train", "tiny-math", *SMALL, "--run", "run")
    assert ended.returncode == 2
    assert "The file system is read-only" in ended.stderr
    assert "Traceback" not in ended.stderr


# ---- signals and a second process -----------------------------------------------------------------------------------


@contextmanager
def held(
    directory: Path, name: str, *settings: str, **environment: str
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """An `ares train` that stands still in its second step or so, and the file whose deletion lets it continue."""
    (directory / "reward.py").write_text(REWARD)
    hold = directory / "hold"
    hold.write_text("10")
    (directory / "held").unlink(missing_ok=True)
    kind = f"reward.kind={directory / 'reward.py'}:reward"
    command = [sys.executable, "-m", "flows.cli", "train", "tiny-math", *SMALL, kind, *settings, "--run", name]
    where = os.environ | {"ARES_RUNS": str(directory)} | environment
    process = subprocess.Popen(
        command, cwd=REPOSITORY, env=where, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        while not (directory / "held").exists():
            assert process.poll() is None, process.stderr and process.stderr.read()
            time.sleep(0.05)
        yield process, hold
    finally:
        process.kill()
        process.wait()


def unheld(directory: Path, name: str) -> int:
    """The same run with nothing in its way."""
    (directory / "hold").unlink(missing_ok=True)
    return train(directory, name, f"reward.kind={directory / 'reward.py'}:reward", whole=True)


@pytest.mark.slow
def test_a_second_process_is_refused_and_sigterm_twice_ends_the_first_one_resumable(tmp_path: Path) -> None:
    """A second SIGTERM was a traceback, and MLflow's entry stayed RUNNING."""
    with held(tmp_path, "run") as (process, hold):
        # Written behind the first step, whatever a second process does.
        wait_for(lambda: is_logged(tmp_path, "run"), "MLflow's entry")
        before = (tmp_path / "run" / "run.json").read_bytes()
        kind = f"reward.kind={tmp_path / 'reward.py'}:reward"
        second = ares(tmp_path, "train", "tiny-math", *SMALL, kind, "--run", "run")
        assert second.returncode == 2
        assert "is in use by another process" in second.stderr
        assert (tmp_path / "run" / "run.json").read_bytes() == before
        actors = [child for child in psutil.Process(process.pid).children(recursive=True) if child.is_running()]
        for _ in range(2):
            process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
        hold.unlink()
        told = process.communicate(timeout=120)[1]
        assert process.returncode == 130
        assert "the same command resumes from the last commit" in told
        assert "Traceback" not in told
        assert not psutil.wait_procs(actors, timeout=20)[1]
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    entry = client.get_run(json.loads((tmp_path / "run" / "run.json").read_bytes())["mlflow_run_id"])
    assert entry.info.status == "KILLED"
    assert unheld(tmp_path, "run") == 0
    assert unheld(tmp_path, "uninterrupted") == 0
    assert_same(tmp_path, "uninterrupted", "run")


# ---- services that are away -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("service", "code", "said"),
    [
        ("raylet", 0, "Ray is started anew"),
        ("flows.servers.service", 2, "Prefect's server is away (All connection attempts failed), it does not know how"),
    ],
)
def test_a_run_goes_on_when_a_service_of_its_own_dies(service: str, code: int, said: str, tmp_path: Path) -> None:
    with held(tmp_path, "run") as (process, hold):
        children = psutil.Process(process.pid).children()
        (served,) = [child for child in children if child.name() == service or service in child.cmdline()]
        served.kill()
        hold.unlink()
        told = process.communicate(timeout=900)[1]
    assert process.returncode == code, told
    assert said in told
    assert "Traceback" not in told
    assert unheld(tmp_path, "run") == 0  # finds it finished
    assert unheld(tmp_path, "uninterrupted") == 0
    assert_same(tmp_path, "uninterrupted", "run")


@pytest.mark.slow
def test_a_clock_that_jumps_changes_nothing_but_timestamps(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOCK_JUMP", "2:-86400")
    assert train(runs, "jumped", kill_at="3:update:inside") == -signal.SIGKILL
    monkeypatch.setenv("CLOCK_JUMP", "3:172800")
    assert train(runs, "jumped") == 0
    stamps = [
        json.loads(path.read_text())["timestamp"] for path in sorted((runs / "jumped/steps").glob("*/COMMIT.json"))
    ]
    assert stamps != sorted(stamps)
    assert_same(runs, "uninterrupted", "jumped")
