"""One step's update again, in this process: as the run made it, and as other settings would have made it.

    weights after n − 1 ─┬─▶ update with the run's settings ─▶ Δ       the same bits as in the run, on the same CPU
                         └─▶ update with other settings ─────▶ Δ'      |Δ'|, cosine of Δ and Δ', its metrics

Nothing is written to the run. Covered: settings of the algorithm and the learner; where they change what is made of the
samples (advantages, KL coefficients), the batch is shaped again; the first number that is not finite. Not covered:
other samples (`ares fork`), other rewards (ares/history/rescore.py).
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from pydantic import BaseModel
from torch import Tensor

from algorithms.losses import PolicyTokens, policy_loss
from algorithms.protocol import DataProto
from ares.config import POLICY_LOSSES, Config, ConfigError, override
from ares.history.measures import open_past, shape_again
from ares.learner import Learner, UpdateResult
from ares.runs import Run, check_model, find_conflicts
from ares.step import FEW_STEPS_SLOT, joined_rows, rewarded, sampled_rows, token_batch
from ares.store import RunStore, StoreError, read_drawn
from ares.workers import check_weights, newest_checkpoint

MAY_CHANGE = ("algorithm.", "learner.")


class Update(BaseModel):
    """What an update did."""

    metrics: dict[str, float]
    """Of the update (`actor/…`), as in a run."""
    steps: list[dict[str, float]]
    """Of each of its optimiser steps; none of one that was left out."""
    moved: float
    """Length of the change of all weights together."""
    cosine: float
    """Of this change and the one that the run's own settings make."""
    raised: float
    lowered: float
    """Mean change of the log-prob of sampled tokens with an advantage above zero, and below (nats)."""
    held_out_right: float | None
    held_out_wrong: float | None
    """The same of the tokens of right and wrong answers of the last evaluation before; None: there are none."""
    losses: list[float]
    """Of each sample of the batch after the update: the mean of its tokens' surrogates, by the loss of the settings."""


@dataclass(frozen=True)
class Replayed:
    """An update that is made again."""

    run: Run
    start: Path
    """A checkpoint of the weights before it."""
    batches: list[tuple[Config, DataProto, dict[str, Any] | None]]
    """Settings, batch and state of the β controller: as it was, then, if there are other settings, with those."""
    held_out: tuple[DataProto, Tensor] | None
    """Samples of the last evaluation before the step, and which of them are right [B]."""

    def updates(self) -> list[Update]:
        """Make it: with the run's settings, and with the other ones."""
        updates: list[Update] = []
        reference: Tensor | None = None
        for config, batch, beta in self.batches:
            update, change = _updated(config, self, batch, beta, reference)
            reference = change if reference is None else reference
            updates.append(update)
        return updates

    @property
    def table(self) -> pd.DataFrame:
        """The samples of the batch, in its order: global_id, sample, accuracy."""
        columns = self.batches[-1][1].non_tensor_batch
        return pd.DataFrame({name: list(columns[name]) for name in ("global_id", "sample", "accuracy")})

    def find_not_finite(self) -> str | None:
        """Where the update with the last settings first meets a number that is not finite; None: nowhere."""
        config, batch, beta = self.batches[-1]
        for name in sorted(batch.batch.keys()):
            if found := self._place(batch, batch.tensor(name)):
                return f"{name} of {found}, as the batch has it"
        learner = Learner(config)
        learner.load(self.start)
        done: int | UpdateResult = 0
        updates = learner.updates(batch, beta)
        while isinstance(done, int):
            when = f"after optimiser step {done}" if done else "before the update"
            seen = learner.policy.for_iteration(batch, 0)
            if found := self._place(batch, learner.log_probs(seen, config.rollout.temperature)):
                return f"log-prob of {found}, {when}"
            if wrong := [name for name, weight in learner.weights().items() if not weight.isfinite().all()]:
                return f"weight {wrong[0]}, {when}"
            done = next(updates)
        if skipped := int(done.metrics["actor/skipped_updates"]):
            return f"the loss or gradient of {skipped} optimiser steps, which were left out; all log-probs are finite"
        return None

    def _place(self, batch: DataProto, values: Tensor) -> str | None:
        """Sample and token of the first response token whose value [B, L] is not finite."""
        mask = batch.tensor("response_mask").bool()
        if values.shape != mask.shape or not (wrong := ~values.isfinite() & mask).any():
            return None
        row, column = wrong.nonzero()[0].tolist()
        names, token = batch.non_tensor_batch, int(batch.tensor("responses")[row, column])
        text = self.run.tokenizer.decode([token])
        return f"{names['global_id'][row]}, sample {names['sample'][row]}, token {column} ({text!r})"


