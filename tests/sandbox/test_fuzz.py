"""Whatever a candidate does to the conversation is its own failure: a score of zero, in time, and never none."""

import random

import pytest
from fuzz import program

from sandbox import SandboxPool


@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.slow)])
def test_no_fuzzed_candidate_passes_has_no_score_or_stalls(count: int) -> None:
    programs = [program(random.Random(f"fuzz-{number}")) for number in range(count)]
    wrong = []
    with SandboxPool(num_workers=2) as pool:
        for number, verdict in pool.stream(programs):
            longest = 4 * (0.5 + 0.25) + 30  # of three tests and the source; a busy machine has its time, too
            if verdict.pass_ratio != 0 or verdict.wall_time > longest:
                wrong.append((number, verdict, programs[number].source))
    assert wrong == []
