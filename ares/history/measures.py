"""What a step of a run sampled, measured and decided, read again from its directory.

Not covered: what is made of it (rescore.py, replays.py).
"""

from pathlib import Path

import pandas as pd

from algorithms.protocol import DataProto
from ares.config import Config, ConfigError
from ares.data import load_tokenizer
from ares.grading import load_grader
from ares.runs import Run, Step, all_files, first_files, load_sets, run_files
from ares.step import (
    OpenEnvironment,
    RunState,
    graded,
    in_training_order,
    learner_rows,
    measured_batch,
    select_rows,
    shape,
)
from ares.store import Ref, RunStore, StoreError, file_digest, read_config, read_measured, run_store


def open_past(name: str, runs: Path, may_differ: tuple[str, ...] = ()) -> Run:
    """A run with its problems, before its first step; nothing is started.

    may_differ: settings that name files which may have changed since. Raises StoreError if problems or files have.
    """
    store = run_store(name, runs)
    config = read_sampling_config(store)
    known = store.read_run()["digests"]
    for path, setting in run_files(config).items():
        if setting in may_differ:
            continue
        if not path.is_file() or file_digest(path)[:16] != known["files"].get(str(path)):
            raise StoreError(f"Run {name!r}: {path} ({setting}) changed since it was trained: put back what it was")
    tokenizer = load_tokenizer(config.model.path, config.model.trust_remote_code)
    environment = OpenEnvironment.of(config, tokenizer)
    train, held_out, growing = load_sets(config, runs, tokenizer, environment, first_files(store))
    if train.digest() != known["train"]:
        raise StoreError(f"Run {name!r} was trained on other problems than {train.source} has now: put them back")
    run = Run(
        config, store, tokenizer, train, held_out, "", load_grader(config.reward), environment=environment,
        growing=growing,
    )  # fmt: skip
    run.grow(all_files(store) or {})
    return run


def read_sampling_config(store: RunStore) -> Config:
    """The configuration of a run that learns from what its policy samples. Raises ConfigError or StoreError."""
    try:
        config = read_config(store)
    except ConfigError as error:
        raise ConfigError(f"{error}. If another version of ares made the run: `ares browse` still shows it") from error
    if config.learns_from != "samples":
        raise StoreError(f"Run {store.name!r} learns from {config.learns_from}: it has no samples of its own")
    return config


def shape_again(step: Step, rows: pd.DataFrame, config: Config) -> tuple[DataProto, RunState]:
    """The batch that a step trains on, and the state after shaping it, by other rewards or settings.

    rows: all of the step's samples, with rewards. The run is in the state before the step. Raises ConfigError.
    """
    run, store, kept = step.run, step.run.store, read_measured(step.run.store, step.number)
    shards = [store.read_rows(Ref.model_validate(ref)) for each in kept for ref in each["rollouts"]]
    drawn = learner_rows(shards, run.train_set, [slot for each in kept for slot in each["slots"]])
    measured = [DataProto.load(store.path(Ref.model_validate(each["measured"]))) for each in kept]
    trained = sorted(set(store.read_rows(store.read_commit(step.number).artifacts["samples"])["slot"].tolist()))
    mine = in_training_order(rows[rows["slot"].isin(trained)])
    batch = graded(select_rows(measured_batch(drawn, measured, run.pad_id), mine), mine)
    state = restored_with(run, config)
    state.absorb_sampled(rows, trained)
    shape(batch, state, config, run.is_trigger)
    return batch, state


def restored_with(run: Run, config: Config) -> RunState:
    """A copy of a run's state, whose controllers have other settings. Raises ConfigError for other controllers."""
    try:
        return RunState.restored(config, len(run.train_set), run.state.state_dict(), before=run.state)
    except (KeyError, ValueError) as error:
        raise ConfigError(f"a controller of these settings has no state in this run: {error}") from error
