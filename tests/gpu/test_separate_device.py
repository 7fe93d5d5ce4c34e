"""Runs this folder's tests on the separate device, which refuses what a GPU would refuse."""

import pytest

from tests.fork_server import run_code

ON_IT = """
import sys
import pytest
from tests.gpu import separate_device
separate_device.register()
files = ["tests/gpu/on_separate_device.py", "tests/gpu/test_device.py"]
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *files, "-k", {chosen!r}]))
"""
TWICE = (
    "packed, bfloat16, policy, critic, reference, adapters, after_a_checkpoint, plain_softmax, log_probs_of_the_learner"
    ", experience, split, between_decoder, token_waits, micro_batch, of_a_checkpoint"
)
OFTEN = f"not ({TWICE.replace(', ', ' or ')})"
"""Without what takes the same way as another one, at another precision for example, and most counts of waits."""


@pytest.mark.parametrize("chosen", [OFTEN, pytest.param("", marks=pytest.mark.slow)], ids=["often", "all"])
def test_learner_and_engine_keep_to_their_device(chosen: str) -> None:
    """In a process of its own: torch counts its devices once, before the first backward pass."""
    ended = run_code(ON_IT.format(chosen=chosen))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "skipped" not in ended.stdout, ended.stdout
