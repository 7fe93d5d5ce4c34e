from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ares.config import profiles
from ares.runs import Run
from flows.cli import main


def test_a_profile_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read twice, it could differ from what was checked and warned about."""
    read: list[str] = []
    whole = profiles._read

    def counted(profile: str, seen: list[str]) -> Any:
        read.append(profile)
        return whole(profile, seen)

    def opened(config: Any, name: str, *more: Any, may_round: bool) -> None:
        raise RuntimeError(f"{name}: {config.rollout.n}")

    monkeypatch.setenv("ARES_RUNS", str(tmp_path))
    monkeypatch.setattr(profiles, "_read", counted)
    monkeypatch.setattr(Run, "open", opened)
    result = CliRunner().invoke(main.app, ["train", "tiny-math", "--plain", "--run", "one", "rollout.n=3"])
    assert str(result.exception) == "one: 3"
    assert read == ["tiny-math", "base"]
