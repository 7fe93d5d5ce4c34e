"""What a run's history answers: its relatives, its samples judged again, an update made again.

Covered: which runs share its past and how each ended; which verdicts another reward changes, and from which step on
training would have gone another way; what other settings would have made of one update. Not covered: whether two runs
differ (ares/runs/verification.py), one step's samples (ares/reports/samples.py).
"""

from typing import TYPE_CHECKING

from ares.lazy import exports

if TYPE_CHECKING:
    from ares.history.bisect import (
        Accuracies,
        Fall,
        Group,
        Probe,
        find_fall,
        rank_groups,
        read_accuracies,
        read_held_out,
    )
    from ares.history.ledgers import draws, ledger, pairs
    from ares.history.measures import open_past
    from ares.history.relatives import Member, family
    from ares.history.replays import Replayed, Update, check_replayable, cost_of_updates, replay
    from ares.history.rescore import Judged, Rescore
else:
    __getattr__ = exports(__name__)
