import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "golden"
NON_FINITE = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if isinstance(value, dict):
        return {key: _decode(item) for key, item in value.items()}
    return NON_FINITE.get(value, value) if isinstance(value, str) else value


@pytest.fixture
def golden() -> Callable[[str], list[dict[str, Any]]]:
    """Cases of one file of recorded numbers; the test is skipped where the recordings are not at hand."""

    def load(name: str) -> list[dict[str, Any]]:
        path = GOLDEN / f"{name}.json"
        if not path.exists():
            pytest.skip(f"recorded numbers are not at hand ({path})")
        cases = _decode(json.loads(path.read_text())["cases"])
        assert cases
        return cases

    return load
