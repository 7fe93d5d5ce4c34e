"""Find a suite's files: in --data, a folder of test data, the Hugging Face cache, or the hub, in this order.

Not covered: reading the files (ares/evaluation/suite_problems.py).
"""

import os
from contextlib import suppress
from pathlib import Path

from huggingface_hub import constants, snapshot_download

from ares.config import is_there, location
from ares.data import DataError
from ares.evaluation.suites import OWN, SUITES, Suite, unknown_suite

FOLDER = "ARES_TEST_DATA"
"""Environment variable: a folder with a folder for each suite."""


def suite_of(name: str) -> Suite:
    """The suite of a name; a path's is `OWN`. Raises DataError."""
    if name in SUITES:
        return SUITES[name]
    if not is_there(Path(location(name))):
        raise DataError(unknown_suite(name))
    return OWN


def files_of(name: str, data: str | None) -> list[str]:
    """The files of a suite, or the path itself. Raises DataError saying what is missing and how to get it.

    data: a file, or a folder that holds the set; None: it is looked for.
    """
    suite = suite_of(name)
    if suite is OWN:
        return [name]
    if data is not None:
        return _named(name, suite, Path(location(data)))
    at_hand = os.environ.get(FOLDER)
    if at_hand and (files := _in_folder(name, suite, Path(at_hand))):
        return files
    try:
        return _of_hub(suite)
    except OSError as error:
        raise DataError(_missing(name, suite, at_hand, error)) from error


def base_files_of(base: str, data: str | None) -> list[str]:
    """The files of a base set: beside those that --data names, else wherever suites are looked for."""
    if data is not None:
        path = Path(location(data))
        with suppress(DataError):
            return files_of(base, str(path.parent if path.is_file() else path))
    return files_of(base, None)


def _named(name: str, suite: Suite, path: Path) -> list[str]:
    if path.is_file():
        return [str(path)]
    if not path.is_dir():
        raise DataError(f"--data {path}: there is no such file or folder")
    if files := _in_folder(name, suite, path) or _matching(path, suite.files):
        return files
    raise DataError(f"--data {path} holds no {_told(suite)}. {_how_to_get(suite)}")


def _in_folder(name: str, suite: Suite, folder: Path) -> list[str]:
    """Files under the suite's own names, here or in a folder of the suite's; there also under the hub's names."""
    packed = [pattern for each in suite.names for pattern in (each, f"{each}.gz")]
    if files := _matching(folder, packed):
        return files[:1]
    for own in (folder / name, folder / suite.hub.rpartition("/")[2]):
        if files := _matching(own, packed)[:1] or _matching(own, suite.files):
            return files
    return []


def _matching(folder: Path, patterns: list[str] | tuple[str, ...]) -> list[str]:
    return [str(path) for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file()]


def _of_hub(suite: Suite) -> list[str]:
    """Files of the hub's data set, from the cache if it has them. Raises OSError."""
    patterns = list(suite.files)
    try:
        cached = snapshot_download(suite.hub, repo_type="dataset", allow_patterns=patterns, local_files_only=True)
        if files := _matching(Path(cached), patterns):
            return files
    except OSError:
        if constants.is_offline_mode():
            raise
    folder = Path(snapshot_download(suite.hub, repo_type="dataset", allow_patterns=patterns))
    if files := _matching(folder, patterns):
        return files
    raise FileNotFoundError(f"{folder} has no {', '.join(patterns)}")


def _missing(name: str, suite: Suite, at_hand: str | None, error: Exception) -> str:
    where = f"no {_told(suite)} in the folder {FOLDER} ({at_hand or 'not set'})"
    hub = (
        f"the data set {suite.hub} is not in the Hugging Face cache ({constants.HF_HUB_CACHE}), and HF_HUB_OFFLINE "
        "keeps from the hub"
        if constants.is_offline_mode()
        else f"the data set {suite.hub} cannot be read from the hub: {' '.join(str(error).split())}"
    )
    return f"--suite {name} is not at hand: {where}; {hub}. {_how_to_get(suite)}"


def _told(suite: Suite) -> str:
    return " or ".join([*suite.names, *suite.files])


def _how_to_get(suite: Suite) -> str:
    patterns = " ".join(f"--include '{pattern}'" for pattern in suite.files)
    return (
        f"Get it: HF_HUB_OFFLINE=0 hf download {suite.hub} --repo-type dataset {patterns}; or name a file or "
        "folder that holds it with --data"
    )
