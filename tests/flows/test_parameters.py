"""The form of a deployment: what is left open comes from the profile, what is filled in is an override."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ares.config import ConfigError, load
from flows.parameters import Settings, as_overrides, describe_profiles

SCHEMA = Settings.model_json_schema()


def boxes_of(section: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Setting and schema of every box, from top to bottom, as the UI gets them."""
    for name, box in section["properties"].items():
        inner = SCHEMA["$defs"].get(str(box.get("$ref", "")).rpartition("/")[2], {})
        if "properties" in inner:
            yield from boxes_of(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", inner | box


BOXES = dict(boxes_of(SCHEMA))
OF_THE_PROFILE = load("tiny-math").model_dump(mode="json")
EXAMPLES: dict[str, Any] = {"integer": 3, "number": 0.5, "string": "text"}


def is_switch(box: dict[str, Any]) -> bool:
    return box.get("enum") == ["on", "off"]


def other_value(setting: str, box: dict[str, Any]) -> Any:
    """A value other than the profile's, as far as its type tells."""
    value: Any = OF_THE_PROFILE
    for name in setting.split("."):
        value = None if value is None else value.get(name)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return 0.9 * value
    if value not in (None, ""):
        return value
    return True if is_switch(box) else box["enum"][-1] if "enum" in box else EXAMPLES[box["type"]]


def on_the_form(box: dict[str, Any], value: Any) -> Any:
    if is_switch(box):
        return "on" if value else "off"
    is_itself = isinstance(value, str) or (isinstance(value, int | float) and box["type"] != "string")
    return value if is_itself else str(yaml.safe_dump(value)).strip()


def filled_in(values: dict[str, Any]) -> list[str]:
    """The overrides of a form on which the boxes of these settings were filled in."""
    form: dict[str, Any] = {}
    for setting, value in values.items():
        *sections, box = setting.split(".")
        place = form
        for section in sections:
            place = place.setdefault(section, {})
        place[box] = on_the_form(BOXES[setting], value)
    return as_overrides(Settings.model_validate(form))


EXTENSION = """
from ares.config import Strict

class Mine:
    class Settings(Strict):
        limit: float
        other: int = 1

    def terms(self, tokens):
        raise NotImplementedError
"""


def test_an_untouched_form_and_an_emptied_box_change_nothing() -> None:
    assert as_overrides(Settings()) == as_overrides(Settings.model_validate({"model": {"path": ""}})) == []
    assert Settings().model_dump(mode="json") == {}


def test_the_form_has_no_checkbox_and_no_empty_choice() -> None:
    """Prefect's UI sends `false` for a checkbox that nobody touched, and the default of a section for `None`. Under
    each section stood "None"."""
    schema = json.dumps(SCHEMA)
    assert '"boolean"' not in schema
    assert '"null"' not in schema
    assert '"default"' not in schema
    assert '"None' not in schema


def test_every_box_is_an_override_of_its_setting() -> None:
    values = {setting: other_value(setting, box) for setting, box in BOXES.items()}
    overrides = dict(each.split("=", 1) for each in filled_in(values))
    assert overrides.keys() == values.keys()
    for setting, value in values.items():
        text = overrides[setting]
        assert text in (value, str(value)) or yaml.safe_load(text) == value, setting


def test_boxes_of_every_type_mean_what_overrides_mean() -> None:
    values: dict[str, Any] = {
        "train.steps": 7, "learner.lr": 0.00001, "algorithm.aepo.enabled": False, "algorithm.kl.kind": "fixed",
        "algorithm.kl.coef": 0.25, "data.train": "other.jsonl", "learner.betas": [0.8, 0.95], "model.lora.rank": 4,
        "tracking.tags": {"who": "me"}, "validation.max_prompts": 9,
    }  # fmt: skip
    overrides = [f"{setting}={json.dumps(value)}" for setting, value in values.items()]
    assert load("tiny-math", filled_in(values)) == load("tiny-math", overrides)


def test_settings_of_an_extension_on_the_form_are_checked_and_filled_in(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(EXTENSION)
    section = {"loss": f"{file}:Mine", "settings": "{limit: 2}"}
    filled = as_overrides(Settings.model_validate({"algorithm": {"policy": section}}))
    assert load("tiny-math", filled).algorithm.policy.settings == {"limit": 2.0, "other": 1}
    wrong = as_overrides(Settings.model_validate({"algorithm": {"policy": section | {"settings": "{limt: 2}"}}}))
    with pytest.raises(ConfigError, match=r"limt is unknown \(did you mean limit\?\)"):
        load("tiny-math", wrong)


def test_the_description_says_what_each_profile_sets_beside_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """The form opens with open fields whichever profile is chosen."""
    monkeypatch.setattr("flows.parameters.PROFILES", ["math", "tiny-math"])
    told = dict(line.removeprefix("- **").split("**: ") for line in describe_profiles().splitlines())
    assert list(told) == ["math", "tiny-math"]
    assert f"`train.steps={load('tiny-math').train.steps}`" in told["tiny-math"]
    assert "learner.max_grad_norm" not in told["tiny-math"]  # as by default
