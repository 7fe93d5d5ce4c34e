"""What an environment is: a class that answers a model's responses, turn by turn.

    class Guess:
        def __init__(self, highest: int = 100) -> None: …              keyword arguments: environment.settings
        def reset(self, row, seed) -> str: …                           the first observation: "" or None for none
        def step(self, text) -> Reply: …                               what it says to a response

An environment never sees tokens, engines or files of the run. The same row, seed and responses must give the same
replies: so an episode is rebuilt after a kill. Many episodes share a process: what one remembers is in its object,
except the global random states, which are each episode's own. Not covered: other shapes of classes
(ares/environments/kinds.py), the processes they live in (ares/environments/pool.py).
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Reply:
    """What an environment says to a response."""

    observation: str | tuple[str, ...] = ""
    """Shown to the model as a user's message; a tuple: the results of its tool calls, in order."""
    reward: float | None = None
    """Of this turn, on any scale."""
    done: bool = False
    """The episode is over: the observation is not shown."""
    success: float | None = None
    """In [0, 1], with the last reply: what counts as accuracy (difficulty, filter). None: the episode's reward."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Numbers to log as episode/NAME; of a tool's call `calls/NAME` and, if it failed, `errors/NAME`."""
    answer: str | None = None
    """With the last reply: the final answer, if it is not the response itself. Graders find it boxed."""
    chat: Mapping[str, Any] | None = None
    """Of a reset: the whole prompt, as {"messages": […], "tools": […]}, instead of the row's own. Agents begin so."""

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> "Reply":
        """A reply whose fields were written as JSON, in which a tuple is a list."""
        seen = written["observation"]
        return cls(**{**written, "observation": tuple(seen) if isinstance(seen, list) else seen})

    def digest(self) -> str:
        """Hash by which a rebuilt episode is compared; metrics may differ, such as a time that was taken."""
        told = {name: value for name, value in asdict(self).items() if name != "metrics"}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def checked(reply: Any, longest: int) -> Reply:
    """What an environment returned as a Reply of plain values, its observations cut to `longest` characters.

    Raises TypeError or ValueError in one line: not a Reply, not text, not a finite number.
    """
    if not isinstance(reply, Reply):
        raise TypeError(f"step returned {article(reply)}, not a Reply (from ares.environments import Reply)")
    texts = reply.observation if isinstance(reply.observation, tuple) else (reply.observation,)
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"an observation is text, not {article(text)}")
    cut = tuple(_cut(text, longest).encode(errors="backslashreplace").decode() for text in texts)  # no lone surrogates
    success = finite(reply.success, "success")
    if success is not None and not 0 <= success <= 1:
        raise ValueError(f"success lies in [0, 1] (got {success:g})")
    answer = None if reply.answer is None else str(reply.answer).encode(errors="backslashreplace").decode()
    metrics = {str(name): finite(value, f"the metric {name}") for name, value in reply.metrics.items()}
    return Reply(
        cut if isinstance(reply.observation, tuple) else cut[0],
        finite(reply.reward, "the reward"),
        bool(reply.done),
        success,
        {name: value for name, value in metrics.items() if value is not None},
        answer,
        reply.chat,
    )


def _cut(text: str, longest: int) -> str:
    more = len(text) - longest
    return text if more <= 0 else f"{text[:longest]}… ({more:,} more characters)"


def finite(value: Any, what: str) -> float | None:
    """A number as float. Raises TypeError or ValueError."""
    if value is None:
        return None
    if isinstance(value, str) or not hasattr(value, "__float__"):
        raise TypeError(f"{what} is a number or None, not {article(value)}")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{what} is {number}, not a finite number")
    return number


def article(value: Any) -> str:
    """The type of a value for an error."""
    return f"a value of type {type(value).__name__}"


class Environment(Protocol):
    """One episode's environment."""

    def reset(self, row: Mapping[str, Any], seed: int) -> str | Reply | None:
        """Begin an episode of a problem; returns the first observation, shown after the row's own prompt, or a Reply
        with the whole chat."""

    def step(self, text: str) -> Reply:
        """Answer the model's response, given as text without special tokens."""


@dataclass(frozen=True)
class Episode:
    """An episode so far, from which its environment can be rebuilt."""

    key: str
    """Names it among all episodes of the run that are under way."""
    row: Mapping[str, Any]
    """The problem, with all columns of the data set."""
    seed: int
    said: tuple[str, ...] = ()
    """The model's responses that were answered."""
    heard: tuple[str, ...] = ()
    """Digests: of the first observation (as a Reply), then of each reply."""


@dataclass(frozen=True)
class Answer:
    """A reply, or why there is none."""

    reply: Reply | None = None
    error: str = ""
    """One line: raised, took too long, died, cannot be rebuilt. The episode has no score."""
