"""The optimiser's moments: moved to another device and back without changing updates."""

import pytest
import torch

import ares.learner.learner as learner_module
from ares.learner.optimizer import adamw, move_moments, take_step
from tests.ares.builders import config, shaped
from tests.ares.learner.test_learner import equal, learner, sampled, weights


def test_moments_move_and_weights_stay() -> None:
    layer = torch.nn.Linear(3, 2)
    optimizer = adamw(layer, 0.1, config().learner)
    layer(torch.ones(1, 3)).sum().backward()
    take_step(optimizer, 0.1)
    move_moments(optimizer, torch.device("meta"))  # any device but the weights'
    for parameter in layer.parameters():
        state = optimizer.state[parameter]
        assert (state["exp_avg"].is_meta, state["exp_avg_sq"].is_meta, parameter.is_meta) == (True, True, False)
        assert state["step"] == 1


def test_an_optimiser_that_is_offloaded_makes_the_same_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    gae = ("algorithm.advantage.estimator=gae",)
    one, other = learner(*gae), learner(*gae, "learner.offload_optimizer=true")
    moved: list[torch.device] = []

    def noted(optimizer: torch.optim.Optimizer, device: torch.device) -> None:
        moved.append(device)
        move_moments(optimizer, device)

    monkeypatch.setattr(learner_module, "move_moments", noted)
    for _ in range(2):
        batch = shaped(one, sampled())
        one.update(batch)
        other.update(batch)
    assert moved == [torch.device("cpu")] * 8  # policy's and critic's, before and after each update
    assert equal(weights(one), weights(other))
