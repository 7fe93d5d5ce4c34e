"""What sampling beside the update gains (rollout.max_staleness), and in parts (rollout.parts): an engine and a learner
rank, a core each.

The step of benchmarks/trl_step.py, with its pass before the update. The first half of the steps is left out.

    python -m benchmarks.overlap [STEPS] [fixed|skewed …]
"""

import sys
import tempfile
from pathlib import Path

from benchmarks.models import random_qwen
from benchmarks.trl_step import WORK, measured

WAYS = ((0, 1), (1, 1), (2, 2), (4, 4))
"""max_staleness and parts; in the last two no part is the newest policy's, which a step would wait for."""


def main() -> None:
    steps = sys.argv[1] if len(sys.argv) > 1 else "16"
    for lengths in sys.argv[2:] or ["fixed", "skewed"]:
        with tempfile.TemporaryDirectory() as folder:
            model = str(random_qwen(Path(folder) / "model", end_logit=WORK[lengths].end_logit or 0.0))
            fresh = 0.0
            for stale, parts in WAYS:
                settings = [f"rollout.max_staleness={stale}", f"rollout.parts={parts}", "train.keep_checkpoints=2"]
                command = ["benchmarks.trl_step", "ours", model, lengths, steps, "rollout.engine=vllm", *settings]
                seconds = measured(command, {})[0]
                fresh = fresh or seconds
                told = f"{lengths} lengths, max_staleness={stale}, parts={parts}: {seconds:6.2f} s a step"
                print(f"{told}, {fresh / seconds:.2f}x", flush=True)


if __name__ == "__main__":
    main()
