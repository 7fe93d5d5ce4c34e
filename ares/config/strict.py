"""Building blocks of the configuration: bounds, fields that do not change results, and how an error is told."""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, Field, ValidationError
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo

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
"""Marks a field, or a section, that may differ between a run and its resumption: it changes where, never what."""
ONLY_ROUNDING: JsonDict = {"only_rounding": True}
"""Marks a field that changes results by their rounding alone: a resume may change it when it is asked to."""


class ConfigError(UserError, ValueError):
    """A profile, an override or a resumed run's settings are wrong; the message names file and field."""


def nearest(name: str, known: Iterable[str]) -> str:
    """For an unknown name: the one that was probably meant, else all known ones."""
    names = list(known)
    close = get_close_matches(name, names, 1)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(names) or 'none'}"


def reason(problem: Any) -> str:
    """What pydantic says of one error, without its prefix."""
    return str(problem["msg"]).removeprefix("Value error, ")


def explain(error: ValidationError, model: type[BaseModel], section: str = "") -> str:
    """All errors of a model in one line: each field, what is wrong with it, and the known names if it is unknown.

    section: the dotted name under which the model lies.
    """
    return "; ".join(_explain(problem, model, section) for problem in error.errors())


def _explain(problem: Any, model: type[BaseModel], section: str) -> str:
    names = problem["loc"]
    # The place ends with the branches of a union, which no user knows.
    *_, (known, _, kind) = (place for place in walk(names, model) if place[1] is not None or not place[0])
    is_absent = problem["type"] in ("extra_forbidden", "invalid_key", "missing")
    where = ".".join(filter(None, [section, ".".join(map(str, names)) if is_absent else known]))
    if problem["type"] == "missing":
        return f"{where} is missing"
    if is_absent:
        return f"{where} is unknown ({nearest(str(names[-1]), getattr(section_of(kind), 'model_fields', ()))})"
    is_whole = problem["type"] == "value_error" and isinstance(problem["input"], dict)  # too long to repeat
    got = "" if is_whole else f" (got {problem['input']!r})"
    return f"{where}: {reason(problem)}{got}" if where else reason(problem)


def section_of(kind: Any) -> type[BaseModel] | None:
    """The model of a section, which may be optional; None for the type of a single setting."""
    models = [each for each in alternatives(kind) if isinstance(each, type) and issubclass(each, BaseModel)]
    return models[0] if models else None


def walk(names: Iterable[Any], kind: Any) -> Iterator[tuple[str, FieldInfo | None, Any]]:
    """The way that a dotted name leads, as far as it leads: name, field (None within a mapping) and type of each place.

    The first is where it starts, a model or another type, without a name.
    """
    whole = ""
    yield whole, None, kind
    for name in names:
        field, section = None, section_of(kind)
        mappings = [each for each in alternatives(kind) if get_origin(each) is dict]
        if section is not None and name in section.model_fields:
            field = section.model_fields[name]
            kind = field.annotation
        elif mappings:
            kind = get_args(mappings[0])[1]
        else:
            return
        whole = f"{whole}.{name}".lstrip(".")
        yield whole, field, kind
