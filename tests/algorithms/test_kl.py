"""KL estimators, penalties, controllers and the coefficient of each token."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms import kl
from algorithms.buckets import BUCKETS, of_rows
from algorithms.kl import BatchKL
from algorithms.kl_controllers import BucketBeta, FixedKL
from algorithms.protocol import DataProto
from algorithms.published import verl as published
from algorithms.published.verl import TokenLevelAdaptiveKLController
from algorithms.settings import KLSettings

quick = settings(max_examples=50, deadline=None)
seeds = st.integers(0, 2**31)
kls = st.dictionaries(st.sampled_from(BUCKETS), st.floats(-0.5, 3), max_size=3)


def logprobs(seed, *shape):
    return -5.0 * torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def penalty_batch(seed=0, rows=6, length=5, **extra):
    mask = torch.ones(rows, length)
    mask[:, length - 1] = 0
    tensors = {
        "token_level_scores": logprobs(seed, rows, length),
        "old_log_probs": logprobs(seed + 1, rows, length),
        "ref_log_probs": logprobs(seed + 2, rows, length),
        "response_mask": mask,
    }
    difficulty = [BUCKETS[i % 3] for i in range(rows)]
    return DataProto.from_dict(tensors | extra, {"difficulty": difficulty})


def controllers():
    return [
        published.FixedKLController(0.1),
        published.AdaptiveKLController(0.1, 0.05, 100),
        TokenLevelAdaptiveKLController(0.1, 0.05, 100, "compound"),
        TokenLevelAdaptiveKLController(0.1, 0.05, 100, "anchored"),
        BucketBeta(KLSettings(target=0.01, beta_interval=2)),
    ]


def feed(controller, means, n=8):
    controller.update(BatchKL(sum(means.values()), n, means))


def test_in_the_loss_k1_has_no_expected_gradient_and_the_others_lead_to_the_reference():
    logits = logprobs(0, 7).requires_grad_()
    reference = logprobs(1, 7).log_softmax(-1)

    def gradient(kind):
        """Of the loss, in expectation over tokens sampled from the policy."""
        own = logits.log_softmax(-1)
        if kind == "full":
            expected = kl.compute_kl(own[None, None], reference[None, None], kind).sum()
        else:
            expected = (own.detach().exp() * kl.compute_kl(own, reference, kind)).sum()
        return torch.autograd.grad(expected, logits)[0]

    exact = gradient("full")
    assert exact.norm() > 0.1
    assert gradient("kl").norm() < 1e-6
    for kind in ("mse", "low_var_kl", "abs"):
        assert torch.cosine_similarity(gradient(kind), exact, dim=0) > 0.5
    torch.testing.assert_close(gradient("mse"), exact)


@quick
@given(seeds)
def test_the_sampled_estimators_agree_with_the_full_one_in_expectation(seed):
    generator = torch.Generator().manual_seed(seed)
    logits = (0.5 * torch.randn(2, 1, 1, 8, generator=generator)).clamp(-0.6, 0.6)  # so that no estimate is clipped
    own, ref = torch.log_softmax(logits, -1)
    full = kl.compute_kl(own, ref, "full").item()
    assert full >= -1e-6
    for kind in ("kl", "low_var_kl"):
        expectation = (own.exp() * kl.compute_kl(own[0], ref[0], kind)[None]).sum().item()
        assert expectation == pytest.approx(full, abs=1e-4)


def test_full_kl_wants_a_vocabulary_and_ignores_banned_tokens():
    with pytest.raises(ValueError, match=r"\[\.\.\., V\]"):
        kl.compute_kl(torch.zeros(2, 3), torch.zeros(2, 3), "full")
    own = torch.tensor([[[math.log(0.5), math.log(0.5), -math.inf]]], requires_grad=True)
    ref = torch.tensor([[[math.log(0.25), math.log(0.75), -math.inf]]])
    value = kl.compute_kl(own, ref, "full")
    value.sum().backward()
    assert value.item() == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3))
    assert own.grad.isfinite().all()
    with pytest.raises(ValueError, match="unknown KL kind"):
        kl.compute_kl(own, ref, "k3")


def test_a_token_level_controller_gives_each_row_its_buckets_coefficient():
    """`token_adaptive` crashes in the published code, which has one `kl_coef` where this controller has three."""
    data = penalty_batch()
    coefs = {"easy": 0.1, "medium": 0.2, "hard": 0.4}
    controller = TokenLevelAdaptiveKLController(coefs, 0.5, mode="anchored")
    data, metrics = published.apply_kl_penalty(data, controller)
    difference = kl.compute_kl(data.batch["old_log_probs"], data.batch["ref_log_probs"]) * data.batch["response_mask"]
    expected = data.batch["token_level_scores"] - torch.tensor([0.1, 0.2, 0.4] * 2)[:, None] * difference
    torch.testing.assert_close(data.batch["token_level_rewards"], expected)
    row_kl = difference.sum(-1) / 4
    assert metrics["bucket/hard/kl"] == pytest.approx(row_kl[2::3].mean().item(), abs=1e-6)
    assert metrics["bucket/hard/beta"] == 0.4
    assert metrics["critic/kl_coef"] == pytest.approx(0.7 / 3)
    assert controller.lambdas["hard"] == pytest.approx(1 + 0.01 * (metrics["bucket/hard/kl"] - 0.5))


def test_padding_never_reaches_the_rewards():
    data = penalty_batch()
    data.batch["old_log_probs"][:, -1] = math.nan
    data, metrics = published.apply_kl_penalty(data, published.FixedKLController(0.1), "low_var_kl")
    assert data.batch["token_level_rewards"].isfinite().all()
    assert math.isfinite(metrics["critic/kl"])


def test_full_kl_in_the_reward_reads_the_vocabulary_fields():
    own, ref = (torch.log_softmax(logprobs(s, 6, 5, 9), -1) for s in (5, 6))
    data = penalty_batch(old_vocab_log_probs=own, ref_vocab_log_probs=ref)
    data, _ = published.apply_kl_penalty(data, published.FixedKLController(1.0), "full")
    expected = data.batch["token_level_scores"] - kl.compute_kl(own, ref, "full") * data.batch["response_mask"]
    torch.testing.assert_close(data.batch["token_level_rewards"], expected)
    with pytest.raises(ValueError, match="'old_vocab_log_probs' is missing"):
        published.apply_kl_penalty(penalty_batch(), published.FixedKLController(1.0), "full")


def test_anchored_coefficients_neither_explode_nor_lock_at_zero():
    """500 updates of KL 0.5 above a target of 0.1; 100 below a target of 2 and 100 above it."""
    compound, anchored = (TokenLevelAdaptiveKLController(0.01, 0.1, mode=mode) for mode in ("compound", "anchored"))
    for _ in range(500):
        compound.update({"easy": 0.6}, {"easy": 1})
        anchored.update({"easy": 0.6}, {"easy": 1})
    assert compound.kl_coefs["easy"] > 1e100
    assert anchored.kl_coefs["easy"] == pytest.approx(0.01 * (1 + 500 * 0.01 * 0.5))

    compound, anchored = (TokenLevelAdaptiveKLController(0.01, 2.0, mode=mode) for mode in ("compound", "anchored"))
    for _ in range(100):
        compound.update({"easy": 0.0}, {"easy": 1})
        anchored.update({"easy": 0.0}, {"easy": 1})
    for _ in range(100):
        compound.update({"easy": 4.0}, {"easy": 1})
        anchored.update({"easy": 4.0}, {"easy": 1})
    assert compound.kl_coefs["easy"] == 0.0
    assert anchored.kl_coefs["easy"] > 0.01


@quick
@given(st.lists(kls, min_size=1, max_size=8), st.integers(0, 8))
def test_round_trip_in_the_middle_changes_nothing(steps, cut):
    for straight, first, second in zip(*(controllers() for _ in range(3)), strict=True):
        for means in steps:
            feed(straight, means)
        for means in steps[:cut]:
            feed(first, means)
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        for means in steps[cut:]:
            feed(second, means)
        assert second.state_dict() == straight.state_dict()
        assert second.metrics() == straight.metrics()


def test_a_restored_controller_has_the_coefficient_of_its_settings_where_it_is_no_state():
    """A fork may change algorithm.kl.coef: a fixed coefficient is a setting; of an anchored one only λ is state."""
    fixed = FixedKL(KLSettings(coef=0.5))
    fixed.load_state_dict(FixedKL(KLSettings(coef=0.1)).state_dict())
    assert fixed.kl_coef == 0.5
    before = TokenLevelAdaptiveKLController(0.1, 0.05, mode="anchored")
    feed(before, {"easy": 1.05})
    after = TokenLevelAdaptiveKLController(0.5, 0.05, mode="anchored")
    after.load_state_dict(before.state_dict())
    assert after.lambdas == before.lambdas
    assert after.kl_coefs["easy"] == pytest.approx(0.5 * before.lambdas["easy"])
    assert after.kl_coefs["hard"] == 0.5
    adaptive = published.AdaptiveKLController(0.5, 0.05, 100)
    adaptive.load_state_dict({"kl_coef": 0.1})
    assert adaptive.kl_coef == 0.1


@pytest.mark.parametrize(("told", "seen"), list(zip(controllers()[:-1], controllers()[:-1], strict=True)))
def test_the_published_update_is_the_loops(told, seen):
    """The published signature and the loop's `BatchKL` leave a controller in the same state."""
    rows, difficulty = torch.tensor([0.3, 0.1, 0.2]), ["easy", "hard", "easy"]
    batch = BatchKL.of(rows, difficulty)
    per_bucket = isinstance(told, TokenLevelAdaptiveKLController)
    told.update(*((batch.buckets, {}) if per_bucket else (batch.mean, 3)))
    seen.update(batch)
    assert told.state_dict() == seen.state_dict()
    assert batch.buckets == pytest.approx({"easy": 0.25, "hard": 0.1})


