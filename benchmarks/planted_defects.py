"""How often `ares bisect` finds a planted defect: the step, and the group of it.

    python -m benchmarks.planted_defects [plants]

tiny-math is trained with a verifier of the user's; after step 12 with four groups a step and a learning rate of 1e-3.
Each plant is a fork in which the verifier judges one problem the other way round, so that one group of one step is
poisoned: its wrong answers earn the reward. `ares bisect` is asked for the steps around it. Problems, steps and windows
are drawn with keys. Interrupted, the same command goes on.
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from algorithms.keys import derive_seed
from ares.history import Fall, find_fall
from ares.runs import fork
from ares.store import RunStore, runs_directory
from flows.bisect import Bisection
from flows.start import open_run, train_plainly

VERIFIER = '''
import re

WRONG = {wrong!r}


def right(completions, answer, id, **columns):
    """1 for a right answer in the box; the other way round for one problem."""
    boxes = [re.findall(r"boxed{{(.*?)}}", text)[-1:] for text in completions]
    return [float((box == [str(truth)]) != (name == WRONG)) for box, truth, name in zip(boxes, answer, id)]
'''
FEW_GROUPS = ["rollout.prompts=4", "learner.global_batch_prompts=4", "learner.warmup_steps=0", "learner.lr=1e-3",
              "validation.every=100", "train.keep_checkpoints=9"]  # fmt: skip
HEALTHY, SHARED, STEPS, WINDOW, SAMPLES = "healthy", 12, 32, 6, 4


def main() -> None:
    """Train the healthy run, then plant and search."""
    os.environ.setdefault("ARES_RUNS", tempfile.mkdtemp(prefix="planted-"))
    runs, folder = runs_directory(), Path(os.environ["ARES_RUNS"])
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / HEALTHY).exists():
        train_plainly(open_run("tiny-math", [f"train.steps={SHARED}", "bootstrap.max_prompts=400",
                                             f"reward.kind={verifier(folder, None)}"], "begun"))  # fmt: skip
        fork("begun", SHARED, None, [*FEW_GROUPS, f"train.steps={STEPS}"], HEALTHY, runs)
    train_plainly(open_run(None, [], HEALTHY))
    found = [plant(number, folder, runs) for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 10)]
    told = [named for named, _ in found if named is not None]
    print(f"{len(found)} plants: step named in {len(told)}, rightly in {sum(told)}; "
          f"the poisoned group ranked first of 4 in its step in {sum(each[1] for each in found)}")  # fmt: skip


def verifier(folder: Path, wrong: str | None) -> str:
    """A verifier that is wrong about a problem, as `reward.kind` names it."""
    file = folder / f"verifier_{wrong}.py"
    file.write_text(VERIFIER.format(wrong=wrong))
    return f"{file}:right"


async def searched(search: Bisection, step: int) -> Fall | None:
    """What the search finds; the step before the plant is measured in any case, for the groups."""
    fall = await find_fall(search.first, search.last, SAMPLES, search.measure, print)
    await search.measure(step - 1, SAMPLES)
    return fall


def plant(number: int, folder: Path, runs: Path) -> tuple[bool | None, bool]:
    """Whether the search named the step rightly (None: it named none), and whether the group was ranked first."""
    store = RunStore(folder / HEALTHY)
    seed = derive_seed(0, "plant", number)
    step = SHARED + 2 + seed % (STEPS - SHARED - WINDOW - 2)
    groups = store.read_rows(store.read_commit(step).artifacts["samples"]).groupby("id")["accuracy"].mean()
    problem = str(groups.sort_values().index[-1])  # the one with the most right answers
    first = max(step - 1 - seed % (WINDOW - 1), SHARED)
    name = f"plant-{number}"
    if not (folder / name).exists():
        settings = [f"reward.kind={verifier(folder, problem)}", f"train.steps={first + WINDOW}"]
        fork(HEALTHY, first, None, settings, name, runs)
    train_plainly(open_run(None, [], name))
    with Bisection(name, "val/accuracy", first, first + WINDOW, SAMPLES, runs) as search:
        fall = asyncio.run(searched(search, step))
        ranked = sorted(search.groups(step, SAMPLES), key=lambda group: -group.effect)
    named = None if fall is None or fall.after - fall.before > 1 else fall.after == step
    print(f"{name}: step {step}, {problem}; found {fall and (fall.before, fall.after)}; "
          f"ranked {[(group.id, round(group.effect, 4)) for group in ranked]}", flush=True)  # fmt: skip
    return named, ranked[0].id == problem


if __name__ == "__main__":
    main()
