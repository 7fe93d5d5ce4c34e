"""A run's samples judged again: by the same reward nothing differs; by another one it is told what, and from where."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ares.browse.runs import curves
from ares.config import ConfigError, override
from ares.history import Judged, Rescore, rescore
from ares.step import RunState
from ares.store import RunStore, StoreError, read_drawn
from tests.ares.grading.test_reward_model import classifier
from tests.in_process import train_here
from tests.short_runs import told

VERIFIER = '''
import re

def right(completions, answer, **columns):
    """As the math reward, but no answer is right on which the list insists."""
    boxes = [re.findall(r"boxed{(.*?)}", text)[-1:] for text in completions]
    return [float(box == [str(truth)] and box[0] not in WRONG) for box, truth in zip(boxes, answer)]
'''


@pytest.fixture
def copied(runs: Path, tmp_path: Path) -> Path:
    """The directory of a copy of the shared run."""
    shutil.copytree(runs / "uninterrupted", tmp_path / "runs" / "uninterrupted")
    return tmp_path / "runs"


def judged(runs: Path, *overrides: str, first: int = 0, last: int = 99) -> list[Judged]:
    with Rescore("uninterrupted", list(overrides), runs) as again:
        return list(again.steps(first, last))


def verifier(folder: Path, *refused: str) -> str:
    file = folder / "verifier.py"
    file.write_text(f"WRONG = {refused!r}\n{VERIFIER}")
    return f"reward.kind={file}:right"


def test_an_unchanged_reward_differs_nowhere(copied: Path) -> None:
    steps = judged(copied)
    assert [one.step for one in steps] == [0, 1, 2, 3, 4]
    assert all(one.samples >= 16 for one in steps)
    for one in steps:
        assert one.model_dump(exclude={"step", "samples"}) == {
            "changed": 0, "raised": 0, "lowered": 0, "lost": 0, "ranks": 0, "revived": 0, "dropped": 0, "signs": 0,
            "differs": False,
        }  # fmt: skip


def test_another_verifier_changes_the_verdicts_that_it_says(copied: Path, tmp_path: Path) -> None:
    samples = pd.read_parquet(copied / "uninterrupted" / "steps" / "000001" / "samples.parquet")
    refused = str(samples.loc[samples["accuracy"] == 1.0, "ground_truth"].iloc[0])
    (of_first,) = judged(copied, verifier(tmp_path, refused), first=1, last=1)
    assert of_first.changed == of_first.lowered >= 1
    assert of_first.raised == of_first.lost == 0
    assert of_first.differs
    (folder,) = (copied / "uninterrupted" / "rescores").iterdir()
    verdicts = pd.read_parquet(folder / "000001.parquet")
    assert len(verdicts) == of_first.changed
    assert set(verdicts["accuracy_before"]) == {1.0}
    assert set(verdicts["accuracy"]) == {0.0}
    assert all(f"boxed{{{refused}}}" in text for text in verdicts["response"])


def test_groups_are_kept_by_the_rule_of_training_where_truncated_samples_are_left_out(runs: Path) -> None:
    again = Rescore("uninterrupted", [], runs)
    again.run.advance(again.run.store.read_commit(0))
    drawn, scores = read_drawn(again.run.store, 1)
    drawn["finish_reason"] = np.where(drawn["sample"] == 0, "stop", "length")
    for left_out, kept in (("false", drawn["slot"].unique().tolist()), ("true", [])):
        overlong = f"algorithm.overlong.mask_truncated={left_out}"
        config = override(again.run.config, [overlong, "algorithm.filter.enabled=false"])
        assert again._course(again.run.step(1), drawn, scores, config).kept == kept


def test_tests_that_end_otherwise_in_the_bootstrap_change_the_course_where_they_weigh_what_follows(runs: Path) -> None:
    again = Rescore("uninterrupted", [], runs)
    drawn, scores = read_drawn(again.run.store, 0)
    config = override(again.run.config, ["reward.kind=code", "reward.code.design=dense_weighted"])
    again.run.state = RunState.initial(config, len(again.run.train_set))
    judged = scores.assign(error_type="wrong_answer", pass_ratio=0.5, format=1.0)
    was, now = (
        again._course(again.run.step(0), drawn, judged.assign(test_outcomes=[ends] * len(judged)), config).controllers
        for ends in (["accepted", "wrong_answer"], ["wrong_answer", "accepted"])
    )
    assert was != now


def test_what_was_redone_is_judged_anew(copied: Path) -> None:
    """The verdicts of before were read, and said that nothing differs."""
    (before,) = judged(copied, first=4)
    again = Rescore("uninterrupted", [], copied)
    assert again._kept(4) == before
    store = RunStore(copied / "uninterrupted")
    last = store.read_commit(4)
    store.write_commit(last.model_copy(update={"metrics": last.metrics | {"critic/kl": 1.0}}))
    assert again._kept(4) is None
    assert curves(store)["rescores"][0]["steps"] == []
    store.write_commit(last)
    assert again._kept(4) == before
    assert [one["step"] for one in curves(store)["rescores"][0]["steps"]] == [4]


def test_what_other_code_judged_is_judged_anew(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Rescore("uninterrupted", [], copied).folder
    digest = rescore.file_digest
    monkeypatch.setattr(rescore, "file_digest", lambda file: f"{digest(file)}, of another version")
    assert Rescore("uninterrupted", [], copied).folder != folder


def test_another_reward_model_at_the_same_path_judges_anew(copied: Path, tmp_path: Path) -> None:
    folders, model = set(), tmp_path / "classifier"
    for weight in (1.0, 2.0):
        classifier(model, weight=weight)
        by_model = ["reward.kind=model", "reward.accuracy=0", f"reward.model.path={model}"]
        folders.add(Rescore("uninterrupted", by_model, copied).folder)
    assert len(folders) == 2


def test_what_cannot_be_judged_is_refused_by_setting_or_step(copied: Path) -> None:
    with pytest.raises(ConfigError, match=r"learner\.lr=1: stored samples are judged again by settings of reward"):
        judged(copied, "learner.lr=1")
    for path in (copied / "uninterrupted" / "steps" / "000002").glob("rollout-rollout-*"):
        path.unlink()
    with Rescore("uninterrupted", [], copied) as again:
        for first, last in ((5, 3), (9, 99)):
            with pytest.raises(ConfigError, match="own steps, which are 0 to 4"):
                again.cost(first, last)
        with pytest.raises(StoreError, match="step 2: its samples are gone"):
            list(again.steps(2, 2))
    assert [one.step for one in judged(copied, first=3)] == [3, 4]


@pytest.mark.slow
def test_the_command_says_from_where_on_training_differs_and_how_to_fork(copied: Path, tmp_path: Path) -> None:
    same = told(copied, "rescore", "uninterrupted", "--steps", "1:1")
    assert (same.returncode, "none has another verdict" in same.stdout) == (0, True)
    assert same.stdout.startswith("judges the samples of 1 steps again, which took the run")
    (kept,) = (copied / "uninterrupted" / "rescores").rglob("000001.json")
    written = kept.stat().st_mtime_ns
    again = told(copied, "rescore", "uninterrupted", "--steps", "1:2").stdout
    assert again.startswith("judges the samples of 1 steps again (1 more were judged before), which took the run")
    assert kept.stat().st_mtime_ns == written
    reward = verifier(tmp_path, *[str(number) for number in range(1000)])
    other = told(copied, "rescore", "uninterrupted", reward, "--steps", "1:1")
    assert other.returncode == 0, other.stderr
    assert "training would have gone another way from step 1 on" in other.stdout
    assert f"ares fork uninterrupted --at 1 --phase rollout {reward} --run uninterrupted-rescored" in other.stdout
    assert told(copied, "rescore", "uninterrupted", "--steps", "first").returncode == 2


@pytest.mark.slow
def test_a_step_that_resumed_with_another_rounding_is_judged_once(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its score and experience phases have kept results under two identities."""
    samples = [one.samples for one in judged(copied, last=2)]
    steps = copied / "uninterrupted" / "steps"
    for step in (3, 4):
        shutil.rmtree(steps / f"{step:06d}")
    (steps / "000002" / "COMMIT.json").unlink()  # as a kill just before it leaves the step
    monkeypatch.setenv("ARES_RUNS", str(copied))
    train_here(None, ["learner.micro_batch_tokens=2048", "train.steps=2"], "uninterrupted")
    shutil.rmtree(copied / "uninterrupted" / "rescores")
    after = judged(copied, last=2)
    assert ([one.changed for one in after], [one.samples for one in after]) == ([0] * 3, samples)


def test_a_file_that_made_the_rewards_what_they_were_may_be_repaired_but_no_other(copied: Path) -> None:
    described = json.loads((copied / "uninterrupted" / "run.json").read_text())
    words = copied / "words.txt"
    words.write_text("so")
    described["config"]["algorithm"]["entropy"]["trigger_tokens"] = str(words)
    described["digests"]["files"] = {str(words): "another"}
    store = RunStore(copied / "uninterrupted")
    store.write_run({name: value for name, value in described.items() if name != "checksum"})
    with pytest.raises(StoreError, match=r"words\.txt \(algorithm\.entropy\.trigger_tokens\) changed since"):
        judged(copied)
    words.unlink()
    with pytest.raises(StoreError, match=r"words\.txt \(algorithm\.entropy\.trigger_tokens\) changed since"):
        judged(copied)
