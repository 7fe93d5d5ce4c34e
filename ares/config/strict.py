"""Building blocks of the configuration: the strict model, bounded numbers, fields that do not change results, error
messages."""

from collections.abc import Iterable
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic.config import JsonDict

from algorithms.buckets import BUCKETS, Bucket
from ares.errors import UserError


def _every_bucket(values: dict[Bucket, float]) -> dict[Bucket, float]:
    missing = [bucket for bucket in BUCKETS if bucket not in values]
    if missing:
        raise ValueError(f"no value for {', '.join(missing)}: name every bucket, or give one number for all")
    return values


NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Decay = Annotated[float, Field(ge=0, lt=1)]
PerBucket = Annotated[dict[Bucket, NonNegative], AfterValidator(_every_bucket)]

MOST = 2**31 - 1
"""The largest count: beyond it, tensors and tables overflow."""
MOST_STEPS = 999_999
"""Folders of steps have six digits."""
MOST_TOKENS = 2**20
"""Of a prompt, or of an answer."""
MOST_SAMPLES = 2**16
"""Of one prompt, or of what is generated together."""
MOST_PROCESSES = 1024
"""And threads of each."""
LEAST_TEMPERATURE = 1e-3
"""Logits are divided by it: near 0 they overflow."""
LONGEST_WAIT = 86_400
"""Seconds."""

NO_EFFECT: JsonDict = {"affects_results": False}
"""Marks a field that may differ between a run and its resumption: it changes where or how often, never what."""


class ConfigError(UserError, ValueError):
    """A profile, an override or a resumed run's settings are wrong; the message names file and field."""


class Strict(BaseModel):
    """A section of the profile. An unknown key is an error; values are never coerced silently out of range."""

    model_config = ConfigDict(extra="forbid", validate_default=True, use_attribute_docstrings=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _a_boolean_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Pydantic would read `reference_sync=true` as 1: a reference that is the policy of the step before."""
        if isinstance(value, bool) and info.field_name is not None:
            types = alternatives(cls.model_fields[info.field_name].annotation)
            if bool not in types and {int, float} & set(types):
                raise ValueError("true and false are no numbers")
        return value


def alternatives(kind: Any) -> list[Any]:
    """The types of a union, without what annotates them; any other type alone."""
    if get_origin(kind) is Annotated:
        return alternatives(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [one for each in get_args(kind) for one in alternatives(each)]
    return [kind]


def nearest(name: str, known: Iterable[str]) -> str:
    """For an unknown name: the one that was probably meant, else all known ones."""
    names = list(known)
    close = get_close_matches(name, names, 1)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(names) or 'none'}"


def reason(error: Any) -> str:
    """What pydantic says of one error, without its prefix."""
    return str(error["msg"]).removeprefix("Value error, ")


def explained(error: Any, where: str, known: Iterable[str]) -> str:
    """One line for an error of pydantic's: the field, what is wrong with it, and the known names if it is unknown."""
    if error["type"] == "extra_forbidden":
        return f"{where} is unknown ({nearest(str(error['loc'][-1]), known)})"
    if error["type"] == "missing":
        return f"{where} is missing"
    return f"{where}: {reason(error)} (got {error['input']!r})"
