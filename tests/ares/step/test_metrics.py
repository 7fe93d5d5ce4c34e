"""The staleness of a batch's tokens."""

import numpy as np
import pandas as pd
import pytest

from ares.step.metrics import lag_metrics
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
