"""Metrics of reward functions under TRL's names: `rewards/NAME/mean` and `std` of unweighted scores over the responses
that a function applies to; `rewards/NAME/PART/mean` of a finite number that its dict holds beside the score.

Not covered: the total (`reward/score`, ares/step/metrics.py).
"""

import json
import sys

import numpy as np
import pandas as pd

from ares.grading import EXTRAS, SCORE

OF_A_FUNCTION = f"{SCORE}_"


def function_columns(rows: pd.DataFrame) -> list[str]:
    """The columns of reward functions; none if another grader judged."""
    return [str(name) for name in rows if name == EXTRAS or str(name).startswith(OF_A_FUNCTION)]


def function_metrics(rows: pd.DataFrame) -> dict[str, float]:
    """Metrics of rows with columns of functions; nothing if there are none, or none applied."""
    metrics: dict[str, float] = {}
    columns = function_columns(rows)
    for column in columns:
        if column == EXTRAS:
            metrics |= _of_extras(rows[EXTRAS])
            continue
        values = rows[column].to_numpy(dtype=float, na_value=np.nan)
        values = values[~np.isnan(values)]
        name = f"rewards/{column.removeprefix(OF_A_FUNCTION)}"
        if len(values):
            metrics[f"{name}/mean"] = float(values.mean())
        if len(values) > 1:
            metrics[f"{name}/std"] = float(values.std(ddof=1))
    return metrics


def _of_extras(extras: pd.Series) -> dict[str, float]:
    logged: dict[str, list[float]] = {}
    for function, parts in (pair for text in extras.dropna() for pair in json.loads(text).items()):
        for part, value in parts.items():
            # Not math.isfinite, which raises for integers beyond floats.
            if isinstance(value, bool | int | float) and abs(value) <= sys.float_info.max:
                logged.setdefault(f"rewards/{function}/{part}/mean", []).append(float(value))
    return {name: float(np.mean(values)) for name, values in logged.items()}
