"""Reads a user's YAML: an unreadable file, invalid YAML or a duplicate key is one error that names it.

Covered: values of overrides, too. Dates stay text, as no setting is one.
"""

import copy
import functools
from pathlib import Path
from typing import Any

import yaml

from ares.config.strict import ConfigError


class _OneOfEach(yaml.SafeLoader):
    """Plain YAML silently lets the last of two equal keys win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line + 1
            if key.value in lines:
                raise yaml.YAMLError(f"{key.value!r} stands in line {lines[key.value]} and in line {line}")
            lines[key.value] = line
        return super().construct_mapping(node, deep)


_OneOfEach.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parsed(text: str) -> Any:
    """A text as YAML; the result is the caller's own. Raises what NOT_YAML names."""
    return copy.deepcopy(_parsed(text))


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> Any:
    """Children of an ablation and a form's profiles read the same few files again and again: 5 ms each."""
    return yaml.load(text, _OneOfEach)


def read_yaml(path: Path) -> Any:
    """What a YAML file holds. Raises ConfigError."""
    try:
        return parsed(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: not readable: {error.strerror}") from error
    except NOT_YAML as error:
        raise ConfigError(f"{path}: not YAML: {why_not_yaml(error)}") from error


NOT_YAML = (yaml.YAMLError, ValueError, RecursionError)
"""What reading YAML raises: plain ValueErrors for bytes and for impossible numbers and dates."""


def why_not_yaml(error: Exception) -> str:
    """The reason in one line, with its place."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    return f"{error.problem} (line {mark.line + 1}, column {mark.column + 1})"  # type: ignore[attr-defined]
