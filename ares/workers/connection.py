"""Joining Ray: one of this process's own, or the cluster that RAY_ADDRESS names, which is sent this checkout's code.

Not covered: the environment (torch, transformers, the engine), which every machine of a cluster must have, and how they
share the run directory (docs/operations.md).
"""

import logging
import os
import socket
from pathlib import Path
from typing import Any

import ray

from ares.config import ConfigError
from ares.workers.local_ray import as_node

logger = logging.getLogger(__name__)
# Ray's own handler prints; without it, what Ray logs goes where every other library's goes.
logging.getLogger("ray").handlers.clear()
logging.getLogger("ray").propagate = True
logging.getLogger("ray").setLevel(logging.NOTSET)
ATTEMPTS = 3
OF_ONES_OWN = {"prestart_worker_first_driver": False, "worker_niceness": 0}
"""Settings of a Ray of this process's own. It would hold all threads of this process until as many workers as CPUs are
there that nobody has asked for, and have actors give way (15) to all that runs besides, judged programs among it."""
REACH_SECONDS = 10.0
"""Seconds in which a cluster takes a connection, if there is one."""

ROOMS = ("ares", "algorithms", "rewards", "sandbox")
"""What actors import."""

SETTINGS = (
    "OMP_NUM_THREADS",
    "GLIBC_TUNABLES",
    "HF_HUB_OFFLINE",
    "HF_HOME",
    "TOKENIZERS_PARALLELISM",
    "DO_NOT_TRACK",
)
"""Environment variables that decide bits or behaviour in an actor as they do here."""


def connect(cpus: int) -> None:
    """Join Ray unless this process has; `cpus`: of a Ray of its own. ConfigError where RAY_ADDRESS lets none in."""
    if ray.is_initialized():
        return
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
    for attempt in range(1, ATTEMPTS + 1):
        try:
            # "local": left open, Ray would look for a cluster that someone has started on this machine.
            with as_node(log_monitor=shown):
                ray.init(address="local", num_cpus=cpus, include_dashboard=False, _system_config=OF_ONES_OWN, **quiet)
            logger.info("what Ray and its actors log: %s", ray._private.worker._global_node.get_logs_dir_path())
            return
        except Exception as error:  # Ray raises no narrower class when its raylet needs more than 30 s
            if attempt == ATTEMPTS or "timed out during startup" not in str(error):
                raise
            logger.warning("Ray did not start (attempt %d of %d): %s", attempt, ATTEMPTS, error)


def has_died() -> bool:
    """Whether a Ray of this process's own has lost its raylet, as to the machine's memory killer.

    Nothing can start there any more, and whoever puts something large there is ended by Ray without a word: so the
    process is asked, not Ray. The nodes of a cluster are its operator's to replace.
    """
    if os.environ.get("RAY_ADDRESS") or not ray.is_initialized():
        return False
    return "raylet" in [name for name, _ in ray._private.worker._global_node.dead_processes()]


def check_cluster() -> None:
    """Raise ConfigError where nobody is at RAY_ADDRESS: Ray itself would try for minutes."""
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
            f"RAY_ADDRESS={address}: nobody is there ({error}). Start the cluster (`ray start --head`), or continue "
            "without: `unset RAY_ADDRESS`, and the run brings a Ray of its own"
        ) from error


def shipped() -> dict[str, Any]:
    """The code and settings a cluster's workers start with, whatever checkout lies on their machines."""
    checkout = Path(__file__).resolve().parents[2]
    return {
        "py_modules": [str(checkout / room) for room in ROOMS],
        "excludes": ["**/__pycache__", "**/*.safetensors"],
        "env_vars": {name: os.environ[name] for name in SETTINGS if name in os.environ},
    }
