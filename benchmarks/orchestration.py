"""What orchestration, persistence and tracking cost per step: the same steps with and without them.

With: the flow as users run it (Prefect API, phases, run directory, MLflow). Without: the same actors and the same plain
functions called one after the other, nothing written. Both train the same steps and must end in the same weights. What
Prefect's database grows by is the whole run's, with its bootstrap, by the number of steps.

    python -m benchmarks.orchestration [STEPS]
"""

import asyncio
import os
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

import flows.environment  # noqa: F401 (first: libraries read their settings at import)

HOME = tempfile.mkdtemp(prefix="ares-benchmark-")
os.environ["ARES_RUNS"] = HOME
os.environ["PREFECT_HOME"] = f"{HOME}/prefect"

import numpy as np
import pandas as pd
import ray
import torch
from safetensors.torch import load_file

import tasks.sampling
from algorithms.protocol import DataProto
from ares.cluster.actors import EngineActor, LearnerActor
from ares.config.profiles import load
from ares.engines.engine import Request, SamplingSettings
from ares.learner.learner import UpdateResult
from ares.runs.run import Run
from ares.step import graded, keep_groups, rewarded, token_batch
from ares.step.shape import shape
from ares.step.state import RunState
from ares.store.store import RunStore
from flows.servers.local_server import local_api
from flows.train import ares_train, prepare

SETTINGS = ["bootstrap.max_prompts=48", "bootstrap.n=2", "validation.every=1000", "train.checkpoint_every=1000",
            "validation.max_prompts=8", "algorithm.filter.enabled=false"]  # fmt: skip


class BareLearner(LearnerActor):
    """The learner, its batches handed over in memory."""

    def bare_experience(self, batch: DataProto) -> DataProto:
        return batch.union(self.learner.experience(batch))

    def bare_update(self, batch: DataProto) -> UpdateResult:
        return self.learner.update(batch)


def database_bytes() -> int:
    """What is in Prefect's database."""
    with sqlite3.connect(f"{HOME}/prefect/prefect.db") as database:
        pages = "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, "
        return int(database.execute(f"{pages} pragma_page_size").fetchone()[0])


def conducted(steps: int) -> tuple[list[float], dict[str, torch.Tensor], float]:
    """Seconds of each step of the real flow, the weights it ends with, and bytes of Prefect's database per step."""
    name = prepare("tiny-math", [*SETTINGS, f"train.steps={steps}"], "conducted")
    with local_api() as server:
        assert server is not None
        with server.connected():
            before = database_bytes()
            asyncio.run(ares_train(run=name))
            time.sleep(5)  # what is written in batches
            grown = database_bytes() - before
    store = RunStore(Path(HOME) / name)
    commits = [store.read_commit(step) for step in store.committed_steps()]
    stamps = [commit.timestamp / 1000 for commit in commits]
    weights = load_file(store.path(commits[-1].artifacts["checkpoint"]) / "policy.safetensors")
    return list(np.diff(stamps)), weights, grown / steps


def bare(steps: int) -> tuple[list[float], dict[str, torch.Tensor]]:
    """The same without Prefect, run directory and MLflow."""
    config = load("tiny-math", [*SETTINGS, f"train.steps={steps}"])
    run = Run.open(config, "conducted", Path(HOME))
    run.state = RunState.restored(config, len(run.train_set), run.store.read_commit(0).state)
    settings = config.model_dump(mode="json")
    ray.init(address="local", num_cpus=2, include_dashboard=False, ignore_reinit_error=True, log_to_driver=False)
    learner = ray.remote(BareLearner).options(num_cpus=1).remote(settings, str(run.store.directory.absolute()))
    engine = ray.remote(EngineActor).options(num_cpus=1).remote(settings)
    ray.get([learner.version.remote(), engine.version.remote()])
    state = run.state
    seconds = []
    for number in range(1, steps + 1):
        started = time.perf_counter()
        ray.get(engine.load_weights.remote(number - 1, learner.weights.remote()))
        ids = run.train_set.frame["id"].iloc[state.cursor.take(config.rollout.prompts)].tolist()
        draw = tasks.sampling.Draw(version=number - 1, purpose="rollout", shard=0, first_slot=0, ids=ids,
                                   n=config.rollout.n, temperature=config.rollout.temperature)  # fmt: skip
        rows = tasks.sampling.requested(run.step(number), draw)
        requests = [Request(*pair) for pair in zip(rows["prompt_token_ids"], rows["seed"], strict=True)]
        how = SamplingSettings(draw.temperature, config.rollout.top_p, config.rollout.max_response_length)
        rows = rows.join(pd.concat([ray.get(part) for part in engine.generate.remote(requests, how)]))
        rows = rows.merge(run.train_set.frame.drop(columns="prompt_token_ids"), on="id")
        rows = rows.merge(run.grader.grade(rows).drop(columns="id"), on=["slot", "sample"])
        accuracy = rows["accuracy"].to_numpy(dtype=float, na_value=np.nan)
        assert len(keep_groups(rows, config.algorithm.filter, accuracy)) == config.rollout.prompts
        rows = rewarded(rows, config, None)
        sampled = graded(token_batch(rows, run.pad_id), rows)
        batch = ray.get(learner.bare_experience.remote(sampled))
        shape(batch, state, config)
        ray.get(learner.bare_update.remote(batch))
        seconds.append(time.perf_counter() - started)
    weights = {name: torch.tensor(array) for name, array in ray.get(learner.weights.remote()).items()}
    return seconds, weights


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with_all, weights, grown = conducted(steps)
    without, expected = bare(steps)
    assert all(torch.equal(weights[name], expected[name]) for name in expected), "the two did not train the same"
    table = pd.DataFrame({"with": with_all[1:], "without": without[1:]}) * 1000
    print((table.describe(percentiles=[0.5, 0.9]).loc[["mean", "50%", "90%"]]).round(0).to_string())
    print(
        f"orchestration, persistence and tracking: {table['with'].median() - table['without'].median():.0f} ms a step, "
        f"{grown / 1000:.0f} kB of Prefect's database"
    )


if __name__ == "__main__":
    main()
