"""A Ray of this process's own: on loopback, without what nobody asks here, its workers forked where they can be.

Covered: what `ray.init` starts. Not covered: clusters (ares/workers/connection.py), the forks (ares/forks.py),
environments of tasks and actors (`runtime_env`), which need an agent and a cluster.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import ray._private.node
import ray._private.services
import ray._private.utils

from ares.forks import SCRIPT, SERVER
from ares.workers import absent_agent

LOOPBACK = "127.0.0.1"
KNOWN_SECONDS = 30.0
"""What a raylet is given to be known; Ray says what is wrong with one that is not."""


class LocalNode(ray._private.node.Node):
    """Ray's node without its agents, the server of its dashboard, the autoscaler's monitor and, unless it is read, the
    log monitor.

    Each would be one more Python to load while learner and engine are; `ray.init` waits for the agents. What is left
    listens on loopback: whoever reaches a port of Ray's runs code. To Ray `_node_ip_address` of 127.0.0.1 means the
    machine's address in the network.
    """

    log_monitor = False

    def __init__(self, ray_params: Any, **named: Any) -> None:
        ray_params.node_ip_address = LOOPBACK
        ray_params.no_monitor = True
        ray_params.include_log_monitor = self.log_monitor
        if SERVER in os.environ:
            ray_params.setup_worker_path = SCRIPT
        super().__init__(ray_params, **named)

    def start_raylet(self, *given: Any, **named: Any) -> None:
        """Start it with absent agents: only their commands begin with what the first function of Ray's returns.

        The second loads what a dashboard needs, half a second, to find out how much its agent can do. Then wait until
        the raylet is known: Ray would ask once, too early, and again a second later.
        """
        begin = "_build_python_executable_command_memory_profileable"
        absent = [sys.executable, "-S", "-E", absent_agent.__file__]
        with (
            _replaced(ray._private.services, begin, lambda component, session_dir: list(absent)),
            _replaced(ray._private.utils, "get_dashboard_dependency_error", lambda: None),
        ):
            super().start_raylet(*given, **named)
        deadline = time.monotonic() + KNOWN_SECONDS
        while not self.get_gcs_client().get_all_node_info() and time.monotonic() < deadline:
            time.sleep(0.01)

    def start_api_server(self, **named: Any) -> None:
        """None: `ray.init(include_dashboard=False)` would start one without pages."""


def as_node(log_monitor: bool) -> AbstractContextManager[None]:
    """Inside, `ray.init` starts a LocalNode. Ray 2.60 has no other way to leave these processes out."""
    LocalNode.log_monitor = log_monitor
    return _replaced(ray._private.node, "Node", LocalNode)


@contextmanager
def _replaced(module: Any, name: str, replacement: Any) -> Iterator[None]:
    theirs = getattr(module, name)
    setattr(module, name, replacement)
    try:
        yield
    finally:
        setattr(module, name, theirs)
