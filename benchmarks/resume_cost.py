"""What a kill late in a step costs: recovery against recomputing every step since the last weight checkpoint.

A run is killed just before the update of its last step, with no weights written since the start, and started again.
Recovery is what the resumed run did: replaying the committed batches and the phases that were missing. Recomputing is
what the steps took in a run that nobody killed: what a trainer that resumes from its weights alone would repeat.
Starting processes and loading models is the same for both and in neither figure; it is printed as what a run took that
was killed at the same point with weights written one step before, less its update and checkpoint.

    python -m benchmarks.resume_cost [STEPS] [PROFILE]
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ares.store.store import Commit, RunStore

REPOSITORY = Path(__file__).resolve().parent.parent


def trained(
    runs: Path,
    name: str,
    profile: str,
    steps: int,
    checkpoint_every: int,
    kill_at: str | None = None,
    settings: Sequence[str] = (),
) -> list[Commit]:
    """Commits of a run after `ares train`, killed at a point or not."""
    command = [sys.executable, "-m", "tests.killed_cli", "train", profile, f"train.steps={steps}",
               f"train.checkpoint_every={checkpoint_every}", "validation.every=100000", "bootstrap.max_prompts=48",
               "bootstrap.n=2", *settings, "--run", name]  # fmt: skip
    environment = os.environ | {"ARES_RUNS": str(runs), "KILL_AT": kill_at or "-1:none:before"}
    ended = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    assert ended.returncode == (-9 if kill_at else 0), ended.stderr
    store = RunStore(runs / name)
    return [store.read_commit(step) for step in store.committed_steps()]


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    profile = sys.argv[2] if len(sys.argv) > 2 else "tiny-math"
    with tempfile.TemporaryDirectory(prefix="ares-resume-cost-") as directory:
        runs = Path(directory)
        whole = trained(runs, "whole", profile, steps, steps)
        last = f"{steps}:update:before"
        trained(runs, "killed", profile, steps, steps, last)
        resumed = trained(runs, "killed", profile, steps, steps)
        trained(runs, "near", profile, steps, steps - 1, last)
        near = trained(runs, "near", profile, steps, steps - 1)
    assert resumed[-1].digest() == whole[-1].digest(), "the resumed run is another one"
    recomputing = sum(commit.timings["timing_s/step"] for commit in whole[1:])
    missing = whole[-1].timings["timing_s/update"] + whole[-1].timings["timing_s/checkpoint"]
    loading = near[-1].timings["timing_s/step"] - missing
    recovery = resumed[-1].timings["timing_s/step"] - loading
    print(f"{profile}, killed before the update of step {steps}, no weights written since the start")
    print(f"loading      {loading:6.1f} s  (in neither)")
    print(f"recovery     {recovery:6.1f} s  (replayed {steps - 1} updates, did update and checkpoint)")
    print(f"recomputing  {recomputing:6.1f} s  ({steps} steps)")
    print(f"recovery / recomputing  {recovery / recomputing:.2f}")


if __name__ == "__main__":
    main()
