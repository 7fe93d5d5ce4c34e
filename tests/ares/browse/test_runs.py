"""The tree of runs and the curves; what is gone is told in a line."""

import shutil
from pathlib import Path

import pytest

from ares.browse.runs import curves, describe
from ares.browse.samples import verdicts
from ares.store import RunStore, StoreError
from tests.short_runs import told


@pytest.fixture
def store(runs: Path, tmp_path: Path) -> RunStore:
    """A copy of the shared run."""
    shutil.copytree(runs / "uninterrupted", tmp_path / "runs" / "uninterrupted")
    return RunStore(tmp_path / "runs" / "uninterrupted")


def test_a_fork_says_where_it_comes_from_and_has_settings_to_compare(store: RunStore) -> None:
    runs = store.directory.parent
    assert told(runs, "fork", "uninterrupted", "--at", "3", "--run", "faster", "learner.lr=1e-3").returncode == 0
    parent, fork = describe(store), describe(RunStore(runs / "faster"))
    assert fork["fork"] == {"run": "uninterrupted", "at": 3, "phase": None}
    before = parent["settings"]
    assert {name for name, value in fork["settings"].items() if value != before.get(name)} == {"learner.lr"}
    assert (parent["step"], fork["step"], parent["fork"]) == (4, 3, None)
    assert parent["accuracy"] == curves(store)["metrics"]["val/accuracy"][-1]


def test_curves_have_a_value_a_step_and_null_where_a_step_has_none(store: RunStore) -> None:
    found = curves(store)
    assert found["steps"] == [0, 1, 2, 3, 4]
    drew_more = [step for step in (1, 2, 3, 4) if store.read_commit(step).metrics["filter/drawn_prompts"] > 4]
    assert found["tables"] == {"samples": [0, 1, 2, 3, 4], "evaluation": [0, 2, 4], "dropped": drew_more}
    assert [value is None for value in found["metrics"]["val/accuracy"]] == [False, True, False, True, False]
    assert found["missing"] == []


def test_what_is_gone_is_told_with_what_can_still_be_shown(store: RunStore) -> None:
    for step in (1, 2, 4):
        (store.directory / store.step_path(step) / "batch.safetensors").unlink()
    (store.directory / "bootstrap" / "samples.parquet").unlink()
    found = curves(store)
    samples, batch = found["missing"]
    assert samples == (
        "step 0: samples.parquet is gone (`ares gc` deletes some): its trained samples cannot be shown, curves can"
    )
    assert batch.startswith("step 1–2, 4: batch.safetensors is gone")
    assert found["tables"]["samples"] == [1, 2, 3, 4]
    (store.directory / "steps" / "000003" / "COMMIT.json").write_text("{")
    assert (
        curves(RunStore(store.directory))["missing"][-1] == "step 3: its commit is damaged; steps up to 2 can be shown"
    )


def test_a_run_that_cannot_be_read_says_why_and_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text('{"format": 99, "checksum": "x"}')
    described = describe(RunStore(tmp_path / "broken"))
    assert described.keys() == {"name", "problem"}
    assert "run.json" in described["problem"]


def test_what_was_judged_again_is_there_with_its_settings_and_changed_verdicts(store: RunStore, tmp_path: Path) -> None:
    file = tmp_path / "verifier.py"
    file.write_text("def right(completions, **columns):\n    return [0.0 for _ in completions]\n")
    reward = f"reward.kind={file}:right"
    ended = told(store.directory.parent, "rescore", "uninterrupted", reward, "--steps", "1:2")
    assert ended.returncode == 0, ended.stderr
    (rescore,) = curves(store)["rescores"]
    assert (rescore["overrides"], [one["step"] for one in rescore["steps"]]) == ([reward], [1, 2])
    found = verdicts(store, rescore["name"], 2)
    assert len(found["id"]) == rescore["steps"][1]["changed"] > 0
    assert (set(found["accuracy_before"]), set(found["accuracy"])) == ({1.0}, {0.0})
    assert all(answer in response for answer, response in zip(found["answer"], found["response"], strict=True))
    with pytest.raises(StoreError, match="ares rescore"):
        verdicts(store, rescore["name"], 4)
