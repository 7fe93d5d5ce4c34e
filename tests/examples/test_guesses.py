"""tiny-game: what its games and worked examples promise."""

import random

import pytest

from examples.extensions.guess import Guess
from examples.tiny.guesses import WIDTHS, split_games


@pytest.mark.parametrize("width", WIDTHS)
def test_whoever_halves_wins_with_the_fourth_guess_and_who_takes_the_ends_never_does(width: int) -> None:
    halving, counting = Guess(guesses=4), Guess()
    for game in (halving, counting):
        game.reset({"low": 7, "high": 7 + width - 1}, 0)
    assert [halving.step(str((halving.low + halving.high) // 2)).done for _ in range(3)] == [False] * 3
    assert halving.step(str((halving.low + halving.high) // 2)).reward == 1.0
    assert [counting.step(str(counting.low)).reward for _ in range(5)] == [0.0] * 5


def test_worked_games_are_legal_and_replies_those_of_the_game() -> None:
    for game, guess in split_games(random.Random(3), 6000).examples:
        played = Guess()
        assert played.reset(game.row(), 0) == game.prompt
        assert [played.step(said).observation for said, _ in game.said] == [reply for _, reply in game.said]
        assert played.low <= int(guess) <= played.high
