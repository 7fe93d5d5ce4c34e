"""Killed at every phase boundary and at random moments inside phases, again and again, on math and on code; at a few
moments with a masked-diffusion and a vision-language model.

A run is killed, started again, killed at the next point, and so on to its end; then weights, controllers, chain of
commits and MLflow history are those of the run that nobody killed. `python -m tests.resume.test_kill_anywhere` prints a
line a chain (docs/reliability.md). Not covered here: damaged files and absent services (test_faults.py).
"""

import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.short_runs import assert_same, train

SAMPLED = ["rollout", "score", "experience"]
STEP = [*SAMPLED, "shape", "update"]
CODE = ("train.steps=2", "train.checkpoint_every=2", "validation.every=2")
SETTINGS = {"tiny-math": (), "tiny-code": CODE, "tiny-diffusion": (*CODE, "learner.global_batch_prompts=4"),
            "tiny-vision": (*CODE, "learner.global_batch_prompts=4")}  # fmt: skip
FEW = ["1:rollout:inside", "2:experience:after", "2:update:inside"]


def boundaries(step: int, phases: list[str]) -> list[str]:
    """Before, inside and after every phase of a step, in the order in which they come; around the commit."""
    points = [f"{step}:{phase}:{moment}" for phase in phases for moment in ("before", "inside", "after")]
    return [*points, f"{step}:commit:before", f"{step}:commit:after"]


def moments(profile: str, steps: range, count: int) -> list[str]:
    """Random moments of up to 0.2 s after a random phase's work began, ascending; the same every time."""
    draws = random.Random(f"{profile} {steps}")
    points = [(step, place) for step in steps for place in range(len(STEP))]
    chosen = sorted(draws.sample(points, min(count, len(points))))
    return [f"{step}:{STEP[place]}:{draws.uniform(0.0, 0.2):.3f}" for step, place in chosen]


CHAINS = {
    "math, bootstrap": ("tiny-math", boundaries(0, [*SAMPLED, "compare", "evaluate", "bootstrap"])),
    "math, step 1": ("tiny-math", boundaries(1, STEP)),
    "math, step 2, evaluated": ("tiny-math", boundaries(2, [*STEP, "compare", "evaluate"])),
    "math, step 3, checkpoint": ("tiny-math", boundaries(3, [*STEP, "checkpoint"])),
    "math, random": ("tiny-math", moments("tiny-math", range(1, 5), 10)),
    "code, bootstrap": ("tiny-code", boundaries(0, [*SAMPLED, "compare", "evaluate", "bootstrap"])),
    "code, step 1": ("tiny-code", boundaries(1, STEP)),
    "code, step 2, evaluated, checkpoint": ("tiny-code", boundaries(2, [*STEP, "compare", "evaluate", "checkpoint"])),
    "code, random": ("tiny-code", moments("tiny-code", range(1, 3), 8)),
    "diffusion": ("tiny-diffusion", FEW),
    "vision": ("tiny-vision", FEW),
}


def killed(runs: Path, name: str, profile: str, points: list[str]) -> list[str]:
    """Kill a run at every point and let it end; returns the points that came. A moment may fall after the run's end."""
    came = []
    for point in points:
        ended = train(runs, name, *SETTINGS[profile], kill_at=point, profile=profile)
        if ended == -signal.SIGKILL:
            came.append(point)
        else:
            assert point.rpartition(":")[2][0].isdigit(), f"{point} never came"
    assert train(runs, name, *SETTINGS[profile], profile=profile) == 0
    return came


@pytest.mark.slow
@pytest.mark.parametrize("chain", CHAINS)
def test_killed_again_and_again_ends_in_the_same_bits(tmp_path: Path, chain: str) -> None:
    profile, points = CHAINS[chain]
    assert train(tmp_path, "uninterrupted", *SETTINGS[profile], profile=profile) == 0
    assert killed(tmp_path, "killed", profile, points)
    assert_same(tmp_path, "uninterrupted", "killed")


def main(chains: list[str]) -> None:
    """Run chains (default: all) and print a line of the table for each."""
    for chain in chains or CHAINS:
        profile, points = CHAINS[chain]
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as directory:
            runs = Path(directory)
            assert train(runs, "uninterrupted", *SETTINGS[profile], profile=profile) == 0
            came = killed(runs, "killed", profile, points)
            assert_same(runs, "uninterrupted", "killed")
        line = f"| {chain} | {len(points)} | {len(came)} | bit-identical | {time.monotonic() - started:.0f} |\n"
        sys.stdout.write(line)
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
