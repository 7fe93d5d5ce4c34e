"""The learner with a masked-diffusion policy: masks of each iteration, micro-batches, the reference."""

from pathlib import Path

import pytest
import torch

from ares.config import Config, ConfigError
from ares.learner.learner import Learner
from ares.learner.ranks import Ranks
from ares.step.shaping import shape
from ares.step.state import RunState
from tests.ares.masked_builders import config, sampled, shaped

MATH = "reward.kind=math"


def settings(*overrides: str) -> Config:
    return config(MATH, *overrides)


class OneOfTwo(Ranks):
    """A rank whose sums stay its own part."""

    def sum(self, values: torch.Tensor) -> None:
        pass


def test_ranks_share_the_rows_of_experience() -> None:
    alone, batch = Learner(settings("algorithm.policy.epochs=2")), sampled()
    whole = alone.experience(batch)
    first, second = (Learner(alone.config, OneOfTwo(rank, 2)).experience(batch) for rank in range(2))
    assert torch.equal(first.tensor("mask_seeds"), whole.tensor("mask_seeds"))
    for name in ("old_log_probs", "iteration_old_log_probs", "iteration_ref_log_probs"):
        one, other = first.tensor(name), second.tensor(name)
        torch.testing.assert_close(one + other, whole.tensor(name), atol=1e-5, rtol=1e-5)
        rows_of_both = one.flatten(1).any(1) & other.flatten(1).any(1)
        assert not rows_of_both.any()


def test_experience_holds_every_iterations_log_probs_and_the_engines_entropies() -> None:
    learner, batch = Learner(settings("algorithm.policy.epochs=2", "learner.micro_batch_tokens=64")), sampled()
    new = learner.experience(batch)
    assert "entropies" not in new.fields  # the engine's are in the batch already
    whole = batch.union(new)
    for iteration in range(2):
        seen = learner.policy.for_iteration(whole, iteration)
        with torch.no_grad():
            log_probs = learner.policy.token_log_probs(seen.batch, learner.config.rollout.temperature).log_probs
        mask = seen.tensor("response_mask").bool()
        torch.testing.assert_close(seen.tensor("old_log_probs")[mask], log_probs, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(seen.tensor("ref_log_probs"), seen.tensor("old_log_probs"))
        assert (seen.tensor("old_log_probs")[~mask] == 0).all()
    both = [learner.policy.for_iteration(whole, iteration).tensor("old_log_probs") for iteration in range(2)]
    assert not torch.equal(*both)
    torch.testing.assert_close(whole.tensor("old_log_probs"), (both[0] + both[1]) / 2)


def weights(learner: Learner) -> torch.Tensor:
    return torch.cat([value.flatten() for value in learner.weights().values()])


def test_entropies_of_the_denoising_passes_feed_the_buckets() -> None:
    learner = Learner(settings("algorithm.aepo.enabled=true"))
    batch = sampled()
    engines = batch.tensor("entropies").clone()
    batch = batch.union(learner.experience(batch))
    metrics = shape(batch, RunState.initial(learner.config, 100), learner.config)
    assert torch.equal(batch.tensor("entropies"), engines)
    mask = batch.tensor("response_mask")
    assert metrics["entropy/mean"] == pytest.approx(float((engines * mask).sum() / mask.sum()))
    assert "bucket/medium/hwe" in metrics or "bucket/hard/hwe" in metrics


def test_at_the_sampling_weights_every_iteration_starts_at_ratio_one() -> None:
    """Old log-probs were taken under the same masks: nothing is clipped and no KL is seen before weights move."""
    learner = Learner(settings("learner.lr=1e-12"))
    metrics = learner.update(shaped(learner)).metrics
    assert metrics["actor/optimizer_steps"] == 2
    assert metrics["actor/ppo_kl"] == pytest.approx(0.0, abs=1e-6)
    assert metrics["actor/pg_clipfrac_higher"] == 0.0
    assert metrics["actor/kl_loss"] == pytest.approx(0.0, abs=1e-8)


def test_micro_batches_of_another_size_give_the_same_update() -> None:
    results = []
    for tokens in (64, 100000):
        learner = Learner(settings(f"learner.micro_batch_tokens={tokens}", "learner.lr=1e-3"))
        learner.update(shaped(learner))
        results.append(weights(learner))
    torch.testing.assert_close(*results, atol=2e-5, rtol=0)


def test_steps_have_masks_of_their_own() -> None:
    learner = Learner(settings())
    first = shaped(learner).tensor("mask_seeds")
    learner.version = 1
    assert not set(first.flatten().tolist()) & set(shaped(learner).tensor("mask_seeds").flatten().tolist())


def test_the_reference_follows_every_so_many_steps_and_survives_a_checkpoint(tmp_path: Path) -> None:
    learner = Learner(settings("algorithm.kl.reference_sync=2", "learner.lr=1e-3"))
    start = weights(learner)

    def reference(of: Learner) -> torch.Tensor:
        return torch.cat([value.flatten() for value in of.reference.model.parameters()])

    learner.update(shaped(learner))
    assert torch.equal(reference(learner), start)
    learner.update(shaped(learner))
    assert torch.equal(reference(learner), weights(learner))
    assert not torch.equal(weights(learner), start)
    learner.update(shaped(learner))
    learner.save(tmp_path)
    other = Learner(learner.config)
    other.load(tmp_path)
    for continued in (learner, other):
        continued.update(shaped(continued))
    assert torch.equal(weights(learner), weights(other))
    assert torch.equal(reference(learner), reference(other))


def test_leave_one_out_advantages_reach_the_loss() -> None:
    learner = Learner(settings())
    batch = sampled()
    batch = batch.union(learner.experience(batch))
    metrics = shape(batch, RunState.initial(learner.config, 100), learner.config)
    assert metrics["reward/std"] == pytest.approx((3**-0.5 + 0.5) / 2)
    assert metrics["reward/zero_std_ratio"] == 0.0
    mask = batch.tensor("response_mask").bool()
    first = [float(row[keep][0]) for row, keep in zip(batch.tensor("advantages"), mask, strict=True)]
    assert first == pytest.approx([2 / 3, -2 / 3, -2 / 3, 2 / 3, -1 / 3, -1 / 3, 1.0, -1 / 3])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("rollout.engine=transformers", "samples from causal and vision_language models"),
        ("model.family=causal", "samples from masked_diffusion models"),
        ("algorithm.policy.importance_cap=2.0", "importance_cap=null"),
        ("rollout.max_mismatch=0.02", "max_mismatch=null"),
        ("watch.mismatch_above={limit: 1}", "mismatch_above=null"),
        ("algorithm.advantage.estimator=gae", "no critic"),
        ("algorithm.kl.penalty=full", "no exact KL"),
    ],
)
def test_settings_that_do_not_fit_are_refused(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        settings(override)
