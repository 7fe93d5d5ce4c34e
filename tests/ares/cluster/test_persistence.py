"""Without Ray: which errors of actors are retried, and what a run asks of a cluster before its actors start (room on
CPUs, GPUs that it does not give up later). With real actors: test_cluster.py."""

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest
import torch
from ray.exceptions import ObjectLostError, OutOfMemoryError, RayActorError, RayTaskError

from ares.cluster.actors import EngineActor
from ares.cluster.cluster import ATTEMPTS, Cluster
from ares.cluster.failures import WorkerError
from ares.cluster.groups import ActorHung, Patience, _all
from ares.config import ConfigError
from ares.store.store import RunStore
from tests.ares.builders import config

WEIGHTS_LOST = ObjectLostError("00", None, "")
HANDED_OVER_BY_A_DEAD_ONE = RayTaskError("load_weights", "trace", RayActorError()).as_instanceof_cause()


def attempts(directory: Path, *errors: Exception) -> int:
    """How often work is tried that fails with these errors in turn."""
    tried = 0

    async def work() -> None:
        nonlocal tried
        tried += 1
        if tried <= len(errors):
            raise errors[tried - 1]

    asyncio.run(Cluster(config(), RunStore(directory))._persistently("engine", work))
    return tried


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RayActorError(), "engine died"),
        (OutOfMemoryError("1 worker was killed"), "engine died"),
        (WEIGHTS_LOST, "learner died"),
        (HANDED_OVER_BY_A_DEAD_ONE, "engine died"),
        (ActorHung("no answer to `update` within 600 s", "00"), "engine hung"),
    ],
)
def test_work_that_a_death_interrupted_is_done_again(tmp_path: Path, error: Exception, said: str) -> None:
    assert attempts(tmp_path, *[error] * (ATTEMPTS - 1)) == ATTEMPTS
    with pytest.raises(WorkerError, match=f"The {said} {ATTEMPTS} times"):
        attempts(tmp_path, *[error] * ATTEMPTS)


@pytest.mark.parametrize("death", [RayActorError(), OutOfMemoryError("1 worker was killed")])
def test_the_death_of_a_rank_is_told_and_not_what_all_others_say_of_it(death: Exception) -> None:
    async def fail(error: Exception) -> None:
        raise error

    async def ranks() -> None:
        lost = [RayTaskError("update", "trace", RuntimeError("connection lost")) for _ in range(30)]
        await _all([fail(error) for error in [*lost, death]])

    with pytest.raises(type(death)):
        asyncio.run(ranks())


def test_a_machine_that_dies_with_learner_and_engine_is_one_death_of_each(tmp_path: Path) -> None:
    assert attempts(tmp_path, RayActorError(), WEIGHTS_LOST, RayActorError(), WEIGHTS_LOST) == 5


async def called(method: str, *arguments: Any) -> None:
    """A stand-in for an engine's calls."""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Its learner is the actor 0, its engine 1; those that replace them have the next numbers."""
    numbers = count()

    def actor(*settings: Any) -> Any:
        name = str(next(numbers))
        ready = SimpleNamespace(remote=lambda: None)
        return SimpleNamespace(_actor_id=SimpleNamespace(hex=lambda: name), __ray_ready__=ready)

    monkeypatch.setattr("ray.remote", lambda kind: SimpleNamespace(options=lambda **how: SimpleNamespace(remote=actor)))
    monkeypatch.setattr(Cluster, "_start", lambda cluster: None)
    cluster = Cluster(config(), RunStore(tmp_path))
    cluster.warm_up()
    return cluster


def test_of_two_who_meet_a_death_the_second_ends_nothing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The learner dies while it trains, and while the engine waits for its weights (rollout.max_staleness)."""
    killed: list[str] = []
    monkeypatch.setattr("ray.kill", lambda actor: killed.append(str(actor._actor_id.hex())))

    async def both() -> None:
        met, replaced = RayActorError("0"), asyncio.Event()
        errors = {"learner": [met], "engine": [RayTaskError("load_weights", "trace", met).as_instanceof_cause()]}

        async def train() -> None:
            if errors["learner"]:
                raise errors["learner"].pop()
            cluster.warm_up()
            replaced.set()

        async def sample() -> None:
            await replaced.wait()
            if errors["engine"]:
                raise errors["engine"].pop()

        await asyncio.gather(cluster._persistently("learner", train), cluster._persistently("engine", sample))

    asyncio.run(both())
    assert killed == ["0"]


