"""Metrics: the staleness of a batch's tokens, scores of reward functions."""

import numpy as np
import pandas as pd
import pytest

from ares.step.metrics import function_metrics, lag_metrics
from tests.ares.builders import config


@pytest.mark.parametrize(
    ("stale", "parts", "step", "shares"),
    [
        (2, 2, 1, [14, 0, 0]),
        (2, 2, 2, [1, 13, 0]),  # its two parts are the first policy's
        (2, 2, 9, [1, 4, 9]),
        (1, 2, 9, [5, 9]),
        (3, 2, 9, [1, 0, 4, 9]),
        (3, 4, 9, [3, 2, 4, 5]),
    ],
)
def test_how_old_tokens_are_follows_from_their_place(stale: int, parts: int, step: int, shares: list[int]) -> None:
    settings = config(f"rollout.max_staleness={stale}", f"rollout.parts={parts}").rollout
    rows = pd.DataFrame({"slot": [0, 0, 1, 1, 2], "tokens": [8, 4, 0, 1, 1]})  # slot 2 was drawn besides
    metrics = lag_metrics(rows, step, settings)
    expected = np.array(shares) / sum(shares)
    assert [metrics[f"rollout/staleness_share/{lag}"] for lag in range(stale + 1)] == pytest.approx(expected.tolist())
    assert metrics["rollout/staleness_mean"] == pytest.approx(float(expected @ np.arange(stale + 1)))


def test_numbers_beside_a_score_are_averaged_where_they_are_finite() -> None:
    """One NaN among them made the mean NaN; an integer beyond floats, as of a parsed answer, ended the run."""
    parts = '"acc": 1, "kl": NaN, "why": "x", "answer": -1' + "0" * 400
    extras = [f'{{"f": {{{parts}}}}}', '{"f": {"acc": false, "kl": Infinity}}', None]
    rows = pd.DataFrame({"score_f": [1.0, 0.0, None], "extras": extras})
    assert function_metrics(rows) == {"rewards/f/mean": 0.5, "rewards/f/std": 0.5**0.5, "rewards/f/acc/mean": 0.5}
