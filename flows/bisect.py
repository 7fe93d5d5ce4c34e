"""Finding the step, and the groups of it, that made a run's held-out accuracy fall: what is sampled, and the costs.

Every step is evaluated by the phases of `ares eval`, whose folders stay below the run: a second call finds them, and
goes on where one was interrupted. Weights between checkpoints are rebuilt by replaying the committed batches; those of
the steps that the search may still need are kept meanwhile. Not covered: the search, the updates without a group
(ares/history/bisect.py).
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from math import ceil, log2
from pathlib import Path
from typing import Any

from ares.cluster import Cluster
from ares.config import ConfigError
from ares.evaluation import Evaluation, EvaluationRequest
from ares.history import (
    Accuracies,
    Group,
    check_replayable,
    cost_of_updates,
    open_past,
    rank_groups,
    read_accuracies,
    read_held_out,
)
from ares.store import Ref, RunStore, StoreError
from ares.workers import PlainWorkers, Workers, check_weights, newest_checkpoint
from flows.evaluate import measure

KEPT = ".fork-bisect"
"""Folder of weights that are kept meanwhile; `ares gc` deletes what a kill leaves of it."""


class _Probed(RunStore):
    """A run with weights of more steps."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.kept: dict[int, Ref] = {}

    def checkpoint_of(self, step: int) -> Ref | None:
        """The kept weights of a step, or its checkpoint."""
        return self.kept.get(step) or super().checkpoint_of(step)

    def keep(self, step: int, made: Ref | None) -> None:
        """Keep new weights, and of the others only the newest before them: the search is between these."""
        below = max((each for each in self.kept if each <= step), default=None)
        for each in set(self.kept) - {below}:
            self.discard(self.kept.pop(each))
        if made is not None:
            self.kept[step] = made


class Bisection:
    """A run between two steps, and how it is measured. Use it as a context manager."""

    def __init__(self, name: str, metric: str, first: int, last: int, samples: int, runs: Path) -> None:
        """metric: val/accuracy, or val/NAME/accuracy of a held-out set. Raises ConfigError, DataError or StoreError."""
        run = open_past(name, runs)
        self.run, self.first, self.last, self.samples = run, first, last, samples
        sets = {f"val/{each}/accuracy": each for each in run.config.data.held_out_names}
        if metric not in {"val/accuracy": "", **sets}:
            raise ConfigError(f"--metric {metric}: {', '.join(['val/accuracy', *sets])} can be measured again")
        self.data = sets.get(metric)
        self.store = _Probed(run.store.directory)
        run.store = self.store
        steps = self.store.committed_steps()
        if not 0 <= first < last < len(steps):
            raise StoreError(
                f"--drop {first}:{last}: an earlier and a later step of run {name!r}, which has the steps 0 to "
                f"{len(steps) - 1}"
            )
        for step in (first, last):
            check_weights(self.store, step)
        self.watch: Callable[[str, int, int], None] = run.progress.watch
        self._workers: Workers | None = None
        self._accuracies: dict[tuple[int, int], Accuracies] = {}

    def __enter__(self) -> "Bisection":
        return self

    def __exit__(self, *error: object) -> None:
        if self._workers is not None:
            self._workers.close()
        self.store.remove(self.store.directory / KEPT)

    def cost(self) -> str:
        """What the search will take, if every step is clear at once."""
        evaluations = 2 + ceil(log2(self.last - self.first))
        begun, _ = newest_checkpoint(self.store, self.first)
        with self._opened(self.first, self.samples) as evaluation:
            problems = len(evaluation.run.train_set)
        return (
            f"evaluates about {evaluations} steps, {problems} problems × {self.samples} samples each, and at most "
            + cost_of_updates(self.store, begun + 1, self.last, self.last - self.first + 1)
        )

    def cost_of_groups(self, step: int) -> str:
        """What `groups` will take."""
        groups = self.store.read_rows(self.store.read_commit(step).artifacts["samples"])["slot"].nunique()
        updates = cost_of_updates(self.store, step, step, groups + 1)
        return f"makes the update of step {step} {groups} times, each time without one group: {updates}"

    async def measure(self, step: int, samples: int) -> Accuracies:
        """Accuracy of each held-out problem after a step, by id; problems without a score are left out."""
        if (step, samples) not in self._accuracies:
            with self._opened(step, samples) as evaluation:
                store = evaluation.run.store
                if not store.here("summary.json").exists():
                    with store.lock():
                        await measure(evaluation)
                    made = None
                    if step not in (self.last, newest_checkpoint(self.store, step)[0]):
                        made = await evaluation.run.workers.save(step, f"{KEPT}/{step:06d}-{samples}")
                    self.store.keep(step, made)
            self._accuracies[step, samples] = read_accuracies(store)
        return self._accuracies[step, samples]

    def groups(self, step: int, samples: int) -> Generator[Group]:
        """The groups of a step, as they were left out of its update; `samples` of the evaluation before it are used.

        Raises ConfigError or StoreError."""
        check_replayable(self.run, step)
        with self._opened(step - 1, samples) as evaluation:
            held_out = read_held_out(evaluation)
        yield from rank_groups(self.run, step, held_out)

    @contextmanager
    def _opened(self, step: int, samples: int) -> Iterator[Evaluation]:
        """An evaluation of a step, whose weights all of them share; leaving it closes its grader."""

        def shared(*given: Any) -> Workers:
            config, _, sampling = given
            if self._workers is None:
                is_one = config.learner.ranks == 1 and config.rollout.engines == 1
                self._workers = (PlainWorkers if is_one else Cluster)(config, self.store, sampling)
            return self._workers

        request = EvaluationRequest(target=self.store.name, step=step, n=samples, data=self.data)
        evaluation = Evaluation.open(request, shared)
        evaluation.run.progress.watch = self.watch
        try:
            yield evaluation
        finally:
            evaluation.run.grader.close()
