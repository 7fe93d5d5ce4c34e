"""What the form of a deployment means: what is left open comes from the profile, what is filled in is an override."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from ares.config import Config, ConfigError, load
from flows.parameters import Settings, Switch, as_overrides


def leaves(section: type[BaseModel], prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Path and type of every box of the form, from top to bottom."""
    for name, field in section.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from leaves(kind, (*prefix, name))
        else:
            yield (*prefix, name), kind


LEAVES = list(leaves(Settings))


def nested(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    for name in reversed(path):
        value = {name: value}
    return value


def resolved(overrides: list[str]) -> Config | str:
    """The configuration, or why there is none."""
    try:
        return load("tiny-math", overrides)
    except ConfigError as error:
        return str(error)


EXAMPLES: dict[Any, Any] = {int: 3, float: 0.5, str: "text", Switch: True}


def other_value(path: tuple[str, ...], kind: Any) -> Any:
    """Something else than the profile has, as far as its type tells."""
    value: Any = load("tiny-math").model_dump(mode="json")
    for name in path:
        value = None if value is None else value.get(name)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return 0.9 * value
    return EXAMPLES[kind] if value is None else value


def on_the_form(kind: Any, value: Any) -> Any:
    if kind is Switch:
        return "on" if value else "off"
    return value if isinstance(value, int | float | str) and kind is not str else str(yaml.safe_dump(value)).strip()


def test_an_untouched_form_changes_nothing() -> None:
    assert as_overrides(Settings()) == []
    assert Settings().model_dump(mode="json") == {}


def test_there_is_no_checkbox_and_no_choice_of_nothing_on_the_form() -> None:
    """Prefect's UI sends `false` for a checkbox that nobody touched, and the default of a section for `None`."""
    schema = json.dumps(Settings.model_json_schema())
    assert '"boolean"' not in schema
    assert '"null"' not in schema
    assert '"default"' not in schema


@pytest.mark.parametrize(("path", "kind"), LEAVES, ids=[".".join(path) for path, _ in LEAVES])
def test_one_field_means_what_the_override_means(path: tuple[str, ...], kind: Any) -> None:
    value = other_value(path, kind)
    form = Settings.model_validate(nested(path, on_the_form(kind, value)))
    assert resolved(as_overrides(form)) == resolved([f"{'.'.join(path)}={json.dumps(value)}"])


def test_an_emptied_box_is_open() -> None:
    assert as_overrides(Settings.model_validate({"model": {"path": ""}})) == []
