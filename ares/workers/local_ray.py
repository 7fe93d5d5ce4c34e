"""A Ray of this process's own: a node without the services that nobody asks here, its workers forked where they can be.

Covered: what `ray.init` starts. Not covered: clusters (ares/workers/connection.py), the forks (ares/forks.py).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray._private.node

from ares.forks import SCRIPT, SERVER


class LocalNode(ray._private.node.Node):
    """Ray's node without the server of its dashboard, the autoscaler's monitor and, unless it is read, the log monitor.

    Each would be one more Python to load while learner and engine are.
    """

    log_monitor = False

    def __init__(self, ray_params: Any, **named: Any) -> None:
        ray_params.no_monitor = True
        ray_params.include_log_monitor = self.log_monitor
        if SERVER in os.environ:
            ray_params.setup_worker_path = SCRIPT
        super().__init__(ray_params, **named)

    def start_api_server(self, **named: Any) -> None:
        """None: `ray.init(include_dashboard=False)` would start one without pages."""


@contextmanager
def as_node(log_monitor: bool) -> Iterator[None]:
    """Inside, `ray.init` starts a LocalNode. Ray 2.60 has no other way to leave these processes out."""
    theirs = ray._private.node.Node
    LocalNode.log_monitor = log_monitor
    ray._private.node.Node = LocalNode
    try:
        yield
    finally:
        ray._private.node.Node = theirs