@contextmanager
def replay(
    name: str, step: int, overrides: list[str], runs: Path, tell: Callable[[str], None] = lambda cost: None
) -> Iterator[Replayed]:
    """The update of a committed step, ready to be made with the run's settings and, if there are overrides, with them.

    tell: is told what that takes, before it begins. Raises ConfigError, StoreError or DamagedArtifact.
    """
    if wrong := [each for each in overrides if not each.startswith(MAY_CHANGE)]:
        raise ConfigError(f"{wrong[0]}: an update is replayed with settings of algorithm.… and learner.… alone")
    run = open_past(name, runs)
    store, own = run.store, run.config
    check_model(store, own, replays=True)
    check_replayable(run, step)
    changed = override(own, overrides) if overrides else own
    if missing := find_conflicts(own, changed, set(), step, "experience"):
        raise ConfigError(f"{', '.join(missing)}: what that takes was not measured in this run: `ares fork` makes it")
    drawn, scores = read_drawn(store, step)
    begun, _ = newest_checkpoint(store, step - 1)
    tell(cost_of_updates(store, begun + 1, step, 2 if overrides else 1))
    for number in range(step):
        run.advance(store.read_commit(number))
    rows = joined_rows([drawn], [scores], run.train_set)
    with tempfile.TemporaryDirectory(prefix="ares-replay-") as folder:
        start = Path(folder)
        if overrides and step == 1:  # with what only these settings keep, such as an average of the weights
            rebuilt(changed, store, 0).save(start)
        rebuilt(own, store, step - 1).save(start)
        batches = []
        for config in [own, *([changed] if overrides else [])]:
            batch, state = shape_again(run.step(step), rewarded(rows, config, run.state.tests), config)
            batches.append((config, batch, None if state.beta is None else state.beta.state_dict()))
        yield Replayed(run, start, batches, _held_out(run, step))


def _held_out(run: Run, step: int) -> tuple[DataProto, Tensor] | None:
    """Samples of the last evaluation before a step, and which are right; None if there are none, or they are gone."""
    evaluated = [each.step for each in run.state.evaluations if each.step < step]
    if not evaluated or run.validation_set is None:
        return None
    try:
        rows, scores = read_drawn(run.store, evaluated[-1], held_out=True)
    except StoreError:
        return None
    # Samples of averaged weights have the same numbers, and come last.
    first = (rows["slot"] < FEW_STEPS_SLOT) & ~rows.duplicated(["slot", "sample"])
    known = (first & scores["accuracy"].notna()).to_numpy()
    batch = token_batch(sampled_rows([rows[known].reset_index(drop=True)], run.validation_set), run.pad_id)
    return batch, torch.tensor((scores["accuracy"][known].astype(float) >= 1).to_numpy())


def cost_of_updates(store: RunStore, first: int, last: int, times: int) -> str:
    """What it takes to make the updates of some steps again, the last one several times; by the run's own seconds."""
    took = [store.read_commit(step).timings.get("timing_s/update", 0.0) for step in range(first, last + 1)]
    return f"replays {len(took) + times - 1} updates, about {sum(took) + took[-1] * (times - 1):.0f} s"


def check_replayable(run: Run, step: int) -> None:
    """Raise ConfigError or StoreError if the update of a step cannot be made again."""
    store = run.store
    if run.fork is not None and step <= run.fork.version:
        raise StoreError(f"step {step} is of {run.fork.run!r}, from which {store.name!r} was forked: ask there")
    if step not in store.committed_steps() or step == 0:
        raise StoreError(f"Run {store.name!r} has no committed step {step} with an update")
    check_weights(store, step - 1)


def rebuilt(config: Config, store: RunStore, version: int) -> Learner:
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
    config: Config, replayed: Replayed, batch: DataProto, beta: dict[str, Any] | None, reference: Tensor | None
) -> tuple[Update, Tensor]:
    """An update, and its change of all weights [N]. reference: the change to compare with; None: itself."""
    learner = Learner(config)
    learner.load(replayed.start)
    before = {name: weight.clone() for name, weight in learner.weights().items()}
    seen, temperature = [learner.policy.for_iteration(batch, 0)], config.rollout.temperature
    if replayed.held_out:
        seen += learner.policy.views(replayed.held_out[0], config.train.seed, learner.version, 1)
    was = [learner.log_probs(each, temperature) for each in seen]
    done = learner.update(batch, beta)
    now = [learner.log_probs(each, temperature) for each in seen]
    raised = [after - before for after, before in zip(now, was, strict=True)]
    outside: list[float | None] = [None, None]
    if replayed.held_out:
        held_out, right = replayed.held_out
        outside = [_mean_where(raised[1], held_out, chosen[:, None]) for chosen in (right, ~right)]
    after = learner.weights()
    change = torch.cat([(after[name] - weight).double().flatten() for name, weight in before.items()])
    return Update(
        metrics=done.metrics,
        steps=done.steps,
        moved=float(change.norm()),
        cosine=float(torch.cosine_similarity(change, change if reference is None else reference, dim=0)),
        raised=_mean_where(raised[0], batch, batch.tensor("advantages") > 0),
        lowered=_mean_where(raised[0], batch, batch.tensor("advantages") < 0),
        held_out_right=outside[0],
        held_out_wrong=outside[1],
        losses=_losses(config, seen[0], now[0]),
    ), change


def _losses(config: Config, batch: DataProto, log_probs: Tensor) -> list[float]:
    """The surrogate of each row alone, a mean over its tokens; none of them is among those that a loss chooses."""
    surrogate, losses = POLICY_LOSSES.make(config.algorithm.policy), []
    names = ("old_log_probs", "advantages", "response_mask", "importance_weights")
    for row in range(len(batch)):
        old, advantages, mask, weights = (batch.tensor(name)[row : row + 1] for name in names)
        tokens = PolicyTokens(old, log_probs[row : row + 1], advantages, mask, torch.zeros_like(mask, dtype=torch.bool))
        losses.append(float(policy_loss(surrogate, tokens, weights)[0]))
    return losses


def _mean_where(values: Tensor, batch: DataProto, chosen: Tensor) -> float:
    mask = batch.tensor("response_mask").bool() & chosen
    return float(values[mask].mean()) if mask.any() else 0.0
