"""What a step drew is read again as it was drawn, or not at all."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from ares.store import MEMO_FILE, Kept, RunStore, StoreError, read_drawn, read_measured
from tests.ares.store_builders import chain, commit, flip

STEP = "steps/000001"


def draw_step(store: RunStore, shards: int, past: str) -> None:
    """Step 1, whose draws are a shard each. past: a step that is done again has another one."""

    def keep(phase: str, name: str, **result: object) -> None:
        store.memo(1).keep(Kept(f"owner-{past}{name}", phase, result))

    (first,) = chain(store, 1)
    for shard in range(shards):
        rows = pd.DataFrame({"slot": [shard] * 2, "sample": [0, 1], "past": past})
        rollout, score = (
            store.write_rows(f"{STEP}/{kind}-rollout-{shard:04d}.parquet", rows).model_dump()
            for kind in ("rollout", "score")
        )
        measured = store.write_json(f"{STEP}/experience-{shard:04d}.safetensors", past).model_dump()
        keep("rollout", f"rollout{shard}", rows=rollout)
        keep("score", f"score{shard}", rows=score)
        keep("experience", f"experience{shard}", rollouts=[rollout], slots=[], measured=measured)
    samples = store.write_json(f"{STEP}/samples.parquet", past)
    keep("shape", "shape", samples=samples.model_dump())
    store.write_commit(commit(1, first, artifacts={"samples": samples}, metrics={"filter/rollouts": float(shards)}))
    store.forget(1)


def test_a_step_that_was_done_again_has_drawn_what_it_drew_last(store: RunStore) -> None:
    """Shards of a past in which it drew more were counted, and the learner's measures of them."""
    for shards, past in ((3, "a"), (2, "b"), (3, "a"), (1, "b")):
        draw_step(store, shards, past)
        drawn, scores = read_drawn(store, 1)
        assert drawn["slot"].unique().tolist() == scores["slot"].unique().tolist() == list(range(shards))
        assert {*drawn["past"], *scores["past"]} == {past}
        assert len(read_measured(store, 1)) == shards


def lose_end(file: Path) -> None:
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))


@pytest.mark.parametrize(
    ("file", "damage", "told"),
    [
        (MEMO_FILE, flip, "step 1: .*/phases.jsonl is damaged"),
        (MEMO_FILE, lose_end, "step 1: .*/phases.jsonl is damaged"),
        (MEMO_FILE, Path.unlink, "step 1: what it sampled is gone"),
        ("rollout-rollout-0001.parquet", flip, "step 1: .*/rollout-rollout-0001.parquet has changed"),
        ("score-rollout-0001.parquet", Path.unlink, "step 1: .*/score-rollout-0001.parquet is missing"),
    ],
)
def test_damaged_samples_are_refused(file: str, damage: Callable[[Path], None], told: str, store: RunStore) -> None:
    """After a damaged line the samples of the lines behind it were left out without a word."""
    draw_step(store, 2, "a")
    damage(store.directory / STEP / file)
    with pytest.raises(StoreError, match=told):
        read_drawn(store, 1)
