"""Connecting to Ray: a local one, or the cluster that RAY_ADDRESS names, which is sent this checkout's code.

Not covered: the environment (torch, transformers, the engine), which every machine of a cluster must have, and how they
share the run directory (docs/operations.md).
"""

import logging
import os
import signal
import socket
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import ray

from ares.config import ConfigError

logger = logging.getLogger(__name__)
# Ray's own handler prints; without it, Ray's records go where every other library's do.
logging.getLogger("ray").handlers.clear()
logging.getLogger("ray").propagate = True
logging.getLogger("ray").setLevel(logging.NOTSET)
LONGEST_FOLDER = 40
"""Bytes of the folder that a local Ray is kept in: the names of its sockets there have at most 107."""
REACH_SECONDS = 10.0
"""How long to wait for a connection to a cluster."""
PACKAGES = ("ares", "algorithms", "rewards", "sandbox")
"""What actors import."""

SETTINGS = (
    "OMP_NUM_THREADS",
    "GLIBC_TUNABLES",
    "HF_HUB_OFFLINE",
    "HF_HOME",
    "TOKENIZERS_PARALLELISM",
    "DO_NOT_TRACK",
)
"""Environment variables that must be the same in actors, for equal bits and behaviour."""


def connect(cpus: int) -> None:
    """Connect to Ray, unless connected. cpus: of a local one. Raises ConfigError if RAY_ADDRESS cannot be joined."""
    if ray.is_initialized():
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        _connect(cpus)
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # Ray has taken it over: a cancelled run would be shown as crashed


def _connect(cpus: int) -> None:
    shown = logging.getLogger("ray").isEnabledFor(logging.INFO)
    quiet: dict[str, Any] = {"configure_logging": False, "log_to_driver": shown}
    address = os.environ.get("RAY_ADDRESS")
    if address:
        check_cluster()
        try:
            ray.init(address=address, runtime_env=shipped(), **quiet)
        except ConnectionError as error:
            raise ConfigError(
                f"RAY_ADDRESS={address}: {error}. Is it running (`ray status`)? A cluster that asks for a token wants "
                "RAY_AUTH_MODE=token here too (docs/operations.md)."
            ) from error
        return
    if len(os.fsencode(tempfile.gettempdir())) > LONGEST_FOLDER:  # as Slurm makes it for every job
        os.environ.setdefault("RAY_TMPDIR", "/tmp")
    # "local": left open, Ray would look for a cluster that someone has started on this machine.
    local = partial(ray.init, address="local", num_cpus=cpus, include_dashboard=False, **quiet)
    try:
        local()
    except Exception as error:  # Ray raises no narrower class when its raylet needs more than 30 s
        if "timed out during startup" not in str(error):
            raise
        logger.warning("Ray did not start and is started again: %s", error)
        local()


def has_died() -> bool:
    """Whether a local Ray has lost its raylet, for example to the kernel's out-of-memory killer.

    Nothing can start there any more, and Ray silently ends a process that puts a large object there: so this looks at
    the processes that `ray.init` has started and does not ask Ray. The nodes of a cluster are its operator's to
    replace.
    """
    if os.environ.get("RAY_ADDRESS") or not ray.is_initialized():
        return False
    children = psutil.Process().children()
    return not any(child.name() == "raylet" and child.status() != psutil.STATUS_ZOMBIE for child in children)


def check_cluster() -> None:
    """Raise ConfigError when nothing answers at RAY_ADDRESS: Ray itself would try for minutes."""
    address = os.environ.get("RAY_ADDRESS", "")
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not address or address in ("auto", "local"):
        return
    try:
        if not colon or not port.isdigit():
            raise OSError("not of the form HOST:PORT")
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACH_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise ConfigError(
            f"RAY_ADDRESS={address}: no answer ({error}). Start the cluster (`ray start --head`), or use a local Ray: "
            "`unset RAY_ADDRESS`"
        ) from error


def shipped() -> dict[str, Any]:
    """The code and settings that a cluster's workers get, whatever checkout is on their machines."""
    checkout = Path(__file__).resolve().parents[2]
    return {
        "py_modules": [str(checkout / package) for package in PACKAGES],
        "excludes": ["**/__pycache__", "**/*.safetensors"],
        "env_vars": {name: os.environ[name] for name in SETTINGS if name in os.environ},
    }
