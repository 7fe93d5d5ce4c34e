"""A run's relatives, from whichever of them one asks; what is damaged or deleted is said and hides nobody."""

import shutil
from pathlib import Path

import pytest

from ares.history import Member, family
from ares.runs import Run, fork
from ares.store import RunStore, StoreError
from tests.ares.builders import config
from tests.ares.store_builders import commit
from tests.short_runs import told


@pytest.fixture(scope="module")
def relatives(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """uninterrupted ─┬─ slower (after step 1) ── slower-still (after step 1)
    └─ harder (after phase score of step 3)"""
    folder = tmp_path_factory.mktemp("relatives")
    shutil.copytree(runs / "uninterrupted", folder / "uninterrupted")
    for of, name, *place in (
        ("uninterrupted", "harder", "--at", "3", "--phase", "score", "algorithm.kl.coef=0.5"),
        ("uninterrupted", "slower", "--at", "1", "learner.lr=1e-4"),
        ("slower", "slower-still", "--at", "1", "learner.lr=1e-5"),
    ):
        made = told(folder, "fork", of, *place, "--run", name)
        assert made.returncode == 0, made.stderr
    return folder


def names(member: Member) -> list[object]:
    return [member.name, *([names(child) for child in member.children])]


@pytest.mark.parametrize("asked", ["uninterrupted", "harder", "slower", "slower-still"])
def test_every_relative_is_found_from_every_other_one(asked: str, relatives: Path) -> None:
    assert names(family(asked, relatives)) == ["uninterrupted", ["slower", ["slower-still"]], ["harder"]]


def test_it_says_who_changed_what_and_how_each_ended(relatives: Path) -> None:
    oldest = family("slower", relatives)
    assert oldest.ended.startswith("finished at step 4, held-out 0.")
    slower, harder = oldest.children
    assert slower.settings == ["learner.lr: 0.0004 → 0.0001"]
    assert slower.ended.startswith("stopped at step 1 of 4, held-out ")
    assert slower.ended.endswith(" at step 0")
    assert slower.children[0].settings == ["learner.lr: 0.0001 → 1e-05"]
    assert (harder.fork.at, harder.fork.phase, harder.fork.version) == (3, "score", 2) if harder.fork else False
    shown = told(relatives, "history", "slower").stdout
    assert "└── harder  stopped at step 2 of 4" in shown
    assert "forked after phase score of step 3" in shown
    assert "algorithm.kl.coef: 0.01 → 0.5" in shown


def test_a_deleted_or_damaged_relative_is_named_and_the_others_are_told(relatives: Path, tmp_path: Path) -> None:
    relatives = shutil.copytree(relatives, tmp_path / "copied")
    shutil.rmtree(relatives / "uninterrupted")
    (relatives / "slower-still" / "run.json").write_text("{")
    oldest = family("slower", relatives)
    assert names(oldest) == ["uninterrupted", ["slower"], ["harder"]]
    assert oldest.ended.startswith("deleted")
    with pytest.raises(StoreError, match="There is no run 'uninterrupted'"):
        family("uninterrupted", relatives)


def test_a_relative_of_another_version_is_named_and_the_others_are_told(relatives: Path, tmp_path: Path) -> None:
    relatives = shutil.copytree(relatives, tmp_path / "copied")
    store = RunStore(relatives / "slower")
    described = store.read_run()
    described["config"]["learner"]["forgotten"] = 3
    store.write_run(described)
    oldest = family("harder", relatives)
    assert names(oldest) == ["uninterrupted", ["slower", ["slower-still"]], ["harder"]]
    assert "cannot be read" in oldest.children[0].ended
    assert "learner.forgotten is unknown" in oldest.children[0].ended
    asked = told(relatives, "replay", "slower", "--step", "1")
    assert asked.returncode == 2
    assert "learner.forgotten is unknown" in asked.stderr
    assert "`ares browse` still shows it" in asked.stderr


def test_a_name_that_was_given_twice_makes_no_circle(relatives: Path, tmp_path: Path) -> None:
    relatives = shutil.copytree(relatives, tmp_path / "copied")
    shutil.rmtree(relatives / "uninterrupted")
    again = told(relatives, "fork", "slower", "--at", "1", "learner.lr=1e-5", "--run", "uninterrupted")
    assert again.returncode == 0, again.stderr
    found = names(family("uninterrupted", relatives))
    assert found == ["slower", ["slower-still"], ["uninterrupted", ["harder"]]]  # harder's parent had that name


def test_resumes_are_noted_but_not_a_look_at_a_finished_run_nor_a_forks_first_start(tmp_path: Path) -> None:
    def opened(name: str, *settings: str) -> list[str]:
        Run.open(config("train.steps=2", "data.limit=4", *settings), name, tmp_path).close()
        member = family(name, tmp_path)
        return (member if member.name == name else member.children[0]).events

    run, before = Run.open(config("train.steps=2", "data.limit=4"), "first", tmp_path), None
    for step in range(3):
        state = run.state.state_dict() | {"step": step}
        batch = run.store.write_json(f"steps/{step:06d}/batch.safetensors", {})
        before = commit(step, before, state=state, artifacts={"batch": batch})
        run.store.write_commit(before)
        if step == 1:
            (event,) = opened("first")
            assert event.startswith("resumed after step 1, 20")
    assert opened("first") == [event]
    fork("first", 0, None, ["learner.lr=1e-3"], "second", tmp_path)
    assert opened("second", "learner.lr=1e-3") == []
