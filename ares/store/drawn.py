"""What a committed step drew: its samples, their scores and what the learner measured, from the results of its phases.

Covered: refusing what is gone or damaged, leaving out what a step drew before it was done again. Not covered: the
files and results themselves (store.py, sealed_lines.py), reading a damaged run as far as it goes (ares/runs).
"""

from typing import Any

import pandas as pd

from ares.store.commits import Ref
from ares.store.errors import DamagedArtifact, StoreError
from ares.store.sealed_lines import MEMO_FILE, Memo
from ares.store.store import RunStore


def read_drawn(store: RunStore, step: int, held_out: bool = False) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All samples that a committed step drew to train on, or of its evaluation, and their scores, row by row.

    Raises StoreError if they are gone or damaged.
    """
    memo, drawn, scores = read_finished_memo(store, step), [], []
    scored = {ref.path: ref for kept in memo.last_of("score") for ref in kept.refs()}
    sampled = [ref for kept in memo.last_of("rollout") for ref in kept.refs() if "-validation-" in ref.path]
    if not held_out:
        sampled = [Ref.model_validate(ref) for each in read_measured(store, step) for ref in each["rollouts"]]
    for ref in sorted(sampled, key=lambda ref: ref.path):
        try:
            drawn.append(pd.read_parquet(store.path(ref)))
            scores.append(store.read_rows(scored[ref.path.replace("/rollout-", "/score-")]))
        except DamagedArtifact as error:
            raise StoreError(f"step {step}: its samples are gone or damaged: {error}") from error
    if not drawn:
        raise StoreError(f"step {step}: it has no {'evaluation' if held_out else 'samples'} ({memo.path})")
    return pd.concat(drawn, ignore_index=True), pd.concat(scores, ignore_index=True)


def read_measured(store: RunStore, step: int) -> list[dict[str, Any]]:
    """What the learner measured of the samples of a committed step, draw by draw; of the bootstrap by shards.

    Raises StoreError if that is gone or damaged.
    """
    found = [kept.result for kept in read_finished_memo(store, step).last_of("experience")]
    draws = store.read_commit(step).metrics.get("filter/rollouts", len(found))
    return found[: int(draws)]  # before it was done again, the step may have drawn more


def read_finished_memo(store: RunStore, step: int) -> Memo:
    """What the phases of a committed step have found.

    Raises StoreError if it is gone, and DamagedArtifact if a line of it is damaged or lost.
    """
    memo, artifacts = store.memo(step), store.read_commit(step).artifacts
    if not memo.path.exists():
        raise StoreError(f"step {step}: what it sampled is gone, as after `ares gc` ({MEMO_FILE})")
    made = {ref for kept in memo.of_phases(("bootstrap", "shape", "evaluate")) for ref in kept.refs()}
    # Step 0 of learning from data has a table of samples that no phase has made.
    last = ("samples", "evaluation") if step or memo.of_phases(["experience"]) else ("evaluation",)
    if not memo.is_intact or {artifacts[name] for name in last if name in artifacts} - made:
        raise DamagedArtifact(f"step {step}: {memo.path} is damaged: lines of it have changed or are missing")
    return memo
