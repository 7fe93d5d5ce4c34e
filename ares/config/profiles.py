"""Profiles: YAML files with `extends`, dotted overrides on top of them, and which settings change results.

Covered: loading `profiles/NAME.yaml` (or a path) into a checked configuration, with errors that name file and field;
presets, which are words for a published algorithm; the fingerprint; reading a user's YAML. Not covered: the settings
themselves, their bounds and reasons (ares/config/run.py).
"""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from algorithms.settings import alternatives
from ares.config.extensions import open_extensions
from ares.config.paths import CHECKOUT, seen_from
from ares.config.rules import contradictions
from ares.config.run import Config
from ares.config.strict import NO_EFFECT, ONLY_ROUNDING, ConfigError, explain, nearest, walk

PROFILES = CHECKOUT / "profiles"
PRESETS = PROFILES / "algorithms"
"""`algorithm: dapo`, or algorithm=dapo, stands for all of the section that dapo.yaml in here has, and defaults."""
NAMED_SETS = ("data.train", "data.validation", "data.weights")
Override = Annotated[str, "section.field=value"]


def load(profile: str, overrides: list[Override] | None = None, trains: bool = True) -> Config:
    """The resolved configuration of `profile` (a name in profiles/ or a path) with dotted `overrides` laid over it.

    trains: False for what only samples, as an evaluation. Raises ConfigError naming the profile or the override and the
    field.
    """
    settings, chain = _read(profile, [])
    return _resolve(settings, overrides, " ← ".join(chain), trains)


def defaults() -> Config:
    """What is set where no profile sets anything; model.path and data.train are empty."""
    return _resolve({"model": {"path": ""}, "data": {"train": ""}}, None, "settings")


def override(config: Config, overrides: list[Override], trains: bool = True) -> Config:
    """A configuration with dotted overrides laid over it. Raises ConfigError."""
    return _resolve(config.model_dump(mode="json"), overrides, "overrides", trains)


def from_dict(settings: dict[str, Any], source: str) -> Config:
    """A configuration read back from `source` (a run.json): types and bounds are checked, no file is executed."""
    match settings:
        case {"reward": {"code": {"verdicts": None} as code}}:
            del code["verdicts"]  # which `ares new` of earlier versions wrote
    try:
        return Config.model_validate(settings)
    except ValidationError as error:
        raise ConfigError(f"{source}: {explain(error, Config)}") from error


def profile_names() -> list[str]:
    """Names of the shipped profiles."""
    return sorted(path.stem for path in PROFILES.glob("*.yaml"))


def fingerprint(config: Config) -> str:
    """Hash of every setting that changes results. Runs with one fingerprint and one data set are bit-identical."""
    return hashlib.sha256(json.dumps(result_settings(config), sort_keys=True).encode()).hexdigest()[:16]


def result_settings(config: Config) -> dict[str, Any]:
    """The settings that change results, flat: {"rollout.n": 8, …}."""
    return dict(_flat(config, config.model_dump(mode="json"), ""))


def differences(before: Config, after: Config) -> list[str]:
    """Result-changing settings in which two configurations differ, as `field: before → after`."""
    old, new = result_settings(before), result_settings(after)
    return [f"{key}: {old.get(key)!r} → {new.get(key)!r}" for key in sorted(old | new) if old.get(key) != new.get(key)]


def changes_only_rounding(difference: str) -> bool:
    """Whether a difference, as `differences` gives it, is in a setting that changes results by rounding alone."""
    *_, (_, field, _) = walk(difference.partition(":")[0].split("."), Config)
    return field is not None and field.json_schema_extra == ONLY_ROUNDING


