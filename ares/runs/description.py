"""run.json: what a run was started with, and the errors when any of it has changed since.

Covered: its settings, the version of the code, hashes of its inputs (data, weights, files that it executes or reads),
what makes two runs' results the same. Not covered: modules that a reward file imports (only the file itself is hashed),
data that it reads on its own; which settings may change in a fork (phase_settings.py).
"""

import hashlib
import json
import subprocess
import time
from pathlib import Path
from typing import Any

from ares.config import (
    Config,
    ConfigError,
    absent_model,
    changes_only_rounding,
    differences,
    extension_files,
    fingerprint,
    location,
    seen_from,
)
from ares.data import Problems
from ares.runs.doctor import describe_machine
from ares.runs.phase_settings import bootstrap_settings
from ares.store import RunStore, StoreError, file_digest, read_config, read_description

OF_A_MODEL = (".json", ".py", ".safetensors", ".bin", ".jinja", ".txt", ".model")
WEIGHTS = (".safetensors", ".bin")
GRADED_WITH = "packages of programs (ares sandbox packages add NAME==VERSION) or the model of reward.model.path"


def description_of(config: Config, name: str, digests: dict[str, Any]) -> dict[str, Any]:
    """run.json of a new run."""
    return {
        "run": name,
        "config": config.model_dump(mode="json"),
        "fingerprint": fingerprint(config),
        "digests": digests,
        "code_version": code_version(),
        "machines": [describe_machine()],
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "mlflow_run_id": None,
    }


def code_version() -> str:
    """Commit of the checkout, with `+changes` if tracked files differ from it; "unknown" outside one."""
    command = ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+changes"]
    here = Path(__file__).resolve().parent
    try:
        return subprocess.run(command, cwd=here, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def identity_of(config: Config, digests: dict[str, Any]) -> str:
    """What determines the results of a run's phases besides their inputs."""
    packages, reference = digests.get("graded_with", ""), digests.get("reference", "")
    known = [fingerprint(config), digests["train"], digests["model"], *packages.split()[-1:], *reference.split()]
    return "-".join(known)


def drawn_identity(config: Config, digests: dict[str, Any]) -> str:
    """What determines the results of the bootstrap's DRAWN phases besides their inputs: runs with the same one can
    share them (ares/runs/lineage.py)."""
    known = {"settings": bootstrap_settings(config), "digests": digests}
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:32]


def digests_of(config: Config, train: Problems, validation: Problems | None, graded_with: str = "") -> dict[str, Any]:
    """Hashes of the data, of the model directory, and by path of the files that settings name.

    graded_with: what else on this machine decides grades: the lock of the packages that programs import.
    """
    files: dict[str, str] = {}
    for path, setting in run_files(config).items():
        try:
            files[str(path)] = file_digest(path)[:16]
        except OSError as error:
            raise ConfigError(f"{setting}={path}: {error.strerror}{seen_from(path)}") from error
    data = {"train": train.digest(), "validation": validation.digest() if validation is not None else None}
    what = what_grades(config, graded_with)
    graded = {"graded_with": what} if what else {}
    reference = config.model.reference_path
    teacher = {} if reference is None else {"reference": model_digest(reference)}
    return data | model_digests(config.model.path) | {"files": files} | graded | teacher


def what_grades(config: Config, graded_with: str) -> str:
    """What decides grades besides settings and files: what the grader knows of this machine, and its reward model."""
    of_model = [model_digest(config.reward.model.path)] if "model" in config.reward.kinds else []
    return "-".join(filter(None, [graded_with, *of_model]))


def model_digests(path: str) -> dict[str, Any]:
    """Hash of a model directory, and by name of each file in it but the weights, also code in folders of it."""
    folder = Path(location(path))
    beneath = [file for suffix in (".py", ".jinja") for file in folder.rglob(f"*{suffix}")]
    above = [file for file in folder.glob("*") if file.suffix in OF_A_MODEL and file.suffix not in WEIGHTS]
    files = {str(file.relative_to(folder)): file_digest(file)[:16] for file in sorted({*beneath, *above})}
    return {"model": model_digest(path), "model_files": files}


def run_files(config: Config) -> dict[Path, str]:
    """Files whose content decides results, and the settings that name them."""
    triggers = config.algorithm.entropy.trigger_tokens
    named = {Path(triggers): "algorithm.entropy.trigger_tokens"} if triggers is not None else {}
    return extension_files(config) | named


