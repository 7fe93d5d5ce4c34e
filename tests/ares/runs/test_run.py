"""Opening a run: a check starts nothing; what opening one starts and ends."""

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ares.config import ConfigError
from ares.config.profiles import load
from ares.config.run import Config
from ares.data import DataError
from ares.evaluation import Evaluation, EvaluationRequest
from ares.grading import code as code_grading
from ares.runs.description import check_model
from ares.runs.run import Run
from ares.step.refill import Refill
from ares.store import read_config
from ares.store.store import RunStore, StoreError
from flows import ablate
from sandbox import PackageError, packages
from tests.ares import builders
from tests.sandbox.package_environment import make_wheel


class RecordedSandbox:
    """Stands for a sandbox, local or rented: knows whether it was ended."""

    def __init__(self) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False


@pytest.fixture(autouse=True)
def sandboxes(monkeypatch: pytest.MonkeyPatch) -> list[RecordedSandbox]:
    """Every sandbox that is started."""
    started: list[RecordedSandbox] = []

    def open_sandbox(*settings: Any) -> RecordedSandbox:
        started.append(RecordedSandbox())
        return started[-1]

    monkeypatch.setattr(code_grading, "open_sandbox", open_sandbox)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return started


def code_config() -> Config:
    return load("tiny-code", ["data.limit=20"])


