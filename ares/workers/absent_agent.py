"""A stand-in for the two agents of a Ray node: tells the raylet, which waits for it, that they have no ports.

Covered: a local Ray, which needs no dashboard, metrics or runtime environments. Run as a script with nothing but the
standard library: each agent would spend seconds on loading Ray, aiohttp and gRPC, while `ray.init` waits and learner
and engine load too. The ports are written as Ray 2.60 does (ray._raylet.persist_port).
"""

import os
import sys
import time
from pathlib import Path

PORTS = {
    "dashboard/agent.py": ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port"),
    "runtime_env/agent/main.py": ("runtime_env_agent_port",),
}
"""The ports that a raylet waits for, by the end of the agent's path."""
NONE = "-1"
WATCH_SECONDS = 1.0


def stand_in(agent: str, arguments: list[str]) -> None:
    """Report that an agent has no ports, and end with the raylet that started this process."""
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
