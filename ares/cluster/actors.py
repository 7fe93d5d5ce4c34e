"""The Ray actors: learner ranks and engines, each in a process of its own with its own thread count, and their place.

All their state can be rebuilt from the run directory (ares/workers). Not covered: what they do (ares/workers:
LearnerService, EngineService).
"""

import socket
from typing import Any

import ray
from ray.exceptions import ObjectLostError
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from ares.config import Config
from ares.learner import Ranks
from ares.store import RunStore, path_of
from ares.workers import EngineService, LearnerService, SharedWeights, bundles


class LearnerActor(LearnerService):
    """A rank of the learner. With several, it is made by `join`.

    run_directory: a path, or the URL that this machine has a copy of. writer: the process that holds the run.
    lends: engines use the weights as they lie in this process's memory.
    """

    def __init__(
        self, settings: dict[str, Any], run_directory: str, rank: int = 0, writer: str = "", lends: bool = False
    ) -> None:
        self.made_of = Config.model_validate(settings), RunStore(path_of(run_directory)), rank
        self._lends = lends
        config, store, _ = self.made_of
        store.act_for(writer)
        if config.learner.ranks == 1:
            super().__init__(config, store)

    def address(self) -> str:
        """Host and free port at which the ranks can form their process group."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            return f"{ray.util.get_node_ip_address()}:{probe.getsockname()[1]}"

    def join(self, address: str) -> None:
        """Join the other ranks and load the model."""
        config, store, rank = self.made_of
        super().__init__(config, store, Ranks.joined(rank, config.learner.ranks, address))

    def weights(self, averaged: bool = False) -> Any:
        """The policy's weights: where they lie if they are lent, else, as their average is, as arrays."""
        return (self._lends and not averaged and self.shared) or super().weights(averaged)


class EngineActor(EngineService):
    """An engine."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(Config.model_validate(settings))

    def load_weights(self, version: int, weights: Any) -> None:
        """Take over weights that lie in the learner's memory or in Ray's object store."""
        self.engine.borrows = isinstance(weights, SharedWeights)
        try:
            super().load_weights(version, weights.arrays() if self.engine.borrows else weights)
        except FileNotFoundError as error:
            raise ObjectLostError("", None, "the learner has died") from error


def actor_options(config: Config, role: str, number: int, group: Any) -> dict[str, Any]:
    """Ray options of learner rank or engine `number`; `group`: the placement group, None without GPUs."""
    threads = config.learner.threads if role == "learner" else config.rollout.threads
    if group is None:
        return {"num_cpus": threads, "num_gpus": 0}
    colocated = config.rollout.placement == "colocate"
    bundle = number if role == "learner" or colocated else config.learner.ranks + number
    gpus = 0.5 if colocated else bundles(config)[bundle]["GPU"]
    place = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=bundle)
    return {"num_cpus": threads, "num_gpus": gpus, "scheduling_strategy": place}
