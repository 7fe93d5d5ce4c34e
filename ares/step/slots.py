"""How samples of a step are numbered: by slot (group), and sample within it."""

import pandas as pd

GREEDY = -1
"""Sample number of the greedy answer that ReMax compares with."""
SECOND_TURN_SLOT = 1_000_000_000
"""Second turns of slot s are the group s + SECOND_TURN_SLOT; sample k of it continues first turn k // children."""
FEW_STEPS_SLOT = 500_000_000
"""Held-out samples of slot s drawn in few passes (validation.few_steps) have slot s + FEW_STEPS_SLOT."""


def is_second_turn(rows: pd.DataFrame) -> pd.Series:
    """Which rows are second turns."""
    return rows["slot"] >= SECOND_TURN_SLOT
