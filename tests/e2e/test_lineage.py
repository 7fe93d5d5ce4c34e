"""Forks share the past of a run without copies; `ares diff` says where two diverge; `ares gc` keeps what is needed."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from mlflow import MlflowClient

from ares.evaluation import Evaluation, EvaluationRequest
from ares.runs import first_difference
from ares.runs.lineage import fork
from ares.runs.retention import prune
from ares.store import MEMO_FILE, StoreError
from ares.store.store import RunStore
from tests.short_runs import ares, log, told, train

OTHER_REWARD = "algorithm.aepo.enabled=false"


def inodes(runs: Path, name: str, pattern: str) -> dict[str, int]:
    """The files of a run that match, but for those that are appended to."""
    folder = runs / name
    files = [file for file in sorted(folder.glob(pattern)) if file.name != MEMO_FILE]
    return {str(file.relative_to(folder)): file.stat().st_ino for file in files}


def test_a_fork_after_the_rollouts_shares_them_and_then_diverges(runs: Path) -> None:
    made = told(runs, "fork", "uninterrupted", "--at", "4", "--phase", "rollout", OTHER_REWARD, "--run", "forked")
    assert made.returncode == 0, made.stderr
    assert "algorithm.aepo.enabled: True → False" in made.stdout
    resumed = ares(runs, "resume", "forked")
    assert resumed.returncode == 0, resumed.stderr

    rollouts = inodes(runs, "uninterrupted", "steps/000004/rollout-rollout-*.parquet")
    assert rollouts
    assert inodes(runs, "forked", "steps/000004/rollout-rollout-*.parquet") == rollouts  # the very same files
    past = inodes(runs, "uninterrupted", "steps/00000[123]/**/*.*")
    assert inodes(runs, "forked", "steps/00000[123]/**/*.*") == past
    found = [(runs / name / f"steps/000003/{MEMO_FILE}").read_bytes() for name in ("uninterrupted", "forked")]
    assert found[0] == found[1]

    shown = told(runs, "diff", "uninterrupted", "forked")
    assert shown.returncode == 1
    assert "first difference: step 4" in shown.stdout
    assert "setting algorithm.aepo.enabled: True → False" in shown.stdout

    log(runs, "forked")
    client = MlflowClient(tracking_uri=f"sqlite:///{runs / 'mlflow.db'}")
    tags = client.get_run(json.loads((runs / "forked" / "run.json").read_text())["mlflow_run_id"]).data.tags
    assert (tags["ares.forked_from"], tags["ares.forked_at_step"]) == ("uninterrupted", "4")
    assert tags["ares.forked_at_phase"] == "rollout"


@pytest.mark.slow
def test_two_forks_with_other_rewards_see_the_same_rollouts_and_the_same_weights_before(runs: Path) -> None:
    """At a step without a checkpoint: the weights are made by replaying with the run's settings, not the fork's."""
    for name, setting in (("one", OTHER_REWARD), ("two", "learner.lr=0.001")):
        made = told(runs, "fork", "uninterrupted", "--at", "3", "--phase", "rollout", setting, "--run", name)
        assert made.returncode == 0, made.stderr
        assert ares(runs, "resume", name).returncode == 0
    assert inodes(runs, "one", "steps/000003/rollout-rollout-*") == inodes(
        runs, "two", "steps/000003/rollout-rollout-*"
    )
    first, again = (runs / name / "steps/000003/experience.safetensors" for name in ("uninterrupted", "two"))
    assert first.read_bytes() == again.read_bytes()  # log-probs of step 3 are those of the weights after step 2


@pytest.mark.slow
def test_an_unchanged_fork_ends_bit_identical(runs: Path) -> None:
    assert told(runs, "fork", "uninterrupted", "--at", "2", "--run", "same").returncode == 0
    assert ares(runs, "resume", "same").returncode == 0
    shown = told(runs, "diff", "uninterrupted", "same")
    assert shown.returncode == 0, shown.stdout


@pytest.fixture
def copy(runs: Path, tmp_path: Path) -> RunStore:
    shutil.copytree(runs / "uninterrupted", tmp_path / "copy")
    return RunStore(tmp_path / "copy")


def test_diff_names_step_and_what(runs: Path, copy: RunStore) -> None:
    original = RunStore(runs / "uninterrupted")
    assert first_difference(original, copy) is None
    commit = copy.read_commit(2)
    commit.metrics["critic/kl"] += 1.0
    commit.timings["timing_s/step"] += 1.0
    copy.write_commit(commit)
    step, (line,) = first_difference(original, copy) or (None, [""])
    assert step == 2
    assert line.startswith("metrics: critic/kl: ")
    shutil.copytree(original.directory / "steps/000002", copy.directory / "steps/000002", dirs_exist_ok=True)
    shutil.rmtree(copy.directory / "steps/000004")
    assert first_difference(original, copy) == (4, ["copy ends at step 3, uninterrupted at step 4"])


def test_gc_keeps_what_a_resume_needs_and_what_people_read(copy: RunStore) -> None:
    (copy.directory / "steps/000004/.batch.1.partial").mkdir()
    before = {path for path in copy.directory.rglob("*") if path.is_file()}
    listed = prune(copy, dry_run=True)
    assert {path for path in copy.directory.rglob("*") if path.is_file()} == before
    assert prune(copy, dry_run=False) == listed
    left = {str(path.relative_to(copy.directory)) for path in copy.directory.rglob("*") if path.is_file()}
    # The oldest kept checkpoint is that of step 3: the steps before it keep their commit and their tables.
    assert {name for name in left if name.startswith("steps/000002/")} == {
        "steps/000002/COMMIT.json", "steps/000002/samples.parquet", "steps/000002/evaluation.parquet"
    }  # fmt: skip
    assert {"steps/000003/experience.safetensors", "steps/000003/phases.jsonl"} <= left
    assert not any(name.endswith(".partial") for name in left)
    last = copy.last_commit()
    assert last is not None
    assert last.step == 4
    assert prune(copy, dry_run=False) == {}


def test_weights_that_gc_made_unreachable_are_reported_at_once(copy: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ares eval --step` started Ray and failed a minute later in the learner: "batch is missing"."""
    monkeypatch.setenv("ARES_RUNS", str(copy.directory.parent))
    monkeypatch.setattr("ares.cluster.cluster.connect", lambda *_: pytest.fail("Ray was started"))
    prune(copy, dry_run=False)
    message = r"weights after step 2 .*the batch of step 1 is gone or damaged. Weights are kept after steps 3, 4"
    with pytest.raises(StoreError, match=message):
        Evaluation.open(EvaluationRequest(target="copy", step=2))
    with pytest.raises(StoreError, match=message):
        fork("copy", 2, None, [], "other", copy.directory.parent)
    assert not (copy.directory.parent / "other").exists()
    Evaluation.open(EvaluationRequest(target="copy", step=3)).run.close()


