"""The run `uninterrupted` that many tests look at: trained from start to end like that of a user who runs no server.

Under pytest-xdist the controller starts it at once: it takes as long as the workers' imports and their first tests.
"""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from tests.waiting import wait_for

REPOSITORY = Path(__file__).resolve().parents[1]
SMALL = [
    "train.steps=4", "train.checkpoint_every=3", "rollout.prompts=4", "rollout.shard_prompts=3", "rollout.n=4",
    "learner.global_batch_prompts=2", "bootstrap.max_prompts=12", "bootstrap.n=2", "validation.max_prompts=8",
    "validation.n=2", "validation.every=2",
]  # fmt: skip
_FOLDER = "ARES_TEST_SHARED_RUN"
"""Environment variable: where it is, for the workers of xdist too."""


def start() -> None:
    """Start it; it is gone with this process."""
    folder = Path(tempfile.mkdtemp(prefix="ares-shared-"))
    os.environ[_FOLDER] = str(folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    environment = os.environ | as_a_user(folder / "runs") | {"PREFECT_HOME": str(folder / "prefect")}
    command = [sys.executable, "-m", "tests.killed_cli", "train", "tiny-math", *SMALL, "--run", "uninterrupted"]
    with (folder / "uninterrupted.stdout").open("w") as out, (folder / "uninterrupted.stderr").open("w") as errors:
        process = subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=out, stderr=errors)
    atexit.register(process.kill)

    def wait() -> None:
        (folder / ".ended").write_text(str(process.wait()))
        (folder / ".ended").rename(folder / "ended")

    threading.Thread(target=wait, daemon=True).start()


def as_a_user(runs: Path | str) -> dict[str, str]:
    """The environment of a command whose runs lie there, and which nobody kills."""
    return {"ARES_RUNS": str(runs), "KILL_AT": "-1:none:before", "COLUMNS": "200"}


def directory() -> Path:
    """The directory of runs that holds it, once it has succeeded. Its output is beside it: `uninterrupted.stdout`."""
    if _FOLDER not in os.environ:
        start()
    folder = Path(os.environ[_FOLDER])
    wait_for((folder / "ended").exists, "the end of the run that tests share", 900)
    assert (folder / "ended").read_text() == "0", (folder / "uninterrupted.stderr").read_text()
    return folder / "runs"
