"""Settings that do not go together are refused with what to set."""

import pytest

from ares.config import load, override
from tests.ares.config.refusal import refusal


@pytest.mark.parametrize(
    ("profile", "wrong", "told"),
    [
        ("tiny-diffusion", ["rollout.diffusion.block=4"], "block (4) must divide rollout.max_response_length (14)"),
        ("tiny-diffusion", ["rollout.diffusion={block: 2, steps: 8}"], "steps (8) must be a multiple of"),
        ("tiny-diffusion", ["rollout.diffusion.block=2", "validation.few_steps=5"], "(5) must be a multiple of the 7"),
        ("tiny-diffusion", ["rollout.diffusion.threshold=1"], "rollout.diffusion.threshold"),
        (
            "tiny-code",
            ["algorithm.kl={kind: adaptive, horizon: 99}", "rollout.second_turn={enabled: true, children: 4}"],
            "kind=adaptive needs horizon above 128 (got 99)",
        ),
        ("tiny-vision", ["data.min_pixels=99", "data.max_pixels=98"], "data: min_pixels (99) is above max_pixels (98)"),
        ("tiny-vision", ["algorithm.advantage.estimator=gae"], "vision-language models have no critic"),
        ("tiny-math", ["validation.few_steps=4"], "validation.few_steps is for masked-diffusion models"),
        ("tiny-math", ["learner.ema=0.9", "model.lora={rank: 4}"], "does not go with model.lora"),
        ("tiny-math", ["rollout.engine=vllm", "validation.temperature=3"], "rollout.engine=vllm samples at 0.01 to 2"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(profile: str, wrong: list[str], told: str) -> None:
    assert told in refusal(profile, *wrong)


SPARSE = "reward.code.design=sparse"


@pytest.mark.parametrize("estimator", ["maxrl", "pass_at_k"])
@pytest.mark.parametrize(
    ("profile", "given", "to_set"),
    [
        ("tiny-code", [], 'reward.code.design="sparse"'),
        ("tiny-code", [SPARSE], ""),
        ("tiny-code", [SPARSE, "algorithm.kl.placement=reward"], "algorithm.kl.placement=loss"),
        ("tiny-math", ["reward={kind: model, model: {path: x}, accuracy: 0}"], "reward.kind=math, code or a function"),
    ],
)
def test_what_is_for_rewards_0_and_1_is_refused_with_others(
    estimator: str, profile: str, given: list[str], to_set: str
) -> None:
    """The default design paid no program in a group whose rewards had a mean below 0, and failing ones above it."""
    of_run = [f"algorithm.advantage.estimator={estimator}", "algorithm.aepo.enabled=false", *given]
    if to_set:
        assert f"estimator={estimator} is for rewards 0 and 1: set {to_set}" in refusal(profile, *of_run)
    else:
        assert load(profile, of_run).algorithm.advantage.estimator == estimator
    assert load(profile, of_run, trains=False)


def test_what_only_samples_may_cut_the_distribution() -> None:
    assert load("tiny-math", ["rollout.top_p=0.9"], trains=False).rollout.top_p == 0.9
    assert override(load("tiny-math"), ["rollout.top_p=0.9"], trains=False).rollout.top_p == 0.9
    assert load("diffucoder").rollout.top_p == 0.95  # its log-probs are estimates under masks anyway
