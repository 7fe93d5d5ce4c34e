"""The form of a deployment: what is left open comes from the profile, what is filled in is an override."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from ares.config import Config, ConfigError, load
from ares.config.extensions import KINDS
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
    """A value other than the profile's, as far as its type tells."""
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
    is_itself = isinstance(value, str) or (isinstance(value, int | float) and kind is not str)
    return value if is_itself else str(yaml.safe_dump(value)).strip()


EXTENSION = """
from ares.config import Strict

class Mine:
    class Settings(Strict):
        limit: float
        other: int = 1

    def terms(self, tokens):
        raise NotImplementedError
"""


def schema_boxes() -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Path and schema of every box, as the UI gets them."""
    schema = Settings.model_json_schema()

    def below(section: dict[str, Any], prefix: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
        for name, box in section["properties"].items():
            inner = schema["$defs"].get(str(box.get("$ref", "")).rpartition("/")[2], {})
            if "properties" in inner:
                yield from below(inner, (*prefix, name))
            else:
                yield (*prefix, name), box

    return below(schema, ())


def test_an_untouched_form_changes_nothing() -> None:
    assert as_overrides(Settings()) == []
    assert Settings().model_dump(mode="json") == {}


def test_the_form_has_no_checkbox_and_no_empty_choice() -> None:
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


def test_a_box_that_is_read_as_yaml_says_so() -> None:
    """Settings of an extension, a list and a number per bucket are text boxes: nothing said how to fill them in."""
    written = {
        ".".join(path): box["description"].partition("As YAML: ")[2].partition(".")[0]
        for path, box in schema_boxes()
        if "As YAML: " in box["description"]
    }
    settings = {f"{kind.section}.settings" for kind in KINDS}
    assert written.items() >= dict.fromkeys(settings, "{name: value}").items()
    assert written["learner.betas"] == "[first, second]"
    assert written["algorithm.kl.coef"] == "{name: value}"
    assert written["data.train"] == "[first, second]"
    assert written["data.validation"] == "{name: value} or [first, second]"
    assert "train.steps" not in written
    assert "model.path" not in written


def test_the_form_says_what_a_setting_is_by_default_and_nothing_where_there_is_nothing_to_say() -> None:
    """Under each section stood "None"."""
    assert '"None' not in json.dumps(Settings.model_json_schema())
    described = {".".join(path): box["description"] for path, box in schema_boxes()}
    assert described["rollout.n"].endswith(
        f"By default {Config.model_fields['rollout'].annotation.model_fields['n'].default}."
    )


def test_settings_of_an_extension_on_the_form_are_checked_and_filled_in(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(EXTENSION)
    section = {"loss": f"{file}:Mine", "settings": "{limit: 2}"}
    filled = as_overrides(Settings.model_validate({"algorithm": {"policy": section}}))
    assert load("tiny-math", filled).algorithm.policy.settings == {"limit": 2.0, "other": 1}
    wrong = as_overrides(Settings.model_validate({"algorithm": {"policy": section | {"settings": "{limt: 2}"}}}))
    with pytest.raises(ConfigError, match=r"limt is unknown \(did you mean limit\?\)"):
        load("tiny-math", wrong)


def test_an_emptied_box_is_open() -> None:
    assert as_overrides(Settings.model_validate({"model": {"path": ""}})) == []
