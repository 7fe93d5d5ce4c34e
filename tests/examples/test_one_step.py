"""A whole step of training from public names, on one page."""

import math
from pathlib import Path

from examples import one_step


def test_it_fits_on_a_page_and_trains() -> None:
    assert len(Path(one_step.__file__).read_text().splitlines()) <= 40
    metrics = one_step.main()
    assert all(math.isfinite(value) for value in metrics.values())
    assert metrics["actor/optimizer_steps"] == 2  # 16 prompts, 8 in an optimiser step
    assert metrics["actor/grad_norm"] > 0
    assert metrics["mismatch/logprob_diff_mean"] < 1e-5  # the engine samples from the learner's weights
    assert 0 < metrics["reward/accuracy"] < 1
    assert metrics == one_step.main()
