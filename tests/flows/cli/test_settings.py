"""`ares settings` and `ares new` as users see them."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ares.config import fingerprint, load
from flows.cli.main import app


def told(*arguments: str) -> str:
    ended = CliRunner().invoke(app, list(arguments))
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def test_a_prefix_chooses_settings_and_their_columns_are_aligned() -> None:
    lines = told("settings", "learner.m").splitlines()
    rows = [line for line in lines if line.startswith("  learner.")]
    assert [row.split()[0] for row in rows] == ["learner.max_grad_norm", "learner.micro_batch_tokens"]
    assert rows[0].index("1.0") == rows[1].index("4096")
    assert rows[0].index("number > 0") == rows[1].index("whole number ≥ 1")
    assert "Gradients are scaled down to this norm." in lines[lines.index(rows[0]) + 1]


def test_without_one_all_are_listed() -> None:
    every = told("settings")
    assert re.search(r"\n  learner\.lr +1\.0e-06 ", every)
    assert re.search(r"\n  model\.path +required +text\n", every)


def test_a_new_profile_trains_what_it_was_made_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert told("new", "mine", "--from", "tiny-math").splitlines()[-1] == "next: ares train mine.yaml"
    assert fingerprint(load("mine.yaml")) == fingerprint(load("tiny-math"))
    assert "  # Gradients are scaled down to this norm. (number > 0)\n  max_grad_norm: 1.0\n" in Path(
        "mine.yaml"
    ).read_text(encoding="utf-8")
