"""Profiles: YAML files with `extends`, dotted overrides on top of them, and which settings change results.

Covered: loading `profiles/NAME.yaml` (or a path) into a checked configuration, with errors that name file and field;
the fingerprint. Not covered: the settings themselves, their bounds and reasons (ares/config/run.py).
"""

import difflib
import hashlib
import json
import re
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from ares.config.extensions import SETTING_ERROR, UNOPENED
from ares.config.paths import CHECKOUT, is_there
from ares.config.run import Config
from ares.config.strict import ConfigError, alternatives, explained, reason
from ares.config.yaml_files import NOT_YAML, parsed, read_yaml, why_not_yaml

PROFILES = CHECKOUT / "profiles"
DEEPEST = 1000
"""Characters of a setting's dotted name beyond which a profile holds itself."""
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")
Override = Annotated[str, "section.field=value"]


def load(profile: str, overrides: list[Override] | None = None) -> Config:
    """The resolved configuration of `profile` (a name in profiles/ or a path) with dotted `overrides` laid over it.

    Raises ConfigError naming the profile or the override and the field.
    """
    settings, chain = _read(profile, [])
    for override in overrides or []:
        _lay_over(settings, override)
    return _validate(settings, " ← ".join(chain))


def defaults(overrides: list[Override] | None = None) -> Config:
    """What is set where no profile sets anything, with overrides laid over it; model.path and data.train are empty.

    Raises ConfigError.
    """
    settings: dict[str, Any] = {"model": {"path": ""}, "data": {"train": ""}}
    for each in overrides or []:
        _lay_over(settings, each)
    return _validate(settings, "settings")


def override(config: Config, overrides: list[Override]) -> Config:
    """A configuration with dotted overrides laid over it. Raises ConfigError."""
    settings = config.model_dump(mode="json")
    for each in overrides:
        _lay_over(settings, each)
    return _validate(settings, "overrides")


def from_dict(settings: dict[str, Any], source: str) -> Config:
    """A configuration read back from `source` (a run.json), validated like a profile; no file of a user is executed."""
    return _validate(settings, source, UNOPENED)


def profile_names() -> list[str]:
    """Names of the shipped profiles."""
    return sorted(path.stem for path in PROFILES.glob("*.yaml"))


def fingerprint(config: Config) -> str:
    """Hash of every setting that changes results. Runs with one fingerprint and one data set are bit-identical."""
    return hashlib.sha256(json.dumps(result_settings(config), sort_keys=True).encode()).hexdigest()[:16]


def result_settings(config: Config) -> dict[str, Any]:
    """The settings that change results, flat: {"rollout.n": 8, …}."""
    return dict(_flat(config, ""))


def differences(before: Config, after: Config) -> list[str]:
    """Result-changing settings in which two configurations differ, as `field: before → after`."""
    old, new = result_settings(before), result_settings(after)
    return [f"{key}: {old.get(key)!r} → {new.get(key)!r}" for key in sorted(old | new) if old.get(key) != new.get(key)]


