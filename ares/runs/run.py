"""An open run: its configuration, directory, problems, workers and state.

Covered: creating a run or resuming one (checked: same settings, data, weights and files). Not covered: a step's keys
and commit (ares/runs/step.py), the order of work (flows/) and the work (tasks/).
"""

import logging
import os
import time
from collections.abc import Callable
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from algorithms.entropy import trigger_vocabulary
from ares.config import Config, ConfigError, fingerprint, override
from ares.data import DataError, Problems, check_media, level_of, load_tokenizer, merged, odd_in_template, shown
from ares.engines import end_token_ids, padding_id
from ares.grading import Grader, Teacher, load_grader, try_on
from ares.models import adapted_layers, check_vocabulary, checked_model
from ares.runs.conductor import Conductor, Progress
from ares.runs.description import check_unchanged, description_of, digests_of, drawn_identity, identity_of
from ares.runs.doctor import with_this_machine
from ares.runs.phase_settings import check_fork
from ares.runs.resumption import resumed_commit
from ares.runs.sets import Files, GrowingSet, first_files, graded_sets, load_sets, warn_of_left_out
from ares.runs.step import Step
from ares.step import OpenEnvironment, RunState
from ares.store import Commit, DamagedArtifact, RunStore, run_store
from ares.workers import PlainWorkers, Workers, check_engine, check_gpus

logger = logging.getLogger(__name__)
MakeWorkers = Callable[[Config, RunStore], Workers]
"""PlainWorkers, or Ray's Cluster."""


