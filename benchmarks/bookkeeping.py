"""What a step costs on the host besides engine and learner, by the number of prompts that the run knows.

Everything per prompt is known (as after a bootstrap over the whole set); a step draws 64 prompts, takes in the graded
rows of 8 samples each, shapes the state, goes through JSON as between phases, and commits. Milliseconds are medians of
CPU time.

    python -m benchmarks.bookkeeping [PROMPTS …]
"""

import json
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from ares.config.profiles import load
from ares.config.run import Config
from ares.data.problems import Problems
from ares.runs.run import Run
from ares.step.state import RunState
from ares.store.store import Commit, RunStore

STEPS, PROMPTS, GROUP = 30, 64, 8


class Prompts(Run):
    """A run of many problems, without model, actors and grader."""

    def __init__(self, config: Config, store: RunStore, count: int) -> None:
        ids = [f"problem-{number}" for number in range(count)]
        self.config, self.store = config, store
        self.train_set = Problems("made up", pd.DataFrame({"id": ids, "prompt": "", "answer": "0"}), 0)
        self.state, self.commit = RunState.initial(config, count), None


def committed(run: Prompts, state: RunState, step: int) -> int:
    """Commit and continue; bytes of the commit."""
    whole = Commit(step=step, parent=run.commit.digest() if run.commit else None, artifacts={},
                   state=state.state_dict() | {"step": step}, metrics=state.metrics(), timings={},
                   timestamp=0)  # fmt: skip
    run.store.write_commit(whole)
    run.advance(run.store.read_commit(step))
    return (run.store.directory / run.store.step_path(step) / "COMMIT.json").stat().st_size


def one_step(run: Prompts, step: int, rng: np.random.Generator) -> int:
    """Draw, take in, hand on, commit; bytes of the commit."""
    state = run.restored(run.state.state_dict())
    ids = np.repeat(run.next_prompts(state, PROMPTS), GROUP)
    rows = run.train_set.rows(ids.tolist())
    accuracy = rng.integers(0, 2, len(rows)).astype(float)
    slots = np.repeat(np.arange(PROMPTS), GROUP)
    sampled = pd.DataFrame({"id": ids, "slot": slots, "accuracy": pd.array(accuracy, dtype="Float64"),
                            "token_ids": [[1, 2]] * len(rows), "log_probs": [[-1.0, -1.0]] * len(rows)})  # fmt: skip
    state.absorb_sampled(sampled, list(range(0, PROMPTS, 2)))
    state = run.restored(json.loads(json.dumps(state.state_dict())))  # the shape phase is given it as JSON
    state.difficulty.update(ids, accuracy, np.ones(len(ids)), np.full(len(ids), 3.0))
    return committed(run, state, step)


def main() -> None:
    config = load("tiny-math", ["algorithm.difficulty.drop_allpass_entropy_threshold=0.5"])
    for count in map(int, sys.argv[1:] or ["1000", "10000", "100000", "1000000"]):
        rng = np.random.default_rng(0)
        with tempfile.TemporaryDirectory() as folder:
            run = Prompts(config, RunStore(Path(folder) / "run"), count)
            names = run.train_set.frame["id"].to_numpy()
            # A third solved in certainty: those are skipped from now on, and the set of them is large too.
            solved = rng.random(count) < 1 / 3
            first = run.restored(run.state.state_dict())
            first.difficulty.update(names, solved.astype(float), np.where(solved, 0.1, 1.0), np.full(count, 3.0))
            committed(run, first, 0)
            seconds, size = [], 0
            for step in range(1, STEPS + 1):
                started = time.process_time()
                size = one_step(run, step, rng)
                seconds.append(time.process_time() - started)
            before = {name: dict(getattr(run.state.difficulty, name)) for name in ("difficulty_dict_train",)}
            started = time.process_time()
            state = RunState.initial(config, count)
            for step in range(STEPS + 1):
                commit = run.store.read_commit(step)
                state = RunState.restored(config, count, commit.state, before=state).settled()
            resumed = time.process_time() - started
            assert state.difficulty.difficulty_dict_train == before["difficulty_dict_train"]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        spent = 1000 * statistics.median(seconds[1:])
        print(f"{count:8d} prompts: {spent:6.1f} CPU ms a step, commit {size / 1000:5.1f} kB; "
              f"resume {resumed:6.2f} s; peak {peak:.2f} GiB", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
