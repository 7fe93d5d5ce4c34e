"""Advantages and losses against numbers recorded from the original implementations."""

import pytest
import torch

from algorithms import advantages as adv
from algorithms.losses import average_loss, compute_value_loss
from algorithms.published.losses import compute_policy_loss

ADVANTAGES = {
    "gae": adv.compute_gae_advantage_return,
    "rloo": adv.compute_rloo_outcome_advantage,
    "grpo": adv.compute_grpo_outcome_advantage,
    "remax": adv.compute_remax_outcome_advantage,
    "reinforce_plus_plus": adv.compute_reinforce_plus_plus_outcome_advantage,
    "masked_mean": adv.masked_mean,
    "masked_var": adv.masked_var,
    "masked_whiten": adv.masked_whiten,
}


def _tensors(inputs: dict) -> dict:
    return {
        name: torch.tensor(value) if isinstance(value, list) and name != "index" else value
        for name, value in inputs.items()
    }


def test_advantages(golden):
    for case in golden("advantages"):
        function = ADVANTAGES[case["fn"]]
        result = function(**_tensors(case["inputs"]))
        if case.get("tag") == "ragged" and case["fn"] == "gae" and case["inputs"]["lam"] != 1.0:
            continue  # the original leaks padded values there
        if isinstance(result, tuple):
            mask = torch.tensor(case["inputs"]["response_mask"])
            for value, name in zip(result, ("advantages", "returns"), strict=True):
                if name in case["expected"]:
                    expected = torch.tensor(case["expected"][name]) * mask
                    torch.testing.assert_close(value, expected, atol=2e-5, rtol=2e-5)
        else:
            torch.testing.assert_close(result, torch.tensor(case["expected"]), atol=2e-5, rtol=2e-5)


def test_policy_and_value_losses(golden):
    for case in golden("policy_loss"):
        inputs, expected = _tensors(case["inputs"]), case["expected"]
        if case["fn"] == "policy_loss":
            log_probs = inputs.pop("log_probs").requires_grad_(True)
            loss, metrics = compute_policy_loss(log_probs=log_probs, **inputs)
            (gradient,) = torch.autograd.grad(loss, log_probs)
            assert metrics == pytest.approx(expected["metrics"], abs=1e-4, rel=2e-5)
            torch.testing.assert_close(gradient, torch.tensor(expected["grad_log_probs"]), atol=1e-4, rtol=2e-5)
        elif case["fn"] == "value_loss":
            loss, clip_fraction = compute_value_loss(**inputs)
            assert clip_fraction == pytest.approx(expected["clipfrac"], abs=1e-5)
        else:
            loss = average_loss(**inputs)
            expected = {"loss": expected}
        assert loss.item() == pytest.approx(expected["loss"], abs=1e-4, rel=2e-5)
