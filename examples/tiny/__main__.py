"""Build a tiny model and its problems from nothing, in about a minute and a half on one core.

python -m examples.tiny tiny-math --out mine
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.progress import Progress

from examples.tiny import CHECKPOINTS
from examples.tiny.tasks import TASKS, build


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the arguments, by default the command line's, and build what they name."""
    parser = argparse.ArgumentParser(prog="python -m examples.tiny", description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--out", type=Path, help="folder to write; default: the one that the task's profile reads")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and examples")
    asked = parser.parse_args(arguments)
    task = TASKS[asked.task]
    out = asked.out or CHECKPOINTS / task.folder
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"--out {out}: no folder can be made there: {error.strerror}")
    with Progress() as progress:
        bar = progress.add_task("warm start", total=task.steps)
        build(task, out, asked.seed, lambda: progress.advance(bar))
    progress.console.print(f"next: ares eval {out} --profile {asked.task}", soft_wrap=True)


if __name__ == "__main__":
    main()
