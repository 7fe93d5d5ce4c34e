"""Reading a YAML file of a user: not readable, not YAML, a key that stands twice: one error that names the file."""

from pathlib import Path
from typing import Any

import yaml

from ares.config.strict import ConfigError


class _OneOfEach(yaml.SafeLoader):
    """Plain YAML lets the last of two equal keys win, without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if key.value in lines and isinstance(key, yaml.ScalarNode):
                raise yaml.YAMLError(f"{key.value!r} stands in line {lines[key.value]} and in line {line}")
            lines[str(key.value)] = line
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """What a YAML file holds. Raises ConfigError."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _OneOfEach)
    except OSError as error:
        raise ConfigError(f"{path}: not readable: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error
