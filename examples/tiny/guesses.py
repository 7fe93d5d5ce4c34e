"""A game of several turns: find a number, told after each guess between which numbers it is (tiny-game).

The rules are examples/extensions/guess.py. Whoever halves what is left finds one of 13 numbers with the fourth guess,
and there are five. The worked games make legal moves, but many take the lowest or the highest number that is left, or
any; what lifts the model is to halve.
"""

import random
from dataclasses import dataclass, replace

from examples.extensions.guess import Guess
from examples.tiny.problems import Split
from examples.tiny.programs import Conversation

LARGEST = 40
WHOLE_WORDS = tuple(map(str, range(1, LARGEST + 1)))
WIDTHS = range(9, 14)
HABITS = {"halve": 0.3, "any": 0.3, "edge": 0.4}
"""How often a worked guess is the middle of what is left, any of it, the lowest or highest."""


@dataclass(frozen=True)
class Game:
    """A prompt, and the guesses and replies so far."""

    low: int
    high: int
    said: tuple[tuple[str, str], ...] = ()

    @property
    def prompt(self) -> str:
        return f"{self.low} to {self.high}"

    @property
    def conversation(self) -> Conversation:
        turns = [{"role": "user", "content": self.prompt}]
        for guess, reply in self.said:
            turns += [{"role": "assistant", "content": guess}, {"role": "user", "content": reply}]
        return turns

    def row(self) -> dict[str, object]:
        return {"low": self.low, "high": self.high}


def write_turns(game: Game, rng: random.Random) -> list[tuple[Game, str]]:
    """A worked game: its turns, each with the guess to imitate."""
    environment = Guess()
    environment.reset(game.row(), 0)
    turns: list[tuple[Game, str]] = []
    while True:
        guess = str(choose(environment.low, environment.high, rng))
        turns.append((game, guess))
        reply = environment.step(guess)
        if reply.done:
            return turns
        game = replace(game, said=(*game.said, (guess, str(reply.observation))))


def choose(low: int, high: int, rng: random.Random) -> int:
    """A guess between two numbers."""
    [habit] = rng.choices(list(HABITS), list(HABITS.values()))
    if habit == "halve":
        return (low + high) // 2
    return rng.randint(low, high) if habit == "any" else rng.choice((low, high))


def split_games(rng: random.Random, examples: int, heldout: int = 30) -> Split[Game]:
    """Sets of tiny-game: every prompt is in one of them; `examples` are turns of games to train on."""
    games = [Game(low, low + width - 1) for width in WIDTHS for low in range(1, LARGEST - width + 2)]
    rng.shuffle(games)
    taught: list[tuple[Game, str]] = []
    while len(taught) < examples:
        taught += write_turns(rng.choice(games[heldout:]), rng)
    return Split(taught[:examples], games[heldout:], games[:heldout])


def texts_of_games(split: Split[Game]) -> list[str]:
    """What the tokenizer is trained on."""
    return [game.prompt for game in split.train]
