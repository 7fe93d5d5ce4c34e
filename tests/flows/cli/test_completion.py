"""What TAB offers in bash: profiles, runs, settings and their values."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CALL = "import sys; sys.argv[0] = 'ares'; from flows.cli.main import main; main()"


def offered(*words: str) -> list[str]:
    """The candidates for the last word, asked for as typer's script for bash does."""
    asked = {"_ARES_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(["ares", *words]), "COMP_CWORD": str(len(words))}
    done = subprocess.run(
        [sys.executable, "-c", CALL], env=os.environ | asked, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offers"),
    [
        (["train", "tiny-m"], {"tiny-math"}),
        (["new", "mine", "--from", "tiny-v"], {"tiny-vision"}),
        (["train", "tiny-math", "algorithm.kl.ki"],
         {f"algorithm.kl.kind={kind}" for kind in ("fixed", "adaptive", "token_adaptive", "bucket_beta")}),
        (["train", "tiny-math", "learner.lr"], {"learner.lr=1.0e-06"}),
        (["train", "tiny-math", "algorithm.kl.kind", "=", "ad"], {"adaptive"}),
        (["train", "tiny-math", "learner.sharded", "="], {"true", "false"}),
        (["fork", "first", "--at", "3", "train.see"], {"train.seed=0"}),
        (["settings", "data.vid"], {"data.videos_key=videos", "data.video_fps=2.0"}),
    ],
)  # fmt: skip
def test_tab_offers(words: list[str], offers: set[str]) -> None:
    assert set(offered(*words)) == offers


def test_tab_offers_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first", "fourth", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("{}")
    (tmp_path / "evals").mkdir()
    monkeypatch.setenv("ARES_RUNS", str(tmp_path))
    assert offered("resume", "f") == ["first", "fourth"]
    assert offered("diff", "first", "s") == ["second"]
