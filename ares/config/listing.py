"""Every setting with its value, its allowed values and its meaning, read from the models themselves.

Covered: sections in the order of a profile, optional ones and those of a user's extensions too. Not covered: how they
are shown (flows/cli/settings.py).
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from ares.config.extensions import KINDS
from ares.config.run import Config
from ares.config.strict import section_of

KIND_OF = {kind.section: kind for kind in KINDS}
COMMENT_WIDTH = 100
BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
WORDS = {"boolean": "true | false", "integer": "whole number", "number": "number", "string": "text", "null": "null"}


@dataclass(frozen=True)
class Setting:
    """One setting, or an optional section that is absent (value None)."""

    name: str
    """Within its section."""
    value: Any
    required: bool
    """No default: the value is meaningless unless a profile has set it."""
    allowed: str
    meaning: str

    @property
    def text(self) -> str:
        """The value as YAML in one line."""
        text = yaml.safe_dump(self.value, default_flow_style=True, width=10**9, allow_unicode=True)
        return text.removesuffix("\n").removesuffix("\n...")


@dataclass(frozen=True)
class Section:
    """Settings under one dotted name; nested sections are listed separately."""

    name: str
    meaning: str
    settings: list[Setting]
    given: bool
    """False: an optional section that is absent; its values are the defaults it would have."""


def sections(config: Config) -> list[Section]:
    """All that can be set, with a configuration's values. Raises ConfigError for an extension that cannot be read."""
    return list(_sections(Config, config, "", ""))


def commented(config: Config) -> str:
    """A profile with every setting of a configuration, each below its meaning and allowed values."""
    blocks = []
    for section in sections(config):
        if section.name and section.given:
            *above, name = section.name.split(".")
            blocks.append("\n" + _write_block(section.meaning, f"{name}:\n", len(above)))
            for setting in section.settings:
                value = yaml.safe_dump({setting.name: setting.value}, allow_unicode=True, width=10**9)
                blocks.append(_write_block(f"{setting.meaning} ({setting.allowed})", value, len(above) + 1))
    return "".join(blocks).lstrip("\n")


def _write_block(comment: str, text: str, depth: int) -> str:
    lines = textwrap.fill(comment, COMMENT_WIDTH, initial_indent="# ", subsequent_indent="# ")
    return textwrap.indent(f"{lines}\n{text}", "  " * depth)


def _sections(model: type[BaseModel], values: BaseModel | None, name: str, meaning: str) -> Iterator[Section]:
    """The section of a model, then those within it. values: None for an optional section that is absent."""
    schema = model.model_json_schema()["properties"]
    own: list[Setting] = []
    inner: list[tuple[type[BaseModel], BaseModel | None, str, str]] = []
    kind = KIND_OF.get(name)
    for field, information in model.model_fields.items():
        dotted, about = f"{name}.{field}".lstrip("."), re.sub(r"\bNone\b", "null", information.description or "")
        default = None if information.is_required() else information.get_default(call_default_factory=True)
        value = default if values is None else getattr(values, field)
        if kind and field == "settings" and value:  # an extension's, which are a section of their own
            value = kind.settings_of(values)
        section = type(value) if isinstance(value, BaseModel) else section_of(information.annotation)
        if section is not None:
            inner.append((section, value, dotted, about))
        if value is None and section is not None:
            own.append(Setting(field, None, False, "a section | null", about))
        elif section is None:
            names = [*kind.builtin, "path/to/file.py:Name"] if kind and kind.setting == dotted else []
            allowed = " | ".join(names) or _allowed(schema[field])
            own.append(Setting(field, to_jsonable_python(value), information.is_required(), allowed, about))
    told = " ".join(part for part in (model.__doc__ or "", meaning) if part)
    yield Section(name, " ".join(told.split()), own, values is not None)
    for each in inner:
        yield from _sections(*each)


def _allowed(schema: dict[str, Any]) -> str:
    """What a JSON schema allows, in few words."""
    if "anyOf" in schema:
        return " | ".join(_allowed(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "prefixItems" in schema:
        return f"[{', '.join(_allowed(each) for each in schema['prefixItems'])}]"
    if schema.get("type") == "array":
        return f"list of {_allowed(schema['items'])}"
    if schema.get("type") == "object":
        names = schema.get("propertyNames", {}).get("enum", ["name"])
        return f"{{{', '.join(f'{name}: …' for name in names)}}}"
    bounds = " and ".join(f"{sign} {schema[bound]:,}" for bound, sign in BOUNDS.items() if bound in schema)
    return f"{WORDS.get(schema.get('type', ''), 'as it needs')} {bounds}".rstrip()
