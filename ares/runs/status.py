"""Where a run stands, for any process. Writes nothing."""

from pathlib import Path
from typing import Any

from algorithms.buckets import BUCKETS
from ares.runs.description import read_config
from ares.store import run_store


def run_status(name: str, runs: Path | None = None) -> dict[str, Any]:
    """run, state (new, running, paused, stopped, finished), step, steps, sampled tokens, evaluations, and the last
    metrics of the buckets."""
    store = run_store(name, runs)
    config = read_config(store)
    commit = store.last_commit()
    step = commit.step if commit else -1
    tokens = commit.state["counters"]["tokens"] if commit else 0
    if store.is_held():
        state = "running"
    elif commit is None:
        state = "new"
    elif config.train.ends(step, tokens):
        state = "finished"
    else:
        is_paused = any(pause["step"] == step for pause in store.read_run().get("pauses", []))
        state = "paused" if is_paused else "stopped"
    return {
        "run": name,
        "state": state,
        "step": max(step, 0),
        "steps": config.train.steps,
        "tokens": tokens,
        "evaluations": commit.state["evaluations"] if commit else [],
        "buckets": {bucket: _bucket(commit.metrics if commit else {}, bucket) for bucket in BUCKETS},
    }


def _bucket(metrics: dict[str, float], bucket: str) -> dict[str, float]:
    prefix = f"bucket/{bucket}/"
    return {key.removeprefix(prefix): value for key, value in metrics.items() if key.startswith(prefix)}
