"""A local Ray: on loopback, without the services that are not used here, its workers forked where possible.

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
"""How long to wait for the raylet to register; Ray says what is wrong with one that does not."""


class LocalNode(ray._private.node.Node):
    """Ray's node without agents, dashboard server, autoscaler monitor and, unless its output is shown, log monitor.

    Each would be one more Python process to start while learner and engine load; `ray.init` waits for the agents. The
    rest listens on loopback, since whoever reaches a port of Ray can run code. Ray takes `_node_ip_address=127.0.0.1`
    for the machine's address in the network.
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
        """Start it with stand-ins for its agents, whose commands alone begin with what the first function returns.

        The second one would load the dashboard's dependencies, half a second, to see what its agent can do. Then wait
        until the raylet has registered: Ray would ask once, too early, and again a second later.
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
        """Start none: `ray.init(include_dashboard=False)` would start one without pages."""


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
