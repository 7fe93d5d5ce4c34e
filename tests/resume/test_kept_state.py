"""Settings that keep something between steps: killed and resumed, a run with them ends in the same bits."""

import signal
from pathlib import Path

import pandas as pd
import pytest

from ares.history import draws, open_past
from tests.short_runs import assert_same, train


@pytest.mark.slow
def test_an_order_by_difficulty_goes_on_where_it_was(tmp_path: Path) -> None:
    settings = ["data.order=easy_first", "bootstrap.max_prompts=30", "data.limit=40"]
    assert train(tmp_path, "whole", *settings) == 0
    rows = pd.read_parquet(tmp_path / "whole" / "bootstrap" / "samples.parquet")
    rates = rows.groupby("id")["accuracy"].mean()
    drawn = rates.reindex(draws(open_past("whole", tmp_path))["id"]).dropna()
    assert drawn.nunique() > 1
    assert drawn.is_monotonic_decreasing
    for point in ("1:shape:inside", "3:rollout:before"):
        assert train(tmp_path, "killed", *settings, kill_at=point) == -signal.SIGKILL
    assert train(tmp_path, "killed", *settings) == 0
    assert_same(tmp_path, "whole", "killed")


@pytest.mark.slow
def test_an_average_of_the_weights_is_made_again_by_the_replay(tmp_path: Path) -> None:
    """The checkpoints' hashes are compared, and the average is in them; the kill comes between two of them."""
    assert train(tmp_path, "whole", "learner.ema=0.9") == 0
    assert train(tmp_path, "killed", "learner.ema=0.9", kill_at="2:update:inside") == -signal.SIGKILL
    assert train(tmp_path, "killed", "learner.ema=0.9") == 0
    assert list((tmp_path / "killed" / "checkpoints").glob("*/average.safetensors"))
    assert_same(tmp_path, "whole", "killed")
