"""A run's stored samples judged again, by another reward, verifier or sandbox: what changes, and from which step on.

    step n   samples as drawn ─▶ judged again ─▶ rewards ─┬▶ verdicts that changed
             state after n − 1, measures of step n ───────┴▶ groups kept, ranks, advantages: before and after

Every step is judged from the run's own past, so this is the course that training would have taken up to the first step
that differs, and no further: there a fork begins. Covered: all samples that were drawn, those not trained on too, and
the bootstrap's. A step that was judged before, by the same code, is read. Not covered: evaluations.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import pandas as pd
from pydantic import BaseModel

from ares.config import REWARD_DESIGNS, Config, ConfigError, override, result_settings
from ares.grading import answered, grade_rows, load_grader
from ares.history.measures import open_past, restored_with, shape_again
from ares.runs import Step, load_sets, run_files, what_grades
from ares.step import is_second_turn, joined_rows, keep_groups, observe_tests, rewarded, total_reward
from ares.store import MEMO_FILE, StoreError, file_digest, read_drawn

IDS, OF_PROBLEMS = ["id", "slot", "sample"], ["prompt", "answer"]
ASKED = "asked.json"
"""File of the folder of verdicts: the settings that the samples were judged again with."""


PACKAGES = ("algorithms", "ares", "rewards", "sandbox")
"""Ours that decide what a sample is worth."""


class Judged(BaseModel):
    """What judging a step's samples again has changed."""

    step: int
    samples: int
    changed: int
    """Samples with another accuracy or score."""
    raised: int
    lowered: int
    """Those whose reward is higher, and lower."""
    lost: int
    """Those that had a reward and have none now."""
    ranks: int
    """Groups in which two samples change their order."""
    revived: int
    dropped: int
    """Groups that are now worth training on, and those no longer."""
    signs: int
    """Samples of the batch whose advantage changes its sign."""
    differs: bool
    """Whether training would have gone another way."""


class Course(NamedTuple):
    """What training makes of a step's scores."""

    rewards: pd.Series
    """Of each sample, NaN for none, by id, slot and sample."""
    kept: list[int]
    """Slots of the groups worth training on."""
    advantages: np.ndarray
    """Mean advantage of each trained sample [B]; of the bootstrap, the accuracies that difficulty is made from."""
    controllers: str = ""
    """Difficulty, targets, α and KL after the step, of the bootstrap the pass rates of tests, as JSON."""


