"""What a run's directory says of it without its data or weights: settings, and where it stands. Writes nothing.

Not covered: whether settings and inputs are still those of the run (ares/runs/description.py).
"""

from pathlib import Path
from typing import Any

from algorithms.buckets import BUCKETS
from ares.config import Config, from_dict
from ares.store.errors import StoreError
from ares.store.locations import run_store
from ares.store.store import RunStore


def read_config(store: RunStore) -> Config:
    """The configuration of an existing run."""
    return from_dict(read_description(store)["config"], str(store.directory / "run.json"))


def read_description(store: RunStore) -> dict[str, Any]:
    """run.json of an existing run. Raises StoreError."""
    description, needed = store.read_run(), ("config", "digests")
    if not all(isinstance(description.get(key), dict) for key in needed):
        raise StoreError(f"{store.directory / 'run.json'}: no description of a run: it needs {' and '.join(needed)}")
    match description["config"]:
        case {"reward": {"code": dict(code)}}:
            code.pop("verdicts", None)  # of earlier versions: it changed no result
            code.setdefault("untrusted", "accept")  # before there was this setting
    return description


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
