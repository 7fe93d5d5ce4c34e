"""A run at a URL whose machine is lost: another machine ends it in the bits of a run that nothing happened to."""

import shutil
import signal
from pathlib import Path

import pytest

from ares.store.mirror import path_of
from tests.short_runs import ares, assert_same, commits, train

pytestmark = pytest.mark.slow


def test_a_run_goes_on_in_the_same_bits_on_a_machine_that_has_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"file://{tmp_path}/place/runs"
    assert train(tmp_path / "local", "whole") == 0
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "lost"))
    assert train(url, "moved", kill_at="4:update:inside") == -signal.SIGKILL
    assert [each.step for each in commits(path_of(url), "moved")] == [0, 1, 2, 3]
    shutil.rmtree(tmp_path / "lost")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "new"))
    assert train(url, "moved") == 0
    assert_same(tmp_path / "local", "whole", "moved", elsewhere=path_of(url))

    # A third machine, which only looks: everything it tells comes from the URL.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "looking"))
    for told in (
        ["status", "moved", "--json"],
        ["inspect", "moved", "--step", "2"],
        ["diff", "moved", "moved"],
        ["export", "moved", "--out", str(tmp_path / "model")],
        ["gc", "--dry-run"],
        ["fork", "moved", "--at", "4", "--run", "forked", "train.steps=5"],
    ):
        ended = ares(url, *told)
        assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "model" / "model.safetensors").exists()
    assert (tmp_path / "place" / "runs" / "forked" / "run.json").exists()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "new"))
    assert ares(url, "resume", "forked").returncode == 0
    assert [each.step for each in commits(path_of(url), "forked")] == [0, 1, 2, 3, 4, 5]
