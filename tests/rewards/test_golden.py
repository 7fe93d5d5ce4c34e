"""The rewards give the recorded numbers."""

import math

import numpy as np
import pytest

from rewards import aepo
from rewards.code import binary_code_reward, code_reward, get_code_format_reward
from rewards.pass_rates import VerpoSettings, cluster_density, verpo_weights
from rewards.shaping import rltf_adaptive, shape_code_rewards, soft_overlong
from tests.rewards.test_shaping import outcomes


def messages(*contents: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": content} for content in contents]


def test_code_format(golden):
    for case in golden("code_format_reward"):
        contents = case["inputs"].get("contents") or [case["inputs"]["content"]]
        expected = case["expected"] if isinstance(case["expected"], list) else [case["expected"]]
        reward = get_code_format_reward(case["inputs"]["language"])
        assert reward([messages(content) for content in contents]) == expected, case
        assert reward(contents) == expected, case


def test_code_reward(golden):
    cases = golden("code_reward")
    completions = [messages(case["inputs"]["content"]) for case in cases]
    tests = [case["inputs"]["test_cases"] for case in cases]
    assert code_reward(completions, provider_type="local", test_cases=tests) == [case["expected"] for case in cases]


HACKS = ["sys_exit_hack", "os_exit_hack", "parent_fd_spoof", "eq_hack", "completion0_vs_last"]
SLEEPS = pytest.param(["timeout_zeroes_all"], marks=pytest.mark.slow)
"""Sleeps through the wall-clock limit of 11 s, which costs that test only."""


@pytest.mark.parametrize("tags", [HACKS, SLEEPS])
def test_published_defects_are_absent(golden, tags):
    # Left out: no tests (an error here, see test_code) and scientific_notation (no rate is parsed from text here).
    cases = [case for case in golden("code_reward_defects") if case["tag"] in tags]
    assert len(cases) == len(tags)
    inputs = [case["inputs"] for case in cases]
    completions = [messages(*each.get("messages", [each.get("content")])) for each in inputs]
    rewards = code_reward(completions, provider_type="local", test_cases=[each["test_cases"] for each in inputs])
    assert rewards == pytest.approx([case["intended"] for case in cases], abs=1e-12)


def test_binary(golden, monkeypatch):
    cases = golden("binary_code_reward")
    monkeypatch.setattr("rewards.code.code_reward", lambda *_, **__: [case["inputs"] for case in cases])
    assert binary_code_reward([]) == [case["expected"] for case in cases]


def test_rltf_feedback(golden):
    for case in golden("rltf_feedback"):
        if case["fn"] == "rltf_adaptive":
            rewards = rltf_adaptive([case["inputs"]["pass_ratio"]])
        else:
            assert case["inputs"]["name"] == "runtime"
            rewards = shape_code_rewards("dense_linear", outcomes(("runtime_error", [True, False], False)))
        assert rewards[0] == pytest.approx(case["expected"], abs=1e-12)


def test_soft_overlong(golden):
    for case in golden("soft_overlong"):
        inputs = case["inputs"]
        penalty = soft_overlong([inputs["length"]], inputs["max_completion_len"], inputs["soft_punish_cache"])
        assert penalty[0] == pytest.approx(case["expected"], abs=1e-12), case


def test_reward_designs(golden):
    seen = set()
    for case in golden("seed003_rewards"):
        design, inputs, weights = case["fn"], case["inputs"], None
        seen.add(design)
        if design == "positive_threshold":
            assert rltf_adaptive([case["expected"]])[0] == pytest.approx(0, abs=1e-12)
            continue
        if design == "dense_weighted":
            weights, passed = [np.array(inputs["weights"])], inputs["passed_mask"]
        else:
            passed = [1] * inputs["passed"] + [0] * (inputs["total"] - inputs["passed"])
        kind = "runtime_error" if inputs.get("runtime_error") else "timeout" if inputs.get("timeout") else None
        kind = "syntax_error" if inputs.get("syntax_error") else kind
        batch = outcomes((kind, passed, bool(inputs.get("truncated"))))
        (rewards,) = shape_code_rewards(design, batch, weights=weights)
        if case["expected"] is None:
            assert math.isnan(rewards), case
        else:
            assert rewards == pytest.approx(case["expected"], abs=1e-9), case
    assert seen == {"sparse", "dense_linear", "dense_weighted", "outcome_anchor", "positive_threshold"}


def test_verpo(golden):
    for case in golden("verpo_reference"):
        inputs, expected = case["inputs"], case["expected"]
        rates = np.concatenate([np.array(turns) for turns in inputs["pass"]]).mean(0)
        assert rates == pytest.approx(expected["rho"])
        assert cluster_density(rates, inputs["sigma"]) == pytest.approx(expected["density"], abs=1e-9)
        weights = verpo_weights(rates, inputs["alpha"], inputs["sigma"], inputs["delta"])
        assert weights == pytest.approx(expected["weights"], abs=1e-9)
        settings = VerpoSettings(**{name: inputs[name] for name in VerpoSettings.model_fields})
        rewards = []
        for trajectory, worth in zip(inputs["pass"], expected["turn_reward"], strict=True):
            batch = outcomes(*((None, passed, False) for passed in trajectory))
            rewards.append(shape_code_rewards("verpo", batch, weights=[weights] * len(trajectory), verpo=settings))
            dense = rewards[-1] - settings.gamma * batch.accepted
            assert dense == pytest.approx(settings.beta * np.array(worth), abs=1e-9)
        if max(map(len, rewards)) == 1:  # further turns are groups of their own here (docs/rewards.md)
            flat = np.concatenate(rewards)
            assert flat - flat.mean() == pytest.approx(np.concatenate(expected["advantage"]), abs=1e-9)


def test_compute_score(golden):
    for case in golden("compute_score"):
        rows, kwargs = case["inputs"]["reward_inputs"], case["inputs"]["kwargs"]
        # The recordings put counts below zero to reach a boundary; no rollout has those, and here they are an error.
        if any(row.get("high_entropy_token_num", 1) < 0 for row in rows):
            with pytest.raises(ValueError, match="high_entropy_token_num"):
                aepo.compute_score(rows, **kwargs)
            continue
        scores = aepo.compute_score(rows, **kwargs)
        assert len(scores) == len(case["expected"])
        for score, expected in zip(scores, case["expected"], strict=True):
            assert score == pytest.approx(expected, abs=1e-12)


def test_an_explicit_zero_accuracy_counts(golden):
    for case in golden("compute_score_defects"):
        scores = aepo.compute_score(case["inputs"]["reward_inputs"], **case["inputs"]["kwargs"])
        for score, intended, upstream in zip(scores, case["intended"], case["upstream"], strict=True):
            assert score == pytest.approx(intended, abs=1e-12)
            assert score != pytest.approx(upstream, abs=1e-3)


def test_primitives(golden):
    for case in golden("aepo_primitives"):
        value = getattr(aepo, case["fn"])(**case["inputs"])
        assert float(value) == pytest.approx(case["expected"], abs=1e-15)
