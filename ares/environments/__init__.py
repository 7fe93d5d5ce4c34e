"""Environments: what answers a model's responses in an episode of several turns, each in a process of its own.

Covered: the interface, other shapes of classes, tools that a response calls, the processes. Not covered: turns as
phases (tasks/episodes.py), tokens (ares/data/turns.py), what an episode is worth (ares/grading, ares/step).
"""

from ares.environments.environment import Answer, Environment, Episode, Reply
from ares.environments.opening import OPENING, OpenEnvironment, begun_episode
from ares.environments.pool import EnvironmentPool

__all__ = [
    "OPENING", "Answer", "Environment", "EnvironmentPool", "Episode", "OpenEnvironment", "Reply", "begun_episode",
]  # fmt: skip
