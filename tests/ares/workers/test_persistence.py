"""Which errors of actors are met by doing the work again, without Ray. With real actors: test_cluster.py."""

import asyncio
from pathlib import Path

import pytest
from ray.exceptions import ObjectLostError, RayActorError, RayTaskError

from ares.store.store import RunStore
from ares.workers.cluster import ATTEMPTS, Cluster, WorkerError
from tests.ares.builders import config

HANDED_OVER_BY_A_DEAD_ONE = RayTaskError("load_weights", "trace", RayActorError()).as_instanceof_cause()


def attempts(directory: Path, error: Exception, failures: int) -> int:
    """How often work is tried that fails so many times with this error."""
    tried = 0

    async def work() -> None:
        nonlocal tried
        tried += 1
        if tried <= failures:
            raise error

    asyncio.run(Cluster(config(), RunStore(directory))._persistently("engine", work))
    return tried


@pytest.mark.parametrize("error", [RayActorError(), ObjectLostError("00", None, ""), HANDED_OVER_BY_A_DEAD_ONE])
def test_work_that_a_death_interrupted_is_done_again(tmp_path: Path, error: Exception) -> None:
    assert attempts(tmp_path, error, failures=1) == 2
    with pytest.raises(WorkerError, match=f"The engine died {ATTEMPTS} times"):
        attempts(tmp_path, error, failures=ATTEMPTS)


def test_work_that_raises_is_not_done_again(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match="The engine failed: ValueError: no such layer"):
        attempts(tmp_path, RayTaskError("f", "f()\nValueError: no such layer", ValueError()), failures=1)
