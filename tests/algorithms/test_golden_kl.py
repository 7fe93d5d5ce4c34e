"""KL estimators, penalties and controllers against numbers recorded from the original implementations."""

import pytest
import torch

from algorithms.buckets import BUCKETS
from algorithms.kl import BatchKL, compute_kl
from algorithms.kl_controllers import BucketBeta
from algorithms.protocol import DataProto
from algorithms.published.kl import (
    AdaptiveKLController,
    FixedKLController,
    TokenLevelAdaptiveKLController,
    apply_kl_penalty,
)
from algorithms.settings import KLSettings


def test_compute_kl(golden):
    for case in golden("compute_kl"):
        inputs = case["inputs"]
        kl = compute_kl(torch.tensor(inputs["log_probs"]), torch.tensor(inputs["ref_log_probs"]), inputs["kl_penalty"])
        torch.testing.assert_close(kl, torch.tensor(case["expected"]), atol=2e-6, rtol=1e-5)


def test_adaptive_controller(golden):
    for case in golden("adaptive_kl_controller"):
        inputs = case["inputs"]
        controller = AdaptiveKLController(inputs["init_kl_coef"], inputs["target_kl"], inputs["horizon"])
        for (kl, n), expected in zip(inputs["updates"], case["expected"], strict=True):
            controller.update(kl, n)
            assert controller.kl_coef == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("mode", ["compound", "anchored"])
def test_token_level_controller(golden, mode):
    for case in golden("token_level_kl_controller"):
        inputs = case["inputs"]
        controller = TokenLevelAdaptiveKLController(
            inputs["init_kl_coefs"], inputs["target_kls"], inputs["horizon"], mode=mode
        )
        if case.get("tag") == "unknown_bucket_ignored":
            with pytest.raises(ValueError, match="'other'"):
                controller.update(**inputs["updates"][0])
            continue
        for step, (update, expected) in enumerate(zip(inputs["updates"], case["expected"], strict=True)):
            controller.update(**update)
            assert controller.lambdas == pytest.approx(expected["lambdas"], rel=1e-12)
            if mode == "compound" or step == 0:
                assert controller.kl_coefs == pytest.approx(expected["kl_coefs"], rel=1e-12)


def test_apply_kl_penalty(golden):
    for case in golden("apply_kl_penalty"):
        inputs, expected = case["inputs"], case["expected"]
        fields = ("token_level_scores", "old_log_probs", "ref_log_probs", "response_mask")
        data = DataProto.from_dict({name: torch.tensor(inputs[name]) for name in fields})
        settings = inputs["kl_ctrl"]
        if settings["type"] == "fixed":
            controller = FixedKLController(settings["kl_coef"])
        else:
            controller = AdaptiveKLController(settings["kl_coef"], settings["target_kl"], settings["horizon"])
        data, metrics = apply_kl_penalty(data, controller, inputs["kl_penalty"])
        torch.testing.assert_close(
            data.batch["token_level_rewards"], torch.tensor(expected["token_level_rewards"]), atol=1e-5, rtol=1e-5
        )
        assert metrics == pytest.approx(expected["metrics"], abs=1e-5)
        assert controller.kl_coef == pytest.approx(expected["kl_coef_after"], rel=1e-5)


def test_bucket_beta(golden):
    constants = {"kl_ema_decay": "ema_decay", "kl_beta_lr": "beta_lr"}
    for case in golden("actor_difficulty_beta"):
        params = case["inputs"]["params"]
        targets = {name: params.get(f"kl_target_{name}", 0.01) for name in BUCKETS}
        controller = BucketBeta(KLSettings(target=targets, beta_interval=params.get("kl_update_interval", 100)))
        controller.betas = dict.fromkeys(BUCKETS, params.get("kl_beta_init", 1.0))
        for theirs, ours in constants.items():
            setattr(controller, ours, params.get(theirs, getattr(controller, ours)))
        for update, expected in zip(case["inputs"]["updates"], case["expected_beta"], strict=True):
            controller.update(
                BatchKL.of(torch.tensor(update["seq_mean_kl"], dtype=torch.float64), update["difficulties"])
            )
            assert controller.betas == pytest.approx(expected, abs=1e-9)
