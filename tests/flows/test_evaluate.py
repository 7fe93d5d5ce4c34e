"""The flow `ares-eval` with its engine in this process: what an interrupted one keeps, and reproducible samples."""

import asyncio
import functools
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from torch import Tensor
from transformers import AutoModelForCausalLM

from algorithms.protocol import DataProto
from ares.cluster.actors import EngineActor
from ares.engines.engine import Request, SamplingSettings
from ares.evaluation import Evaluation, EvaluationRequest
from flows.evaluate import evaluate
from tests import mlflow_database
from tests.ares.builders import MODEL, config

FEEDBACK = MODEL.parent / "code-feedback"
FILES = ("samples.parquet", "problems.parquet", "summary.json")


@functools.cache
def engine(model: Path) -> EngineActor:
    """A tiny model that samples in this process."""
    actor = EngineActor(config(f"model.path={model}").model_dump(mode="json"))
    weights = AutoModelForCausalLM.from_pretrained(model).named_parameters()
    actor.load_weights(0, {name: tensor.detach().numpy() for name, tensor in weights})
    return actor


class Here:
    """In place of the cluster: a tiny model, until the power fails."""

    answers_parts = False

    def __init__(self, calls: int, model: Path = MODEL) -> None:
        self.left, self.model = calls, model
        self.actor = engine(model)

    async def sample(
        self, version: int, requests: list[Request], settings: SamplingSettings, finished: Any, averaged: bool
    ) -> pd.DataFrame:
        if self.left == 0:
            raise RuntimeError("the power failed")
        self.left -= 1
        return pd.concat(list(self.actor.generate(requests, settings))).sort_index()

    async def log_probs(self, version: int, rows: DataProto, temperature: float) -> Tensor:
        return rows.tensor("engine_log_probs")

    def close(self) -> None:
        pass


def evaluated(runs: Path, calls: int, **settings: Any) -> dict[str, Any]:
    """An evaluation of 7 problems in shards of 3 that may call its engine this many times."""
    return evaluated_by(Here(calls), runs, profile="tiny-math", max_problems=7, of_shard=3, **settings)


def evaluated_by(workers: "Here", runs: Path, of_shard: int, **settings: Any) -> dict[str, Any]:
    request = EvaluationRequest(
        target=str(workers.model),
        overrides=[f"rollout.shard_prompts={of_shard}"],
        **settings,
    )
    mlflow_database.beside(runs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ARES_RUNS", str(runs))
        evaluation = Evaluation.open(request)
        evaluation.run.workers = workers  # type: ignore[assignment]
        return asyncio.run(evaluate(evaluation))


def folder_in(runs: Path) -> Path:
    """The folder of the only evaluation."""
    (file,) = runs.glob("evals/*/lock")
    return file.parent


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The runs with one finished evaluation, which must not change, and its summary."""
    runs = tmp_path_factory.mktemp("evaluated")
    return runs, evaluated(runs, calls=3, n=2)


def test_an_interrupted_evaluation_samples_what_is_missing(whole: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    runs, expected = whole
    with pytest.raises(RuntimeError, match="the power failed"):
        evaluated(tmp_path, calls=2, n=2)
    folder = folder_in(tmp_path)
    assert not (folder / "summary.json").exists()
    assert evaluated(tmp_path, calls=1, n=2) == expected
    for name in FILES:
        assert (folder / name).read_bytes() == (folder_in(runs) / name).read_bytes()
    samples, problems = pd.read_parquet(folder / "samples.parquet"), pd.read_parquet(folder / "problems.parquet")
    assert len(samples) == 14
    assert samples.groupby("id", sort=False)["accuracy"].sum().tolist() == problems["correct"].tolist()
    assert expected["mean_length"] == pytest.approx(samples["tokens"].mean())
    assert evaluated(tmp_path, calls=0, n=2, k=[2])["estimates"]["pass@2"] is not None


def test_greedy_is_one_answer_to_each_problem_whatever_the_noise(tmp_path: Path) -> None:
    summary = evaluated(tmp_path / "greedy", calls=3, greedy=True)
    assert (summary["samples"], summary["temperature"]) == (1, 0.0)
    samples = pd.read_parquet(folder_in(tmp_path / "greedy") / "samples.parquet")
    assert len(samples) == samples["id"].nunique() == 7
    sampled = evaluated(tmp_path / "sampled", calls=3, n=4)
    assert summary["estimates"]["pass@1"]["value"] > sampled["estimates"]["pass@1"]["value"]


def attempts(runs: Path, calls: int, turns: int = 2, **settings: Any) -> dict[str, Any]:
    workers, profile = Here(calls, FEEDBACK), "tiny-code-feedback"
    return evaluated_by(workers, runs, of_shard=3, profile=profile, max_problems=6, turns=turns, **settings)


@pytest.mark.parametrize("how", [pytest.param({"n": 2, "temperature": 1.5}, marks=pytest.mark.slow), {"greedy": True}])
def test_programs_that_failed_are_tried_again_and_counted_after_it(tmp_path: Path, how: dict[str, Any]) -> None:
    summary = attempts(tmp_path / "whole", 4, **how)
    samples = pd.read_parquet(folder_in(tmp_path / "whole") / "samples.parquet").set_index(["id", "sample"])
    first, second = samples[samples["turn"] == 1], samples[samples["turn"] == 2]
    failed = first[(first["pass_ratio"] < 1) & ~first["truncated"]]
    assert len(second) > 0
    assert set(second.index) == set(failed.index)
    for prompt, response in zip(second["prompt"], first.loc[second.index, "response"], strict=True):
        answer, told = prompt.partition(response)[1:]
        assert answer
        assert "assert " in told  # the tests that it failed
    repaired = second.index[second["accuracy"] == 1]
    after = first["accuracy"].astype(float).where(~first.index.isin(repaired), 1.0)
    assert summary["estimates"]["pass@1"]["value"] == pytest.approx(first["accuracy"].astype(float).mean())
    assert summary["estimates"]["second_turn/pass@1"]["value"] == pytest.approx(after.mean())
    if "n" in how:
        with pytest.raises(RuntimeError, match="the power failed"):
            attempts(tmp_path / "again", 3, **how)
        assert attempts(tmp_path / "again", 1, **how) == summary
        alone = attempts(tmp_path / "one", 2, turns=1, **how)  # first attempts are those without second ones
        assert alone["estimates"].items() <= summary["estimates"].items()
        assert alone["error_types"] == summary["error_types"]
        assert alone["error_types"]["accepted"] == pytest.approx(alone["estimates"]["pass@1"]["value"])
        assert alone["estimates"]["pass_ratio"]["value"] > alone["estimates"]["pass@1"]["value"]
