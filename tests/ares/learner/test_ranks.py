"""Learner ranks over gloo, with whole and sharded weights, make the update that one rank makes."""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
import torch
from ray.exceptions import RayActorError

from algorithms.protocol import DataProto
from ares.cluster.actors import LearnerActor
from ares.cluster.connection import connect
from ares.cluster.groups import LearnerGroup, Patience
from ares.learner import UpdateResult, checkpoints
from ares.learner.learner import Learner
from ares.store.store import Ref, RunStore
from tests.ares.builders import PAD, config, rows, shaped, to_batch
from tests.ares.learner_builders import save_in_parts

ROUNDING = 1e-4
"""AdamW scales any gradient to a whole step, so rounding in a gradient near zero changes much of that step."""
OVERRIDES = ["rollout.prompts=4", "learner.global_batch_prompts=2", "learner.micro_batch_tokens=60", "learner.lr=1e-3"]
LENGTHS = [[1, 8, 3, 5], [4, 2, 8, 6], [7, 7, 1, 8], [2, 2, 3, 1]]


class Pair:
    """Two ranks, a learner in this process, and a batch for both."""

    def __init__(self, directory: Path, is_sharded: bool) -> None:
        self.store, self.is_sharded = RunStore(directory), is_sharded
        self.alone = Learner(config(*OVERRIDES))
        sampled = rows([[1, 0, 1, 0], [0, 0, 1, 0], [1, 1, 0, 1], [0, 1, 0, 0]], LENGTHS)
        self.sampled = to_batch(sampled, PAD)
        self.batch = shaped(self.alone, sampled)
        settings = config(*OVERRIDES, "learner.ranks=2", f"learner.sharded={is_sharded}").model_dump(mode="json")
        actor = ray.remote(LearnerActor).options(num_cpus=1)
        self.group = LearnerGroup([actor.remote(settings, str(directory), rank) for rank in range(2)], Patience())
        self.start: Ref = self.call("save", "start")

    def call(self, method: str, *arguments: Any) -> Any:
        return asyncio.run(self.group.call(method, *arguments))

    def update(self, batch: Ref) -> UpdateResult:
        return asyncio.run(self.group.stream(lambda done: None, "update", batch, None))[-1]

    def written(self, batch: DataProto, name: str) -> Ref:
        return self.store.write_file(name, batch.save)

    def weights(self) -> list[dict[str, np.ndarray]]:
        """What the engines get; where weights are whole, also those that the other rank has."""
        given = ray.get([actor.weights.remote() for actor in self.group.actors])
        assert given[1] == {}
        if self.is_sharded:
            return given[:1]
        second = self.group.actors[1].__ray_call__.remote(
            lambda actor: {name: each.detach().numpy() for name, each in actor.learner.policy.model.named_parameters()}
        )
        return [given[0], ray.get(second)]


@pytest.fixture(scope="module")
def one_ray() -> Iterator[None]:
    connect(cpus=2)
    yield
    ray.shutdown()


@pytest.fixture(scope="module", params=["whole", pytest.param("sharded", marks=pytest.mark.slow)])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, one_ray: None) -> Iterator[Pair]:
    ranks = Pair(tmp_path_factory.mktemp("ranks"), request.param == "sharded")
    yield ranks
    ranks.group.kill()


def test_the_same_weights_make_the_same_checkpoint(pair: Pair) -> None:
    one, other = (pair.call("save", f"written/{number}") for number in range(2))
    assert one.sha256 == other.sha256
    tensors = checkpoints.read(pair.store.directory / "written" / "0", checkpoints.POLICY)
    for name, value in pair.weights()[0].items():
        assert np.array_equal(tensors[name].numpy(), value)


def test_two_ranks_see_what_one_sees(pair: Pair) -> None:
    whole = DataProto.load(pair.store.path(pair.call("experience", pair.written(pair.sampled, "in"), "out")))
    for name in ("old_log_probs", "entropies", "ref_log_probs"):
        torch.testing.assert_close(whole.tensor(name), pair.batch.tensor(name), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("count", [16, 1])
def test_one_rank_and_two_give_the_same_update_and_these_again_the_same_bits(pair: Pair, count: int) -> None:
    """Two optimiser steps of unequal rows; with a single row one of the ranks has nothing to do."""
    part = pair.batch[:count]
    pair.alone.load(pair.store.path(pair.start))
    expected = pair.alone.update(part)
    found = []
    for _ in range(2):
        pair.call("load", pair.start)
        result = pair.update(pair.written(part, f"part-{count}"))
        assert result.metrics == pytest.approx(expected.metrics, rel=1e-4, abs=1e-6)
        found += pair.weights()
    for name, weight in pair.alone.weights().items():
        assert all(np.array_equal(found[0][name], other[name]) for other in found[1:])
        np.testing.assert_allclose(found[0][name], weight.numpy(), atol=ROUNDING)


def test_a_checkpoint_of_one_rank_or_of_an_earlier_versions_goes_on_with_two(pair: Pair) -> None:
    pair.alone.load(pair.store.path(pair.start))
    pair.alone.update(pair.batch)
    save = partial(save_in_parts, pair.alone) if pair.is_sharded else pair.alone.save
    pair.call("load", pair.store.write_folder("of-one", save))
    pair.alone.update(pair.batch)
    pair.update(pair.written(pair.batch, "once-more"))
    for name, weight in pair.alone.weights().items():
        np.testing.assert_allclose(pair.weights()[0][name], weight.numpy(), atol=ROUNDING)


def test_a_checkpoint_of_two_ranks_goes_on_with_one(pair: Pair) -> None:
    given = pair.written(pair.batch, "again")
    pair.call("load", pair.start)
    pair.update(given)
    folder = pair.store.path(pair.call("save", "second"))
    read = checkpoints.read(folder, "policy")  # as `ares export` reads it
    assert all(np.array_equal(read[name].numpy(), weight) for name, weight in pair.weights()[0].items())
    pair.alone.load(folder)
    pair.alone.update(pair.batch)
    pair.update(given)
    for name, weight in pair.alone.weights().items():
        np.testing.assert_allclose(pair.weights()[0][name], weight.numpy(), atol=ROUNDING)


def test_the_death_of_one_rank_is_the_death_of_an_actor_and_ends_the_wait_of_the_other(pair: Pair) -> None:
    """The survivor's own error is a lost connection, on which the cluster would not rebuild."""
    given = pair.written(pair.batch, "last")
    ray.kill(pair.group.actors[1])
    with pytest.raises(RayActorError):
        pair.update(given)
