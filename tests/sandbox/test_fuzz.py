"""Whatever a candidate does to the conversation is its own failure: a score of zero, in time, never no score."""

import random

import pytest

from sandbox import SandboxPool
from tests.sandbox.fuzz import program


@pytest.mark.parametrize("count", [60, pytest.param(10_000, marks=pytest.mark.slow)])
def test_no_fuzzed_candidate_passes_has_no_score_or_stalls(count: int) -> None:
    programs = [program(random.Random(f"fuzz-{number}")) for number in range(count)]
    wrong = []
    with SandboxPool(num_workers=2) as pool:
        for number, verdict in pool.stream(programs):
            if verdict.pass_ratio != 0:  # none where the worker was given up because nothing came
                wrong.append((number, verdict, programs[number].source))
    assert wrong == []
