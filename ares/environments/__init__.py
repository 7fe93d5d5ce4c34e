"""Environments: what answers a model's responses in an episode of several turns, each in a process of its own.

Covered: the interface, other shapes of classes, tools that a response calls, the processes. Not covered: turns as
phases (tasks/episodes.py), how problems begin and what becomes tokens (ares/step/opening.py, ares/data/turns.py), what
an episode is worth (ares/grading, ares/step). Every process of environments imports this: torch and the like would cost
it seconds and half a gigabyte.
"""

from ares.environments.arithmetic import evaluate
from ares.environments.call_formats import (
    Call,
    Message,
    parse_calls,
    read_following,
    read_message,
    strip_messages,
    write_answer,
)
from ares.environments.environment import Answer, Environment, Episode, Reply
from ares.environments.pool import EnvironmentPool
