"""Numbers recorded from the original implementations, one JSON file a function (README.md says how they came about)."""

import json
from pathlib import Path
from typing import Any

NON_FINITE = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def recorded_cases(name: str) -> list[dict[str, Any]]:
    """The cases of one file."""
    cases = _decode(json.loads(Path(__file__).with_name(f"{name}.json").read_text())["cases"])
    assert cases
    return cases


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if isinstance(value, dict):
        return {key: _decode(item) for key, item in value.items()}
    return NON_FINITE.get(value, value) if isinstance(value, str) else value
