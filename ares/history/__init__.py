"""What a run's history answers: its stored samples judged again.

Covered: which verdicts another reward changes, and from which step on training would have gone another way. Not
covered: whether two runs differ (ares/runs/digests.py), one step's samples (ares/reports/samples.py).
"""

from ares.history.rescore import Judged, Rescore

__all__ = ["Judged", "Rescore"]
