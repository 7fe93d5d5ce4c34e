"""The β controller in the loss."""

import math

import pytest

from algorithms.protocol import DataProto
from ares.config import KL_CONTROLLERS
from ares.learner.learner import Learner
from tests.ares.builders import shaped
from tests.ares.learner_builders import learner, sampled

BETA = ("algorithm.kl={kind: bucket_beta, beta_interval: 1, target: 0.05, penalty: low_var_kl}",)


def with_kl(of: Learner, distance: float) -> DataProto:
    batch = shaped(of, sampled())
    batch.batch["ref_log_probs"] -= distance * batch.tensor("response_mask")
    return batch


def test_the_beta_controller_moves_with_the_kl_of_each_bucket() -> None:
    trained = learner(*BETA)
    batch = with_kl(trained, 1.0)
    before = KL_CONTROLLERS.make(trained.config.algorithm.kl).state_dict()
    updated = trained.update(batch, before)
    after = updated.beta
    assert after is not None
    shown = set(batch.non_tensor_batch["difficulty"])
    assert shown == {"medium", "hard"}
    for bucket in ("easy", "medium", "hard"):
        assert (after["betas"][bucket] > before["betas"][bucket]) == (bucket in shown)
    # k3 of a log-ratio of −1 is e − 2: exact, as the policy has not moved.
    assert after["kl_ema"] == pytest.approx(dict.fromkeys(shown, math.exp(-1.0)), rel=1e-3)
    assert before["updates"] == 0
    assert after["updates"] == 1
    # The metrics of a step have β as the step left it.
    assert {b: updated.metrics[f"bucket/{b}/beta"] for b in after["betas"]} == after["betas"]


def test_the_beta_scales_the_kl_loss() -> None:
    losses = {}
    for factor in (1.0, 3.0):
        trained = learner(*BETA)
        state = KL_CONTROLLERS.make(trained.config.algorithm.kl).state_dict()
        state["betas"] = dict.fromkeys(state["betas"], factor)
        losses[factor] = trained.update(with_kl(trained, 1.0), state).metrics["actor/kl_loss"]
    assert losses[3.0] == pytest.approx(3 * losses[1.0], rel=1e-5)


def test_a_skipped_update_does_not_move_the_beta_controller() -> None:
    trained = learner(*BETA)
    batch = with_kl(trained, 1.0)
    batch.batch["advantages"][0, 0] = math.nan
    before = KL_CONTROLLERS.make(trained.config.algorithm.kl).state_dict()
    assert trained.update(batch, before).beta == before
