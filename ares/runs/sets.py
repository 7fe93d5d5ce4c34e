"""The problems that a run trains on and those held out, as its settings name them; a train set that grows.

    folder/  a.jsonl b.jsonl      there when the run begins            named in run.json
             c.jsonl              renamed into the folder in step 5    named in the commit of step 5, drawn from then on

A file is complete when it has its name: it is written under a hidden one (`.c.jsonl`) or one that no format has
(`c.jsonl.tmp`), and renamed. Problems are named FILE/ID. Not covered: reading a set (ares/data,
ares/step/demonstrations.py), the order in which problems are drawn (ares/step/cursor.py).
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from ares.config import Config, location
from ares.data import DataError, Problems, Vision, format_of, joined, load_held_out, load_train
from ares.engines import end_token_ids
from ares.step import OpenEnvironment, load_demonstrations
from ares.store import RunStore, file_digest

logger = logging.getLogger(__name__)
_SHOWN = 10
"""Rows left out that a warning names; `ares data check` names more."""
Files = Mapping[str, Mapping[str, Any]]
"""By name, in the order in which they were seen: the sha256 of a file, and the number of its problems (`rows`)."""


class GrowingSet:
    """The files of a folder, each of which is read once.

    read: the problems of a file. first: the files that a run begins with; None: all that are there. Raises DataError.
    """

    def __init__(self, folder: str, read: Callable[[str], Problems], first: Files | None = None) -> None:
        self.folder = Path(location(folder))
        self._read = read
        self._problems: dict[str, Problems] = {}
        """By the sha256 of a file."""
        self._digests: dict[str, tuple[tuple[int, int], str]] = {}
        """The sha256 of each file, and its time and size then."""
        self.first: Files = self.look({}) if first is None else first

    def look(self, known: Files) -> dict[str, dict[str, Any]]:
        """The files that have come since these. Raises DataError if one of these has changed or is gone, or a row of a
        new one cannot be used."""
        if not self.folder.is_dir():
            raise DataError(f"{self.folder}: data.grows=true, and there is no such folder")
        for name, noted in known.items():
            self._check(name, noted)
        named = sorted(path.name for path in self.folder.iterdir() if format_of(path.name) and path.is_file())
        new = [name for name in named if name not in known and not name.startswith(".")]
        if not new and not known:
            raise DataError(f"{self.folder}: data.grows=true, and there is no file to begin with")
        digests = {name: self._digest(name) for name in new}
        return {name: {"sha256": digest, "rows": len(self._of(name, digest))} for name, digest in digests.items()}

    def problems(self, files: Files) -> Problems:
        """The problems of files. Raises DataError if one has changed since it was noted, or is gone."""
        for name, noted in files.items():
            self._check(name, noted)
        whole = joined({name: self._of(name, noted["sha256"]) for name, noted in files.items()})
        return replace(whole, source=str(self.folder))

    def _check(self, name: str, noted: Mapping[str, Any]) -> None:
        path = self.folder / name
        try:
            has_changed = self._digest(name) != noted["sha256"]
        except FileNotFoundError as error:
            raise DataError(f"{path}: the run draws from this file, and it is gone: put it back") from error
        if has_changed:
            raise DataError(f"{path}: changed since the run saw it: put back what it was, new rows in a new file")

    def _digest(self, name: str) -> str:
        path = self.folder / name
        stat = path.stat()
        at = (stat.st_mtime_ns, stat.st_size)
        if name not in self._digests or self._digests[name][0] != at:
            self._digests[name] = at, file_digest(path)
        return self._digests[name][1]

    def _of(self, name: str, digest: str) -> Problems:
        if digest not in self._problems:
            self._problems[digest] = self._read(str(self.folder / name))
        return self._problems[digest]


def load_sets(
    config: Config, runs: Path, tokenizer: PreTrainedTokenizerBase, environment: OpenEnvironment | None,
    files: Files | None,
) -> tuple[Problems, Problems | None, GrowingSet | None]:  # fmt: skip
    """The problems that a run trains on, those that it evaluates on, and how a train set that grows is read on.

    files: those that such a set begins with; None: all that are there. Raises DataError.
    """
    vision = Vision.of(config, runs)
    data, begin = (config.data, None) if environment is None else (environment.data, environment.begin)
    held_out = load_held_out(data, tokenizer, config.reward.needs, vision, begin)

    def read(source: Any) -> Problems:
        own = data.model_copy(update={"train": source})
        if config.learns_from == "samples":
            train = load_train(own, tokenizer, config.reward.needs, vision, begin)
        else:
            ends, pairs = end_token_ids(config.model.location, tokenizer), config.learns_from == "pairs"
            train = load_demonstrations(own, tokenizer, ends, config.longest_sequence, pairs)
        for each in held_out.values():
            train = _told_apart(train, each, config)
        return train

    growing = GrowingSet(str(data.train), read, files) if data.grows else None
    train = read(data.train) if growing is None else growing.problems(growing.first)
    firsts = {name: each.first(config.validation.max_prompts) for name, each in held_out.items()}
    return train, joined(firsts) if firsts else None, growing


def first_files(store: RunStore) -> Files | None:
    """The files of a train set that grows that a run began with; None: it is a new run, or its set does not grow."""
    found: Files | None = store.read_run().get("digests", {}).get("train_files") if store.exists() else None
    return found


def all_files(store: RunStore) -> Files | None:
    """The same, and those that have come until the last commit."""
    if (files := first_files(store)) is None:
        return None
    for step in store.committed_steps():
        files = {**files, **store.read_commit(step).state.get("files", {})}
    return files


def warn_of_left_out(problems: Problems, longest: int) -> None:
    """Warn of rows that are not used, and say why."""
    if problems.overlong:
        logger.warning("%s: %d prompts longer than %d tokens left out", problems.source, problems.overlong, longest)
    for why, rows in problems.reasons().items():
        some = f"{', '.join(rows[:_SHOWN])}{', …' if len(rows) > _SHOWN else ''}"
        logger.warning("%s: %d rows left out (%s): %s", problems.source, len(rows), why, some)


def graded_sets(config: Config, train: Problems, validation: Problems | None) -> list[Problems]:
    """The sets whose problems are answered and graded: of a run that learns from data only the held-out one."""
    sets = [train if config.learns_from == "samples" else None, validation]
    return [problems for problems in sets if problems is not None]


def _told_apart(train: Problems, held_out: Problems, config: Config) -> Problems:
    """The train set, without prompts it shares with the held-out one if data.drop_shared; warns of them."""
    shared = train.shared_with(held_out)
    if not shared.any():
        return train
    remedy = "left out" if config.data.drop_shared else "data.drop_shared=true leaves them out of training"
    logger.warning("%s: %d prompts are held out in %s too; %s", train.source, shared.sum(), held_out.source, remedy)
    return train.without(shared) if config.data.drop_shared else train
