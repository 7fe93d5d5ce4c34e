"""A local Ray starts without the services that are slow to start and not used."""

import subprocess
import sys

STARTED = """
import os
import sys
import ray
import ray._private.services as services
from ray._raylet import GcsClient
from ares.workers.connection import connect

theirs, known = services.get_node, []

def get_node(address, node_id):
    known.append(len(GcsClient(address=address).get_all_node_info()))
    return theirs(address, node_id)

services.get_node = get_node
connect(1)
assert known == [1], f"Ray asks for its node once, when it is known, and a second later otherwise: {known}"
loaded = {name.partition(".")[0] for name in sys.modules} & {"aiohttp", "opencensus"}
assert not loaded, f"loaded for a dashboard's agent that does not start: {loaded}"
niceness = ray.get(ray.remote(lambda: os.nice(0)).remote())
assert niceness == os.nice(0), f"actors would wait for all that runs besides: {niceness}"
"""


def test_ray_loads_nothing_for_an_absent_agent_asks_for_its_node_when_it_is_known_and_gives_way_to_nobody() -> None:
    started = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, timeout=120)
    assert started.returncode == 0, started.stderr
