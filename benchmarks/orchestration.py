"""What Prefect, Ray, MLflow and the run directory cost a step: the same steps of tiny-math in three ways.

whole: `ares train`. plain: `ares train --plain`, which writes the run directory. bare: learner, engine and the
functions of a step called one after the other in this process, nothing written. whole and plain must end in the same
weights. What Prefect's database grows by is the whole run's, with its bootstrap, by the number of steps.

    python -m benchmarks.orchestration [STEPS]
"""

import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import flows.environment  # isort: skip  # noqa: F401 (first: libraries read their settings at import)

from ares.config import load
from ares.store import Commit, RunStore
from benchmarks.gpu.device import Place
from benchmarks.gpu.steps import take_tiny_steps

SETTINGS = ["bootstrap.max_prompts=48", "bootstrap.n=2", "validation.every=1000", "train.checkpoint_every=1000",
            "validation.max_prompts=8", "algorithm.filter.enabled=false"]  # fmt: skip


def train(home: Path, name: str, steps: int, *options: str) -> list[Commit]:
    """The commits of a run of tiny-math."""
    environment = os.environ | {"ARES_RUNS": str(home / "runs"), "PREFECT_HOME": str(home / "prefect")}
    command = [sys.executable, "-m", "flows.cli", "train", "tiny-math", *SETTINGS, f"train.steps={steps}"]
    subprocess.run([*command, "--run", name, *options], env=environment, check=True, stdout=subprocess.DEVNULL)
    store = RunStore(home / "runs" / name)
    return [store.read_commit(step) for step in store.committed_steps()]


def database_bytes(home: Path) -> int:
    """What is in Prefect's database."""
    with sqlite3.connect(home / "prefect" / "prefect.db") as database:
        pages = "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, "
        return int(database.execute(f"{pages} pragma_page_size").fetchone()[0])


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory(prefix="ares-benchmark-") as folder:
        home = Path(folder)
        train(home, "first", 1)  # makes the databases
        before = database_bytes(home)
        runs = {"whole": train(home, "whole", steps)}
        grown = (database_bytes(home) - before) / steps
        runs["plain"] = train(home, "plain", steps, "--plain")
        bare = take_tiny_steps(Place("cpu", False, home), load("tiny-math", SETTINGS), steps)
        seconds = {"bare": [row["whole step s"] for row in bare]}
    for way, commits in runs.items():
        seconds[way] = [(after.timestamp - first.timestamp) / 1000 for first, after in pairwise(commits)]
    ends = {commits[-1].artifacts["checkpoint"].sha256 for commits in runs.values()}
    assert len(ends) == 1, "the two runs did not train the same"
    median = {way: 1000 * statistics.median(of_steps[1:]) for way, of_steps in seconds.items()}
    for way, milliseconds in median.items():
        print(f"{way:6s} {milliseconds:6.0f} ms a step, {milliseconds - median['bare']:+5.0f} ms")
    print(f"Prefect's database grows by {grown / 1000:.0f} kB a step")


if __name__ == "__main__":
    main()
