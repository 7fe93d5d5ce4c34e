"""Worked episodes of the calculator that SmolLM2 asks: what they say is what the environment answers."""

import random
from pathlib import Path

import pytest

from examples.smollm2 import calls


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("CALC 23 * 45", "1035"),
        (" CALC 2*(3+4)\n", "14"),
        ("CALC 1 //0", "Error: "),
        ("CALC x", "Error: "),
        ("1035", ""),
    ],
)
def test_a_call_is_answered_and_anything_else_ends_the_episode(said: str, heard: str) -> None:
    reply = calls.Calls().step(said)
    assert str(reply.observation).startswith(heard)
    assert reply.done == (heard == "")


def test_demonstrations_are_episodes_of_the_environment_three_in_ten_with_a_mistake() -> None:
    draw, right = random.Random(3), 0
    for _ in range(1000):
        _, *called, answer = calls.demonstration(23, 45, draw)
        right += answer == "1035" and bool(called)
        if called:
            assert calls.Calls().step(called[0]).observation == called[1]
    assert 650 < right < 750


def test_the_sets_share_no_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "FOLDER", tmp_path / "calls")
    calls.main()
    asked = [line.split("?")[0].split("What is")[1] for file in (tmp_path / "calls").iterdir() for line in file.open()]
    assert len(asked) == len(set(asked)) == 50 + 1000 + 400
