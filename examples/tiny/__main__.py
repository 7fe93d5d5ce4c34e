"""Build a tiny model and its problems from nothing, in about a minute and a half on one core.

python -m examples.tiny tiny-math --out mine
"""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from examples.tiny import CHECKPOINTS, diffusion_warmstart, vision_warmstart
from examples.tiny.tasks import TASKS
from examples.tiny.warmstart import warmstart

BUILDERS: dict[str, tuple[str, Any]] = {
    **{name: (task.folder, partial(warmstart, task=task)) for name, task in TASKS.items()},
    **{
        task.name: (task.folder, partial(diffusion_warmstart.warmstart, task=task))
        for task in (diffusion_warmstart.DIFFUSION, diffusion_warmstart.DIFFUSION_HARD)
    },
    vision_warmstart.NAME: (vision_warmstart.FOLDER, vision_warmstart.warmstart),
}
"""Folder of the shipped result, and what builds it."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.tiny", description=__doc__)
    parser.add_argument("task", choices=BUILDERS)
    parser.add_argument("--out", type=Path, help="folder to write; default: the one that the task's profile reads")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and examples")
    given = parser.parse_args()
    folder, build = BUILDERS[given.task]
    out = given.out or CHECKPOINTS / folder
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"--out {out}: no folder can be made there: {error.strerror}")
    console = Console()
    with Progress(console=console) as progress:
        bar = progress.add_task("warm start", total=None)
        report = build(
            out, seed=given.seed, progress=lambda done, total, loss: progress.update(bar, completed=done, total=total)
        )
    console.print(f"{out}: held-out accuracy {report.heldout.accuracy:.3f} at temperature 1")
    console.print(f"next: ares train {given.task}" + (f" model.path={out}" if given.out else ""))


if __name__ == "__main__":
    main()
