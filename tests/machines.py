"""Machines on this one: Linux namespaces, each with a network card, a host name, processes and files of its own.

Covered: a network of such machines, pulling a machine's plug or its cable, a slow cable. All see this machine's disk
read-only; /tmp, /dev/shm and HOME are their own. The test itself is one more host of the network, as the store is.
Not covered: kernels and clocks of their own.
"""

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import certifi
import psutil

BOOT = """
set -e
hostname "$1"
mount --bind "$2" /tmp
mount -o remount,bind,ro /
mount -t tmpfs tmpfs /dev/shm
ip link set lo up
echo up > /tmp/booted
exec sleep infinity
"""


def lacking() -> str | None:
    """Why there can be no machines here; None where there can."""
    if missing := [name for name in ("ip", "tc", "unshare", "nsenter") if shutil.which(name) is None]:
        return f"not installed: {', '.join(missing)} (iproute2, util-linux)"
    tried = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "true"], capture_output=True, text=True)
    return None if tried.returncode == 0 else f"no namespaces: {tried.stderr.strip()}; are you root?"


def run(*command: str) -> None:
    """A command that must succeed."""
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, f"{' '.join(command)}: {ended.stderr}"


class Machine:
    """A machine of a network. `files`: what it sees as /tmp."""

    def __init__(self, network: "LocalNetwork", name: str, number: int, files: Path) -> None:
        self.name = name
        self.files = files
        self.address = network.address(number)
        self.cable = f"{network.bridge}-{number}"
        for folder in ("home", "cache"):
            (files / folder).mkdir(parents=True)
        boot = ["unshare", "--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc",
                "bash", "-c", BOOT, "boot", name, str(files)]  # fmt: skip
        self.power = subprocess.Popen(boot, stdin=subprocess.DEVNULL)
        while not (files / "booted").exists():
            assert self.power.poll() is None, f"{name} does not start"
            time.sleep(0.01)
        self.first = psutil.Process(self.power.pid).children()[0]
        inside = str(self.first.pid)
        run("ip", "link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns", inside)
        run("ip", "link", "set", self.cable, "master", network.bridge, "up")
        self.check("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        self.check("ip", "link", "set", "eth0", "up")

    def inside(self, *command: str) -> list[str]:
        """A command as it runs on this machine."""
        entered = ["nsenter", "--target", str(self.first.pid), "--net", "--mount", "--pid", "--uts", "--ipc"]
        return [*entered, f"--wdns={Path.cwd()}", *command]

    def check(self, *command: str) -> None:
        """Run a command that must succeed."""
        run(*self.inside(*command))

    def start(self, *command: str, log: str, **environment: str) -> subprocess.Popen[str]:
        """Start a command; what it prints goes to a file of the machine."""
        own = {"HOME": "/tmp/home", "XDG_CACHE_HOME": "/tmp/cache", "TMPDIR": "/tmp", "PREFECT_HOME": "/tmp/prefect"}
        own["PREFECT_API_SSL_CERT_FILE"] = certifi.where()  # the tests' own lies in the /tmp of this machine
        with (self.files / log).open("a") as printed:
            return subprocess.Popen(
                self.inside(*command), env=os.environ | own | environment, stdin=subprocess.DEVNULL,
                stdout=printed, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip

    def processes(self, words: str) -> list[psutil.Process]:
        """Its processes whose command line has these words."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):  # it has ended
                if words in " ".join(process.cmdline()) and self._has(process):
                    found.append(process)
        return found

    def _has(self, process: psutil.Process) -> bool:
        with suppress(OSError):
            return os.readlink(f"/proc/{process.pid}/ns/pid") == os.readlink(f"/proc/{self.first.pid}/ns/pid")
        return False

    def cut_off(self) -> None:
        """Pull the cable."""
        run("ip", "link", "set", self.cable, "down")

    def reconnect(self) -> None:
        """Plug it in again."""
        run("ip", "link", "set", self.cable, "up")

    def slow_down(self, rate: str) -> None:
        """Limit the cable's bandwidth in both directions (`tc` units, such as 1mbit)."""
        limit = ["root", "tbf", "rate", rate, "burst", "32kb", "latency", "400ms"]
        run("tc", "qdisc", "replace", "dev", self.cable, *limit)
        self.check("tc", "qdisc", "replace", "dev", "eth0", *limit)

    def die(self) -> None:
        """Pull the plug: all processes are gone, and the cable too."""
        os.kill(self.first.pid, signal.SIGKILL)
        self.power.wait()
        # The kernel is slow to remove it, and the next machine of this number could not use it. Or it is gone already.
        subprocess.run(["ip", "link", "delete", self.cable], capture_output=True)


class LocalNetwork:
    """A bridge and the machines on it, whose files lie below a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.bridge = f"ares{os.getpid() % 100000}"
        self.machines: dict[str, Machine] = {}
        run("ip", "link", "add", self.bridge, "type", "bridge")
        run("ip", "address", "add", f"{self.address(1)}/24", "dev", self.bridge)
        run("ip", "link", "set", self.bridge, "up")

    def address(self, number: int) -> str:
        """Address of the host with a number; the test's own is 1."""
        return f"10.213.{os.getpid() % 250}.{number}"

    def add(self, name: str) -> Machine:
        """One more machine."""
        number = len(self.machines) + 2
        self.machines[name] = found = Machine(self, name, number, self.directory / name)
        return found

    def close(self) -> None:
        """Switch everything off."""
        for machine in self.machines.values():
            if machine.power.poll() is None:
                machine.die()
        run("ip", "link", "delete", self.bridge)
