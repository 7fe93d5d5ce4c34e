"""Where Ray places learner ranks and engines: on which GPUs, with how many threads."""

from typing import Any

from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from ares.config import Config


def bundles(config: Config) -> list[dict[str, float]]:
    """Resources of a placement group: a bundle for each GPU that is shared, or each actor with GPUs of its own."""
    learner, rollout = config.learner, config.rollout
    if rollout.placement == "colocate":
        return [
            {"CPU": learner.threads * (gpu < learner.ranks) + rollout.threads * (gpu < rollout.engines), "GPU": 1}
            for gpu in range(max(learner.ranks, rollout.engines))
        ]
    each = rollout.vllm.tensor_parallel if rollout.engine == "vllm" else 1
    of_rank: dict[str, float] = {"CPU": learner.threads, "GPU": 1}
    of_engine: dict[str, float] = {"CPU": rollout.threads, "GPU": each}
    return [of_rank] * learner.ranks + [of_engine] * rollout.engines


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
