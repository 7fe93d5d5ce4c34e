"""Masks, coupled log-probs and the loss of coupled-GRPO: recorded numbers and properties."""

from types import SimpleNamespace
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.coupled_sampling import MASK_ESTIMATES, version_masks
from algorithms.denoising import completion_logits, completion_mask
from algorithms.losses import compute_kl_loss
from algorithms.published.coupled_grpo import (
    DiffuGRPOConfig,
    DiffuGRPOTrainer,
    selective_log_softmax,
)
from algorithms.published.verl import compute_policy_loss
from ares.config.run import ModelConfig

MASK = 99


def forward_process(*given, steps=1, **named):
    args = DiffuGRPOConfig(gradient_accumulation_steps=steps, beta=0.0)
    return DiffuGRPOTrainer(None, [], args).forward_process(*given, **named)


def canvas(rows=4, prompt=3, completion=6, seed=0):
    batch = torch.randint(0, 90, (rows, prompt + completion), generator=torch.Generator().manual_seed(seed))
    return batch, torch.arange(prompt + completion) < prompt


# ---- forward_process -------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**31), rows=st.integers(1, 5), completion=st.integers(1, 7))
@settings(deadline=None, max_examples=40)
def test_two_versions_share_the_completion_out_between_them(seed, rows, completion):
    batch, prompt = canvas(rows, 3, completion)
    before = batch.clone()
    (full, part, rest), weights, mask = forward_process(batch, prompt, MASK, seed)
    assert torch.equal(batch, before)
    for version in (full, part, rest):
        assert torch.equal(version[:, prompt], batch[:, prompt])
    assert (full[:, ~prompt] == MASK).all()
    assert torch.equal(part == MASK, mask)
    assert torch.equal(rest == MASK, ~mask & ~prompt)
    assert mask.dtype is torch.bool
    assert weights[0] == 1
    assert 0.2 <= 1 / weights[1] <= 0.8
    assert 1 / weights[1] + 1 / weights[2] == pytest.approx(1)


def test_the_invariants_of_the_recorded_examples(golden):
    for case in golden("forward_process_invariants"):
        inputs, example = case["inputs"], case["upstream_example"]
        batch, prompt = torch.tensor(inputs["batch"]), torch.tensor(inputs["prompt_index"])
        mask = torch.tensor(example["completion_mask"])
        versions = [batch.masked_fill(each & ~prompt, inputs["mask_id"]) for each in version_masks(mask)]
        assert [version.tolist() for version in versions] == example["noisy_batch"]


def test_one_seed_gives_one_mask_and_the_global_generator_is_left_alone():
    batch, prompt = canvas()
    state = torch.get_rng_state()
    first, again = (forward_process(batch, prompt, MASK, 5) for _ in range(2))
    fresh = [forward_process(batch, prompt, MASK)[1][1] for _ in range(3)]
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first[2], again[2])
    assert first[1] == again[1]
    assert len(set(fresh)) == 3
    assert forward_process(batch, prompt, MASK, 6)[1] != first[1]


def test_accumulated_micro_batches_have_the_masks_of_one():
    batch, prompt = canvas(rows=6)
    whole = forward_process(batch, prompt, MASK, 7, accumulate=True, steps=3)
    one = forward_process(batch[:2], prompt, MASK, 7)
    assert torch.equal(whole[2], one[2].repeat(3, 1))
    assert whole[1] == one[1]


# ---- selective_log_softmax -------------------------------------------------------------------------------------------


