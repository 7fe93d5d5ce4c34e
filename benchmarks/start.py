"""Seconds from the command to the end of the first step, and from a resume to the next one, each in a fresh process.

The first start is not counted: it makes the databases of Prefect and MLflow, which later ones find. "profile" is the
line that a run begins with, "bootstrap" its end with the first evaluation.

    python -m benchmarks.start [STARTS]
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
MARKS = {"bootstrap: one": "profile", "resuming": "profile", "bootstrap  acc": "bootstrap", "step ": "step"}
"""What has ended, by the beginning of a line."""


def started(home: str, *arguments: str) -> dict[str, float]:
    """Seconds of a command until each of the marks, and until its end."""
    environment = os.environ | {"ARES_RUNS": f"{home}/runs", "PREFECT_HOME": f"{home}/prefect", "PYTHONUNBUFFERED": "1"}
    seconds, began = {}, time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "flows.cli", *arguments], cwd=REPOSITORY, env=environment, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            for begin, mark in MARKS.items():
                if line.startswith(begin):
                    seconds[mark] = time.perf_counter() - began
    assert process.returncode == 0, f"`ares {' '.join(arguments)}` ended with {process.returncode}"
    return seconds | {"end": time.perf_counter() - began}


def main() -> None:
    starts = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    taken: dict[str, list[dict[str, float]]] = {"start": [], "resume": []}
    with tempfile.TemporaryDirectory(prefix="ares-benchmark-") as home:
        for number in range(starts + 1):
            name = f"start-{number}"
            first = started(home, "train", "tiny-math", "train.steps=1", "--run", name)
            again = started(home, "resume", name, "train.steps=2")
            if number:
                taken["start"].append(first)
                taken["resume"].append(again)
    for what, all_of_them in taken.items():
        medians = {mark: statistics.median(each[mark] for each in all_of_them) for mark in all_of_them[0]}
        print(f"{what:7s}", "  ".join(f"{mark} {seconds:.1f} s" for mark, seconds in medians.items()))


if __name__ == "__main__":
    main()
