import weakref

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from ares.config import ConfigError
from ares.learner import checkpoints
from ares.learner.learner import Learner
from tests.ares.builders import MODEL, config, experienced, rows, shaped

ADAPTED = config("model.lora={rank: 4, alpha: 8}", "learner.lr=1e-2")


def sampled() -> pd.DataFrame:
    return rows([[1, 0, 1, 0], [0, 0, 1, 0]])


def base() -> dict[str, torch.Tensor]:
    return load_file(MODEL / "model.safetensors")


def test_fresh_adapters_change_nothing() -> None:
    before = torch.random.get_rng_state()
    learner = Learner(ADAPTED)
    assert torch.equal(before, torch.random.get_rng_state())
    weights = learner.weights()
    assert weights.keys() == base().keys()
    assert all(torch.equal(weights[name], tensor) for name, tensor in base().items())
    plain = Learner(config())
    for name in ("old_log_probs", "ref_log_probs"):
        torch.testing.assert_close(
            experienced(learner, sampled()).tensor(name), experienced(plain, sampled()).tensor(name)
        )


def test_an_update_moves_the_adapters_and_neither_base_nor_reference() -> None:
    learner = Learner(ADAPTED)
    batch = shaped(learner, sampled())
    learner.update(batch)
    kept = {
        name.replace(".base_layer.", "."): parameter
        for name, parameter in learner.policy.model.named_parameters()
        if "lora_" not in name
    }
    assert all(torch.equal(kept[name], tensor) for name, tensor in base().items())
    after = experienced(learner, sampled())
    torch.testing.assert_close(after.tensor("ref_log_probs"), batch.tensor("ref_log_probs"))
    assert (after.tensor("old_log_probs") - batch.tensor("old_log_probs")).abs().max() > 1e-3


def test_merged_weights_lie_beside_the_model_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU all of them together would take the memory of another model."""
    learner = Learner(ADAPTED)
    own = {parameter.data_ptr() for parameter in learner.policy.model.parameters()}
    merged: list[weakref.ref[torch.Tensor]] = []
    alive: list[int] = []

    def copied(tensor: torch.Tensor, wait: bool) -> torch.Tensor:
        if tensor.data_ptr() not in own:
            merged.append(weakref.ref(tensor))
        alive.append(sum(reference() is not None for reference in merged))
        return tensor.clone()

    monkeypatch.setattr(checkpoints, "whole", copied)
    learner.weights()
    assert len(merged) > 1
    assert max(alive) == 1


@pytest.mark.parametrize(
    ("setting", "message"),
    [("model.lora={targets: [lm_head]}", "lm_head"), ("model.lora={targets: []}", "at least one")],
)
def test_adapters_that_cannot_be_are_refused(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(setting)
