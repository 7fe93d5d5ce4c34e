"""Find a suite's files: in --data, a folder of test data, the Hugging Face cache, or the hub, in this order.

Not covered: reading the files (ares/evaluation/suite_problems.py).
"""

import os
from collections.abc import Sequence
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
    named = " or ".join([*suite.names, *suite.files])
    includes = " ".join(f"--include '{pattern}'" for pattern in suite.files)
    remedy = (
        f"Get it: HF_HUB_OFFLINE=0 hf download {suite.hub} --repo-type dataset {includes}; or name a file or folder "
        "that holds it with --data"
    )
    if data is not None:
        path = Path(location(data))
        if not path.exists():
            raise DataError(f"--data {path}: there is no such file or folder")
        found = [str(path)] if path.is_file() else _in_folder(name, suite, path) or _matching(path, suite.files)
        if not found:
            raise DataError(f"--data {path} holds no {named}. {remedy}")
        return found
    at_hand = os.environ.get(FOLDER)
    if at_hand and (found := _in_folder(name, suite, Path(at_hand))):
        return found
    try:
        return _of_hub(suite)
    except OSError as error:
        hub = f"cannot be read from the hub: {' '.join(str(error).split())}"
        if constants.is_offline_mode():
            hub = f"is not in the Hugging Face cache ({constants.HF_HUB_CACHE}), and HF_HUB_OFFLINE keeps from the hub"
        raise DataError(
            f"--suite {name} is not at hand: no {named} in the folder {FOLDER} ({at_hand or 'not set'}); the data set "
            f"{suite.hub} {hub}. {remedy}"
        ) from error


def base_files_of(base: str, data: str | None) -> list[str]:
    """The files of a base set: beside those that --data names, else wherever suites are looked for."""
    if data is not None:
        path = Path(location(data))
        with suppress(DataError):
            return files_of(base, str(path.parent if path.is_file() else path))
    return files_of(base, None)


def _in_folder(name: str, suite: Suite, folder: Path) -> list[str]:
    """Files under the suite's own names, here or in a folder of the suite's; there also under the hub's names."""
    packed = [pattern for each in suite.names for pattern in (each, f"{each}.gz")]
    if files := _matching(folder, packed):
        return files[:1]
    for own in (folder / name, folder / suite.hub.rpartition("/")[2]):
        if files := _matching(own, packed)[:1] or _matching(own, suite.files):
            return files
    return []


def _matching(folder: Path, patterns: Sequence[str]) -> list[str]:
    return [str(path) for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file()]


def _of_hub(suite: Suite) -> list[str]:
    """Files of the hub's data set, from the cache if it has them. Raises OSError."""
    for only_cached in (True, False):
        try:
            folder = snapshot_download(
                suite.hub, repo_type="dataset", allow_patterns=list(suite.files), local_files_only=only_cached
            )
        except OSError:
            if constants.is_offline_mode() or not only_cached:
                raise
            continue
        if files := _matching(Path(folder), suite.files):
            return files
    raise FileNotFoundError(f"{suite.hub} has no {', '.join(suite.files)}")
