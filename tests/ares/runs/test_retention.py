"""What `ares gc` and the flow `ares-gc` delete by age and by size, and what they never touch."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from ares.config import ConfigError
from ares.runs.retention import DAY, Policy, expired, prune
from ares.store import MEMO_FILE, Kept
from ares.store.lock import held
from ares.store.store import RunStore
from flows.deployed import ares_gc
from tests.ares.store_builders import commit
from tests.short_runs import told


def a_run(runs: Path, name: str, age: float, accuracy: float | None) -> None:
    """A run whose last commit is this many days old, with a leftover of an interrupted write."""
    store = RunStore(runs / name)
    store.write_run({"config": {}})
    evaluations = [] if accuracy is None else [{"accuracy": accuracy}, {"accuracy": accuracy / 2}]
    finished = int((time.time() - age * DAY) * 1000)
    store.write_commit(commit(0, None, state={"evaluations": evaluations}, timestamp=finished))
    (store.directory / "weights").write_bytes(bytes(1000))
    (store.directory / ".left.1.partial").mkdir()


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name, age, accuracy in (("old", 50, 0.2), ("old-best", 60, 0.9), ("unmeasured", 40, None), ("new", 1, 0.5)):
        a_run(tmp_path, name, age, accuracy)
    return tmp_path


def freed_by(runs: Path, **policy: Any) -> dict[str, int]:
    stores = [RunStore(path.parent) for path in sorted(runs.glob("*/run.json"))]
    return {store.name: freed for store, freed, _ in expired(stores, Policy(**policy))}


@pytest.mark.parametrize(
    ("policy", "given_up"),
    [
        ({}, []),
        ({"older_than": 30}, ["old-best", "old", "unmeasured"]),
        ({"older_than": 30, "keep_best": 1}, ["old", "unmeasured"]),
        ({"older_than": 30, "keep_best": 3}, ["unmeasured"]),
        ({"older_than": 30, "keep_best": 9}, ["unmeasured"]),
        ({"older_than": 55}, ["old-best"]),
    ],
)
def test_by_age_the_oldest_first_and_the_best_stay(policy: dict[str, Any], given_up: list[str], runs: Path) -> None:
    assert list(freed_by(runs, **policy)) == given_up


@pytest.mark.parametrize("name", ["evals/step1-held-out/.samples.parquet.1.partial", ".fork-new.1.partial/checkpoint"])
def test_what_an_evaluation_or_a_fork_under_way_needs_stays(name: str, runs: Path) -> None:
    written = runs / "old" / name
    with held(written.parent):
        written.touch()
        assert "old" not in freed_by(runs, older_than=30)
        prune(RunStore(runs / "old"), dry_run=False)
        assert written.exists()
    assert "old" in freed_by(runs, older_than=30)
    prune(RunStore(runs / "old"), dry_run=False)
    assert not written.exists()


def test_of_a_step_the_results_go_before_the_files_that_they_name(tmp_path: Path, monkeypatch: Any) -> None:
    """After a gc that was killed, `ares verify` called what it had deleted missing."""
    store, removed = RunStore(tmp_path / "run"), list[str]()
    first = commit(0, None)
    checkpoint = store.write_json("checkpoints/000002", "weights")
    for each in (first, second := commit(1, first), commit(2, second, artifacts={"checkpoint": checkpoint})):
        store.write_commit(each)
    store.write_json("steps/000001/experience.safetensors", "measured")
    store.memo(1).keep(Kept("owner-key", "experience", {}))
    monkeypatch.setattr(store, "remove", lambda path: removed.append(path.name))
    prune(store, dry_run=False)
    assert removed == [MEMO_FILE, "experience.safetensors"]


def test_the_children_of_an_ablation_under_way_stay(runs: Path) -> None:
    """Its finished ones were deleted while the others trained, and the report had holes."""
    RunStore(runs / "kinds").write_json("ablation.json", {"children": ["old", "not-begun"]})
    with held(runs / "kinds"):
        assert list(freed_by(runs, older_than=30)) == ["old-best", "unmeasured"]
    assert list(freed_by(runs, older_than=30)) == ["old-best", "old", "unmeasured"]


def test_by_size_as_many_of_the_oldest_as_it_takes(runs: Path) -> None:
    one = freed_by(runs, max_size=0)["old"]
    assert list(freed_by(runs, max_size=(4 * one + 1000) / 1e9)) == []
    assert list(freed_by(runs, max_size=(2 * one + 1000) / 1e9)) == ["old-best", "old"]
    assert list(freed_by(runs, max_size=0, keep_best=1)) == ["old", "unmeasured", "new"]


def test_what_forks_share_is_counted_once(runs: Path) -> None:
    """Each fork counted as a copy: `--max-size` deleted runs of a directory that was smaller than that."""
    own, size = sum(freed_by(runs, max_size=0).values()), 90_000
    (runs / "old" / "shared").write_bytes(bytes(size))
    for name in ("old-best", "new"):
        os.link(runs / "old" / "shared", runs / name / "shared")
    assert freed_by(runs, max_size=(own + size) / 1e9) == {}
    assert sum(freed_by(runs, max_size=0).values()) == own + size


def test_a_run_in_training_is_measured_while_its_files_go(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ares gc` ended in a traceback if a temporary file was renamed between being listed and measured."""
    before, walk = freed_by(runs, max_size=0), os.walk
    monkeypatch.setattr("os.walk", lambda top: ((top, folders, [*names, "gone"]) for top, folders, names in walk(top)))
    assert freed_by(runs, max_size=0) == before