def _read(profile: str, seen: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Settings of a profile over those it extends, and the names of both. A path is seen from the extending profile."""
    folder = Path(seen[-1]).parent if seen else Path()
    is_file = profile.endswith((".yaml", ".yml"))
    path = folder / profile if is_file else PROFILES / f"{profile}.yaml"
    if not os.path.exists(path):
        if is_file:
            hint = f" (did you mean {path.stem}?)" if path.stem in profile_names() else ""
            raise ConfigError(f"There is no profile {str(path)!r}{seen_from(path)}{hint}")
        mine = f"{profile}.yaml"
        known = [mine] if os.path.exists(folder / mine) else profile_names()
        raise ConfigError(f"There is no profile {profile!r} ({nearest(profile, known)})")
    if path.resolve() in [Path(one).resolve() for one in seen]:
        raise ConfigError(f"{path}: `extends` goes round in a circle: {' → '.join([*seen, str(path)])}")
    settings = read_yaml(path) or {}
    if not isinstance(settings, dict):
        raise ConfigError(f"{path}: a profile is a mapping of sections, this is a {type(settings).__name__}")
    parent = settings.pop("extends", None)
    word = settings.get("algorithm")
    if isinstance(word, str):
        settings["algorithm"] = _preset(word, f"{path}: ")
    if parent is None:
        return settings, [path.name if seen or "model" in settings else f"{path.name} without `extends: PROFILE`"]
    if not isinstance(parent, str):
        raise ConfigError(f"{path}: extends: {parent!r} is neither a profile's name nor the path of one")
    beneath, chain = _read(parent, [*seen, str(path)])
    if isinstance(word, str):
        beneath.pop("algorithm", None)
    return _merge(beneath, settings), [path.name, *chain]


def _preset(name: str, where: str = "") -> Any:
    """The section `algorithm` that a word stands for. Raises ConfigError."""
    names = sorted(path.stem for path in PRESETS.glob("*.yaml"))
    if name not in names:
        raise ConfigError(f"{where}algorithm: {name!r} is neither a section nor a preset ({nearest(name, names)})")
    return read_yaml(PRESETS / f"{name}.yaml")


def _merge(beneath: dict[str, Any], over: dict[str, Any], section: str = "") -> dict[str, Any]:
    """Settings over others, field by field; sets of data by name are a whole, as they are for an override."""
    merged = dict(beneath)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict) and section + key not in NAMED_SETS
        merged[key] = _merge(merged[key], value, f"{section}{key}.") if both else value
    return merged


def _resolve(settings: dict[str, Any], overrides: list[Override] | None, source: str, trains: bool = True) -> Config:
    """Settings with overrides laid over them, validated; extensions are opened, and contradictions refused."""
    # A preset first, wherever it stands: it is the whole section.
    for override in sorted(overrides or [], key=lambda each: each.partition("=")[0] != "algorithm"):
        _lay_over(settings, override)
    config = from_dict(settings, source)
    try:
        open_extensions(config)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error
    if wrong := contradictions(config, trains):
        raise ConfigError(f"{source}: " + "; ".join(wrong))
    for changes in config.watch.overrides:
        _resolve(config.model_dump(mode="json"), ["watch.remedies=[]", *changes], "watch.remedies", trains)
    return config


def _lay_over(settings: dict[str, Any], override: Override) -> None:
    path, equals, text = override.partition("=")
    *sections, field = path.split(".")
    if not equals or not field or not all(sections):
        raise ConfigError(f"Override {override!r} is not of the form section.field=value")
    place = settings
    for section in sections:
        if place.get(section) is None:  # absent, as an optional section is
            place[section] = {}
        place = place[section]
        if not isinstance(place, dict):
            raise ConfigError(f"Override {override!r}: {section} is a value, not a section")
    try:
        place[field] = _value(text, path)
    except NOT_YAML as error:
        raise ConfigError(f"Override {override!r:.200}: the value is not YAML: {why_not_yaml(error)}") from error
    if path == "algorithm" and isinstance(place[field], str):
        place[field] = _preset(place[field])


def _value(text: str, setting: str) -> Any:
    """The value of an override. What a setting takes as text is text as it stands, whatever YAML would make of it
    (`Question: {prompt}`, `*.jsonl`, `no`), but for quotes around all of it, and `null`."""
    *_, (name, _, kind) = walk(setting.split("."), Config)
    types = alternatives(kind) if name == setting else ()
    if str not in types:
        return yaml.load(text, _OneOfEach)
    if text.strip() in ("", "null", "~"):
        return None
    ends = text[0] + text[-1]
    if ends in ("[]", "{}") and any(get_origin(each) in (list, tuple, dict) for each in types):
        return yaml.load(text, _OneOfEach)
    if ends not in ('""', "''") or len(text) < 2:
        return text
    try:
        value = yaml.load(text, _OneOfEach)
    except NOT_YAML:
        return text
    return value if isinstance(value, str) else text


def _flat(section: BaseModel, values: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, field in type(section).model_fields.items():
        if field.json_schema_extra == NO_EFFECT:
            continue
        inner = getattr(section, name)
        if isinstance(inner, BaseModel):
            yield from _flat(inner, values[name], f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", values[name]


# ---- YAML ----------------------------------------------------------------------------------------------------------


class _OneOfEach(yaml.CSafeLoader):
    """Plain YAML silently lets the last of two equal keys win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line + 1
            if key.value in lines:
                raise yaml.YAMLError(f"{key.value!r} stands in line {lines[key.value]} and in line {line}")
            lines[key.value] = line
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """What a YAML file holds. Raises ConfigError."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _OneOfEach)
    except OSError as error:
        raise ConfigError(f"{path}: not readable: {error.strerror}") from error
    except NOT_YAML as error:
        raise ConfigError(f"{path}: not YAML: {why_not_yaml(error)}") from error


NOT_YAML = (yaml.YAMLError, ValueError, RecursionError)
"""What reading YAML raises: plain ValueErrors for bytes and for impossible numbers and dates."""


def why_not_yaml(error: Exception) -> str:
    """The reason in one line, with its place."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    return f"{error.problem} (line {mark.line + 1}, column {mark.column + 1})"  # type: ignore[attr-defined]
