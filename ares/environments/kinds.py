"""What `environment.kind` and a row's column `environment` can name, as classes of our shape.

Covered: classes of our own shape. Not covered: the process they live in (ares/environments/process.py).
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from ares.config import ConfigError, EnvironmentConfig, load_reference, nearest
from ares.environments.environment import Environment

NEEDED = ("reset", "step")


def load(kind: str, config: EnvironmentConfig) -> Callable[[], Environment]:
    """What makes an environment of a kind. Raises ConfigError in one line."""
    found = load_reference(kind)
    missing = [name for name in NEEDED if not callable(getattr(found, name, None))]
    if not isinstance(found, type) or missing:
        raise ConfigError(f"{kind} is not an environment: it lacks {', '.join(missing) or 'a class'}")
    check_settings(found, config.settings, kind)
    return partial(found, **config.settings)


def check_settings(function: Callable[..., Any], settings: dict[str, Any], kind: str) -> None:
    """Raises ConfigError if a class does not take these keyword arguments."""
    signature = inspect.signature(function)
    kinds = {name: each.kind for name, each in signature.parameters.items()}
    known = [
        name
        for name, kind in kinds.items()
        if kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    ]
    for name in settings:
        if name not in known and inspect.Parameter.VAR_KEYWORD not in kinds.values():
            raise ConfigError(f"environment.settings.{name} is unknown ({kind}: {nearest(name, known)})")
    try:
        signature.bind(**settings)
    except TypeError as error:
        raise ConfigError(f"environment.settings: {kind}: {error}") from error


def describe(config: EnvironmentConfig) -> list[dict[str, Any]]:
    """JSON schemas of the tools that the model may call. Raises ConfigError in one line."""
    load(config.kind, config)
    return []
