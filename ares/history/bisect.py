"""Which step made a held-out accuracy fall, and which of its groups did.

    accuracy  .79        .78    .77       .62  .61       a step has fallen when it is clearly nearer to the lower end
    step       41 ─── 45 ─ 46 ─ 47 ─ ✗ ─── 48 ─── 60     (paired interval over problems; the same noise at every step)

    weights after 47 ─┬─▶ update of step 48 ────────────────▶ log-probs of held-out samples
                      └─▶ the same, without one group ──────▶ their change, where right answers count +, wrong ones −

Covered: the search, given what measures a step; the updates without a group. Not covered: sampling (flows/bisect.py).
"""

import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor

from algorithms.protocol import DataProto
from ares.errors import UserError
from ares.evaluation import LEVEL, Estimate, Evaluation, estimate
from ares.history.replays import rebuilt
from ares.runs import Run
from ares.step import joined_rows, token_batch
from ares.store import RunStore

MORE = 4
"""Factor on the samples of an evaluation that was not clear, once."""
LEARNT = ("advantages", "kl_coefs", "entropy_coefs")
"""What a row is learnt by, each times a term of the loss."""
Accuracies = pd.Series
"""Mean accuracy of each held-out problem, by id."""
Measure = Callable[[int, int], Awaitable[Accuracies]]
"""(step, samples per problem) → accuracies."""


@dataclass(frozen=True)
class Probe:
    """A step that was evaluated."""

    step: int
    samples: int
    accuracy: float
    fallen: Estimate
    """How far below the middle between both ends, over problems; of the ends, their difference."""

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out zero; not where all problems fell alike, as a few may by chance."""
        return self.fallen.p is not None and self.fallen.p < LEVEL


@dataclass(frozen=True)
class Fall:
    """The answer of a search: the fall lies after `before`, at the latest in `after`."""

    before: int
    after: int
    probes: list[Probe]
    size: Estimate
    """Accuracy before minus accuracy after."""


async def find_fall(
    first: int, last: int, samples: int, measure: Measure, tell: Callable[[Probe], None]
) -> Fall | None:
    """Search the step at which the accuracy fell; None if it is not clearly lower after `last` than after `first`.

    A step whose place is not clear is measured again with MORE times the samples; if it is not clear even then, the
    search ends with the steps that it has left.
    """
    probes: list[Probe] = []

    async def probe(step: int, at: int) -> Probe:
        high, low, here = await measure(first, at), await measure(last, at), await measure(step, at)
        below = high - low if step == last else (high + low) / 2 - here
        of_all = below.dropna()  # problems with a score at each of the steps
        probes.append(Probe(step, at, float(here.mean()), estimate(of_all.tolist())))
        tell(probes[-1])
        return probes[-1]

    async def clear(step: int) -> Probe | None:
        for at in (samples, MORE * samples):
            if (found := await probe(step, at)).is_clear:
                return found
        return None

    ends = await clear(last)
    if ends is None or ends.fallen.mean < 0:
        return None
    before, after = first, last
    while after - before > 1:
        middle = await clear((before + after) // 2)
        if middle is None:
            break
        before, after = (before, middle.step) if middle.fallen.mean > 0 else (middle.step, after)
    most = max(each.samples for each in probes)
    size = estimate((await measure(before, most) - await measure(after, most)).dropna().tolist())
    return Fall(before, after, probes, size)


@dataclass(frozen=True)
class Group:
    """What a step's update would have been without one group."""

    slot: int
    id: str
    effect: Estimate
    """Change of the held-out accuracy by leaving it out, over problems; above zero: the group did harm."""
    samples: pd.DataFrame
    """Of the group: prompt, response, ground_truth, accuracy, advantage."""


class HeldOut(NamedTuple):
    """Samples of a policy on held-out problems, without those of problems that are always or never solved."""

    batch: DataProto
    weights: Tensor
    """[B]: the accuracy of each minus the mean of its problem, divided by its problem's samples minus one: times their
    log-probs, the samples of a problem add up to a covariance."""
    places: Tensor
    """[B]: the number of each one's problem."""
    problems: int
    """How many there are with the others."""

    def effect(self, change: Tensor) -> Estimate:
        """How a change of the samples' log-probs [B] changes the accuracy, to first order, over problems."""
        by_problem = torch.zeros(self.problems, dtype=torch.float64)
        return estimate(by_problem.index_add(0, self.places, self.weights * change).tolist())


def read_accuracies(store: RunStore) -> Accuracies:
    """What an evaluation has found; problems without a score are left out."""
    table = pd.read_parquet(store.here("problems.parquet")).set_index("id")["accuracy"]
    return table.dropna().astype(float)


def read_held_out(evaluation: Evaluation) -> HeldOut:
    """The samples of an evaluation. Raises UserError if they cannot tell groups apart."""
    folder, problems = evaluation.run.store.directory, evaluation.run.train_set
    rollouts, scores = (
        [pd.read_parquet(file) for file in sorted(folder.glob(f"{kind}-validation-*.parquet"))]
        for kind in ("rollout", "score")
    )
    rows = joined_rows(rollouts, scores, problems)
    rows = rows[rows["accuracy"].notna()].reset_index(drop=True)
    accuracies, places = rows["accuracy"].astype(float), pd.factorize(rows["id"])[0]
    of_problem = accuracies.groupby(places)
    above = accuracies - of_problem.transform("mean")
    telling = (above != 0).to_numpy()
    if not telling.any():
        raise UserError(
            "Groups cannot be told apart: every held-out problem was always or never solved; a larger --n may do"
        )
    batch = token_batch(rows[telling].reset_index(drop=True), evaluation.run.pad_id)
    weights = torch.tensor((above / (of_problem.transform("size") - 1))[telling].to_numpy())
    return HeldOut(batch, weights, torch.as_tensor(places[telling]), of_problem.ngroups)


def rank_groups(run: Run, step: int, held_out: HeldOut) -> Iterator[Group]:
    """Make a step's update without each of its groups, one after the other: what a group is learnt by counts as zero.

    held_out: of the policy before the step.
    """
    store, config = run.store, run.config
    commit, beta = store.read_commit(step), store.read_commit(step - 1).state["beta"]
    batch = DataProto.load(store.path(commit.artifacts["batch"]))
    table = store.read_rows(commit.artifacts["samples"])
    with tempfile.TemporaryDirectory(prefix="ares-bisect-") as folder:
        start, learner = Path(folder), rebuilt(config, store, step - 1)
        learner.save(start)
        seen = learner.policy.views(held_out.batch, config.train.seed, step, 1)[0]

        def log_probs_after(batch: DataProto) -> Tensor:
            learner.load(start)
            learner.update(batch, beta)
            measured = learner.log_probs(seen, config.validation.temperature)
            return (measured * seen.tensor("response_mask")).double().sum(1)

        whole = log_probs_after(batch)
        slots = torch.as_tensor(batch.non_tensor_batch["uid"].astype(int))
        for slot in slots.unique().tolist():
            fields = {name: batch.tensor(name).clone() for name in LEARNT if name in batch.fields}
            for values in fields.values():
                values[slots == slot] = 0.0
            without = DataProto.load(store.path(commit.artifacts["batch"]))
            without.batch.update(fields)
            own = table[table["slot"] == slot]
            yield Group(slot, str(own["id"].iloc[0]), held_out.effect(log_probs_after(without) - whole), own)
