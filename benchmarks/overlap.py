"""What sampling beside the update gains (rollout.max_staleness=1): one engine and one learner rank, a core each.

The step of benchmarks/trl_step.py, with its pass before the update, at staleness 0 and 1. The first half of the steps
is left out.

    python -m benchmarks.overlap [STEPS] [fixed|skewed …]
"""

import sys
import tempfile
from pathlib import Path

from benchmarks.models import random_qwen
from benchmarks.trl_step import END_LOGIT, TOKENS, measured


def main() -> None:
    steps = sys.argv[1] if len(sys.argv) > 1 else "8"
    for lengths in sys.argv[2:] or ["fixed", "skewed"]:
        seconds = []
        with tempfile.TemporaryDirectory() as folder:
            model = str(random_qwen(Path(folder) / "model", end_logit=END_LOGIT[lengths]))
            for staleness in (0, 1):
                settings = ["rollout.engine=vllm", f"rollout.max_staleness={staleness}", "train.keep_checkpoints=2"]
                command = ["benchmarks.trl_step", "ours", model, str(TOKENS[lengths]), steps, *settings]
                seconds.append(measured(command, {})[0])
                print(f"{lengths} lengths, max_staleness={staleness}: {seconds[-1]:6.2f} s a step", flush=True)
        print(f"  {seconds[0] / seconds[1]:.2f}x", flush=True)


if __name__ == "__main__":
    main()