def test_who_is_let_go_meanwhile_is_met_as_dead(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other side may kill everything while a call waits for its actor; the next call into it raises that."""
    monkeypatch.setattr("ray.kill", lambda actor: None)
    engine, learner = cluster._engine, cluster._learner
    assert engine is not None
    assert learner is not None

    async def let_go(method: Any, *asked: Any) -> Any:
        cluster.shut_down()
        return [] if method == "notes" else 0

    async def weights(version: int, averaged: bool) -> None: ...

    monkeypatch.setattr(engine, "call", let_go)
    monkeypatch.setattr(learner, "call", let_go)
    monkeypatch.setattr(cluster, "_weights_of", weights)
    assert asyncio.run(cluster._learner_at(0)) is learner
    cluster._engine = engine
    assert asyncio.run(cluster._engine_at(0)) is engine


def start_stand_ins(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, note: Callable[[str], None]) -> None:
    """The cluster has no actors, and starts idle ones; each start is noted, and each use of the learner."""

    def starts(role: str) -> Any:
        async def started() -> None:
            await asyncio.sleep(0.01)
            note(f"{role} is up")

        def start(cluster: Cluster) -> Any:
            note(f"{role} starts")
            return SimpleNamespace(started=started, call=called, kill=lambda: None)

        return start

    async def weights(cluster: Cluster, version: int, averaged: bool) -> None:
        async with cluster._learning:
            note("the learner works")

    cluster._learner = cluster._engine = None
    monkeypatch.setattr(Cluster, "_start_learner", starts("learner"))
    monkeypatch.setattr(Cluster, "_start_engine", starts("engine"))
    monkeypatch.setattr(Cluster, "_weights_of", weights)


def test_on_a_shared_gpu_engines_start_once_the_learner_has(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM subtracts from its cache what another process takes of the GPU's memory meanwhile (vllm.utils.mem_utils)."""
    seen: list[str] = []

    async def both() -> None:
        async def work() -> None:
            await asyncio.sleep(0)
            async with cluster._learning:
                seen.append("other work")

        await asyncio.gather(cluster._engine_at(0), work())

    start_stand_ins(cluster, monkeypatch, seen.append)
    cluster._placement = object()
    cluster.warm_up()
    asyncio.run(both())
    assert seen[:4] == ["learner starts", "learner is up", "engine starts", "engine is up"]
    assert sorted(seen[4:]) == ["other work", "the learner works"]


def test_engines_that_wait_for_a_dead_learner_start_on_gpus(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the placement group they would have started on no GPU, which ends the run or samples on the CPU."""
    placed: dict[str, Any] = {}

    def start(cluster: Cluster) -> None:
        cluster._placement = cluster._placement or object()

    async def both() -> None:
        async with cluster._learning:
            sampling = asyncio.create_task(cluster._engine_at(0))
            await asyncio.sleep(0.01)
            cluster.shut_down()  # what follows a death on shared GPUs
        await sampling

    start_stand_ins(cluster, monkeypatch, lambda what: placed.update({what: cluster._placement}))
    monkeypatch.setattr("ray.util.remove_placement_group", lambda group: None)
    monkeypatch.setattr(Cluster, "_start", start)
    asyncio.run(both())
    assert placed["learner starts"] is placed["engine starts"] is cluster._placement is not None


def sharing_a_gpu(cluster: Cluster) -> list[str]:
    """Give a cluster an idle learner and an engine that share a GPU; returns the calls of the engine, as they come."""
    called: list[str] = []

    def recorded(name: str, answer: Any) -> Any:
        return SimpleNamespace(remote=lambda *given: (called.append(name), answer())[1])

    async def done() -> None:
        await asyncio.sleep(0.02)

    async def rows() -> Any:
        yield asyncio.sleep(0, pd.DataFrame({"token_ids": [0]}))

    engine, learner = cluster._engine, SimpleNamespace(weights=lambda: None)
    engine._starting = {}
    vars(engine.actors[0]).update(
        load_weights=recorded("load", done), sleep=recorded("sleep", done), generate=recorded("generate", rows)
    )
    cluster._placement, cluster._learner, cluster._learner_version = object(), learner, 1
    return called


async def turn_of_the_learner(cluster: Cluster) -> None:
    async with cluster._learning:
        await cluster._engine_sleeps()


def test_the_learners_turn_does_not_come_between_an_engines_weights_and_its_sampling(cluster: Cluster) -> None:
    """It puts engines that share its GPU to sleep (rollout.max_staleness): one that had just loaded weights had lost
    them when it was to sample, which ended the run."""
    called, asked = sharing_a_gpu(cluster), cast("Any", (1, [None], None))

    async def both() -> None:
        sampling = asyncio.create_task(cluster.sample(*asked))
        await asyncio.sleep(0.01)
        await asyncio.gather(sampling, turn_of_the_learner(cluster))

    asyncio.run(both())
    assert called == ["load", "generate", "sleep"]


@pytest.mark.parametrize(
    ("settings", "slept"), [([], []), (["learner.sharded=true"], ["sleep"]), (["model.lora.rank=4"], ["sleep"])]
)
def test_an_engine_sleeps_while_weights_are_gathered(settings: list[str], slept: list[str], cluster: Cluster) -> None:
    called = sharing_a_gpu(cluster)
    cluster.config = config(*settings)

    async def call(method: str, target: str) -> None:
        called.append(method)

    cluster._learner.call = call  # type: ignore[union-attr, method-assign]
    asyncio.run(cluster.save(1, "target"))
    assert called == [*slept, "save"]


@pytest.mark.parametrize("cancelled", [False, True])
def test_an_engine_that_is_being_put_to_sleep_is_given_its_weights_again(cancelled: bool, cluster: Cluster) -> None:
    """Until it slept, or for good if nobody waited for that, it was taken to have those it had before."""
    called, asked = sharing_a_gpu(cluster), cast("Any", (1, [None], None))
    cluster._engine_holds = (1, False)

    async def both() -> None:
        learning = asyncio.create_task(turn_of_the_learner(cluster))
        await asyncio.sleep(0.01)
        if cancelled:
            learning.cancel()
        await cluster.sample(*asked)

    asyncio.run(both())
    assert called == ["sleep", "load", "generate"]


def test_no_learner_is_taken_back_for_weights_that_are_held(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It loaded a checkpoint and replayed, to hand over what main memory has (max_staleness)."""
    sharing_a_gpu(cluster)
    cluster._weights, cluster._learner_version = {1: "held"}, 2
    given: list[Any] = []

    async def load(method: str, version: int, weights: Any) -> None:
        given.append(weights)

    monkeypatch.setattr(cluster._engine, "call", load)
    monkeypatch.setattr(Cluster, "_rewind", lambda *given: pytest.fail("the learner went back"))
    asyncio.run(cluster._engine_at(1))
    assert (given, cluster._learner_version) == (["held"], 2)


class Trained:
    """A learner whose first update outlasts the wait for it."""

    def __init__(self) -> None:
        self.version, self.batches = 0, list[Any]()

    async def call(self, method: str, *arguments: Any) -> Any:
        return {"version": self.version, "notes": []}[method]

    async def stream(self, told: Any, method: str, batch: Any, *how: Any) -> list[Any]:
        self.version += 1
        self.batches.append(batch)
        await asyncio.sleep(60 if len(self.batches) == 1 else 0)
        return []


@pytest.mark.parametrize("replayed", [False, True])
def test_an_abandoned_update_is_made_once(replayed: bool, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """An actor completes a call whose caller was cancelled; it changes weights that an engine may share."""
    learner: Any = Trained()
    cluster._learner, cluster._learner_version, cluster._engine_holds = learner, 0, (0, False)
    monkeypatch.setattr(Cluster, "_update_inputs", lambda cluster, step: (step, None))

    async def abandoned() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(cluster._learner_at(1) if replayed else cluster.update(1), 0.05)
        assert cluster._engine_holds is None
        assert await cluster._learner_at(2) is learner

    asyncio.run(abandoned())
    assert learner.batches == [1, 2]


def test_weights_that_may_have_arrived_are_loaded_again(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[int] = []

    async def load(method: str, version: int, weights: Any) -> None:
        loaded.append(version)
        await asyncio.sleep(60 if len(loaded) == 1 else 0)

    async def weights(version: int, averaged: bool) -> None: ...

    engine: Any = SimpleNamespace(call=load)
    cluster._engine, cluster._engine_holds = engine, (1, False)
    monkeypatch.setattr(cluster, "_weights_of", weights)

    async def abandoned() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(cluster._engine_at(2), 0.05)
        await cluster._engine_at(1)

    asyncio.run(abandoned())
    assert loaded == [2, 1]


def test_a_death_is_counted_for_whose_it_was(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.kill", lambda actor: None)

    async def work() -> None:
        raise RayActorError("0")

    with pytest.raises(WorkerError, match="The learner died 3 times"):
        asyncio.run(asyncio.wait_for(cluster._persistently("engine", work), 60))


@pytest.mark.parametrize("unwritable", [False, True])
def test_work_that_raises_is_not_done_again_but_told_without_a_trace_too(unwritable: bool, tmp_path: Path) -> None:
    if unwritable:
        (tmp_path / "errors").write_text("no folder")
    where = "cannot be writt" if unwritable else str(tmp_path / "errors" / "engine.txt")
    with pytest.raises(WorkerError, match=rf"^The engine failed: ValueError: no such layer \(its trace:? {where}"):
        attempts(tmp_path, RayTaskError("f", "f()\nValueError: no such layer\nHint", ValueError("no such layer\nHint")))


def test_parts_are_waited_for_one_by_one_and_a_limit_that_was_met_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.cluster.groups.SILENCE", 0.4)
    patience = Patience()

    async def answered(parts: int, then: float) -> None:
        async with patience.waiting("generate", "ab") as came:
            for _ in range(parts):
                await asyncio.sleep(0.1)
                came()
            await asyncio.sleep(then)

    with pytest.raises(ActorHung, match="no answer to `generate` within 0 s") as hung:
        asyncio.run(answered(parts=8, then=3.0))
    assert hung.value.actor_id == "ab"
    asyncio.run(answered(parts=0, then=0.6))


@pytest.mark.parametrize(("placement", "expected"), [("colocate", ["slept", "freed"]), ("split", ["slept"])])
def test_an_engine_frees_torchs_cache(placement: str, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The learner does so itself, at the end of every call (tests/gpu/on_separate_device.py)."""
    seen: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: seen.append("freed"))
    actor: Any = object.__new__(EngineActor)  # its constructor would load a model
    actor.config = config(f"rollout.placement={placement}")
    actor.engine = SimpleNamespace(sleep=lambda: seen.append("slept"))
    actor.sleep()
    assert seen == expected


# ---- room and GPUs, before actors start ------------------------------------------------------------------------------


def test_a_ray_cluster_without_room_is_waited_for_also_when_its_gpus_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be about to grow, or another run about to end."""
    asked: list[list[dict[str, float]]] = []
    resources, joined = {"CPU": 1.0, "GPU": 2.0}, iter([True, False])
    monkeypatch.setattr("ray.is_initialized", lambda: next(joined))
    monkeypatch.setattr("ares.cluster.cluster.connect", lambda cpus: None)
    monkeypatch.setattr("ray.nodes", lambda: [{"Alive": True, "Resources": {"GPU": 2.0}}])
    for name in ("available_resources", "cluster_resources"):
        monkeypatch.setattr(f"ray.{name}", lambda: resources)
    monkeypatch.setattr("ray.util.placement_group", lambda bundles, strategy: asked.append(bundles) or object())
    monkeypatch.setattr("ray.util.remove_placement_group", lambda group: None)
    cluster = Cluster(config("learner.ranks=2"), RunStore(tmp_path / "run"))
    for _ in range(2):
        cluster._start()
        cluster.shut_down()
        resources.pop("GPU", None)
    assert [[bundle["GPU"] for bundle in bundles] for bundles in asked] == [[1, 1], [1, 1]]
    said = "the run needs 3 CPUs and 2 GPUs, of which 1 and 0 are free on the Ray cluster: it waits"
    assert caplog.messages == [said]


def test_gpus_that_one_engine_needs_are_those_of_one_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: True)
    monkeypatch.setattr("ares.cluster.cluster.connect", lambda cpus: None)
    monkeypatch.setattr("ray.nodes", lambda: [{"Alive": True, "Resources": {"GPU": 2.0}}] * 3)
    for name in ("available_resources", "cluster_resources"):
        monkeypatch.setattr(f"ray.{name}", lambda: {"CPU": 8.0, "GPU": 6.0})
    settings = ["rollout.engine=vllm", "rollout.placement=split", "rollout.vllm.tensor_parallel=4"]
    with pytest.raises(ConfigError, match="tensor_parallel=4: no machine of the Ray cluster has more than 2 GPUs"):
        Cluster(config(*settings), RunStore(tmp_path / "run"))._start()