def _read(profile: str, seen: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Settings of a profile over those it extends, and the names of both. A path is seen from the extending profile."""
    folder = Path(seen[-1]).parent if seen else Path()
    is_file = profile.endswith((".yaml", ".yml"))
    path = folder / profile if is_file else PROFILES / f"{profile}.yaml"
    if not is_there(path):
        if is_file:
            raise ConfigError(f"There is no profile {str(path)!r} in {Path.cwd()}")
        close = difflib.get_close_matches(profile, profile_names(), 1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise ConfigError(f"There is no profile {profile!r} (profiles: {', '.join(profile_names())}).{hint}")
    if path.resolve() in [Path(one).resolve() for one in seen]:
        raise ConfigError(f"{path}: `extends` goes round in a circle: {' → '.join([*seen, str(path)])}")
    settings = read_yaml(path) or {}
    if not isinstance(settings, dict):
        raise ConfigError(f"{path}: a profile is a mapping of sections, this is a {type(settings).__name__}")
    parent = settings.pop("extends", None)
    if parent is None:
        return settings, [path.name]
    if not isinstance(parent, str):
        raise ConfigError(f"{path}: extends: {parent!r} is neither a profile's name nor the path of one")
    beneath, chain = _read(parent, [*seen, str(path)])
    return _merge(beneath, settings), [path.name, *chain]


def _merge(beneath: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(beneath)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


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
        place[field] = _value(text, _type_of([*sections, field]))
    except NOT_YAML as error:
        raise ConfigError(f"Override {override!r:.200}: the value is not YAML: {why_not_yaml(error)}") from error


def _value(text: str, kind: Any) -> Any:
    """The value of an override. What a setting takes as text is text as it stands, whatever YAML would make of it
    (`Question: {prompt}`, `*.jsonl`, `no`), but for quotes around all of it, and `null`."""
    types = alternatives(kind)
    if str not in types or (float in types and _is_number(text)):
        return _scalar(text)
    if text.strip() in ("", "null", "~"):
        return None
    is_open = text[0] + text[-1] in ("[]", "{}") and any(get_origin(each) in (list, tuple, dict) for each in types)
    if not is_open and not (len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"):
        return text
    try:
        value = parsed(text)
    except NOT_YAML:
        if is_open:
            raise
        return text
    return value if is_open or isinstance(value, str) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _scalar(text: str) -> Any:
    value = parsed(text)
    if isinstance(value, str):
        try:
            return float(value)  # YAML 1.1 reads 1e-6 as text
        except ValueError:
            return value
    return value


def _type_of(path: list[str]) -> Any:
    """The type of the setting that a dotted name leads to; None where it leads to none."""
    kind: Any = Config
    for name in path:
        annotation = None
        for each in alternatives(kind):
            if isinstance(each, type) and issubclass(each, BaseModel) and name in each.model_fields:
                annotation = each.model_fields[name].annotation
            elif get_origin(each) is dict:
                annotation = get_args(each)[1]
        kind = annotation
    return kind


def _validate(settings: dict[str, Any], source: str, context: dict[str, str] | None = None) -> Config:
    _refuse_unwritable(settings, source, "")
    try:
        return Config.model_validate(settings, context=context)
    except ValidationError as error:
        lines = [_explain(problem) for problem in error.errors()]
        raise ConfigError(f"{source}: " + "; ".join(lines)) from error


def _refuse_unwritable(value: Any, source: str, where: str) -> None:
    """Raise ConfigError for keys that are no text, and for text that no file and no path can hold."""
    if isinstance(value, dict) and len(where) < DEEPEST:
        for key, inner in value.items():
            if not isinstance(key, str):
                raise ConfigError(f"{source}: {where}{key!r} is unknown: the name of a setting is text")
            _refuse_unwritable(inner, source, f"{where}{key}.")
    elif isinstance(value, str) and _UNWRITABLE.search(value):
        raise ConfigError(f"{source}: {where.rstrip('.')}={value!a} holds a null byte, or half a character")


def _explain(problem: Any) -> str:
    where = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == SETTING_ERROR:
        return f"{where}: {problem['msg']} (got {problem['input']!r})"
    section: Any = Config
    if problem["type"] == "extra_forbidden":
        for part in problem["loc"][:-1]:
            section = section_of(section.model_fields[part].annotation)
    elif problem["type"] != "missing":
        where = _field_name(problem["loc"])
    return explained(problem, where, section.model_fields) if where else f"profile: {reason(problem)}"


def _field_name(location: tuple[Any, ...]) -> str:
    """The dotted name of a field, without the branches of a union that pydantic appends to it."""
    section: Any = Config
    names: list[str] = []
    for part in location:
        if part not in getattr(section, "model_fields", {}):
            break
        names.append(part)
        section = section_of(section.model_fields[part].annotation)
    return ".".join(names)


def section_of(kind: Any) -> Any:
    """The section's model of a field that may be absent; any other type as it is."""
    models = [each for each in get_args(kind) if isinstance(each, type) and issubclass(each, BaseModel)]
    return models[0] if models else kind


def _flat(section: BaseModel, prefix: str) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for name, field in type(section).model_fields.items():
        extra = field.json_schema_extra
        if isinstance(extra, dict) and extra.get("affects_results") is False:
            continue
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            rows += _flat(value, f"{prefix}{name}.")
        else:
            rows.append((f"{prefix}{name}", plain(value)))
    return rows


def plain(value: Any) -> Any:
    """The value of a setting as JSON has it."""
    return json.loads(json.dumps(value, default=lambda section: section.model_dump(mode="json")))