class Run:
    """An open run. `state` is the state after the last commit; commits advance it."""

    def __init__(self, config: Config, store: RunStore, tokenizer: PreTrainedTokenizerBase, train_set: Problems,
                 validation_set: Problems | None, identity: str, grader: Grader,
                 drawn: str | None = None, made_by: MakeWorkers = PlainWorkers,
                 environment: OpenEnvironment | None = None, growing: GrowingSet | None = None) -> None:  # fmt: skip
        self.config = config
        self.store = store
        self.tokenizer = tokenizer
        self.train_set = self._first_set = train_set
        self.growing = growing
        self.files: Files = growing.first if growing is not None else {}
        """Of a train set that grows, all files that the next step draws from."""
        self.validation_set = validation_set
        self._made_by = made_by
        self.conductor = Conductor()
        self.state = RunState.initial(config, len(train_set))
        self.commit: Commit | None = None
        self.identity = identity
        self._graded_with = ""
        self.drawn = drawn or identity
        """Identity of the bootstrap's DRAWN phases."""
        self.progress = Progress()
        self.adapted: str | None = None
        """The layers that model.lora adapts, if it is set."""
        self.changes: list[str] = []
        """Settings of the run that this resume changes; they change rounding alone."""
        self.fork = store.fork()
        self.grader = grader
        self.environment = environment
        self.pad_id = padding_id(tokenizer)
        self.is_trigger = _triggers(config.algorithm.entropy.trigger_tokens, tokenizer)

    @classmethod
    def open(
        cls, config: Config, name: str, runs: Path, made_by: MakeWorkers = PlainWorkers, may_round: bool = False
    ) -> "Run":
        """Check everything that can be checked, start the grader, then create the run or resume the existing one.

        may_round: settings that change rounding alone may differ from the run's own. Raises what `check` raises; and,
        still before anything is written, SandboxUnavailable, or RewardError or
        TeacherError if the first call of a user's grader or of a teacher behind a URL fails.
        """
        run, digests = cls.check(config, name, runs, made_by, may_round)
        try:
            if run.graded:
                run.grader.start()
            if config.reward.is_tried and not run.store.has_commits():
                run._try_grader()
            if config.model.asks_reference and not run.store.has_commits():
                with Teacher(config.model) as teacher:  # the last token tells a smaller vocabulary
                    teacher.log_probs([[0, len(run.tokenizer) - 1]])
            run._describe(digests, may_round)
            run.restore()
        except BaseException:
            run.close()
            raise
        return run

    @property
    def graded(self) -> list[Problems]:
        """The sets whose problems are answered and graded."""
        return graded_sets(self.config, self.train_set, self.validation_set)

    def _try_grader(self) -> None:
        """Call a user's grader for the first time. Raises RewardError."""
        for problems in self.graded:
            for part in problems.parts(self.config.data.held_out_names if problems is self.validation_set else ()):
                try_on(self.grader, part, self.tokenizer)
        reward = self.config.reward
        if reward.adds_functions and reward.accuracy is None:
            logger.warning(
                "%s: its scores count as accuracies, so that one outside [0, 1] ends the run; those of the first call "
                "are within it. With reward.accuracy they may be on any scale", reward.kind,
            )  # fmt: skip

    def _describe(self, digests: dict[str, Any], may_round: bool) -> None:
        """Write what a run directory holds before the first step."""
        with self.store.lock():  # nobody else writes the run.json of a run in training
            if self.store.exists():
                self.changes = check_unchanged(self.store, self.config, digests, may_round)  # begun since `check`
                known = self.store.read_run()
                now = {
                    "config": self.config.model_dump(mode="json"),
                    "machines": with_this_machine(self.store.name, known.get("machines", [])),
                }
                last = self.store.last_commit()
                begun = None if last is None or (self.fork and self.fork.version == last.step) else last
                if begun and not self.config.train.ends(begun.step, begun.state["counters"]["tokens"]):
                    resume = {"after_step": begun.step, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
                    now |= {"resumes": [*known.get("resumes", []), resume]}
                if self.changes:
                    logger.warning("%s goes on with %s", self.store.name, ", ".join(self.changes))
                    change = {"after_step": None if last is None else last.step, "settings": self.changes}
                    now |= {"fingerprint": fingerprint(self.config), "changes": [*known.get("changes", []), change]}
                self.store.write_run(known | now)
            else:
                self.store.write_run(description_of(self.config, self.store.name, digests))

    @classmethod
    def check(
        cls, config: Config, name: str, runs: Path, made_by: MakeWorkers = PlainWorkers, may_round: bool = False,
        files: Files | None = None,
    ) -> tuple["Run", dict[str, Any]]:  # fmt: skip
        """Check everything that can be checked; the run, and the digests of data, weights and files.

        files: those that a train set that grows begins with; None: the run's own, of a new run all that are there.

        Writes nothing but images that a data set holds itself, and starts nothing. Raises ConfigError, DataError or
        StoreError.
        """
        store = run_store(name, runs)
        check_engine(config)
        model = checked_model(config, sampled=config.learns_from == "samples" or config.data.validation is not None)
        if not os.environ.get("RAY_ADDRESS"):  # a cluster is asked when actors start
            check_gpus(config, torch.cuda.device_count(), "this machine")
        tokenizer = load_tokenizer(config.model.path, config.model.trust_remote_code)
        environment = OpenEnvironment.of(config, tokenizer)
        files = first_files(store) if files is None else files
        train, validation, growing = load_sets(config, runs, tokenizer, environment, files)
        both = [problems for problems in (train, validation) if problems is not None]
        prompts = chain.from_iterable(problems.frame["prompt_token_ids"] for problems in both)
        ends = end_token_ids(config.model.location, tokenizer)
        check_vocabulary(model, tokenizer, ends, prompts, config.model.path)
        if config.model.reference_path is not None:
            _check_reference(config, tokenizer)
        for odd in odd_in_template(tokenizer, config.data.chat_template_kwargs, ends):
            logger.warning("the chat template of %s: %s", config.model.path, odd)
        if isinstance(config.data.train, dict):
            for source, part in zip(config.data.train, train.parts(config.data.train), strict=True):
                if not len(part):
                    raise DataError(f"data.train: no problem of {source} is left")
        levels = [str(level) for level in range(len(config.data.levels))]
        for source, part in zip(config.data.levels or [train.source], train.parts(levels), strict=True):
            if too_few := config.too_few(len(part)):
                raise DataError(f"{shown(source)}: {too_few}")
        for problems in both:
            check_media(problems.frame, problems.source, config.rollout)
            warn_of_left_out(problems, config.data.max_prompt_length)
        grader = load_grader(config.reward)
        graded_with = grader.expect(*(problems.frame for problems in graded_sets(config, train, validation)))
        digests = digests_of(config, train, validation, graded_with)
        if growing is not None:
            digests["train_files"] = growing.first
        run = cls(config, store, tokenizer, train, validation, identity_of(config, digests), grader,
                  drawn_identity(config, digests), made_by, environment, growing)  # fmt: skip
        run._graded_with = graded_with
        for changes in config.watch.overrides:
            check_fork(config, override(config, changes), {}, 1, None)
        run.adapted = adapted_layers(model, config.model) if config.model.lora is not None else None
        if store.exists() or store.has_commits():  # commits without a run.json are refused
            run.changes = check_unchanged(store, config, digests, may_round)
        return run, digests

    def restore(self) -> None:
        """Go to the state after the last commit whose weights can be rebuilt.

        A step whose batch is missing or damaged is done again, and so are those after it. Raises DamagedArtifact if a
        fork shares that step.
        """
        newest, resumed = self.store.last_commit(), resumed_commit(self.config, self.store)
        done = -1 if resumed is None else resumed.step
        if self.fork is not None and done < self.fork.version:  # done with its settings, the step would differ
            folder = self.store.directory / self.store.step_path(done + 1)
            raise DamagedArtifact(
                f"Run {self.store.name!r}: step {done + 1}, which it shares with {self.fork.run!r}, is damaged; fork "
                f"{self.fork.run!r} again, or restore {folder} from a copy"
            )
        if newest is not None and resumed is not None and resumed.step < newest.step:
            damaged = resumed.step + 1
            logger.warning("%s: artifacts of step %d are damaged; it is done again", self.store.name, damaged)
        # Per-prompt state is a delta in each commit.
        self.train_set, self.files = self._first_set, self.growing.first if self.growing is not None else {}
        self.state = RunState.initial(self.config, len(self.train_set))
        self.commit = None
        for step in range(resumed.step + 1 if resumed is not None else 0):
            self.advance(self.store.read_commit(step))

    def restored(self, state: dict[str, Any]) -> RunState:
        """The state that a dict holds, of the last commit or of the step after it. Raises ValueError."""
        return RunState.restored(self.config, len(self.train_set), state, before=self.state)

    def advance(self, commit: Commit) -> None:
        """Go to the state after the next commit."""
        self.grow(commit.state.get("files", {}))
        self.commit, self.state = commit, self.restored(commit.state).settled()

    def grow(self, files: Files) -> None:
        """Take in files that have come to the train set, but those that it has. Raises DataError."""
        new = {name: noted for name, noted in files.items() if name not in self.files}
        if new:
            assert self.growing is not None
            self.train_set = merged([self.train_set, self.growing.problems(new)])
            self.files = {**self.files, **new}

    def look_for_files(self, state: RunState) -> None:
        """Note files that have come to a train set that grows, in the state after a step. Raises DataError if one of
        them cannot be used, or one that the run draws from is not what it was."""
        if self.growing is None or not (new := self.growing.look(self.files)):
            return
        added = self.growing.problems(new)
        check_media(added.frame, added.source, self.config.rollout)
        whole, names = merged([self.train_set, added]), ", ".join(new)
        if self.grader.expect(*(each.frame for each in graded_sets(self.config, whole, self.validation_set))) != (
            self._graded_with
        ):
            raise DataError(f"{self.growing.folder}: {names}: programs import other packages than the run began with")
        warn_of_left_out(added, self.config.data.max_prompt_length)
        logger.info("%d problems have come (%s): %d in all", len(added), names, len(whole), extra=self.about)
        state.files = new
        state.cursor.grow(len(whole))

    def next_prompts(self, state: RunState, count: int, step: int) -> list[str]:
        """The next problems that a step draws, without skipped ones and other levels'; advances the state's cursor.

        A curriculum's level of which all are skipped is over.
        """
        names, skipped, curriculum = self.train_set.frame["id"], state.difficulty.skip_gid_set, state.curriculum

        def is_skipped(row: int) -> bool:
            name = str(names.iat[row])
            return name in skipped or (curriculum is not None and level_of(name) != curriculum.level)

        while curriculum is not None and not curriculum.is_last and all(map(is_skipped, range(len(names)))):
            curriculum.rise()
        weights = self.config.data.weights_at(step)
        mixture = tuple(zip(self._sizes, weights, strict=True)) if weights else None
        rows = state.cursor.take(count, is_skipped, mixture)
        return names.iloc[rows].tolist()

    def bootstrap_prompts(self) -> list[str]:
        """The problems of the bootstrap: the first ones; of a mixture evenly spaced ones, so of each source."""
        names: list[str] = self.train_set.frame["id"].tolist()
        count = min(self.config.bootstrap.max_prompts or len(names), len(names))
        if isinstance(self.config.data.train, dict):
            return [names[place * len(names) // count] for place in range(count)]
        return names[:count]

    @cached_property
    def _sizes(self) -> list[int]:
        """Problems of each of the train set's sources."""
        return list(map(len, self.train_set.parts(self.config.data.train_sets)))

    def plan(self, state: RunState, step: int) -> None:
        """Choose the prompts of the first draws up to the one from a step's policy, into the state after it.

        Without rollout.max_staleness there are none: each step chooses its prompts when it begins.
        """
        stale = self.config.rollout.max_staleness
        while stale and len(state.planned) <= stale:
            draws = step + 1 + len(state.planned)
            state.planned.append(self.next_prompts(state, self.config.rollout.prompts, draws))

    @property
    def about(self) -> dict[str, Any]:
        """What a JSON log line holds besides its message."""
        return {"about": {"run": self.store.name, "step": max(self.state.step, 0)}}

    @cached_property
    def workers(self) -> Workers:
        """Learner and engine."""
        return self._made_by(self.config, self.store)

    def close(self) -> None:
        """End learner, engine and sandbox."""
        if "workers" in self.__dict__:
            self.workers.close()
        self.grader.close()
        if self.environment is not None:
            self.environment.close()

    def problems(self, purpose: str) -> Problems:
        """The data set of a draw: held-out for `validation`, else the train set."""
        if purpose != "validation":
            return self.train_set
        assert self.validation_set is not None
        return self.validation_set

    def step(self, number: int, ahead: bool = False) -> "Step":
        """The step of this number; 0 is the bootstrap. ahead: to draw its first responses early."""
        return Step(self, number, ahead)


def _triggers(path: str | None, tokenizer: PreTrainedTokenizerBase) -> Tensor | None:
    if path is None:
        return None
    try:
        words = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"algorithm.entropy.trigger_tokens={path}: not readable as text: {error}") from error
    return trigger_vocabulary(tokenizer.convert_ids_to_tokens(list(range(len(tokenizer)))), words)


def _check_reference(config: Config, tokenizer: PreTrainedTokenizerBase) -> None:
    """Raise ConfigError where the reference policy has other tokens than the one that is trained, ModelError where its
    log-probs would be wrong or its weights cannot be read."""
    model = config.model
    checked_model(config.model_copy(update={"model": model.of_reference}), sampled=False)
    theirs = load_tokenizer(str(model.reference), model.trust_remote_code)
    if theirs.get_vocab() != tokenizer.get_vocab():
        raise ConfigError(
            f"model.reference={model.reference}: its {len(theirs)} tokens are others than the {len(tokenizer)} of "
            "model.path, and log-probs of different tokens cannot be compared"
        )
