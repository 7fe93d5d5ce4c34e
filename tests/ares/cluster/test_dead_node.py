"""A local Ray whose raylet dies between two calls. In another process, which Ray may exit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shared_run import REPOSITORY

SCRIPT = """
import asyncio, logging, pickle, sys
from pathlib import Path
import psutil
from ares.cluster import Cluster
from ares.engines import Request, SamplingSettings
from ares.runs.run import Run, read_config
from ares.store import RunStore

name, runs = sys.argv[1], Path(sys.argv[2])
logging.basicConfig(level="WARNING")
run = Run.open(read_config(RunStore(runs / name)), name, runs, Cluster)
requests = [Request([5] * 200, seed) for seed in range(400)]
assert len(pickle.dumps(requests)) > 100_000  # what is larger goes through the object store

async def sampled():
    return await run.workers.sample(0, requests, SamplingSettings(1.0, 1.0, 2))

before = asyncio.run(sampled())
raylet, = [child for child in psutil.Process().children() if child.name() == "raylet"]
raylet.kill()
while raylet.status() != psutil.STATUS_ZOMBIE:
    pass
after = asyncio.run(sampled())
assert [list(ids) for ids in before["token_ids"]] == [list(ids) for ids in after["token_ids"]]
run.workers.close()
print("the same tokens")
"""


@pytest.mark.slow
def test_what_is_asked_next_however_large_starts_ray_anew(runs: Path) -> None:
    """Ray would silently exit this process, which puts large arguments into the dead raylet's store."""
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, "uninterrupted", runs],
        cwd=REPOSITORY, env=os.environ, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ended.stdout.endswith("the same tokens\n"), (ended.returncode, ended.stdout, ended.stderr)
    assert "Ray is started anew" in ended.stderr
