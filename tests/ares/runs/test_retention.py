"""Which runs `ares gc` deletes by age and by size, and which it keeps as the best."""

import os
import time
from pathlib import Path

import pytest

from ares.runs.retention import DAY, Policy, known_run, to_delete
from ares.store.store import RunStore
from tests.ares.store_builders import commit
from tests.short_runs import told

NOW = 100 * DAY


def a_run(runs: Path, name: str, age: float, accuracy: float | None, size: int = 1000, now: float = NOW) -> RunStore:
    """A run whose last commit is this many days old."""
    store = RunStore(runs / name)
    store.write_run({"config": {}})
    evaluations = [] if accuracy is None else [{"accuracy": accuracy}, {"accuracy": accuracy / 2}]
    store.write_commit(
        commit(0, None, state={"evaluations": evaluations}, timestamp=int((now - age * DAY) * 1000))
    )  # fmt: skip
    (store.directory / "weights").write_bytes(bytes(size))
    return store


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name, age, accuracy in (("old", 50, 0.2), ("old-best", 60, 0.9), ("unmeasured", 40, None), ("new", 1, 0.5)):
        a_run(tmp_path, name, age, accuracy)
    return tmp_path


def given_up(runs: Path, policy: Policy) -> list[str]:
    known = [known_run(RunStore(path)) for path in sorted(runs.iterdir())]
    return [run.store.name for run, *_ in to_delete(known, policy, NOW)]


def test_by_age_the_oldest_first_and_the_best_stay(runs: Path) -> None:
    assert given_up(runs, Policy(older_than=30)) == ["old-best", "old", "unmeasured"]
    assert given_up(runs, Policy(older_than=30, keep_best=1)) == ["old", "unmeasured"]
    assert given_up(runs, Policy(older_than=30, keep_best=3)) == ["unmeasured"]
    assert given_up(runs, Policy(older_than=30, keep_best=9)) == ["unmeasured"]
    assert given_up(runs, Policy(older_than=55)) == ["old-best"]


def test_by_size_as_many_of_the_oldest_as_it_takes(runs: Path) -> None:
    one = sum(known_run(RunStore(runs / "old")).sizes.values())
    assert given_up(runs, Policy(max_bytes=4 * one + 1000)) == []
    assert given_up(runs, Policy(max_bytes=2 * one + 1000)) == ["old-best", "old"]
    assert given_up(runs, Policy(max_bytes=0, keep_best=1)) == ["old", "unmeasured", "new"]


def test_what_forks_share_is_counted_once_and_freed_with_the_last_of_them(runs: Path) -> None:
    """Each fork counted as a copy: `--max-size` deleted runs of a directory that was smaller than that."""
    own = sum(size for path in runs.iterdir() for size in known_run(RunStore(path)).sizes.values())
    size = 100_000
    (runs / "old" / "shared").write_bytes(bytes(size))
    for name in ("old-best", "new"):
        os.link(runs / "old" / "shared", runs / name / "shared")
    assert given_up(runs, Policy(max_bytes=own + size)) == []
    known = [known_run(RunStore(path)) for path in sorted(runs.iterdir())]
    freed = {run.store.name: freed for run, freed, _ in to_delete(known, Policy(max_bytes=0), NOW)}
    assert list(freed) == ["old-best", "old", "unmeasured", "new"]
    assert freed["new"] > size > freed["old"]
    assert sum(freed.values()) == own + size
    assert given_up(runs, Policy(max_bytes=size)) == ["old-best", "old", "unmeasured", "new"]


def test_a_run_that_is_being_trained_stays(runs: Path) -> None:
    with RunStore(runs / "old").lock():
        assert given_up(runs, Policy(older_than=0)) == ["old-best", "unmeasured", "new"]


def test_gc_deletes_them_and_a_dry_one_says_the_same(tmp_path: Path) -> None:
    for name, age in (("old", 50), ("new", 0)):
        a_run(tmp_path, name, age, 0.5, now=time.time())
    dry, done = (told(tmp_path, "gc", "--older-than", "30", *more) for more in (["--dry-run"], []))
    assert dry.returncode == done.returncode == 0, done.stderr
    assert dry.stdout.splitlines()[0] == done.stdout.splitlines()[0]
    assert "old: the run, " in done.stdout
    assert "(50 days old)" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new"]


def test_keeping_the_best_alone_is_not_a_policy(tmp_path: Path) -> None:
    refused = told(tmp_path, "gc", "--keep-best", "3")
    assert refused.returncode == 2
    assert "--older-than or --max-size say what goes" in refused.stderr
