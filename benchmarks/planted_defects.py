"""How often `ares bisect` finds a planted defect: the step, and the groups of it.

    python -m benchmarks.planted_defects [profile] [plants]

A toy is trained; each plant is two forks of that run. In one the verifier judges all training problems the other way
round for three steps, so that wrong answers earn the reward, as if a service had failed: is one of those steps named,
or the one after them, which their momentum still moves? In the other it does so at one step for three of its sixteen
groups, those with as many right as wrong answers: are they ranked first? Steps and windows are drawn with keys.
Interrupted, the same command goes on.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pandas as pd

from algorithms.keys import derive_seed
from ares.grading.grader import STEP
from ares.history import find_fall
from ares.runs import fork
from ares.store import RunStore, runs_directory
from flows.bisect import Bisection
from flows.start import open_run, train_plainly

HEALTHY, STEPS, SAMPLES, POISONED, OUTAGE = "healthy", 24, 8, 3, 3
"""A run's name and steps; held-out samples a problem; poisoned groups of a step; steps that a failure lasts."""


def main(profile: str = "tiny-math", plants: str = "10") -> None:
    """Train the healthy run, then plant and search."""
    os.environ.setdefault("ARES_RUNS", tempfile.mkdtemp(prefix="planted-"))
    runs = runs_directory()
    settings = [f"train.steps={STEPS}", "bootstrap.max_prompts=400", "learner.lr=1e-3", "validation.every=100",
                "train.keep_checkpoints=9"]  # fmt: skip
    begun = (runs / HEALTHY).exists()
    train_plainly(open_run(None if begun else profile, [] if begun else settings, HEALTHY))
    found = [plant(number, runs) for number in range(int(plants))]
    told = [named for named, _ in found if named is not None]
    hits = [places[:POISONED].count(True) for _, places in found]
    print(
        f"{len(found)} plants in {profile}: step named in {len(told)}, rightly in {sum(told)}; a poisoned group ranked "
        f"first in {sum(places[0] for _, places in found)}; of {POISONED}, among the first {POISONED} of 16: {hits}"
    )


def plant(number: int, runs: Path) -> tuple[bool | None, list[bool]]:
    """Whether the search named the step rightly (None: it named none), and which ranked groups were poisoned."""
    store, seed = RunStore(runs / HEALTHY), derive_seed(0, "plant", number)
    step = sorted(range(5, STEPS - OUTAGE - 2), key=lambda each: derive_seed(0, "order", each))[number]
    first, last = step - 1 - seed // 7 % 4, step + OUTAGE - 1 + seed // 31 % 3
    rows = store.read_rows(store.read_commit(step).artifacts["samples"])
    doubt = rows.groupby("id")["accuracy"].mean().sub(0.5).abs().sort_values(kind="stable")
    poisoned = [str(each) for each in doubt.index[:POISONED]]

    with planted(f"outage-{number}", (first, last), runs, outage=range(step - 1, step + OUTAGE - 1)) as search:
        fall = asyncio.run(find_fall(search.first, search.last, SAMPLES, search.measure, print))
    named = None if fall is None or fall.after - fall.before > 1 else step <= fall.after <= step + OUTAGE

    with planted(f"groups-{number}", (step - 1, step), runs, wrong=poisoned) as search:
        asyncio.run(search.measure(step - 1, SAMPLES))
        ranked = sorted(search.groups(step, SAMPLES), key=lambda group: -group.effect.mean)
    places = [group.id in poisoned for group in ranked]
    print(f"plant {number}: step {step} in {first}:{last}, found {fall and (fall.before, fall.after)}; "
          f"groups {[(each.id in poisoned, round(each.effect.mean, 4)) for each in ranked]}",
          flush=True)  # fmt: skip
    return named, places


def planted(
    name: str, steps: tuple[int, int], runs: Path, wrong: Sequence[str] = (), outage: range = range(0)
) -> Bisection:
    """A search over a fork of the healthy run whose verifier has a defect. outage: the numbers of steps done before."""
    if not (runs / name).exists():
        fork(HEALTHY, steps[0], None, [f"train.steps={steps[1]}"], name, runs)
    run = open_run(None, [], name)
    with patch.object(run.grader, "grade", partial(judge_wrongly, run.grader.grade, wrong, outage)):
        train_plainly(run)
    return Bisection(name, "val/accuracy", *steps, SAMPLES, runs)


def judge_wrongly(
    grade: Callable[[pd.DataFrame], pd.DataFrame], wrong: Sequence[str], outage: range, rows: pd.DataFrame
) -> pd.DataFrame:
    """A grader's table, the other way round for `wrong` problems, and for all of training in an outage."""
    scores = grade(rows)
    is_hit = rows["id"].isin(wrong) | (rows["id"].str.startswith("train") & rows[STEP].isin(outage))
    accuracy = scores["accuracy"].mask(is_hit, 1 - scores["accuracy"])
    if "test_outcomes" in scores:
        verdict = accuracy.map({1.0: "accepted", 0.0: "wrong_answer"})
        outcomes = [[each] * len(tests) for each, tests in zip(verdict, scores["test_outcomes"], strict=True)]
        scores = scores.assign(
            pass_ratio=scores["pass_ratio"].mask(is_hit, accuracy),
            error_type=scores["error_type"].mask(is_hit, verdict),
            test_outcomes=scores["test_outcomes"].mask(is_hit, pd.Series(outcomes, scores.index, dtype=object)),
        )
    return scores.assign(accuracy=accuracy)


if __name__ == "__main__":
    main(*sys.argv[1:])