class Rescore:
    """A run and the reward that judges it again. Use it as a context manager, which starts and closes the grader."""

    def __init__(self, name: str, overrides: list[str], runs: Path) -> None:
        """Raises ConfigError, DataError, StoreError or RewardError."""
        if wrong := [each for each in overrides if not each.startswith("reward.")]:
            raise ConfigError(f"{wrong[0]}: stored samples are judged again by settings of reward.… alone")
        self.run = open_past(name, runs, ("reward.kind", "reward.accuracy"))
        own, train = self.run.config, self.run.train_set
        self.config = override(own, overrides)
        design = self.config.reward.code.design
        is_running = self.config.reward.judges_programs and REWARD_DESIGNS.fact(design, "test_weights") == "running"
        if is_running and design != own.reward.code.design:
            raise ConfigError(f"reward.code.design={design} weights tests by pass rates that {name} did not keep")
        self.problems = train
        if self.config.reward.needs != own.reward.needs:
            known = self.run.files or None
            self.problems, *_ = load_sets(self.config, runs, self.run.tokenizer, self.run.environment, known)
        self.grader = load_grader(self.config.reward)
        machine = what_grades(self.config, self.grader.expect(self.problems.frame))
        files = {str(path): file_digest(path) for path in run_files(self.config)}
        self.overrides = overrides
        root = Path(__file__).parents[2]
        code = sorted(file_digest(file) for package in PACKAGES for file in (root / package).rglob("*.py"))
        asked = json.dumps([result_settings(self.config), files, machine, code], sort_keys=True, default=str)
        self.folder = f"rescores/{hashlib.sha256(asked.encode()).hexdigest()[:8]}"
        """Where a step's verdicts and counts are kept, below the run directory."""

    def __enter__(self) -> Self:
        self.grader.start()
        if not self.run.store.here(f"{self.folder}/{ASKED}").exists():
            self.run.store.write_json(f"{self.folder}/{ASKED}", self.overrides)
        return self

    def __exit__(self, *error: object) -> None:
        self.grader.close()

    def steps(self, first: int, last: int) -> Iterator[Judged]:
        """Judge the committed steps from `first` to `last`, one after the other; 0 is the bootstrap.

        Those that a fork shares are its parent's, with the parent's settings, and are left out.
        """
        asked = self._asked(first, last)
        for number in range(asked[-1] + 1 if asked else 0):
            if number in asked:
                yield self._judge(number)
                self.run.store.forget(number)
                self.grader.forget()
            self.run.advance(self.run.store.read_commit(number))

    def cost(self, first: int, last: int) -> str:
        """What `steps` will take, by the run's own seconds. Raises StoreError if what a step sampled is gone, and
        ConfigError if these are no steps of the run's."""
        asked, store = self._asked(first, last), self.run.store
        if not asked:
            newest = store.committed_steps()[-1]
            raise ConfigError(f"--steps names none of the run's own steps, which are {self.shared + 1} to {newest}")
        todo = [number for number in asked if self._kept(number) is None]
        if gone := [number for number in todo if not store.here(f"{store.step_path(number)}/{MEMO_FILE}").exists()]:
            lost = f"Run {store.name!r}: what step {gone[-1]} sampled is gone, as after `ares gc`"
            raise StoreError(f"{lost}; --steps {gone[-1] + 1}: can be judged again")
        seconds = sum(store.read_commit(step).timings.get("timing_s/score", 0.0) for step in todo)
        kept = f" ({len(asked) - len(todo)} more were judged before)" if len(asked) > len(todo) else ""
        return f"judges the samples of {len(todo)} steps again{kept}, which took the run {seconds:.0f} s"

    def _asked(self, first: int, last: int) -> list[int]:
        return [number for number in self.run.store.committed_steps() if max(first, self.shared + 1) <= number <= last]

    def _kept(self, number: int) -> Judged | None:
        """What was found of a step before, if it has the same commit."""
        file = self.run.store.here(f"{self.folder}/{number:06d}.json")
        counts = json.loads(file.read_bytes()) if file.exists() else {}
        return Judged(**counts) if counts.pop("commit", None) == self.run.store.digest(number) else None

    @property
    def shared(self) -> int:
        """The last step that the run shares with the one it was forked from; −1: none."""
        return -1 if self.run.fork is None else self.run.fork.version

    def _judge(self, number: int) -> Judged:
        if (kept := self._kept(number)) is not None:
            return kept
        step = self.run.step(number)
        drawn, before = read_drawn(self.run.store, number)
        problems = self.problems.rows(drawn["id"].tolist())
        after = grade_rows(self.grader, answered(drawn, problems, max(number - 1, 0)))
        verdicts, judged = self._compared(step, drawn, before, after.drop(columns="exec_time", errors="ignore"))
        self.run.store.write_rows(f"{self.folder}/{number:06d}.parquet", verdicts)
        of = {"commit": self.run.store.digest(number)}
        self.run.store.write_json(f"{self.folder}/{number:06d}.json", judged.model_dump() | of)
        return judged

    def _compared(
        self, step: Step, drawn: pd.DataFrame, before: pd.DataFrame, after: pd.DataFrame
    ) -> tuple[pd.DataFrame, Judged]:
        """The samples whose verdict changed, and the counts."""
        was, now = (self._course(step, drawn, *scored) for scored in ((before, self.run.config), (after, self.config)))
        changed = _differ(before, after, "accuracy")
        if "score" in before and "score" in after:
            changed |= _differ(before, after, "score")
        old, new = was.rewards, now.rewards
        problems = self.problems.rows(drawn["id"].tolist()).set_index(drawn.index)
        verdicts = drawn[[*IDS, "response"]].join(problems[[name for name in OF_PROBLEMS if name in problems]]).assign(
            accuracy_before=before["accuracy"].astype("Float64"), accuracy=after["accuracy"].astype("Float64"),
            reward_before=old.to_numpy(), reward=new.to_numpy(), finish_reason=drawn["finish_reason"],
        )  # fmt: skip
        groups = pd.DataFrame({"old": old.to_numpy(), "new": new.to_numpy()}).groupby(drawn["slot"].to_numpy())
        differs = (
            was.kept != now.kept
            or was.controllers != now.controllers
            or not np.array_equal(was.advantages, now.advantages, equal_nan=True)
        )
        return verdicts[changed], Judged(
            step=step.number,
            samples=len(drawn),
            changed=int(changed.sum()),
            raised=int((new > old).sum()),
            lowered=int((new < old).sum()),
            lost=int((old.notna() & new.isna()).sum()),
            ranks=sum(_reorders(group["old"].to_numpy(), group["new"].to_numpy()) for _, group in groups),
            revived=len(set(now.kept) - set(was.kept)),
            dropped=len(set(was.kept) - set(now.kept)),
            signs=int((np.sign(was.advantages) != np.sign(now.advantages)).sum()) if step.number else 0,
            differs=differs,
        )

    def _course(self, step: Step, drawn: pd.DataFrame, scores: pd.DataFrame, config: Config) -> Course:
        """What training makes of scores, from the state before the step."""
        rates = restored_with(self.run, config).tests
        rows = rewarded(joined_rows([drawn], [scores], self.problems), config, rates)
        values = total_reward(rows)
        named = pd.Series(values, index=pd.MultiIndex.from_frame(rows[IDS]))
        rewards = named.reindex(pd.MultiIndex.from_frame(drawn[IDS]))
        if not step.number:
            accuracy = rows.loc[~is_second_turn(rows), "accuracy"].to_numpy(dtype=float, na_value=np.nan)
            observe_tests(rates, rows)
            weights = "" if rates is None else json.dumps(rates.state_dict())
            return Course(rewards, [], accuracy, weights)
        kept = keep_groups(rows, config.algorithm, values)
        batch, state = shape_again(step, rows, config)
        mask = batch.tensor("response_mask")
        advantages = (batch.tensor("advantages") * mask).sum(1) / mask.sum(1).clamp(min=1)
        after = {name: part for name, part in state.state_dict().items() if name not in ("counters", "evaluations")}
        return Course(rewards, kept, advantages.numpy(), json.dumps(after, sort_keys=True))


def _differ(before: pd.DataFrame, after: pd.DataFrame, column: str) -> np.ndarray:
    old, new = (table[column].to_numpy(dtype=float, na_value=np.nan) for table in (before, after))
    return ~((old == new) | (np.isnan(old) & np.isnan(new)))


def _reorders(old: np.ndarray, new: np.ndarray) -> bool:
    """Whether two samples of a group change their order."""
    return bool((np.sign(old[:, None] - old) * np.sign(new[:, None] - new) < 0).any())