def model_digest(path: str) -> str:
    """Hash of the weights and tokenizer files of a model directory; the revision of a hub model.

    Raises ConfigError when it is neither.
    """
    folder = Path(location(path))
    if folder.is_dir():
        digest = hashlib.sha256()
        for file in sorted(folder.glob("*")):
            if file.suffix in OF_A_MODEL:
                digest.update(f"{file.name}:{file_digest(file)}".encode())
        return digest.hexdigest()[:16]
    from transformers.utils import cached_file
    from transformers.utils.hub import extract_commit_hash

    try:  # not by its configuration: to load that, some models' own code would have to run
        return extract_commit_hash(cached_file(path, "config.json"), None) or path
    except (OSError, ValueError) as error:
        raise ConfigError(absent_model(path, error)) from error


def _check_same_inputs(name: str, config: Config, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise StoreError, naming what changed, if data, weights or files are not those a run was started with."""
    _check_same_model(name, before, now)  # first: its chat template changes the data, too
    of_data = ("train", "train data"), ("validation", "validation data")
    for what, called in (*of_data, ("graded_with", GRADED_WITH), ("reference", "model of model.reference")):
        if before.get(what) != now.get(what):
            raise StoreError(
                f"Run {name!r}: the {called} changed since it was started ({before.get(what)} → {now.get(what)})"
            )
    if changed := changed_files(config, before, now):
        told = ", ".join(f"{path} ({setting})" for path, setting in changed.items())
        raise StoreError(
            f"Run {name!r}: {told} changed since it was started. Put back what it was, or continue with what it is now "
            f"in a run that shares the past: ares fork {name} --at STEP"
        )


def changed_files(config: Config, before: dict[str, Any], now: dict[str, Any]) -> dict[str, str]:
    """Files of a configuration that have changed, and the settings that name them."""
    settings = {str(path): setting for path, setting in run_files(config).items()}
    return {path: settings[path] for path in _changed("files", before, now) if path in settings}


def check_model(store: RunStore, config: Config, replays: bool = False) -> None:
    """Raise StoreError if the model directory is not what a run was started with; where updates are replayed, if the
    reference's is not: the exact KL asks it anew."""
    known, reference = store.read_run()["digests"], config.model.reference_path
    _check_same_model(store.name, known, model_digests(config.model.path))
    if replays and reference is not None and model_digest(reference) != known.get("reference"):
        raise StoreError(f"Run {store.name!r}: model.reference={reference} changed since it was started: put it back")


def _check_same_model(name: str, before: dict[str, Any], now: dict[str, Any]) -> None:
    changed = _changed("model_files", before, now)
    if changed or before["model"] != now["model"]:
        which = ", ".join(changed) or f"its weights ({before['model']} → {now['model']})"
        raise StoreError(f"Run {name!r}: the model it was started from has changed: {which}. Put back what was there")


def _changed(kind: str, before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Files that are gone or have changed."""
    return sorted(path for path, digest in before.get(kind, {}).items() if now[kind].get(path) != digest)


def check_unchanged(store: RunStore, config: Config, digests: dict[str, Any], may_round: bool) -> list[str]:
    """Raise StoreError or ConfigError where settings, data or weights are other ones than the run's.

    Returns the settings that may differ, and do.
    """
    changed = differences(read_config(store), config)
    rounding = [change for change in changed if changes_only_rounding(change)]
    # Unfinished responses lie in the last commit shard by shard; shuffled verdicts are dealt within a shard.
    if config.rollout.parts > 1 or config.rollout.second_turn.shuffled:
        rounding = [change for change in rounding if not change.startswith("rollout.shard_prompts:")]
    if len(rounding) < len(changed) or (changed and not may_round):
        hint = ""
        if rounding:
            names = ", ".join(change.partition(":")[0] for change in rounding)
            hint = f" `ares resume {store.name} SETTING=VALUE` may change {names}: by rounding alone."
        raise StoreError(
            f"Run {store.name!r} was started with other settings, and they change results:\n  "
            + "\n  ".join(changed)
            + f"\nTake the old ones, or start another run with --run.{hint}"
        )
    _check_same_inputs(store.name, config, read_description(store)["digests"], digests)
    return rounding
