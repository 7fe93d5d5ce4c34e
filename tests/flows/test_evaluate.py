"""The flow `ares-eval` with its engine in this process: what an interrupted one keeps, and reproducible samples."""

import asyncio
import functools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
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


@pytest.fixture(scope="module", autouse=True)
def _mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Evaluations are logged to one beside the runs."""
    with pytest.MonkeyPatch.context() as patch:
        runs = tmp_path_factory.mktemp("runs")
        mlflow_database.beside(runs)
        patch.setenv("ARES_RUNS", str(runs))
        yield


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
        self.left = calls
        self.actor = engine(model)

    async def sample(
        self, version: int, requests: list[Request], settings: SamplingSettings, finished: Any
    ) -> pd.DataFrame:
        if self.left == 0:
            raise RuntimeError("the power failed")
        self.left -= 1
        return pd.concat(list(self.actor.generate(requests, settings))).sort_index()

    async def mismatch(self, version: int, rows: DataProto, temperature: float) -> dict[str, float]:
        return {"mismatch/logprob_diff_mean": 0.0}

    def close(self) -> None:
        pass


def evaluated(out: Path, calls: int, **settings: Any) -> dict[str, Any]:
    """An evaluation of 7 problems in shards of 3 that may call its engine this many times."""
    request = EvaluationRequest(
        target=str(MODEL), profile="tiny-math", max_problems=7, out=str(out), overrides=["rollout.shard_prompts=3"],
        **settings,
    )  # fmt: skip
    return evaluated_by(Here(calls), request)


def evaluated_by(workers: "Here", request: EvaluationRequest) -> dict[str, Any]:
    evaluation = Evaluation.open(request)
    evaluation.run.workers = workers  # type: ignore[assignment]
    return asyncio.run(evaluate(evaluation))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder of a finished evaluation, which must not change, and the summary."""
    folder = tmp_path_factory.mktemp("evaluated") / "whole"
    return folder, evaluated(folder, calls=3, n=2)


def test_an_interrupted_evaluation_samples_only_what_is_missing_and_ends_the_same(
    whole: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, expected = whole
    with pytest.raises(RuntimeError, match="the power failed"):
        evaluated(tmp_path / "again", calls=2, n=2)
    assert not (tmp_path / "again" / "summary.json").exists()
    assert evaluated(tmp_path / "again", calls=1, n=2) == expected
    for name in FILES:
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()
    assert len(pd.read_parquet(tmp_path / "again" / "samples.parquet")) == 14
    assert evaluated(tmp_path / "again", calls=0, n=2, k=[2])["estimates"]["pass@2"] is not None


@pytest.mark.parametrize(
    ("name", "kept", "calls"), [("rollout-validation-0001.parquet", 9, 1), ("phases.jsonl", -20, 3)]
)
def test_a_damaged_shard_or_half_a_result_is_made_again(
    whole: tuple[Path, dict[str, Any]], tmp_path: Path, name: str, kept: int, calls: int
) -> None:
    folder, expected = whole
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:kept])
    assert evaluated(tmp_path, calls=calls, n=2) == expected


def test_greedy_is_one_answer_to_each_problem_whatever_the_noise(tmp_path: Path) -> None:
    summary = evaluated(tmp_path, calls=3, greedy=True)
    assert (summary["samples"], summary["temperature"]) == (1, 0.0)
    samples = pd.read_parquet(tmp_path / "samples.parquet")
    assert len(samples) == samples["id"].nunique() == 7
    sampled = evaluated(tmp_path / "sampled", calls=3, n=8)
    assert summary["estimates"]["pass@1"]["value"] > sampled["estimates"]["pass@1"]["value"]


def attempts(out: Path, calls: int, turns: int = 2, **settings: Any) -> dict[str, Any]:
    request = EvaluationRequest(
        target=str(FEEDBACK), profile="tiny-code-feedback", max_problems=8, out=str(out), turns=turns,
        overrides=["rollout.shard_prompts=4", "rollout.second_turn.enabled=false"], **settings,
    )  # fmt: skip
    return evaluated_by(Here(calls, FEEDBACK), request)


@pytest.mark.parametrize("how", [{"n": 4, "temperature": 1.5}, {"greedy": True}])
def test_programs_that_failed_are_tried_again_and_counted_after_it(tmp_path: Path, how: dict[str, Any]) -> None:
    summary = attempts(tmp_path / "whole", 4, **how)
    samples = pd.read_parquet(tmp_path / "whole" / "samples.parquet").set_index(["id", "sample"])
    first, second = samples[samples["turn"] == 1], samples[samples["turn"] == 2]
    failed = first[(first["pass_ratio"] < 1) & ~first["truncated"]]
    assert len(second) > 0
    assert set(second.index) == set(failed.index)
    for prompt, response in zip(second["prompt"], first.loc[second.index, "response"], strict=True):
        answer, told = prompt.partition(response)[1:]
        assert answer
        assert "assert " in told  # the tests that it failed
    assert summary["second_turns"] == {
        "samples": len(second),
        "left_out": int((first["pass_ratio"] < 1).sum()) - len(second),
    }
    repaired = second.index[second["accuracy"] == 1]
    after = first["accuracy"].astype(float).where(~first.index.isin(repaired), 1.0)
    assert summary["estimates"]["pass@1"]["value"] == pytest.approx(first["accuracy"].astype(float).mean())
    assert summary["estimates"]["second_turn/pass@1"]["value"] == pytest.approx(after.mean())
    with pytest.raises(RuntimeError, match="the power failed"):
        attempts(tmp_path / "again", 3, **how)
    assert attempts(tmp_path / "again", 1, **how) == summary


def test_first_attempts_are_those_of_an_evaluation_without_second_ones(tmp_path: Path) -> None:
    summary, alone = attempts(tmp_path / "two", 4, n=2), attempts(tmp_path / "one", 2, turns=1, n=2)
    assert alone["estimates"].items() <= summary["estimates"].items()
    assert alone["error_types"] == summary["error_types"]
