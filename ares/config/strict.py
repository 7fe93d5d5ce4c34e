"""What every section of the configuration is made of: the strict model, bounded numbers, fields without effect."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from ares.errors import UserError

BUCKETS = ("easy", "medium", "hard")
Bucket = Literal["easy", "medium", "hard"]


def _every_bucket(values: dict[Bucket, float]) -> dict[Bucket, float]:
    missing = [bucket for bucket in BUCKETS if bucket not in values]
    if missing:
        raise ValueError(f"no value for {', '.join(missing)}: name every bucket, or give one number for all")
    return values


NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Decay = Annotated[float, Field(ge=0, lt=1)]
PerBucket = Annotated[dict[Bucket, NonNegative], AfterValidator(_every_bucket)]

NO_EFFECT: JsonDict = {"affects_results": False}
"""Marks a field that may differ between a run and its resumption: it changes where or how often, never what."""


class ConfigError(UserError, ValueError):
    """A profile, an override or a resumed run's settings are wrong; the message names file and field."""


class Strict(BaseModel):
    """A section of the profile. An unknown key is an error; values are never coerced silently out of range."""

    model_config = ConfigDict(extra="forbid", validate_default=True, use_attribute_docstrings=True)
