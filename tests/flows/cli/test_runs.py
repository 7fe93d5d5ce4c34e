"""What `ares diff` and `ares export` say and leave where there is nothing to say or no room."""

import resource
from pathlib import Path

import pytest

from ares.errors import UserError
from ares.store import run_store
from flows.cli.runs import diff, export
from tests.ares.builders import config


def test_runs_without_a_commit_are_not_called_identical(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were, up to step -1."""
    monkeypatch.setenv("ARES_RUNS", str(tmp_path))
    for name in ("one", "other"):
        run_store(name).write_run({"config": config().model_dump(mode="json"), "digests": {}})
    with pytest.raises(UserError, match="one and other have no intact commit"):
        diff("one", "other")


def test_half_of_a_file_of_pairs_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a full disk the second try was refused: there was such a file."""
    monkeypatch.setattr("ares.history.pairs", lambda store: [{"chosen": "1" * 100}])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
        with pytest.raises(UserError, match="cannot be written: File too large"):
            export("r", tmp_path / "pairs", pairs=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    export("r", tmp_path / "pairs", pairs=True)
    with pytest.raises(UserError, match="pairs is there already"):
        export("r", tmp_path / "pairs", pairs=True)
    assert (tmp_path / "pairs").stat().st_size > 100
