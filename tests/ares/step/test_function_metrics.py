"""Metrics of reward functions' scores."""

import pandas as pd

from ares.step.function_metrics import function_metrics


def test_numbers_beside_a_score_are_averaged_where_they_are_finite() -> None:
    """One NaN among them made the mean NaN; an integer beyond floats, as of a parsed answer, ended the run."""
    parts = '"acc": 1, "kl": NaN, "why": "x", "answer": -1' + "0" * 400
    extras = [f'{{"f": {{{parts}}}}}', '{"f": {"acc": false, "kl": Infinity}}', None]
    rows = pd.DataFrame({"score_f": [1.0, 0.0, None], "extras": extras})
    assert function_metrics(rows) == {"rewards/f/mean": 0.5, "rewards/f/std": 0.5**0.5, "rewards/f/acc/mean": 0.5}