def test_a_fork_is_not_forked_in_its_parents_past(copy: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights after a step before its own were replayed with its settings, in place of those of its past."""
    runs = copy.directory.parent
    monkeypatch.setenv("ARES_RUNS", str(runs))
    fork("copy", 3, None, ["learner.lr=0.001"], "fork", runs)
    monkeypatch.setattr("ares.cluster.cluster.connect", lambda *_: pytest.fail("Ray was started"))
    with pytest.raises(
        StoreError, match=r"'fork' was forked from 'copy' after step 3, .* use 'copy' instead"
    ) as refused:
        fork("fork", 2, None, [], "again", runs)
    with pytest.raises(StoreError, match=re.escape(str(refused.value))):
        Evaluation.open(EvaluationRequest(target="fork", step=2))
    with pytest.raises(StoreError, match=r"keeps no results of the phases of step 3: .*--at 2 without --phase"):
        fork("fork", 3, "rollout", [], "again", runs)
    assert not (runs / "again").exists()
    for at in (0, 3):  # the first weights, and those of its checkpoint
        fork("fork", at, None, [], f"at-{at}", runs)
        assert RunStore(runs / f"at-{at}").last_commit() == copy.read_commit(at)


def test_a_kept_result_that_is_being_written_is_not_shared(copy: RunStore) -> None:
    """Of a run in training, which goes on writing its file: it is read, and left as it is."""
    memo = copy.memo(4)
    shared = [kept.refs() for kept in memo.of_phases(["rollout"]) if "-validation-" not in kept.refs()[0].path]
    with memo.path.open("ab") as file:
        file.write(b'{"checksum": "half a li')
    content = memo.path.read_bytes()
    fork("copy", 4, "rollout", [], "fork", copy.directory.parent)
    forked = RunStore(copy.directory.parent / "fork").memo(4).of_phases(["rollout", "score"])
    assert [kept.refs() for kept in forked] == shared
    assert memo.path.read_bytes() == content


@pytest.mark.slow
def test_a_run_resumes_after_gc(tmp_path: Path) -> None:
    assert train(tmp_path, "pruned") == 0
    assert told(tmp_path, "gc").returncode == 0
    assert ares(tmp_path, "resume", "pruned", "train.steps=5").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"phase": "update"}, "rollout, score, experience, shape"),
        ({"overrides": ["algorithm.kl.kind=adaptive", "algorithm.kl.coef=0.1"]}, "do not fit the new settings"),
        ({"phase": "rollout", "overrides": ["algorithm.advantage.estimator=gae"]}, r"estimator: .*\(the checkpoint\)"),
    ],
)
def test_a_fork_that_is_refused_leaves_nothing(runs: Path, arguments: dict[str, object], message: str) -> None:
    given = {"at": 4, "phase": "rollout", "overrides": [], "name": "never"} | arguments
    before = set(os.listdir(runs))
    with pytest.raises((ValueError, RuntimeError), match=message):
        fork("uninterrupted", runs=runs, **given)  # type: ignore[arg-type]
    assert set(os.listdir(runs)) == before
