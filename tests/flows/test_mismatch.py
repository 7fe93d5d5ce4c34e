"""An engine with other weights than the learner's stops a run wherever it samples: in bootstrap and evaluations too.

What stops a training step: tests/tasks/test_training.py.
"""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flows.train
from ares.store.store import RunStore
from tasks.mismatch import EngineMismatch
from tests.in_process import InProcessEngine, run_in_this_process
from tests.short_runs import SMALL

pytestmark = pytest.mark.usefixtures("prefect")


NO_LEARNER_PASS = ["algorithm.policy.old_log_probs=engine", "algorithm.aepo.enabled=false",
                   "algorithm.kl.placement=none"]  # fmt: skip


@pytest.mark.parametrize(
    ("version", "settings", "where", "committed"),
    [
        (0, NO_LEARNER_PASS, "step 0, bootstrap", []),
        (1, ["validation.temperature=0.7"], "step 1, validation", [0]),
    ],
)  # fmt: skip
def test_wrong_weights_in_the_engine_stop_the_run_and_right_ones_are_sampled_from_again(
    version: int, settings: list[str], where: str, committed: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_in_this_process(tmp_path, monkeypatch)
    small = [*SMALL, "train.steps=1", "rollout.prompts=2", "algorithm.filter.enabled=false", *settings]
    load_weights = InProcessEngine.load_weights

    async def wrong(self: InProcessEngine, number: int, weights: dict[str, Any]) -> None:
        noise = np.random.default_rng(0)
        off = {name: array + noise.normal(0, 0.05, array.shape).astype(array.dtype) for name, array in weights.items()}
        await load_weights(self, number, off if number == version else weights)

    monkeypatch.setattr(InProcessEngine, "load_weights", wrong)
    flows.train.prepare("tiny-math", small, "run")
    with pytest.raises(EngineMismatch, match=rf"^{where}: .*nats a token"):
        asyncio.run(flows.train.ares_train(run="run"))
    store = RunStore(tmp_path / "run")
    assert store.committed_steps() == committed

    monkeypatch.setattr(InProcessEngine, "load_weights", load_weights)
    flows.train.prepare("tiny-math", small, "run")
    asyncio.run(flows.train.ares_train(run="run"))
    assert store.committed_steps() == [0, 1]
    found = [store.read_commit(step).metrics for step in (0, 1)]
    assert 0 <= found[0]["mismatch/bootstrap"] < 1e-4
    assert all(0 <= metrics["mismatch/validation"] < 1e-4 for metrics in found)