def test_checking_a_run_or_listing_an_ablation_starts_no_sandbox_and_writes_nothing(
    tmp_path: Path, sandboxes: list[RecordedSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    Run.check(code_config(), "unborn", tmp_path)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("ARES_RUNS", str(tmp_path))
    assert len(ablate.prepare("code-rewards", ["data.limit=20"]).children) >= 5
    assert sandboxes == []


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel in the sandbox's environment: module `lower`."""
    monkeypatch.setenv(packages.VARIABLE, str(tmp_path / "environment"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    make_wheel(tmp_path, "lower", "1.0", "ONE = 1\n")
    make_wheel(tmp_path, "lower", "2.0", "ONE = 1\n")
    packages.add(["lower==1.0"])
    return tmp_path


def test_missing_packages_are_named_by_the_check_with_the_command(
    tmp_path: Path, sandboxes: list[RecordedSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(packages.VARIABLE, str(tmp_path / "environment"))
    with pytest.raises(PackageError, match=r"have no numpy\. Add: ares sandbox packages add numpy"):
        Run.check(load("tiny-code", ["data.limit=20", 'reward.code.packages=["numpy"]']), "none", tmp_path / "runs")
    assert sandboxes == []
    with pytest.raises(ConfigError, match="named as they are imported"):
        load("tiny-code", ['reward.code.packages=["scikit-learn"]'])


@pytest.mark.slow
def test_the_lock_of_the_packages_is_part_of_what_a_run_is(environment: Path) -> None:
    with_lower = load("tiny-code", ["data.limit=20", 'reward.code.packages=["lower"]'])
    run, digests = Run.check(with_lower, "here", environment / "runs")
    without, bare = Run.check(code_config(), "bare", environment / "runs")
    assert "lower==1.0" in digests["graded_with"]
    assert "graded_with" not in bare
    assert run.identity.count("-") == without.identity.count("-") + 1
    Run.open(with_lower, "here", environment / "runs").close()
    Run.open(with_lower, "here", environment / "runs").close()
    packages.add(["lower==2.0"])
    with pytest.raises(StoreError, match=r"packages of programs .* changed .*lower==1.0 .* → lower==2.0"):
        Run.open(with_lower, "here", environment / "runs")
    assert Run.check(with_lower, "other", environment / "runs")[0].identity != run.identity


def test_an_opened_run_and_an_evaluation_have_one_sandbox_until_they_are_closed(
    tmp_path: Path, sandboxes: list[RecordedSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run.open(code_config(), "open", tmp_path)
    assert [sandbox.is_open for sandbox in sandboxes] == [True]
    run.close()
    with RunStore(tmp_path / "held").lock(), pytest.raises(StoreError):
        Run.open(code_config(), "held", tmp_path)
    monkeypatch.setenv("ARES_RUNS", str(tmp_path))
    request = EvaluationRequest(target=code_config().model.path, profile="tiny-code", max_problems=2)
    Evaluation.open(request).run.close()
    assert [sandbox.is_open for sandbox in sandboxes] == [False] * 3


def test_a_plan_is_made_by_the_state_that_later_steps_sample_with_and_changes_nothing_else(tmp_path: Path) -> None:
    fresh, _ = Run.check(builders.config(), "fresh", tmp_path)
    fresh.plan(fresh.state, 0)
    assert fresh.state.planned == []
    run, _ = Run.check(builders.config("rollout.max_staleness=2"), "stale", tmp_path)
    before = run.state.state_dict()
    asked = run.next_prompts(run.restored(before), 6, 1)
    run.plan(run.state, 0)
    planned = run.state.state_dict()
    assert planned["planned"] == [asked[:2], asked[2:4], asked[4:]]
    assert planned["cursor"] == {"epoch": 0, "position": 6}
    assert {name: planned[name] for name in before if name != "cursor"} == {
        name: value for name, value in before.items() if name != "cursor"
    }
    run.plan(run.state, 0)
    assert run.state.state_dict() == planned
    run.state.planned.pop(0)
    following = run.next_prompts(run.restored(run.state.state_dict()), 2, 4)
    run.plan(run.state, 1)
    assert run.state.planned == [asked[2:4], asked[4:], following]


@pytest.mark.parametrize("staleness", [0, 2])
def test_weights_of_sets_are_those_of_the_step_that_takes_the_draw(staleness: int, tmp_path: Path) -> None:
    both = json.dumps({"a": f"{builders.MODEL}/train.jsonl", "b": f"{builders.MODEL}/train.jsonl"})
    weights = json.dumps({"a": {"1": 1, "2": 0}, "b": {"1": 0, "2": 1}})
    sets = [
        f"data.train={both}",
        f"data.weights={weights}",
        "data.validation=null",
        f"rollout.max_staleness={staleness}",
    ]
    run, _ = Run.check(builders.config(*sets), "weighed", tmp_path)
    drawn = []
    for step in (1, 2, 3):
        run.plan(run.state, step - 1)
        ids = run.state.planned.pop(0) if run.state.planned else run.next_prompts(run.state, 2, step)
        drawn.append({name.partition("/")[0] for name in ids})
    assert drawn == [{"a"}, {"b"}, {"b"}]


@pytest.fixture
def levels(tmp_path: Path) -> list[str]:
    """Settings of a curriculum of two levels with five problems each, `easy` and `hard`."""
    lines = (builders.MODEL / "train.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    for level, name in enumerate(("easy", "hard")):
        (tmp_path / f"{name}.jsonl").write_text("".join(lines[5 * level : 5 * level + 5]), encoding="utf-8")
    sources = f"data.train=[{tmp_path / 'easy.jsonl'}, {tmp_path / 'hard.jsonl'}]"
    return [sources, "data.curriculum={window: 4, threshold: 0.5}"]


def test_a_curriculum_draws_from_one_level_until_it_is_mastered(tmp_path: Path, levels: list[str]) -> None:
    run, _ = Run.check(builders.config(*levels), "levels", tmp_path)
    drawn = run.next_prompts(run.state, 7, 1)
    assert {name.partition("/")[0] for name in drawn} == {"0"}
    one_right_in_two = {"id": drawn[:4] * 2, "slot": [0, 1, 2, 3] * 2, "sample": [0] * 4 + [1] * 4,
                        "accuracy": [1.0] * 4 + [0.0] * 4}  # fmt: skip
    rows = pd.DataFrame(one_right_in_two).assign(tokens=1, log_probs=[[-1.0]] * 8)
    run.state.absorb_sampled(rows, trained_slots=[0])
    assert run.state.metrics()["curriculum/level"] == 1.0
    again = run.restored(run.state.state_dict())
    assert {name.partition("/")[0] for name in run.next_prompts(again, 7, 1)} == {"1"}


def test_a_mixture_is_drawn_from_by_its_weights_and_each_source_has_metrics(tmp_path: Path, levels: list[str]) -> None:
    easy, hard = (tmp_path / f"{name}.jsonl" for name in ("easy", "hard"))
    sources = [f"data.train={{easy: {easy}, hard: {hard}}}", "data.weights={easy: 1, hard: 4}"]
    run, _ = Run.check(builders.config(*sources), "mixed", tmp_path)
    drawn = run.next_prompts(run.state, 50, 1)
    assert pd.Series(drawn).str.partition("/")[0].value_counts().to_dict() == {"hard": 40, "easy": 10}
    run.config = builders.config(*sources, "data.weights={hard: 1, easy: {0: 0, 2: 2}}")
    assert {name.partition("/")[0] for name in run.next_prompts(run.state, 4, 0)} == {"hard"}
    assert [name.partition("/")[0] for name in run.next_prompts(run.state, 4, 1)].count("easy") == 2
    for most, of_each in ((4, 2), (2, 1)):
        run.config = builders.config(*sources, f"bootstrap.max_prompts={most}")
        assert [name.partition("/")[0] for name in run.bootstrap_prompts()] == ["easy"] * of_each + ["hard"] * of_each
    refill = Refill(1, run.config)
    refill.ask()
    rows = builders.rows([[1, 0], [1, 1]]).assign(id=["easy/a"] * 2 + ["hard/b"] * 2)
    refill.take(rows.assign(reward_accuracy=rows["accuracy"]))
    found = {name: value for name, value in refill.metrics().items() if name.startswith("train/")}
    length = rows["tokens"].groupby(rows["id"]).mean()
    assert found == {
        "train/easy/share": 0.5, "train/easy/accuracy": 0.5, "train/easy/response_length": length["easy/a"],
        "train/hard/share": 0.5, "train/hard/accuracy": 1.0, "train/hard/response_length": length["hard/b"],
    }  # fmt: skip


def test_named_sets_stay_in_their_order_in_a_run_that_is_opened_again(tmp_path: Path, levels: list[str]) -> None:
    """run.json was sorted, and the order of the sets is that of their rows: the data seemed to have changed."""
    sets = f"{{zz: {tmp_path / 'easy.jsonl'}, aa: {tmp_path / 'hard.jsonl'}}}"
    config = builders.config(f"data.train={sets}", f"data.validation={sets}")
    Run.open(config, "named", tmp_path).close()
    again, _ = Run.check(read_config(RunStore(tmp_path / "named")), "named", tmp_path)
    assert again.train_set.frame["id"].iloc[0].startswith("zz/")


def test_updates_are_not_replayed_with_another_teacher(tmp_path: Path) -> None:
    """Evaluations between two checkpoints were of weights that the run never had."""
    teacher = shutil.copytree(builders.MODEL, tmp_path / "teacher")
    config = builders.config("algorithm=distill", f"model.reference={teacher}")
    Run.open(config, "taught", tmp_path).close()
    store = RunStore(tmp_path / "taught")
    check_model(store, config, replays=True)
    (teacher / "notes.txt").write_text("another one")
    check_model(store, config)  # a checkpoint is exported without its teacher
    with pytest.raises(
        StoreError, match=r"Run 'taught': model\.reference=.* changed since it was started: put it back"
    ):
        check_model(store, config, replays=True)


def test_a_level_of_which_every_problem_is_skipped_is_over(tmp_path: Path, levels: list[str]) -> None:
    """The run died, and every resume of it: its window was never full, and nothing was left to draw."""
    run, _ = Run.check(builders.config(*levels), "levels", tmp_path)
    names = run.train_set.frame["id"]
    for name in names[names.str.startswith("0/")]:
        assert run.next_prompts(run.state, 1, 1)[0].startswith("0/")
        run.state.difficulty.skip(name)
    assert set(run.next_prompts(run.state, 5, 1)) == set(names[5:])
    assert run.restored(run.state.state_dict()).metrics()["curriculum/level"] == 1.0
    for name in names[5:]:
        run.state.difficulty.skip(name)
    with pytest.raises(DataError, match="nothing is left to train on"):
        run.next_prompts(run.state, 1, 1)


@pytest.mark.parametrize("held_out", [4, 5])
def test_a_level_with_too_few_problems_is_refused(tmp_path: Path, levels: list[str], held_out: int) -> None:
    """The run died, and every resume of it, when it got to a level whose prompts were all held out."""
    shared = (tmp_path / "hard.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "shared.jsonl").write_text("".join(shared[:held_out]), encoding="utf-8")
    config = builders.config(*levels, f"data.validation={tmp_path / 'shared.jsonl'}", "data.drop_shared=true")
    with pytest.raises(DataError, match=rf"hard\.jsonl: {5 - held_out} problems are fewer than rollout\.prompts=2"):
        Run.check(config, "levels", tmp_path)


def test_a_metric_that_is_not_finite_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A commit holds none: one from a reward function or controller ended the run, and every resume of it."""
    run = Run.open(builders.config(), "run", tmp_path)
    metrics = {"a": 1.0, "nan": float("nan"), "inf": float("inf")}
    run.step(0).commit({}, metrics)
    assert run.store.read_commit(0).metrics == {"a": 1.0}
    assert run.store.committed_steps() == [0]
    assert "step 0: metrics that are not finite are left out: inf, nan" in caplog.text


def test_of_two_starts_the_second_is_checked_against_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its settings were written over the first one's."""
    first, second = (builders.config(f"learner.lr={lr}") for lr in ("1e-4", "2e-4"))
    check = Run.check

    def check_slowly(*given: Any) -> Any:
        checked = check(*given)
        monkeypatch.setattr(Run, "check", check)
        Run.open(first, "run", tmp_path).close()
        return checked

    monkeypatch.setattr(Run, "check", check_slowly)
    with pytest.raises(StoreError, match=r"was started with other settings, .*\n  learner\.lr: 0\.0001 → 0\.0002"):
        Run.open(second, "run", tmp_path)
    assert read_config(RunStore(tmp_path / "run")).learner.lr == 1e-4
