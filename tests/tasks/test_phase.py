"""A phase's key, the files that its result names, and kept results as other versions of the code wrote them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from prefect import runtime, tags
from prefect.context import TagsContext
from pydantic import BaseModel

from ares.grading import RewardError
from ares.runs.run import Run, Step
from ares.store import Ref, sealed_text, unsealed_text
from tasks.phase import Phase, _refs
from tasks.sampling import Draw, Rows, rollout, score
from tasks.training import Samples, ShapedBatch, checkpoint, experience, update
from tests.ares.builders import config
from tests.ares.store_builders import chain


def ref(name: str) -> Ref:
    return Ref(path=name, sha256=name, bytes=1)


def draw(**fields: object) -> Draw:
    body = {"version": 0, "purpose": "rollout", "shard": 0, "first_slot": 0, "ids": ["a"], "n": 2, "temperature": 1.0}
    return Draw.model_validate(body | fields)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run.open(config(), "here", tmp_path_factory.mktemp("runs"))


def key(phase: Phase, step: Step, **arguments: object) -> str:
    assert phase.task.cache_key_fn is not None
    cache_key = phase.task.cache_key_fn(None, {"step": step} | arguments)
    assert isinstance(cache_key, str)
    return cache_key


def test_the_refs_of_a_result_are_found_wherever_they_stand() -> None:
    class Deep(BaseModel):
        shaped: ShapedBatch
        samples: list[Samples]
        nothing: Ref | None = None

    shaped = ShapedBatch(batch=ref("a"), samples=ref("b"), state=ref("c"), metrics={"x": 1.0})
    deep = Deep(shaped=shaped, samples=[Samples(rollouts=[ref("d")], scores=[ref("e"), ref("f")], slots=[1])])
    assert [ref.path for ref in _refs(deep)] == list("abcdef")
    assert list(_refs({"not": "a result"})) == []


def test_a_key_is_the_same_for_the_same_run_step_phase_and_inputs(run: Run, tmp_path: Path) -> None:
    again = Run.open(config(), "elsewhere", tmp_path)
    assert key(rollout, run.step(3), draw=draw()) == key(rollout, again.step(3), draw=draw())
    # Fields that change no result change no key.
    longer = Run.open(config("train.steps=99"), "longer", tmp_path)
    assert key(rollout, run.step(3), draw=draw()) == key(rollout, longer.step(3), draw=draw())


def test_a_key_changes_with_settings_step_phase_and_every_input(run: Run, tmp_path: Path) -> None:
    step = run.step(3)
    keys = [
        key(rollout, step, draw=draw()),
        key(score, step, draw=draw()),
        key(rollout, run.step(4), draw=draw()),
        key(rollout, Run.open(config("rollout.temperature=0.9"), "warm", tmp_path).step(3), draw=draw()),
        *(
            key(rollout, step, draw=draw(**{name: value}))
            for name, value in {
                "version": 1, "purpose": "bootstrap", "shard": 1, "first_slot": 1, "ids": ["a", "b"], "n": 3,
                "temperature": 0.5, "greedy": True,
            }.items()
        ),
        key(score, step, draw=draw(), sampled=Rows(rows=ref("a"))),
        key(score, step, draw=draw(), sampled=Rows(rows=ref("b"))),
        key(experience, step, samples=Samples(rollouts=[ref("a")], scores=[], slots=[]), folder="x"),
        key(experience, step, samples=Samples(rollouts=[ref("a")], scores=[], slots=[1]), folder="x"),
        key(update, step, batch=ref("a")),
        key(checkpoint, step),
    ]  # fmt: skip
    assert len(set(keys)) == len(keys)


def test_a_key_changes_with_what_made_the_weights(tmp_path: Path) -> None:
    """A step that was done again with another result had the kept rollouts, evaluation and checkpoint of later steps
    taken from the policy that it had replaced."""
    run = Run.open(config("rollout.max_staleness=1"), "made", tmp_path)
    zero, one = chain(run.store, 2)

    def keys() -> list[str]:
        updated = run.step(2)
        updated.batch = ref("batch")
        steps = [run.step(1), run.step(2), updated, run.step(3, ahead=True), run.step(4, ahead=True)]
        return [key(rollout, step, draw=draw()) for step in steps]

    before = keys()
    assert before == keys()
    assert before[1] != before[2]
    run.store.write_commit(one.model_copy(update={"metrics": {"m": 0.25}}))
    assert [one == other for one, other in zip(before, keys(), strict=True)] == [True, False, False, False, True]
    run.store.write_commit(one.model_copy(update={"timings": {"t": 9.0}}))
    assert before == keys()
    assert zero.digest() == run.store.digest(0)
    assert run.store.digest(2) is None


def test_a_key_names_step_and_phase_and_is_a_file_name(run: Run) -> None:
    cache_key = key(rollout, run.step(12), draw=draw(ids=["a/b", "…"]))
    assert cache_key.startswith("000012-rollout-")
    assert cache_key.replace("-", "").isalnum()


PREFECTS_OWN = {"type": "json"}
"""A serializer that looks for the class: results of runs from before results were read by their fields have it."""


@pytest.mark.usefixtures("prefect")
@pytest.mark.parametrize(
    ("number", "changed", "serializer", "calls"),
    [
        (40, {}, {}, 1),
        (41, {"__class__": "tasks.sampling.Drawn"}, {}, 1),  # a class that has another name by now
        (42, {"__class__": "tasks.sampling.Drawn"}, PREFECTS_OWN, 1),
        (43, {}, PREFECTS_OWN, 1),
        (46, {}, {"type": "json", "object_decoder": None}, 1),
        (44, {"data": {"count": 3}}, {}, 2),  # one that had other fields
        (45, {"__class__": "tasks.sampling.Drawn", "data": {"count": 3}}, PREFECTS_OWN, 2),
    ],
)
def test_a_kept_result_is_read_by_its_fields(
    run: Run, number: int, changed: dict[str, Any], serializer: dict[str, str | None], calls: int
) -> None:
    called = 0

    async def sampled(step: Step) -> Rows:
        nonlocal called
        called += 1
        return Rows(rows=step.run.store.write_json(step.path("rows.json"), []), tokens=7)

    step, phase = run.step(number), Phase("rollout", sampled, retries=0)
    first = asyncio.run(phase(step))
    (file,) = run.store.results_of(number)
    record = json.loads(file.read_text())
    kept = json.loads(unsealed_text(record["result"]))
    assert set(kept) == {"__class__", "data"}
    kept |= changed
    record["result"] = json.dumps(kept) if serializer else sealed_text(json.dumps(kept))
    record["metadata"]["serializer"] = serializer or record["metadata"]["serializer"]
    file.write_text(json.dumps(record))
    assert asyncio.run(phase(step)) == first
    assert called == calls


@pytest.mark.usefixtures("prefect")
def test_a_phase_is_not_tagged_as_its_flow_run_is(run: Run) -> None:
    """A tag of a task is a limit on how many run at once, for which Prefect asks the server before each."""
    seen_tags: list[list[str]] = []

    async def tagged(step: Step) -> Rows:
        seen_tags.append([*runtime.task_run.tags, *TagsContext.get().current_tags])
        return Rows(rows=step.run.store.write_json(step.path("tagged.json"), []), tokens=7)

    with tags("run:first"):
        asyncio.run(Phase("score", tagged, retries=0)(run.step(48)))
    assert seen_tags == [[]]


@pytest.mark.usefixtures("prefect")
def test_a_phase_that_is_tried_again_says_so(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    failures = [ValueError("the judge is down")]

    async def graded(step: Step) -> Rows:
        if failures:
            raise failures.pop()
        return Rows(rows=step.run.store.write_json(step.path("again.json"), []), tokens=7)

    phase = Phase("score", graded, retries=1)
    assert asyncio.run(phase(run.step(47))).tokens == 7
    told = [record.getMessage() for record in caplog.records if record.name == "tasks.phase"]
    assert len(told) == 1
    assert told[0].startswith("score failed and is tried again: ")
    assert "the judge is down" in told[0]


@pytest.mark.usefixtures("prefect")
@pytest.mark.parametrize(("may_pass", "calls"), [(False, 1), (True, 3)])
def test_what_a_grader_would_raise_again_is_not_tried_again(run: Run, may_pass: bool, calls: int) -> None:
    called = 0

    async def graded(step: Step) -> Rows:
        nonlocal called
        called += 1
        raise RewardError("own.py:3 in f: KeyError: 'solution'", may_pass)

    with pytest.raises(RewardError, match="KeyError: 'solution'"):
        asyncio.run(Phase("score", graded, retries=2)(run.step(49 + may_pass)))
    assert called == calls
