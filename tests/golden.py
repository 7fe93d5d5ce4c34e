"""Numbers recorded from the original implementations, beside the repository; tests skip where they are absent."""

import json
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).resolve().parents[2] / "shared" / "golden"
NON_FINITE = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def recorded_cases(name: str) -> list[dict[str, Any]]:
    """The cases of one file."""
    path = GOLDEN / f"{name}.json"
    if not path.exists():
        pytest.skip(f"recorded numbers are not at hand ({path})")
    cases = _decode(json.loads(path.read_text())["cases"])
    assert cases
    return cases


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if isinstance(value, dict):
        return {key: _decode(item) for key, item in value.items()}
    return NON_FINITE.get(value, value) if isinstance(value, str) else value
