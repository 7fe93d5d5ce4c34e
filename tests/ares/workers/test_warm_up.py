"""Actors that start in the background: errors are raised where they are awaited, and the thread stays."""

import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from unittest.mock import Mock

import pytest
import ray

from ares.config import load
from ares.store import RunStore
from ares.workers.cluster import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(load("tiny-math"), RunStore(tmp_path / "run"))


def test_ray_is_started_by_a_thread_that_stays_until_it_is_left(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel ends Ray's processes with the thread that started them."""
    started: list[threading.Thread] = []
    monkeypatch.setattr(cluster, "_warm_up", lambda: started.append(threading.current_thread()))
    monkeypatch.setattr(ray, "shutdown", Mock())
    cluster.begin_warm_up()
    cluster.warm_up()
    assert started[0] is not threading.current_thread()
    started[0].join(timeout=0.2)
    assert started[0].is_alive()
    cluster.disconnect()
    started[0].join(timeout=30)
    assert not started[0].is_alive()


def test_what_two_threads_would_meet_half_imported_is_imported_before(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of fifty starts ended in an ImportError of `pydantic.v1`, which Ray and Prefect both import late."""
    for name in [name for name in sys.modules if name.startswith("pydantic.v1")]:
        monkeypatch.delitem(sys.modules, name)
    there: Future[bool] = Future()
    monkeypatch.setattr(cluster, "_warm_up_beside", lambda _: there.set_result("pydantic.v1.fields" in sys.modules))
    cluster.begin_warm_up()
    assert there.result(timeout=30)


def test_what_goes_wrong_meanwhile_is_raised_where_it_is_waited_for(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_warm_up", Mock(side_effect=RuntimeError("no room")))
    monkeypatch.setattr(ray, "shutdown", Mock())
    cluster.begin_warm_up()
    with pytest.raises(RuntimeError, match="no room"):
        cluster.warm_up()
    cluster.disconnect()
