"""Losses and gradients that are not finite: the optimiser step is skipped and counted."""

import math

import pytest

from tests.ares.builders import shaped
from tests.ares.learner_builders import equal, finite, learner, sampled, weights


@pytest.mark.parametrize(
    ("name", "bad"),
    [("advantages", math.nan), ("advantages", math.inf), ("kl_coefs", math.inf), ("old_log_probs", math.nan),
     ("returns", math.nan)],
)  # fmt: skip
def test_a_value_that_is_not_finite_skips_the_update_and_is_counted(name: str, bad: float) -> None:
    trained = learner("algorithm.advantage.estimator=gae")
    batch = shaped(trained, sampled())
    before = weights(trained)
    good = batch.tensor(name).clone()
    batch.batch[name][2, 0] = bad
    result = trained.update(batch)
    assert finite(result)
    assert result.metrics["actor/skipped_updates"] == 1
    assert result.metrics["actor/optimizer_steps"] == 0
    assert trained.version == 1
    assert equal(before, weights(trained))
    # It leaves nothing behind: the next update is what it would have been.
    batch.batch[name] = good
    trained.update(batch)
    untouched = learner("algorithm.advantage.estimator=gae")
    untouched.update(batch)
    assert equal(weights(untouched), weights(trained))


def test_only_the_optimiser_step_with_the_bad_value_is_skipped() -> None:
    trained = learner("learner.global_batch_prompts=1")
    batch = shaped(trained, sampled())
    batch.batch["advantages"][5, 0] = math.nan
    result = trained.update(batch)
    assert result.metrics["actor/skipped_updates"] == 1
    assert result.metrics["actor/optimizer_steps"] == 1
    reference = learner("rollout.prompts=1", "learner.global_batch_prompts=1")
    reference.update(batch[:4])
    assert equal(weights(reference), weights(trained))
