"""What happens to a batch between rollout and update, and the state that moves on with it.

Covered: collating rows, rewards, shaping, metrics, second turns, the run state. Not covered: when (flows/), what is
stored where (tasks/).
"""

from ares.step.code_metrics import code_metrics, ending_shares, seconds_per_solved
from ares.step.collate import as_sampled, gathered, graded, readable_rows, token_batch
from ares.step.rewards import observe_tests, outcome_parts
from ares.step.second_turn import second_turn_metrics, second_turns, with_credit
from ares.step.shape import entropy_statistics, mark_hwe, shape
from ares.step.slots import GREEDY, SECOND_TURN_SLOT, is_second_turn
from ares.step.state import Counters, Evaluation, RunState

__all__ = [
    "GREEDY",
    "SECOND_TURN_SLOT",
    "Counters",
    "Evaluation",
    "RunState",
    "as_sampled",
    "code_metrics",
    "ending_shares",
    "entropy_statistics",
    "gathered",
    "graded",
    "is_second_turn",
    "mark_hwe",
    "observe_tests",
    "outcome_parts",
    "readable_rows",
    "second_turn_metrics",
    "second_turns",
    "seconds_per_solved",
    "shape",
    "token_batch",
    "with_credit",
]
