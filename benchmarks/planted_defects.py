"""How often `ares bisect` finds a planted defect: the step, and the groups of it.

    python -m benchmarks.planted_defects [plants]

tiny-math is trained with a verifier of the user's. Each plant is two forks of that run. In one the verifier judges all
training problems the other way round for three steps, so that wrong answers earn the reward, as if a service had
failed: is one of those steps named, or the one after them, which their momentum still moves? In the other it does so at
one step for three of its sixteen groups, those with as many right as wrong answers: are they ranked first? Steps and
windows are drawn with keys. Interrupted, the same command goes on.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from algorithms.keys import derive_seed
from ares.history import find_fall
from ares.runs import fork
from ares.store import RunStore, runs_directory
from flows.bisect import Bisection
from flows.start import open_run, train_plainly

VERIFIER = '''
import re

WRONG, OUTAGE = {wrong!r}.split(), range(*{outage!r})


def right(completions, answer, id, trainer_state, **columns):
    """1 for a right answer in the box; the other way round for WRONG problems, and for all of training in an OUTAGE."""
    boxes = [re.findall(r"boxed{{(.*?)}}", text)[-1:] for text in completions]
    out = trainer_state.global_step in OUTAGE
    inverted = [name in WRONG or (out and name.startswith("train")) for name in id]
    return [float((box == [str(truth)]) != wrong) for box, truth, wrong in zip(boxes, answer, inverted)]
'''
HEALTHY, STEPS, SAMPLES, POISONED, OUTAGE = "healthy", 24, 4, 3, 3


def main() -> None:
    """Train the healthy run, then plant and search."""
    os.environ.setdefault("ARES_RUNS", tempfile.mkdtemp(prefix="planted-"))
    runs, folder = runs_directory(), Path(os.environ["ARES_RUNS"])
    folder.mkdir(parents=True, exist_ok=True)
    settings = [f"train.steps={STEPS}", "bootstrap.max_prompts=400", "learner.lr=1e-3", "validation.every=100",
                "train.keep_checkpoints=9", f"reward.kind={verifier(folder, HEALTHY)}"]  # fmt: skip
    begun = (folder / HEALTHY).exists()
    train_plainly(open_run(None if begun else "tiny-math", [] if begun else settings, HEALTHY))
    found = [plant(number, folder, runs) for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 10)]
    told = [named for named, _ in found if named is not None]
    hits = [places[:POISONED].count(True) for _, places in found]
    print(
        f"{len(found)} plants: step named in {len(told)}, rightly in {sum(told)}; a poisoned group ranked first in "
        f"{sum(places[0] for _, places in found)}; of {POISONED}, among the first {POISONED} of 16: {hits}"
    )


def verifier(folder: Path, name: str, wrong: Sequence[str] = (), outage: tuple[int, int] = (0, 0)) -> str:
    """A verifier, as `reward.kind` names it. outage: the number of steps done before its first and after its last."""
    file = folder / f"verifier_{name.replace('-', '_')}.py"
    file.write_text(VERIFIER.format(wrong=" ".join(wrong), outage=outage))
    return f"{file}:right"


def plant(number: int, folder: Path, runs: Path) -> tuple[bool | None, list[bool]]:
    """Whether the search named the step rightly (None: it named none), and which ranked groups were poisoned."""
    store, seed = RunStore(folder / HEALTHY), derive_seed(0, "plant", number)
    step = sorted(range(5, STEPS - OUTAGE - 2), key=lambda each: derive_seed(0, "order", each))[number]
    first, last = step - 1 - seed // 7 % 4, step + OUTAGE - 1 + seed // 31 % 3
    rows = store.read_rows(store.read_commit(step).artifacts["samples"])
    doubt = rows.groupby("id")["accuracy"].mean().sub(0.5).abs().sort_values(kind="stable")
    poisoned = [str(each) for each in doubt.index[:POISONED]]

    with planted(f"outage-{number}", (first, last), folder, runs, outage=(step - 1, step + OUTAGE - 1)) as search:
        fall = asyncio.run(find_fall(search.first, search.last, SAMPLES, search.measure, print))
    named = None if fall is None or fall.after - fall.before > 1 else step <= fall.after <= step + OUTAGE

    with planted(f"groups-{number}", (step - 1, step), folder, runs, wrong=poisoned) as search:
        asyncio.run(search.measure(step - 1, SAMPLES))
        ranked = sorted(search.groups(step, SAMPLES), key=lambda group: -group.effect)
    places = [group.id in poisoned for group in ranked]
    print(f"plant {number}: step {step} in {first}:{last}, found {fall and (fall.before, fall.after)}; "
          f"groups {[(each.id in poisoned, round(each.effect, 4)) for each in ranked]}",
          flush=True)  # fmt: skip
    return named, places


def planted(name: str, steps: tuple[int, int], folder: Path, runs: Path, **defect: Any) -> Bisection:
    """A search over a fork of the healthy run whose verifier has a defect."""
    if not (folder / name).exists():
        settings = [f"reward.kind={verifier(folder, name, **defect)}", f"train.steps={steps[1]}"]
        fork(HEALTHY, steps[0], None, settings, name, runs)
    train_plainly(open_run(None, [], name))
    return Bisection(name, "val/accuracy", *steps, SAMPLES, runs)


if __name__ == "__main__":
    main()
