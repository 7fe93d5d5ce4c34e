"""The run state: everything that a step changes besides weights and optimiser.

Covered: every controller, the data cursor, counters, evaluations. Nothing else survives a resume, so nothing adaptive
may live anywhere else.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from algorithms.difficulty import DifficultyTracker, difficulty_bucket
from algorithms.entropy import ThresholdTracker
from algorithms.kl_controllers import KLController
from ares.config import Config
from ares.data import Cursor
from ares.step.rewards import observe_tests, running_pass_rates
from ares.step.slots import SECOND_TURN_SLOT
from rewards.pass_rates import RunningPassRates


@dataclass
class Evaluation:
    """One pass over the held-out set."""

    step: int
    accuracy: float
    mean_length: float


@dataclass
class Counters:
    """What the run has spent so far."""

    prompts: int = 0
    samples: int = 0
    tokens: int = 0
    filtered_groups: int = 0
    unscored_samples: int = 0
    skipped_updates: int = 0


@dataclass
class RunState:
    """State after `step` steps; `state_dict` is what COMMIT.json holds.

    Per-prompt state is a delta: all commits together hold the whole.
    """

    step: int
    difficulty: DifficultyTracker
    threshold: ThresholdTracker
    kl: KLController
    beta: KLController | None
    cursor: Cursor
    tests: RunningPassRates | None = None
    planned: list[list[str]] = field(default_factory=list)
    """The prompts that the next steps draw first, as far as chosen (rollout.max_staleness)."""
    counters: Counters = field(default_factory=Counters)
    evaluations: list[Evaluation] = field(default_factory=list)

    @classmethod
    def initial(cls, config: Config, train_size: int) -> "RunState":
        """The state before the bootstrap."""
        settings, kl = config.algorithm.difficulty, config.algorithm.kl
        return cls(
            step=-1,
            difficulty=DifficultyTracker(settings, config.train.seed if settings.shuffled else None),
            threshold=ThresholdTracker(config.algorithm.entropy.threshold_ema),
            kl=kl.make_controller(),
            beta=kl.make_loss_controller(),
            cursor=Cursor(config.train.seed, train_size),
            tests=running_pass_rates(config),
        )

    @classmethod
    def restored(
        cls, config: Config, train_size: int, state: dict[str, Any], before: "RunState | None" = None
    ) -> "RunState":
        """The state that a commit holds. Raises ValueError if it does not fit the configuration.

        `before`: the settled state with the per-prompt state of earlier commits.
        """
        run = cls.initial(config, train_size)
        if before is not None:
            run.difficulty.follow(before.difficulty)
            if run.tests is not None and before.tests is not None:
                run.tests.follow(before.tests)
        run.step = state["step"]
        for name in ("difficulty", "threshold", "kl", "cursor"):
            getattr(run, name).load_state_dict(state[name])
        if run.beta is not None:
            run.beta.load_state_dict(state["beta"])
        if run.tests is not None:
            run.tests.load_state_dict(state["tests"])
        run.counters = Counters(**state["counters"])
        run.evaluations = [Evaluation(**evaluation) for evaluation in state["evaluations"]]
        run.planned = [list(ids) for ids in state.get("planned", [])]  # only with rollout.max_staleness
        return run

    def state_dict(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return {
            "step": self.step,
            "difficulty": self.difficulty.state_dict(),
            "threshold": self.threshold.state_dict(),
            "kl": self.kl.state_dict(),
            "beta": self.beta.state_dict() if self.beta is not None else None,
            "cursor": self.cursor.state_dict(),
            "tests": self.tests.state_dict() if self.tests is not None else None,
            "counters": vars(self.counters).copy(),
            "evaluations": [vars(evaluation).copy() for evaluation in self.evaluations],
        } | ({"planned": [list(ids) for ids in self.planned]} if self.planned else {})

    def settled(self) -> "RunState":
        """The state, marked as committed: per-prompt changes so far are not written again."""
        self.difficulty.settle()
        if self.tests is not None:
            self.tests.settle()
        return self

    def absorb_sampled(self, rows: pd.DataFrame, kept_slots: list[int]) -> None:
        """Count a draw's rows (id, slot, accuracy, token_ids, log_probs) and learn from the groups filtering dropped.

        A dropped group still sets its prompt's difficulty, and one that is always solved may join the skip set. Its
        exact entropies were not computed: the mean negative log-prob of its samples is an unbiased estimate.
        """
        is_dropped = ~rows["slot"].isin(kept_slots) & rows["accuracy"].notna()
        observe_tests(self.tests, rows[is_dropped])
        first = rows["slot"] < SECOND_TURN_SLOT  # difficulty is that of first turns
        dropped = rows[is_dropped & first]
        groups = rows.loc[first, "slot"].nunique()
        self.counters.prompts += groups
        self.counters.samples += len(rows)
        self.counters.tokens += int(rows["token_ids"].map(len).sum())
        self.counters.filtered_groups += groups - sum(slot < SECOND_TURN_SLOT for slot in kept_slots)
        self.counters.unscored_samples += int(rows["accuracy"].isna().sum())
        for _, group in dropped.groupby("slot", sort=True):
            name, accuracy = str(group["id"].iloc[0]), float(group["accuracy"].astype(float).mean())
            self.difficulty.difficulty_dict_train[name] = difficulty_bucket(accuracy)
            entropy = -float(np.concatenate(group["log_probs"].tolist()).mean())
            if accuracy == 1.0 and entropy < self.difficulty.settings.drop_allpass_entropy_threshold:
                self.difficulty.skip(name)

    def take_update(self, beta: dict[str, Any] | None, skipped: int) -> None:
        """Take over from an update the state of the β controller, and count the optimiser steps that it left out."""
        if self.beta is not None and beta is not None:
            self.beta.load_state_dict(beta)
        self.counters.skipped_updates += skipped

    def add_evaluation(self, step: int, accuracy: float, mean_length: float) -> None:
        """Note an evaluation of the policy after a step."""
        self.evaluations.append(Evaluation(step, accuracy, mean_length))

    def metrics(self) -> dict[str, float]:
        """Metrics of the controllers."""
        said = self.difficulty.metrics() | self.threshold.metrics() | self.kl.metrics()
        said |= self.beta.metrics() if self.beta is not None else {}
        return said | (self.tests.metrics() if self.tests is not None else {})
