"""Absent scores in any pattern and groups of any size: advantages stay finite, and absent is not zero."""

import functools
import math

import numpy as np
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ares.config import ESTIMATORS, Config
from ares.step.shape import shape
from ares.step.state import RunState
from tests.ares.builders import config, handmade

scores = st.one_of(st.none(), st.sampled_from([0.0, 1.0]), st.floats(0, 1))
trained = st.lists(
    st.tuples(st.lists(scores, max_size=4), st.floats(0, 1), st.floats(0, 1)).map(
        lambda drawn: [*drawn[0], *drawn[1:]]
    ),
    min_size=1,
    max_size=4,
)
"""As the refill leaves them: at least two scores per group."""


@functools.cache
def settings_of(*overrides: str) -> Config:
    return config(*overrides)


@settings(max_examples=30, deadline=None)
@given(
    estimator=st.sampled_from([name for name in ESTIMATORS.builtin if not ESTIMATORS.fact(name, "by_turn")]),
    aepo=st.sampled_from(["true", "false"]),
    drawn=trained,
    noise=st.integers(0, 2**31),
)
def test_absent_scores_teach_nothing(estimator: str, aepo: str, drawn: list[list[float | None]], noise: int) -> None:
    assume(aepo == "false" or estimator not in ("gdpo", "maxrl", "pass_at_k"))
    assume(estimator != "none")  # its advantages are 0, whatever the scores
    of_run = settings_of(f"algorithm.advantage.estimator={estimator}", f"algorithm.aepo.enabled={aepo}")
    if ESTIMATORS.fact(estimator, "zero_or_one"):
        drawn = [[score if score is None else float(score > 0.5) for score in group] for group in drawn]
    size = sum(map(len, drawn))
    rng = np.random.default_rng(noise)
    batch = handmade([rng.uniform(0, 3, rng.integers(1, 8)).tolist() for _ in range(size)], drawn)
    batch.batch["values"] = torch.zeros_like(batch.tensor("entropies"))
    batch.non_tensor_batch["baseline"] = np.full(size, 0.5, dtype=object)
    metrics = shape(batch, RunState.initial(of_run, 10), of_run)

    absent = torch.tensor([score is None for group in drawn for score in group])
    for name in ("advantages", "returns", "token_level_scores"):
        assert batch.tensor(name).isfinite().all()
        assert (batch.tensor(name)[absent] == 0).all()
    assert not batch.tensor("response_mask")[absent].any()
    assert [math.isnan(value) for value in batch.non_tensor_batch["reward"]] == absent.tolist()
    assert metrics["reward/unscored"] == absent.sum()
    assert not any(map(math.isinf, metrics.values()))
