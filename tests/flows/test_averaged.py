"""Evaluations of a run that keeps an average of its weights (learner.ema). Killed and resumed: tests/resume."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from ares.workers import EngineService
from tests.in_process import run_in_this_process, train_here
from tests.shared_run import SMALL

SETTINGS = [*SMALL, "train.steps=2", "rollout.prompts=2", "bootstrap.max_prompts=4", "validation.max_prompts=4",
            "learner.lr=1e-3", "algorithm.filter.enabled=false"]  # fmt: skip


@pytest.mark.slow
def test_the_average_is_measured_and_the_policy_not_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_in_this_process(tmp_path, monkeypatch)
    loaded: list[tuple[int, dict[str, Any]]] = []
    load_weights = EngineService.load_weights

    def watched(self: EngineService, version: int, weights: dict[str, Any]) -> None:
        loaded.append((version, {name: array.copy() for name, array in weights.items()}))
        load_weights(self, version, weights)

    with monkeypatch.context() as patch:
        patch.setattr(EngineService, "load_weights", watched)
        store = train_here("tiny-math", [*SETTINGS, "learner.ema=0.9"], "averaged")
    plain = train_here("tiny-math", SETTINGS, "plain")
    assert [version for version, _ in loaded] == [0, 1, 2, 2]
    for (_, weights), file in zip(loaded[2:], ("average", "policy"), strict=True):
        for name, value in load_file(tmp_path / "averaged" / "checkpoints" / "000002" / f"{file}.safetensors").items():
            np.testing.assert_array_equal(weights[name], value, err_msg=f"{file}: {name}")
    for step in (0, 1, 2):
        metrics, expected = store.read_commit(step).metrics, plain.read_commit(step).metrics
        averaged = {name for name in metrics if name.startswith("val/ema/")}
        assert {name: value for name, value in metrics.items() if name not in averaged} == expected
        held_out = {name for name in expected if name.startswith("val/")} if step else set()
        assert {name.replace("val/ema/", "val/") for name in averaged} == held_out
    files = (store.directory / "steps" / "000002" / f"rollout-validation-{shard:04d}.parquet" for shard in (0, 4))
    of_policy, of_average = (np.concatenate(pd.read_parquet(file)["log_probs"].tolist()) for file in files)
    assert not np.array_equal(of_policy, of_average)
