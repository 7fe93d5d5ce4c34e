"""The run state: everything that a step changes besides weights and optimiser.

Covered: every controller, the data cursor, counters, evaluations. Nothing else survives a resume, so nothing adaptive
may live anywhere else.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from algorithms.curriculum import Curriculum
from algorithms.difficulty import DifficultyTracker, difficulty_bucket
from algorithms.entropy import ThresholdTracker
from algorithms.entropy_bonus import EntropyBonus
from algorithms.kl_controllers import FixedKL, KLController
from ares.config import KL_CONTROLLERS, Config
from ares.data import level_of
from ares.step.cursor import Cursor
from ares.step.rewards import observe_tests, running_pass_rates
from ares.step.rows import is_second_turn, sampled_log_probs
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
    curriculum: Curriculum | None = None
    bonus: EntropyBonus | None = None
    planned: list[list[str]] = field(default_factory=list)
    """The prompts that the next steps draw first, as far as chosen (rollout.max_staleness)."""
    files: dict[str, Any] = field(default_factory=dict)
    """Files that have come to a train set that grows since the commit before (ares/runs/sets.py)."""
    counters: Counters = field(default_factory=Counters)
    evaluations: list[Evaluation] = field(default_factory=list)

    @classmethod
    def initial(cls, config: Config, train_size: int) -> "RunState":
        """The state before the bootstrap."""
        settings, kl, rising = config.algorithm.difficulty, config.algorithm.kl, config.data.curriculum
        bonus, in_loss = config.algorithm.entropy_bonus, KL_CONTROLLERS.fact(kl.kind, "in_loss")
        return cls(
            step=-1,
            difficulty=DifficultyTracker(settings, config.train.seed if settings.shuffled else None),
            threshold=ThresholdTracker(config.algorithm.entropy.threshold_ema),
            kl=FixedKL(kl) if in_loss else KL_CONTROLLERS.make(kl),
            beta=KL_CONTROLLERS.make(kl) if in_loss else None,
            cursor=Cursor(config.train.seed, train_size),
            tests=running_pass_rates(config),
            curriculum=Curriculum(rising, len(config.data.levels)) if rising is not None else None,
            bonus=EntropyBonus(bonus) if bonus.is_on else None,
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
            run.cursor.follow(before.cursor)
            if run.tests is not None and before.tests is not None:
                run.tests.follow(before.tests)
        run.step = state["step"]
        for name, part in run._parts().items():
            if name != "bonus" or name in state:  # a fork may begin one
                part.load_state_dict(state[name])
        run.counters = Counters(**state["counters"])
        run.evaluations = [Evaluation(**evaluation) for evaluation in state["evaluations"]]
        run.planned = [list(ids) for ids in state.get("planned", [])]  # only with rollout.max_staleness
        run.files = state.get("files", {})
        return run

    def _parts(self) -> dict[str, Any]:
        """What has a state of its own, as far as the configuration has it."""
        names = ("difficulty", "threshold", "kl", "beta", "cursor", "tests", "curriculum", "bonus")
        return {name: part for name in names if (part := getattr(self, name)) is not None}

    def state_dict(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return (
            {"step": self.step, "beta": None, "tests": None}
            | {name: part.state_dict() for name, part in self._parts().items()}
            | {"counters": asdict(self.counters), "evaluations": [asdict(each) for each in self.evaluations]}
            | ({"planned": [list(ids) for ids in self.planned]} if self.planned else {})
            | ({"files": self.files} if self.files else {})
        )

    def settled(self) -> "RunState":
        """The state, marked as committed: per-prompt changes so far are not written again."""
        self.difficulty.settle()
        self.cursor.is_settled = True
        self.files = {}
        if self.tests is not None:
            self.tests.settle()
        return self

    def count_sampled(self, rows: pd.DataFrame) -> None:
        """Count a draw's rows (accuracy, tokens), greedy answers too."""
        self.counters.samples += len(rows)
        self.counters.tokens += int(rows["tokens"].sum())
        self.counters.unscored_samples += int(rows["accuracy"].isna().sum())

    def absorb_sampled(self, rows: pd.DataFrame, trained_slots: list[int]) -> None:
        """Count a draw's groups (id, slot, accuracy, tokens, log_probs), and learn from those not trained on.

        Such a group, which filtering has dropped or the batch had no room for, still sets its prompt's difficulty, and
        one that is always solved may join the skip set. Its exact entropies were not computed: the mean negative
        log-prob of each response stands in for its mean entropy.
        """
        first = ~is_second_turn(rows)  # difficulty is that of first turns
        left, scored = ~rows["slot"].isin(trained_slots), rows["accuracy"].notna()
        observe_tests(self.tests, rows[left & scored])
        self.counters.prompts += rows.loc[first, "slot"].nunique()
        self.counters.filtered_groups += rows.loc[first & left, "slot"].nunique()
        if self.curriculum is not None:
            groups = rows[first & scored].groupby("slot", sort=True)
            levels = [level_of(name) for name in groups["id"].first()]
            self.curriculum.observe(levels, groups["accuracy"].mean().astype(float).tolist())
        for _, group in rows[first & left & scored].groupby("slot", sort=True):
            name, accuracy = str(group["id"].iloc[0]), float(group["accuracy"].astype(float).mean())
            self.difficulty.difficulty_dict_train[name] = difficulty_bucket(accuracy)
            if accuracy < 1.0:
                continue
            entropy = -float(np.mean([sampled_log_probs(row).mean() for _, row in group.groupby("sample")]))
            if entropy < self.difficulty.settings.drop_allpass_entropy_threshold:
                self.difficulty.skip(name)

    def take_update(self, beta: dict[str, Any] | None, skipped: int) -> None:
        """Take over from an update the state of the β controller, and count the optimiser steps that it left out."""
        if self.beta is not None and beta is not None:
            self.beta.load_state_dict(beta)
        self.counters.skipped_updates += skipped

    def add_evaluation(self, step: int, metrics: dict[str, float]) -> None:
        """Note an evaluation of the policy after a step."""
        self.evaluations.append(Evaluation(step, metrics["val/accuracy"], metrics["val/response_length"]))

    def metrics(self) -> dict[str, float]:
        """Metrics of the controllers."""
        controllers = (part for name, part in self._parts().items() if name not in ("cursor", "tests"))
        return {name: value for part in controllers for name, value in part.metrics().items()}