def problem(iterations=2, rows=3, tokens=5, vocabulary=11, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(3 * iterations * rows, tokens, vocabulary, generator=generator, dtype=torch.float64).to(dtype)
    index = torch.randint(0, vocabulary, (iterations * rows, tokens), generator=generator)
    ratios = 0.2 + 0.6 * torch.rand(iterations, generator=generator, dtype=torch.float64)
    weights = torch.stack([torch.ones_like(ratios), 1 / ratios, 1 / (1 - ratios)], 1).flatten()
    return logits, index, weights, torch.rand(index.shape, generator=generator) < 0.5


def naive(logits, index, weights, mask):
    iterations = len(weights) // 3
    parts = logits.log_softmax(-1).view(iterations, 3, -1, *logits.shape[1:])
    parts = parts.gather(-1, index.view(iterations, 1, -1, index.shape[1]).expand(-1, 3, -1, -1)[..., None])[..., 0]
    w = weights.view(iterations, 3, 1, 1)
    chosen = torch.where(mask.view_as(parts[:, 0]), w[:, 1] * parts[:, 1], w[:, 2] * parts[:, 2])
    return ((parts[:, 0] + chosen) / 2).view_as(index)


def test_the_recorded_log_probs(golden):
    for case in golden("selective_log_softmax"):
        inputs = case["inputs"]
        mask = None if inputs["mask"] is None else torch.tensor(inputs["mask"])
        weights = torch.tensor(inputs["weights"], dtype=torch.float64)
        logits = torch.tensor(inputs["logits"], dtype=torch.float64)
        log_probs = selective_log_softmax(logits, torch.tensor(inputs["index"]), weights, mask)
        torch.testing.assert_close(log_probs, torch.tensor(case["expected"], dtype=torch.float64), atol=1e-10, rtol=0)


@pytest.mark.parametrize("iterations", [1, 3])
def test_values_and_gradients_are_those_of_the_naive_form(iterations):
    logits, index, weights, mask = problem(iterations)
    grads, values = [], []
    for form in (selective_log_softmax, naive):
        leaf = logits.clone().requires_grad_(True)
        values.append(form(leaf, index, weights, mask))
        factors = torch.arange(index.numel(), dtype=torch.float64).view_as(index)
        grads.append(torch.autograd.grad((values[-1] * factors).sum(), leaf)[0])
    torch.testing.assert_close(*values)
    torch.testing.assert_close(*grads)


def test_without_mask_or_weights_the_full_mask_version_counts_alone():
    logits, index, weights, mask = problem(1)
    expected = logits[:3].log_softmax(-1).gather(-1, index[..., None])[..., 0]
    for log_probs in (
        selective_log_softmax(logits, index),
        selective_log_softmax(logits, index, weights),
        selective_log_softmax(logits, index, None, mask),
    ):
        torch.testing.assert_close(log_probs, expected)


def test_bfloat16_logits_are_summed_in_float32():
    logits, index, weights, mask = problem(dtype=torch.bfloat16, vocabulary=4000)
    log_probs = selective_log_softmax(logits, index, weights, mask)
    assert log_probs.dtype is torch.float32
    torch.testing.assert_close(log_probs.double(), naive(logits.double(), index, weights, mask), atol=1e-4, rtol=1e-5)


def test_logits_of_another_shape_are_refused():
    logits, *others = problem()
    with pytest.raises(ValueError, match="needs logits"):
        selective_log_softmax(logits[:-1], *others)


# ---- completion_logits -----------------------------------------------------------------------------------------------


options_of_echo: dict[str, Any] = {}


def echo(input_ids, **options):
    """Logits that identify their position; records the options it is called with."""
    options_of_echo.clear()
    options_of_echo.update(options)
    place = torch.arange(input_ids.shape[1], dtype=torch.float32)
    return SimpleNamespace(logits=place[None, :, None].expand(len(input_ids), -1, 4))


def test_a_place_is_predicted_by_the_logit_before_it():
    ids = torch.zeros(2, 6, dtype=torch.long)
    assert completion_logits(echo, ids, 3)[0, :, 0].tolist() == [2, 3, 4]
    assert completion_logits(echo, ids, 6)[0, :, 0].tolist() == [0, 0, 1, 2, 3, 4]
    assert options_of_echo == {}


def test_padding_is_attended_to_by_nobody_else_and_does_not_shift_positions():
    ids = torch.zeros(2, 4, dtype=torch.long)
    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    completion_logits(echo, ids, 2, mask)
    seen = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]  # padding sees itself, or it would be NaN
    assert options_of_echo["attention_mask"][0, 0].int().tolist() == seen
    assert options_of_echo["attention_mask"][1].all()
    assert options_of_echo["position_ids"].tolist() == [[0, 0, 0, 1], [0, 1, 2, 3]]


# ---- advantages and loss ---------------------------------------------------------------------------------------------


def advantages(rewards, n, scale=False, weights=None):
    """The published trainer's advantages [B] of rewards [B, F], and its metrics."""
    functions = [lambda **columns: []] * rewards.shape[1]
    args = DiffuGRPOConfig(num_generations=n, scale_rewards=scale, reward_weights=weights, beta=0.0)
    trainer = DiffuGRPOTrainer(None, functions, args)
    return trainer._advantages(rewards, torch.ones(len(rewards), 1)), trainer.metrics


