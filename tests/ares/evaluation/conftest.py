from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ARES_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"
