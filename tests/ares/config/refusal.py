"""What a profile that cannot be loaded is told."""

import pytest

from ares.config import ConfigError, load


def refusal(name: str, *overrides: str) -> str:
    """Why a profile with these overrides is refused."""
    with pytest.raises(ConfigError) as caught:
        load(name, list(overrides))
    return str(caught.value)
