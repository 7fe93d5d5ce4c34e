"""A Ray cluster of machines that share nothing but a network and a run at an s3:// URL: one is killed, cut off, slowed.

Whatever happens, the run ends bit-identical to a run on one machine. Machines: `head` (Ray's head and the command) and
two with room for all actors, on which Ray is started again whenever it ends, as Kubernetes or Slurm would.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ares.store.mirror import path_of
from tests.machines import LocalNetwork, Machine, lacking
from tests.short_runs import SMALL, assert_same_commits, metric_history, train

pytest.importorskip("s3fs", reason="the extra `s3`")
pytest.importorskip("moto", reason="the extra `dev`")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(lacking() is not None, reason=f"machines as namespaces: {lacking()}"),
]
SETTINGS = [*SMALL, "train.steps=3", "train.checkpoint_every=1", "validation.every=4", "algorithm.filter.enabled=false"]
URL = "s3://bucket/runs"
RAY = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats",
       "--object-store-memory=200000000"]  # fmt: skip
PORT = "6379"
MINUTE = 60.0


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the run `whole`, on one machine, to which nothing happened."""
    directory = tmp_path_factory.mktemp("one_machine")
    assert train(directory, "whole", *SETTINGS[len(SMALL) :]) == 0
    return directory


class RayCluster:
    """`head` and the machines that join it."""

    def __init__(self, network: LocalNetwork, environment: dict[str, str]) -> None:
        self.network = network
        self.environment = environment | {"OMP_NUM_THREADS": "1", "RAY_AUTH_MODE": "token"}
        self.head = self._machine("head", "--head", f"--port={PORT}", "--num-cpus=0", "--include-dashboard=false")
        address = f"{self.head.address}:{PORT}"
        for name in ("left", "right"):
            self._machine(name, f"--address={address}", "--num-cpus=2")

    def _machine(self, name: str, *options: str) -> Machine:
        machine = self.network.add(name)
        (machine.files / "token").write_text("a-token-of-the-tests-that-is-long-enough")
        words = " ".join([*RAY, f"--node-ip-address={machine.address}", *options])
        again = f"while true; do {words}; sleep 1; done"
        machine.start("bash", "-c", again, log="ray.log", RAY_AUTH_TOKEN_PATH="/tmp/token", **self.environment)
        return machine

    def train(self) -> subprocess.Popen[str]:
        """The run `apart`, from `head`."""
        command = [sys.executable, "-m", "flows.cli", "train", "tiny-math", *SETTINGS, "--run", "apart"]
        return self.head.start(
            *command, log="command.log", ARES_RUNS=URL, RAY_ADDRESS=f"{self.head.address}:{PORT}",
            RAY_AUTH_TOKEN_PATH="/tmp/token", **self.environment,
        )  # fmt: skip

    def told(self) -> str:
        return (self.head.files / "command.log").read_text()

    def copy(self) -> Path:
        """Of the runs, on `head`."""
        return self.head.files / "cache" / "ares" / "runs" / "s3" / "bucket" / "runs"

    def at_work(self) -> Machine:
        """A machine that has an actor of the run: the learner's, if it is alone."""
        for actor in ("LearnerActor", "EngineActor"):
            for name in ("left", "right"):
                if self.network.machines[name].processes(f"ray::{actor}"):
                    return self.network.machines[name]
        raise AssertionError("no machine has an actor")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RayCluster]:
    from tests.object_store import object_store

    with closing(LocalNetwork(tmp_path / "machines")) as network, object_store(network.address(1)) as (_, environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "looking"))
        yield RayCluster(network, environment)


def in_step_2(cluster: RayCluster, command: subprocess.Popen[str]) -> None:
    """Wait until the second step has samples."""
    step = cluster.copy() / "apart" / "steps" / "000002"
    while command.poll() is None and not list(step.glob("rollout-*")):
        time.sleep(0.02)
    assert command.poll() is None, cluster.told()
    assert not (step / "COMMIT.json").exists(), "the step was over too early"


def killed(cluster: RayCluster) -> None:
    cluster.at_work().die()


def cut_off_for_a_minute(cluster: RayCluster) -> None:
    machine = cluster.at_work()
    machine.cut_off()
    time.sleep(MINUTE)
    machine.reconnect()


def head_cut_off_for_a_minute(cluster: RayCluster) -> None:
    """From the actors and from the store."""
    cluster.head.cut_off()
    time.sleep(MINUTE)
    cluster.head.reconnect()


def slowed(cluster: RayCluster) -> None:
    for name in ("left", "right"):
        cluster.network.machines[name].slow_down("1mbit")


@pytest.mark.parametrize("accident", [killed, cut_off_for_a_minute, head_cut_off_for_a_minute, slowed])
def test_machines_make_the_bits_of_one(
    accident: Callable[[RayCluster], None], cluster: RayCluster, whole: Path
) -> None:
    command = cluster.train()
    in_step_2(cluster, command)
    accident(cluster)
    command.wait(timeout=1800)
    if command.returncode != 0:  # then with one error, and the same command finishes it
        assert command.returncode == 2, cluster.told()
        assert cluster.told().count("error: ") == 1, cluster.told()
        command = cluster.train()
        command.wait(timeout=1800)
    assert command.returncode == 0, cluster.told()
    assert_same_commits(whole, "whole", "apart", path_of(URL))
    assert metric_history(cluster.copy(), "apart") == metric_history(whole, "whole")
