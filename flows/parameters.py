"""Parameters of the deployments as Prefect's UI shows them: a choice of profiles, a form of settings, a run name.

Covered: the types of the flows' parameters, their conversion to dotted overrides, what each profile sets. The form is
built from the configuration's own models, so a new setting appears by itself, with its type, bounds and description.
Not covered: what the settings do (ares/config/run.py).
"""

import json
from enum import Enum, StrEnum
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from prefect import runtime
from pydantic import BaseModel, ConfigDict, Field, create_model, model_serializer

from ares.config import Config, defaults, load, profile_names, sections

RUNS_OWN = "the run's own"
"""The choice of profile that resumes an existing run."""
PROFILES = [name for name in profile_names() if not name.startswith("base")]
"""Profiles called base… are extended, not trained."""


class Switch(StrEnum):
    """A boolean on the form. A checkbox has no third state: untouched it would switch the setting off."""

    ON = "on"
    OFF = "off"


class Form(BaseModel):
    """A section of the form. Empty fields are left out when it is serialised: the UI refuses `null` for a section."""

    model_config = ConfigDict(extra="forbid")

    @model_serializer
    def _filled_in(self) -> dict[str, Any]:
        return {name: value for name in self.model_fields_set if (value := getattr(self, name)) is not None}


def _form(section: type[BaseModel]) -> type[BaseModel]:
    """A section whose fields may all be left empty, which means: as in the profile."""
    fields: dict[str, Any] = {}
    for name, field in section.model_fields.items():
        kind = _form_type(field.annotation)
        for bound in field.metadata if kind in (int, float) else ():
            kind = Annotated[kind, bound]
        fields[name] = (kind, Field(None, description=field.description, json_schema_extra=_without_default))
    return create_model(section.__name__, __base__=Form, __doc__=section.__doc__, **fields)


def _form_type(kind: Any) -> Any:
    """The type that the UI shows for a setting. A value that needs more than one box is entered as YAML."""
    alternatives = [each for each in get_args(kind) if each is not NoneType]
    if get_origin(kind) in (UnionType, Union):
        kind = alternatives[0] if len(alternatives) == 1 else str
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _form(kind)
    if kind is bool:
        return Switch
    is_choice = get_origin(kind) is Literal or (isinstance(kind, type) and issubclass(kind, Enum))
    return kind if is_choice or kind in (int, float) else str


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


if TYPE_CHECKING:
    Profile = str
    Settings = BaseModel
else:
    Profile = StrEnum("Profile", {name: name for name in [RUNS_OWN, *PROFILES]})
    Settings = _form(Config)


def as_overrides(section: BaseModel, prefix: str = "") -> list[str]:
    """The fields of the form that were filled in, as dotted overrides."""
    overrides: list[str] = []
    for name in sorted(section.model_fields_set):
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            overrides += as_overrides(value, f"{prefix}{name}.")
        elif isinstance(value, Switch):
            overrides.append(f"{prefix}{name}={'true' if value is Switch.ON else 'false'}")
        elif value not in (None, ""):  # an emptied box
            overrides.append(f"{prefix}{name}={value}")
    return overrides


def describe_profiles() -> str:
    """What each profile sets, in Markdown, for the deployment's description: its form is the same for all of them."""

    def values(config: Config) -> dict[str, Any]:
        return {f"{section.name}.{setting.name}": setting.value
                for section in sections(config) for setting in section.settings}  # fmt: skip

    usual, lines = values(defaults()), []
    for name in PROFILES:
        own = {setting: value for setting, value in values(load(name)).items() if usual.get(setting) != value}
        texts = [f"`{setting}={json.dumps(value, ensure_ascii=False)}`" for setting, value in own.items()]
        lines.append(f"- **{name}**: {', '.join(texts)}")
    return "\n".join(lines)


def flow_run_title() -> str:
    """The name of a flow run: that of the run it trains; without one, the run is named after the flow run."""
    return str(runtime.flow_run.parameters.get("run") or runtime.flow_run.name)
