"""A phase's key, its kept result, and when it runs again."""

import asyncio
from pathlib import Path

import pytest

from ares.grading import RewardError
from ares.runs.run import Run
from ares.runs.step import Step, owned_key
from ares.store import Kept, Ref
from tasks.phase import Phase
from tasks.sampling import Draw, Rows, rollout, score
from tasks.training import checkpoint, experience, update
from tests.ares.builders import config
from tests.ares.store_builders import chain


def ref(name: str) -> Ref:
    return Ref(path=name, sha256=name, bytes=1)


def draw(**fields: object) -> Draw:
    body = {"version": 0, "purpose": "rollout", "shard": 0, "first_slot": 0, "ids": ["a"], "n": 2, "temperature": 1.0}
    return Draw.model_validate(body | fields)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.open(config(), "here", tmp_path)


def test_a_key_is_the_same_for_the_same_run_step_phase_and_inputs(run: Run, tmp_path: Path) -> None:
    again = Run.open(config(), "elsewhere", tmp_path)
    assert rollout.key(run.step(3), draw()) == rollout.key(again.step(3), draw())
    # Fields that change no result change no key.
    longer = Run.open(config("train.steps=99"), "longer", tmp_path)
    assert rollout.key(run.step(3), draw()) == rollout.key(longer.step(3), draw())
    forked = Run.open(config("learner.lr=0.5"), "forked", tmp_path)  # takes over what was kept
    assert rollout.key(forked.step(3), draw()) == owned_key(forked.identity, rollout.key(run.step(3), draw()))


def test_a_key_changes_with_settings_step_phase_and_every_input(run: Run, tmp_path: Path) -> None:
    step = run.step(3)
    keys = [
        rollout.key(step, draw()),
        score.key(step, draw()),
        rollout.key(run.step(4), draw()),
        rollout.key(Run.open(config("rollout.temperature=0.9"), "warm", tmp_path).step(3), draw()),
        *(
            rollout.key(step, draw(**{name: value}))
            for name, value in {
                "version": 1, "purpose": "bootstrap", "shard": 1, "first_slot": 1, "ids": ["a", "b"], "n": 3,
                "temperature": 0.5, "greedy": True,
            }.items()
        ),
        score.key(step, draw(), Rows(rows=ref("a"))),
        score.key(step, draw(), Rows(rows=ref("b"))),
        experience.key(step, [ref("a")], [], "x"),
        experience.key(step, [ref("a")], [1], "x"),
        update.key(step, ref("a")),
        checkpoint.key(step),
    ]  # fmt: skip
    assert len(set(keys)) == len(keys)


def test_phases_that_run_at_the_same_time_take_the_seconds_of_the_clock(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turns of an evaluation took 71 s in a step of 11 s."""
    step = run.step(1)
    with monkeypatch.context() as patch:
        moments = iter([0.0, 5.0, 10.0, 12.0])
        patch.setattr("ares.runs.step.time.perf_counter", lambda: next(moments))
        with step.timed("turn"), step.timed("turn"):
            pass
        with step.timed("turn"):
            pass
    assert step.timings == {"timing_s/turn": 7.0}


def test_a_key_changes_with_what_made_the_weights(tmp_path: Path) -> None:
    """A step that was done again with another result had the kept rollouts, evaluation and checkpoint of later steps
    taken from the policy that it had replaced."""
    run = Run.open(config("rollout.max_staleness=1"), "made", tmp_path)
    zero, one = chain(run.store, 2)

    def keys() -> list[str]:
        updated = run.step(2)
        updated.batch = ref("batch")
        steps = [run.step(1), run.step(2), updated, run.step(3, ahead=True), run.step(4, ahead=True)]
        return [rollout.key(step, draw()) for step in steps]

    before = keys()
    assert before == keys()
    assert before[1] != before[2]
    run.store.write_commit(one.model_copy(update={"metrics": {"m": 0.25}}))
    assert [one == other for one, other in zip(before, keys(), strict=True)] == [True, False, False, False, True]
    run.store.write_commit(one.model_copy(update={"timings": {"t": 9.0}}))
    assert before == keys()
    assert zero.digest() == run.store.digest(0)
    assert run.store.digest(2) is None


class Counted:
    """A phase that counts its calls and writes a file."""

    def __init__(self) -> None:
        self.calls = 0

        async def work(step: Step) -> Rows:
            self.calls += 1
            return Rows(rows=step.run.store.write_json(step.path("rows.json"), []))

        self.phase = Phase("rollout", work)

    def __call__(self, step: Step) -> Rows:
        return asyncio.run(self.phase(step))


def test_a_kept_result_is_taken_by_every_process_that_comes_after(run: Run, tmp_path: Path) -> None:
    counted = Counted()
    first = counted(run.step(3))
    assert counted(run.step(3)) == counted(Run.open(config(), "here", tmp_path).step(3)) == first
    assert counted.calls == 1
    assert counted(run.step(4)) != first
    assert counted.calls == 2


@pytest.mark.parametrize("damage", [b"", b"[1]", None])
def test_a_phase_runs_again_when_a_file_of_its_result_is_damaged(damage: bytes | None, run: Run) -> None:
    counted = Counted()
    first = counted(run.step(3))
    file = run.store.directory / first.rows.path
    file.unlink()
    if damage is not None:
        file.write_bytes(damage)
    assert counted(run.step(3)) == first
    assert counted.calls == 2


def test_a_result_with_the_fields_of_another_version_is_not_taken(run: Run) -> None:
    counted, step = Counted(), run.step(3)
    step.memo.keep(Kept(counted.phase.key(step), "rollout", {"count": 3}))
    assert counted(step).rows.path.endswith("rows.json")
    assert counted.calls == 1


@pytest.mark.parametrize(("may_pass", "calls"), [(False, 1), (True, 3)])
def test_what_a_grader_would_raise_again_is_not_tried_again(
    run: Run, may_pass: bool, calls: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ares.runs.conductor.RETRY_SECONDS", 0.0)
    called = 0

    async def graded(step: Step) -> Rows:
        nonlocal called
        called += 1
        raise RewardError("own.py:3 in f: KeyError: 'solution'", may_pass)

    with pytest.raises(RewardError, match="KeyError: 'solution'"):
        asyncio.run(Phase("score", graded, retries=2)(run.step(49)))
    assert called == calls
    assert len([record for record in caplog.records if "failed and is tried again" in record.getMessage()]) == calls - 1
