"""A batch from rollout to update, and the run state.

Covered: requests to engines, joining and collating rows, rewards, refill, shaping, metrics, second turns, the run
state. Not covered: the order of work (flows/), what is stored where (tasks/).
"""

from ares.step.collate import as_sampled, graded, readable_rows, select_rows, token_batch
from ares.step.episodes import episode_metrics, episode_rows, episodes_so_far, next_turns, turn_rows
from ares.step.metrics import evaluation_metrics, evaluation_table
from ares.step.opening import OpenEnvironment
from ares.step.refill import FilterExhausted, Refill, keep_groups
from ares.step.requests import asked_rows, begun_rows, continue_rows, engine_calls, requested_rows
from ares.step.rewards import PART, JudgedPrograms, rewarded, total_reward
from ares.step.rows import (
    FEW_STEPS_SLOT,
    GREEDY,
    in_training_order,
    is_second_turn,
    joined_rows,
    sampled_rows,
    with_scores,
)
from ares.step.second_turn import PROMPT, second_turn_rows
from ares.step.shape import bootstrapped, shape
from ares.step.state import RunState

__all__ = [
    "FEW_STEPS_SLOT",
    "GREEDY",
    "PART",
    "PROMPT",
    "FilterExhausted",
    "JudgedPrograms",
    "OpenEnvironment",
    "Refill",
    "RunState",
    "as_sampled",
    "asked_rows",
    "begun_rows",
    "bootstrapped",
    "continue_rows",
    "engine_calls",
    "episode_metrics",
    "episode_rows",
    "episodes_so_far",
    "evaluation_metrics",
    "evaluation_table",
    "graded",
    "in_training_order",
    "is_second_turn",
    "joined_rows",
    "keep_groups",
    "next_turns",
    "readable_rows",
    "requested_rows",
    "rewarded",
    "sampled_rows",
    "second_turn_rows",
    "select_rows",
    "shape",
    "token_batch",
    "total_reward",
    "turn_rows",
    "with_scores",
]
