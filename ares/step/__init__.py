"""A batch from rollout to update, and the run state.

Covered: requests to engines, joining and collating rows, rewards, refill, shaping, metrics, second turns, the run
state. Not covered: the order of work (flows/), what is stored where (tasks/).
"""

from typing import TYPE_CHECKING

from ares.lazy import exports

if TYPE_CHECKING:
    from ares.step.collate import (
        as_sampled,
        graded,
        learner_rows,
        measured_batch,
        readable_rows,
        select_rows,
        sequence_batch,
        token_batch,
    )
    from ares.step.demonstrations import demonstrated_rows, load_demonstrations, weigh
    from ares.step.episodes import episode_rows, episodes_so_far, next_turns, played, turn_rows
    from ares.step.metrics import OF_A_FUNCTION, evaluation_metrics, evaluation_table
    from ares.step.opening import OpenEnvironment
    from ares.step.refill import Refill, keep_groups
    from ares.step.requests import asked_rows, begun_rows, continue_rows, engine_calls, requested_rows
    from ares.step.rewards import PART, JudgedPrograms, observe_tests, rewarded, total_reward
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
    from ares.step.shaping import bootstrapped, shape
    from ares.step.state import RunState
else:
    __getattr__ = exports(__name__)
