"""In place of Ray's two agents of a node: says that they have no ports, which its raylet waits for, and stays.

Covered: a Ray of this process's own, where nobody asks for a dashboard's page, its metrics or an environment for tasks.
Run as a script with nothing but the standard library: each agent would load Ray, aiohttp and gRPC, seconds in which
`ray.init` waits and learner and engine load too. Ray 2.60 writes the ports as below (ray._raylet.persist_port).
"""

import os
import sys
import time
from pathlib import Path

PORTS = {
    "dashboard/agent.py": ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port"),
    "runtime_env/agent/main.py": ("runtime_env_agent_port",),
}
"""By the end of an agent's path, what its raylet wants to know of it."""
NONE = "-1"
WATCH_SECONDS = 1.0


def stand_in(agent: str, arguments: list[str]) -> None:
    """Write down that an agent has no ports, and end when the raylet that has started this process does."""
    raylet = os.getppid()
    options = dict(option[2:].partition("=")[::2] for option in arguments)
    for name in next(ports for path, ports in PORTS.items() if agent.endswith(path)):
        told = Path(options["session-dir"]) / f"{name}_{options['node-id']}"
        written = told.with_suffix(".new")
        written.write_text(NONE)
        written.replace(told)
    while os.getppid() == raylet:
        time.sleep(WATCH_SECONDS)


if __name__ == "__main__":
    stand_in(sys.argv[1], sys.argv[2:])
