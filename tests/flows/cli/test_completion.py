"""What TAB offers in bash: profiles, runs, settings."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.short_runs import told

CALL = "import sys; sys.argv[0] = 'ares'; from flows.cli.main import main; main()"


def asked(*words: str) -> dict[str, str]:
    """The environment in which typer's script for bash asks for the candidates for the last word."""
    return {"_ARES_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(["ares", *words]), "COMP_CWORD": str(len(words))}


def offered(runs: Path, *words: str) -> list[str]:
    """The candidates for the last word."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in asked(*words).items():
            patch.setenv(name, value)
        done = told(runs)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_shell_asks_a_process_of_its_own() -> None:
    command = [sys.executable, "-c", CALL]
    done = subprocess.run(
        command, env=os.environ | asked("train", "tiny-m"), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["tiny-math"]


@pytest.mark.parametrize(
    ("words", "offers"),
    [
        (["new", "mine", "--from", "tiny-v"], {"tiny-vision"}),
        (["train", "tiny-math", "algorithm.kl.ki"], {"algorithm.kl.kind="}),
        (["fork", "first", "--at", "3", "train.see"], {"train.seed="}),
        (["settings", "data.vid"], {"data.videos_key=", "data.video_fps="}),
    ],
)
def test_tab_offers(words: list[str], offers: set[str], tmp_path: Path) -> None:
    assert set(offered(tmp_path, *words)) == offers


def test_tab_offers_runs(tmp_path: Path) -> None:
    for name in ("first", "fourth", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("{}")
    (tmp_path / "evals").mkdir()
    assert offered(tmp_path, "resume", "f") == ["first", "fourth"]
    assert offered(tmp_path, "diff", "first", "s") == ["second"]
