"""What a deployment asks for, as Prefect's page shows it: the profile as a choice, the settings as a form, a run name.

Covered: the types of the flows' parameters and what they mean as dotted overrides. The form is made from the
configuration's own models, so a new setting appears by itself, with its type, bounds and description.
Not covered: what the settings do (ares/config/run.py).
"""

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from prefect import runtime
from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.json_schema import SkipJsonSchema

from ares.config import Config, profile_names

if TYPE_CHECKING:
    Profile = str
    Open: TypeAlias = None
else:
    # May be left open; not told in the schema, or the page shows a choice between a type and nothing.
    Open = SkipJsonSchema[None]
    # Profiles called base… are extended, not trained.
    Profile = StrEnum("Profile", {name: name for name in profile_names() if not name.startswith("base")})


def _form(section: type[BaseModel]) -> type[BaseModel]:
    """A section in which every field may be left open."""
    fields: dict[str, Any] = {}
    for name, field in section.model_fields.items():
        kind: Any = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            kind = _form(kind)
        for bound in field.metadata:
            kind = Annotated[kind, bound]
        fields[name] = (kind, Field(None, description=field.description, json_schema_extra=_without_default))
    return create_model(section.__name__, __config__=ConfigDict(extra="forbid"), __doc__=section.__doc__, **fields)


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


if TYPE_CHECKING:
    Settings = BaseModel
else:
    Settings = _form(Config)


def as_overrides(settings: BaseModel | None) -> list[str]:
    """The fields of the form that were filled in, as dotted overrides."""
    return [] if settings is None else list(_dotted(settings, ""))


def _dotted(section: BaseModel, prefix: str) -> list[str]:
    found: list[str] = []
    for name in sorted(section.model_fields_set):
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            found += _dotted(value, f"{prefix}{name}.")
        elif value is not None:
            found.append(f"{prefix}{name}={json.dumps(section.model_dump(mode='json')[name])}")
    return found


def flow_run_title() -> str:
    """A flow run is called as the run it trains; one without a name gives the run its own."""
    return str(runtime.flow_run.parameters.get("run") or runtime.flow_run.name)
