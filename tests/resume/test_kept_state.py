"""Settings that keep something between steps: killed and resumed, a run with them ends in the same bits."""

import shutil
import signal
from pathlib import Path

import pandas as pd
import pytest

from ares.history import draws, open_past
from tests.ares.builders import MODEL
from tests.short_runs import ares, assert_same, commits, train


@pytest.mark.slow
def test_an_order_by_difficulty_goes_on_where_it_was(tmp_path: Path) -> None:
    settings = ["data.order=easy_first", "bootstrap.max_prompts=30", "data.limit=40"]
    assert train(tmp_path, "whole", *settings) == 0
    rows = pd.read_parquet(tmp_path / "whole" / "bootstrap" / "samples.parquet")
    rates = rows.groupby("id")["accuracy"].mean()
    drawn = rates.reindex(draws(open_past("whole", tmp_path))[0]["id"]).dropna()
    assert drawn.nunique() > 1
    assert drawn.is_monotonic_decreasing
    for point in ("1:shape:inside", "3:rollout:before"):
        assert train(tmp_path, "killed", *settings, kill_at=point) == -signal.SIGKILL
    assert train(tmp_path, "killed", *settings) == 0
    assert_same(tmp_path, "whole", "killed")


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [[], ["learner.ranks=2", "learner.sharded=true"]], ids=["plain", "sharded"])
def test_an_average_of_the_weights_is_made_again_by_the_replay(ranks: list[str], tmp_path: Path) -> None:
    """The checkpoints' hashes are compared, and the average is in them; kills come between two of them, also while the
    average is measured."""
    settings = ["learner.ema=0.9", *ranks]
    assert train(tmp_path, "whole", *settings) == 0
    for point in ("2:update:inside", "2:rollout averaged validation 7:before", "4:score averaged validation 8:after"):
        assert train(tmp_path, "killed", *settings, kill_at=point) == -signal.SIGKILL
    assert train(tmp_path, "killed", *settings) == 0
    assert list((tmp_path / "killed" / "checkpoints").glob("*/average.safetensors"))
    assert [each.step for each in commits(tmp_path, "killed") if "val/ema/accuracy" in each.metrics] == [2, 4]
    assert_same(tmp_path, "whole", "killed")


@pytest.mark.slow
def test_a_set_that_grows_is_what_the_step_saw_however_many_files_have_come_since(tmp_path: Path) -> None:
    lines = (MODEL / "train.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    folder = tmp_path / "problems"
    for name, kill_at in (("whole", None), ("killed", "3:experience:before")):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "a.jsonl").write_text("".join(lines[:20]), encoding="utf-8")
        grows = [f"data.train={folder}", "data.grows=true", "algorithm.filter.enabled=false"]
        assert train(tmp_path, name, *grows, "train.steps=1") == 0
        (folder / "b.jsonl").write_text("".join(lines[20:60]), encoding="utf-8")
        if kill_at is not None:
            assert ares(tmp_path, "resume", name, "train.steps=3", kill_at=kill_at).returncode == -signal.SIGKILL
            (folder / "c.jsonl").write_text("".join(lines[60:80]), encoding="utf-8")
        ended = ares(tmp_path, "resume", name, "train.steps=3")
        assert (ended.returncode, "resuming after step" in ended.stdout) == (0, True), ended.stderr
    whole, killed = (commits(tmp_path, name) for name in ("whole", "killed"))
    assert [list(each.state.get("files", {})) for each in whole] == [[], [], ["b.jsonl"], []]
    assert [list(each.state.get("files", {})) for each in killed] == [[], [], ["b.jsonl"], ["c.jsonl"]]
    assert [each.artifacts for each in killed] == [each.artifacts for each in whole]
    assert [each.metrics for each in killed] == [each.metrics for each in whole]
    drawn = pd.read_parquet(tmp_path / "killed" / whole[3].artifacts["samples"].path)["id"].str.partition("/")[0]
    assert "b.jsonl" in set(drawn)