def test_the_recorded_advantages(golden):
    for case in golden("diffu_loo_advantages"):
        inputs, expected = case["inputs"], case["expected"]
        table = [[float("nan") if score is None else score for score in row] for row in inputs["rewards_per_func"]]
        how = inputs["num_generations"], inputs["scale_rewards"], inputs["reward_weights"]
        found, metrics = advantages(torch.tensor(table).T, *how)
        torch.testing.assert_close(found, torch.tensor(expected["advantages"]), atol=1e-5, rtol=1e-5)
        assert metrics["reward"] == pytest.approx(expected["reward_mean"], abs=1e-5)
        assert metrics["reward_std"] == pytest.approx(expected["reward_std"], abs=1e-5)
        assert metrics["zero_std_ratio"] == expected["zero_std_ratio"]
        mask = completion_mask(torch.tensor(inputs["completion_ids"]) == inputs["eos_id"])
        assert mask.tolist() == expected["completion_mask"]


def test_groups_of_another_size_and_of_one_are_refused():
    with pytest.raises(ValueError, match="7 rewards cannot be cut into groups of 3"):
        advantages(torch.zeros(7, 1), 3)
    with pytest.raises(ValueError, match="at least 2"):
        advantages(torch.zeros(7, 1), 1)


def coupled_grpo_loss(log_probs, advantages, mask, old, ref, beta, epsilon):
    """Σ(−min(ρA, clip(ρ, 1±ε)A) + β·k3)·mask / max(Σmask, 1) (coupled-GRPO, eq. 6): the loop's functions, without a
    dual clip. Returns the loss and the KL."""
    tokens = mask.sum().clamp(min=1)
    spread = advantages[:, None].expand_as(log_probs)
    loss, _ = compute_policy_loss(old, log_probs, spread, mask, epsilon, epsilon, float("inf"), normalizer=tokens)
    kl, _ = compute_kl_loss(log_probs, ref, mask, normalizer=tokens)
    return loss + beta * kl, kl


def test_the_recorded_losses(golden):
    names = ("logps", "advantages", "completion_mask", "old_logps", "ref_logps")
    for case in golden("diffu_loss"):
        inputs = case["inputs"]
        tensors = [torch.tensor(inputs[name], dtype=torch.float32) for name in names]
        loss, kl = coupled_grpo_loss(*tensors, beta=inputs["beta"], epsilon=inputs["epsilon"])
        assert float(loss) == pytest.approx(case["expected"]["loss"], abs=1e-5)
        assert float(kl) == pytest.approx(case["expected"]["mean_kl_intended"], abs=1e-5)


# ---- estimates that the published one is compared with ---------------------------------------------------------------


def draws(rows, places, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def draw(_):
        ratio = 0.2 + 0.6 * torch.rand(rows, 1, generator=generator, dtype=torch.float64)
        return ratio, torch.rand(rows, places, generator=generator, dtype=torch.float64) < ratio

    return draw


@pytest.mark.parametrize("name", MASK_ESTIMATES)
def test_a_pass_counts_only_where_it_masks_and_all_together_are_one_log_prob_on_average(name):
    masked, passes = MASK_ESTIMATES[name]
    masks, weights, prompt_ratio = masked(draws(20_000, 5))
    assert prompt_ratio == (0.15 if name == "masked_prompt" else 0)
    assert masks.shape == weights.shape == (passes, 20_000, 5)
    assert masks.dtype is torch.bool
    assert torch.equal(weights > 0, masks)
    assert float(weights.sum(0).mean()) == pytest.approx(1.5 if name == "published" else 1.0, abs=0.01)


def test_the_published_estimate_is_the_one_of_the_two_log_probs_and_a_scale():
    known = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(1))
    ratio, mask = draws(4, 6, seed=2)(0)
    masks, weights, _ = MASK_ESTIMATES["published"][0](draws(4, 6, seed=2))
    partial = torch.where(mask, known[1], known[2])
    expected = (known[0] + torch.where(mask, 1 / ratio, 1 / (1 - ratio)).float() * partial) / 2
    assert torch.equal((weights.float() * known).sum(0), expected)
    rescaled = MASK_ESTIMATES["rescaled"][0](draws(4, 6, seed=2))
    assert torch.equal(rescaled.masks, masks)
    torch.testing.assert_close(rescaled.weights, weights / 1.5)


def test_a_coupled_pair_masks_every_token_once_and_independent_masks_do_not():
    counts = {name: MASK_ESTIMATES[name][0](draws(50, 40)).masks.sum(0) for name in ("coupled", "two_masks")}
    assert (counts["coupled"] == 1).all()
    assert counts["two_masks"].unique().tolist() == [0, 1, 2]


def test_settings_name_every_estimate():
    assert set(get_args(ModelConfig.model_fields["mask_estimate"].annotation)) == set(MASK_ESTIMATES)
