"""An engine with other weights than the learner's stops a run in bootstrap and evaluations too, and stops `ares eval`.

What stops a training step: tests/tasks/test_training.py.
"""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flows.evaluate
from ares.evaluation import Evaluation, EvaluationRequest
from ares.store.store import RunStore
from ares.workers import EngineService
from tasks.mismatch import EngineMismatch
from tests.ares.builders import MODEL
from tests.in_process import run_in_this_process, train_here
from tests.shared_run import SMALL

NO_LEARNER_PASS = ["algorithm.policy.old_log_probs=engine", "algorithm.aepo.enabled=false",
                   "algorithm.kl.placement=none"]  # fmt: skip


def load_wrong_weights(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on engines that are given this version hold a different one."""
    load_weights = EngineService.load_weights

    def wrong(self: EngineService, number: int, weights: dict[str, Any]) -> None:
        noise = np.random.default_rng(0)
        off = {name: array + noise.normal(0, 0.05, array.shape).astype(array.dtype) for name, array in weights.items()}
        load_weights(self, number, off if number == version else weights)

    monkeypatch.setattr(EngineService, "load_weights", wrong)


@pytest.mark.parametrize(
    ("profile", "version", "settings", "where", "committed"),
    [
        pytest.param("tiny-math", 0, NO_LEARNER_PASS, "step 0, bootstrap", [], marks=pytest.mark.slow),
        ("tiny-math", 1, ["validation.temperature=0.7"], "step 1, validation", [0]),
        # of episodes the turns are kept, too
        pytest.param("tiny-tool", 0, ["environment.processes=1"], "step 0, bootstrap", [], marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_wrong_weights_in_the_engine_stop_the_run_and_right_ones_are_sampled_from_again(
    profile: str, version: int, settings: list[str], where: str, committed: list[int], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    run_in_this_process(tmp_path, monkeypatch)
    small = [*SMALL, "train.steps=1", "rollout.prompts=2", "rollout.n=2", "bootstrap.max_prompts=3",
             "validation.max_prompts=3", "algorithm.filter.enabled=false", *settings]  # fmt: skip
    load_weights = EngineService.load_weights
    load_wrong_weights(version, monkeypatch)
    with pytest.raises(EngineMismatch, match=rf"^{where}: .*nats a token"):
        train_here(profile, small, "run")
    store = RunStore(tmp_path / "run")
    assert store.committed_steps() == committed

    monkeypatch.setattr(EngineService, "load_weights", load_weights)
    train_here(profile, small, "run")
    assert store.committed_steps() == [0, 1]
    logged = [store.read_commit(step).metrics for step in (0, 1)]
    assert 0 <= logged[0]["mismatch/bootstrap"] < 1e-4
    assert all(0 <= metrics["mismatch/validation"] < 1e-4 for metrics in logged)


def evaluated(**settings: Any) -> dict[str, Any]:
    request = EvaluationRequest(target=str(MODEL), profile="tiny-math", max_problems=3, n=2, **settings)
    return asyncio.run(flows.evaluate.evaluate(Evaluation.open(request)))


def test_wrong_weights_stop_an_evaluation_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_in_this_process(tmp_path, monkeypatch)
    load_weights = EngineService.load_weights
    load_wrong_weights(0, monkeypatch)
    with pytest.raises(EngineMismatch, match=r"^step 0, validation: .*nats a token"):
        evaluated(temperature=0.7)
    assert not list(tmp_path.glob("**/evals/*/summary.json"))

    monkeypatch.setattr(EngineService, "load_weights", load_weights)
    assert 0 <= evaluated(temperature=0.7)["mismatch/validation"] < 1e-4
    assert "mismatch/validation" not in evaluated(greedy=True)
