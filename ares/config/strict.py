"""Building blocks of the configuration: bounds, fields that do not change results, and how an error is told."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError
from pydantic.config import JsonDict

from algorithms.settings import alternatives
from ares.errors import UserError

Decay = Annotated[float, Field(ge=0, lt=1)]

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
ONLY_ROUNDING: JsonDict = {"only_rounding": True}
"""Marks a field that changes results by their rounding alone: a resume may change it when it is asked to."""


class ConfigError(UserError, ValueError):
    """A profile, an override or a resumed run's settings are wrong; the message names file and field."""


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
    if error["type"] in ("extra_forbidden", "invalid_key"):
        return f"{where} is unknown ({nearest(str(error['loc'][-1]), known)})"
    if error["type"] == "missing":
        return f"{where} is missing"
    return f"{where}: {reason(error)} (got {error['input']!r})"


def told(error: ValidationError, where: str, known: Iterable[str]) -> str:
    """All errors of a section, which lies at the dotted name `where` and has the settings `known`, in one line."""
    places = [".".join(filter(None, [where, *map(str, each["loc"])])) for each in error.errors()]
    return "; ".join(explained(each, place, known) for each, place in zip(error.errors(), places, strict=True))


def section_of(kind: Any) -> type[BaseModel] | None:
    """The model of a section, which may be optional; None for the type of a single setting."""
    models = [each for each in alternatives(kind) if isinstance(each, type) and issubclass(each, BaseModel)]
    return models[0] if models else None