def test_gc_deletes_them_and_a_dry_one_says_the_same(tmp_path: Path) -> None:
    for name, age in (("old", 50), ("new", 0)):
        a_run(tmp_path, name, age, 0.5)
    dry, done = (told(tmp_path, "gc", "--older-than", "30", *more) for more in (["--dry-run"], []))
    assert dry.returncode == done.returncode == 0, done.stderr
    assert dry.stdout.splitlines()[0] == done.stdout.splitlines()[0]
    assert "old: the run, " in done.stdout
    assert "(50 days old)" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new"]
    for number in range(30):  # there was a line for each file: 1,800 for two runs
        (tmp_path / "new" / f".left.{number}.partial").mkdir(exist_ok=True)
    listed = told(tmp_path, "gc", "--dry-run").stdout.splitlines()
    assert listed[0].split() == ["0", "30", "×", ".left.#.partial"]
    assert listed[1:] == ["new: 30 files and folders, 0 bytes", "would free 0 bytes"]


def test_what_killed_forks_left_beside_the_runs_goes(tmp_path: Path) -> None:
    """It stayed for ever, and with it the checkpoints that it shared with runs that were deleted."""
    for name in (".killed.1.partial", ".under-way.2.partial"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights").write_bytes(bytes(7))
    with held(tmp_path / ".under-way.2.partial"):
        assert told(tmp_path, "gc", "--dry-run").stdout.startswith(".killed.1.partial: of a fork that was killed, 7 ")
        assert told(tmp_path, "gc").returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == [".under-way.2.partial"]


def files(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_the_flow_deletes_by_a_policy_but_no_run_in_training(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARES_RUNS", str(runs))
    before = files(runs)
    assert ares_gc.fn() == 0
    assert files(runs) == before
    with RunStore(runs / "new").lock():
        before = files(runs / "new")
        assert ares_gc.fn(older_than=0.0, working_files=True) > 0
        assert files(runs / "new") == before
    assert [path.name for path in runs.iterdir()] == ["new"]


@pytest.mark.parametrize(
    ("damage", "why"),
    [(False, "'new' is in use by another process"), (True, "run.json: not readable as JSON")],
)
def test_a_run_that_cannot_be_used_holds_up_no_others(damage: bool, why: str, runs: Path) -> None:
    """`ares gc` ended with an error at the first one, and left the rest; the daily one too."""
    with RunStore(runs / "new").lock():
        if damage:
            (runs / "new" / "run.json").write_text("{")
        done = told(runs, "gc", "--older-than", "30")
        assert done.returncode == 0, done.stderr
        assert "left alone: " in done.stdout
        assert why in done.stdout
    assert [path.name for path in runs.iterdir()] == ["new"]
    assert (runs / "new" / ".left.1.partial").exists()


def test_a_policy_that_would_delete_every_run_is_refused() -> None:
    with pytest.raises(ConfigError, match="--keep-best must be 0 or more"):
        ares_gc.fn(keep_best=-1)


def test_of_a_link_the_link_is_deleted(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A run or a checkpoint on another disk ended `ares gc` and the training in a traceback."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    store = RunStore(runs / "new")
    store.write_json("checkpoints/000000/weights", {})
    for path in (runs / "old", runs / "new/checkpoints/000000"):
        path.rename(elsewhere / path.name)
        path.symlink_to(elsewhere / path.name)
    assert freed_by(runs, older_than=45)["old"] == 0
    RunStore(runs / "old").delete()
    store.prune_checkpoints(0, 1, 0)
    assert not (runs / "old").exists()
    assert list(store.children("checkpoints")) == []
    assert (elsewhere / "old/weights").exists()
    assert (elsewhere / "000000/weights").exists()
