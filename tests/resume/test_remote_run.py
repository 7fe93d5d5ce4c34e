"""A run at a URL whose machine is lost or stopped: another ends it in the bits of a run that nothing happened to."""

import shutil
import signal
from pathlib import Path

import psutil
import pytest

from ares.store.mirror import path_of
from tests.object_store import object_store
from tests.resume.test_faults import held, unheld
from tests.shared_run import SMALL
from tests.short_runs import ares, assert_same, assert_same_commits, commits, train

pytestmark = pytest.mark.slow


def test_a_run_goes_on_in_the_same_bits_on_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_second_machine_is_refused_and_a_stopped_one_is_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("s3fs", reason="the extra `s3`")
    pytest.importorskip("moto", reason="the extra `dev`")
    url, caches = "s3://bucket/runs", {name: str(tmp_path / name) for name in ("first", "second")}
    settings = [*SMALL, f"reward.kind={tmp_path / 'reward.py'}:reward"]
    with object_store() as (_, environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with held(tmp_path, "run", ARES_RUNS=url, XDG_CACHE_HOME=caches["first"]) as (first, hold):
            monkeypatch.setenv("XDG_CACHE_HOME", caches["second"])
            refused = ares(url, "train", "tiny-math", *settings, "--run", "run")
            assert refused.returncode == 2
            assert f"is in use by another process (pid {first.pid} since" in refused.stderr
            machine = [psutil.Process(first.pid), *psutil.Process(first.pid).children(recursive=True)]
            for process in machine:
                process.suspend()
            hold.unlink()
            assert train(url, "run", settings[-1]) == 0
            for process in machine:
                process.resume()
            told = first.communicate(timeout=600)[1]
            assert first.returncode == 2, told
            assert "was taken over from this process" in told
        assert unheld(tmp_path, "whole") == 0
        # Each machine has an MLflow of its own: on a slow one, the first has made an entry before it was stopped.
        assert_same_commits(tmp_path, "whole", "run", elsewhere=path_of(url))
