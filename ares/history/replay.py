"""One step's update again, in this process: as the run made it, and as other settings would have made it.

    weights after n − 1 ─┬─▶ update with the run's settings ─▶ Δ       the same bits as in the run, on the same CPU
                         └─▶ update with other settings ─────▶ Δ'      |Δ'|, cosine of Δ and Δ', its metrics

Nothing is written to the run. Covered: settings of the algorithm and the learner; where they change what is made of the
samples (advantages, KL coefficients), the batch is shaped again. Not covered: other samples (`ares fork`), other
rewards (ares/history/rescore.py).
"""

import tempfile
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel
from torch import Tensor

from algorithms.protocol import DataProto
from ares.config import Config, ConfigError, override
from ares.history.measures import drawn_samples, open_past, shape_again
from ares.learner import Learner
from ares.runs import check_model, find_conflicts
from ares.step import joined_rows, rewarded
from ares.store import RunStore, StoreError
from ares.workers import newest_checkpoint

MAY_CHANGE = ("algorithm.", "learner.")


class Update(BaseModel):
    """What an update did."""

    metrics: dict[str, float]
    """Of the update (`actor/…`), as in a run."""
    moved: float
    """Length of the change of all weights together."""
    cosine: float
    """Of this change and the one that the run's own settings make."""
    raised: float
    lowered: float
    """Mean change of the log-prob of sampled tokens with an advantage above zero, and below (nats)."""


def replay(name: str, step: int, overrides: list[str], runs: Path) -> list[Update]:
    """The update of a committed step: with the run's settings, then, if there are overrides, with them.

    Raises ConfigError, StoreError or DamagedArtifact.
    """
    if wrong := [each for each in overrides if not each.startswith(MAY_CHANGE)]:
        raise ConfigError(f"{wrong[0]}: an update is replayed with settings of algorithm.… and learner.… alone")
    run = open_past(name, runs)
    store, own = run.store, run.config
    check_model(store, own)
    if own.model.family == "masked_diffusion":
        raise ConfigError("an update of a masked-diffusion model is not replayed: its masks are drawn anew")
    if run.fork is not None and step <= run.fork.version:
        raise StoreError(f"step {step} is of {run.fork.run!r}, from which {name!r} was forked: replay it there")
    changed = override(own, overrides) if overrides else own
    if missing := find_conflicts(own, changed, set(), step, "experience"):
        raise ConfigError(f"{', '.join(missing)}: what that takes was not measured in this run: `ares fork` makes it")
    if step not in store.committed_steps() or step == 0:
        raise StoreError(f"Run {name!r} has no committed step {step} with an update")
    for number in range(step):
        run.advance(store.read_commit(number))
    drawn, scores = drawn_samples(run.step(step))
    rows = joined_rows([drawn], [scores], run.train_set)
    with tempfile.TemporaryDirectory(prefix="ares-replay-") as folder:
        start = Path(folder)
        _rebuilt(own, store, step - 1).save(start)
        updates: list[Update] = []
        reference: list[Tensor] = []
        for config in [own, *([changed] if overrides else [])]:
            batch, state = shape_again(run.step(step), rewarded(rows, config, run.state.tests), config)
            beta = None if state.beta is None else state.beta.state_dict()
            update, change = _updated(config, start, batch, beta, reference)
            reference = reference or change
            updates.append(update)
    return updates


def _rebuilt(config: Config, store: RunStore, version: int) -> Learner:
    """A learner with the weights after a step."""
    learner = Learner(config)
    start, checkpoint = newest_checkpoint(store, version)
    if checkpoint is not None:
        learner.load(store.path(checkpoint))
    for step in range(start + 1, version + 1):
        batch = store.read_commit(step).artifacts["batch"]
        learner.update(DataProto.load(store.path(batch)), store.read_commit(step - 1).state["beta"])
    return learner


def _updated(
    config: Config, start: Path, batch: DataProto, beta: dict[str, Any] | None, reference: list[Tensor]
) -> tuple[Update, list[Tensor]]:
    """An update from the weights at `start`, and its change of each weight. reference: the change to compare with."""
    learner = Learner(config)
    learner.load(start)
    before = {name: weight.clone() for name, weight in learner.weights().items()}
    was = learner.experience(batch).tensor("old_log_probs")
    metrics = learner.update(batch, beta).metrics
    now = learner.experience(batch).tensor("old_log_probs")
    after = learner.weights()
    change = [(after[name] - weight).double() for name, weight in before.items()]
    moved = _length(change)
    along = sum(float((mine * other).sum()) for mine, other in zip(change, reference or change, strict=True))
    other = _length(reference or change)
    return Update(
        metrics=metrics,
        moved=moved,
        cosine=along / (moved * other) if moved and other else 0.0,
        raised=_mean_where(now - was, batch, batch.tensor("advantages") > 0),
        lowered=_mean_where(now - was, batch, batch.tensor("advantages") < 0),
    ), change


def _length(change: list[Tensor]) -> float:
    return float(torch.sqrt(torch.stack([part.square().sum() for part in change]).sum()))


def _mean_where(values: Tensor, batch: DataProto, chosen: Tensor) -> float:
    mask = batch.tensor("response_mask").bool() & chosen
    return float(values[mask].mean()) if mask.any() else 0.0