@pytest.mark.parametrize("controller", controllers())
def test_nan_and_unknown_buckets_are_errors_and_change_nothing(controller):
    before = controller.state_dict()
    if not isinstance(controller, FixedKL):
        with pytest.raises(ValueError, match="'other'"):
            feed(controller, {"easy": 0.1, "other": 1.0})
    if type(controller) is not published.FixedKLController:
        with pytest.raises(ValueError, match="nan"):
            feed(controller, {"easy": 0.1, "hard": math.nan})
    assert controller.state_dict() == before
    with pytest.raises(ValueError, match="keys"):
        controller.load_state_dict(before | {"other": 1})


def test_get_kl_controller():
    settings_ = {"kl_coef": 0.1, "kl_target": 0.2, "kl_horizon": 100, "kl_mode": "anchored"}
    kinds = {
        "fixed": published.FixedKLController,
        "adaptive": published.AdaptiveKLController,
        "token_adaptive": TokenLevelAdaptiveKLController,
    }
    for kind, expected in kinds.items():
        assert type(published.get_kl_controller(SimpleNamespace(kl_type=kind, **settings_))) is expected
    assert published.get_kl_controller(SimpleNamespace(kl_type="fixed", kl_coef=0.3)).kl_coef == 0.3  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="'adaptve'"):
        published.get_kl_controller(SimpleNamespace(kl_type="adaptve", **settings_))
    with pytest.raises(ValueError, match="no value for medium, hard"):
        published.get_kl_controller(SimpleNamespace(kl_type="fixed", kl_coef={"easy": 0.1}))


def test_hwe_tokens_get_the_relaxed_coefficient():
    rows = of_rows({"easy": 1.0, "medium": 2.0, "hard": 4.0}, ["hard", "easy"])
    hwe = torch.tensor([[0, 1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0]]).bool()
    token = kl.token_coefficients(rows, hwe, KLSettings(relax_hwe=0.5), window=2)
    assert token.tolist() == [[4, 2, 2, 4, 4, 4, 4], [1] * 7]
    window = kl.token_coefficients(rows, hwe, KLSettings(relax_hwe=0.5, relax_scope="window"), window=2)
    assert window.tolist() == [[4, 4, 2, 2, 2, 4, 4], [1] * 7]


def test_second_chance_loosens_wrong_easy_rows_only():
    rows, difficulty = np.ones(4), ["easy", "easy", "hard", "medium"]
    accuracy = np.array([0.0, 1.0, 0.0, 0.0])
    assert kl.second_chance(rows, difficulty, accuracy, 0.25).tolist() == [0.25, 1, 1, 1]
    assert kl.second_chance(rows, difficulty, accuracy, 1.0).tolist() == [1] * 4
