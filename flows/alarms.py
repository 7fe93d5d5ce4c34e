"""Alarms that a run raises itself: a KL that runs away, a filter that keeps next to nothing, a standstill.

Covered: a warning in the run's log, and an event `ares.alarm` at Prefect's server, which `--notify` passes on
(deploy/automations.yaml); once each, until the condition has cleared. Not covered: a dead or stopped process
(its heartbeats end, and it is marked as crashed), graders and engines that fail (they end the run).
"""

import logging
import time
from collections import deque
from collections.abc import Callable
from statistics import median

from prefect.events import emit_event

from ares.store import Commit
from flows.run_log import has_ui

logger = logging.getLogger(__name__)
EVENT = "ares.alarm"
RESOURCE = "ares.run"
RECENT = 20
"""Steps that each one is compared with."""
FEWEST = 5
KL_FACTOR, KL_LEAST = 10.0, 0.1
"""Of the recent median; nats a token."""
KEPT_LEAST = 0.1
STILL_FACTOR, STILL_LEAST = 10.0, 600.0
"""Of the recent median; seconds."""


def kl_runs_away(commit: Commit, recent: list[Commit]) -> str | None:
    """The alarm for a KL far above that of the steps before; None: no alarm."""
    before = [kl for one in recent if (kl := one.metrics.get("critic/kl")) is not None]
    kl = commit.metrics.get("critic/kl")
    if kl is None or len(before) < FEWEST or kl <= max(KL_LEAST, KL_FACTOR * median(before)):
        return None
    return f"step {commit.step}: KL {kl:.3g}, the median of the steps before it {median(before):.3g}"


def little_is_kept(commit: Commit, recent: list[Commit]) -> str | None:
    """The alarm for a filter that keeps next to nothing; None: no alarm."""
    kept = commit.metrics.get("filter/kept_share")
    if kept is None or kept >= KEPT_LEAST:
        return None
    return f"step {commit.step}: the filter kept {kept:.0%} of the groups drawn"


KINDS: dict[str, Callable[[Commit, list[Commit]], str | None]] = {"kl": kl_runs_away, "kept share": little_is_kept}


class Alarms:
    """The alarms of one execution of a run."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.recent: deque[Commit] = deque(maxlen=RECENT)
        self.raised: set[str] = set()
        self._since = time.monotonic()
        self._took: deque[float] = deque(maxlen=RECENT)

    def committed(self, commit: Commit) -> None:
        """Check the step that was just committed."""
        now = time.monotonic()
        self._took.append(now - self._since)
        self._since = now
        self.raised.discard("standstill")
        for kind, check in KINDS.items():
            self._tell(kind, check(commit, list(self.recent)))
        self.recent.append(commit)

    def look(self) -> None:
        """Check that the run does not stand still. Called every second or so, from another thread."""
        silent, took = time.monotonic() - self._since, list(self._took)
        if len(took) >= FEWEST and silent > max(STILL_LEAST, STILL_FACTOR * median(took)):
            self._tell("standstill", f"no step for {silent:.0f} s, where one took {median(took):.0f} s")

    def _tell(self, kind: str, text: str | None) -> None:
        if text is None:
            self.raised.discard(kind)
        elif kind not in self.raised:
            self.raised.add(kind)
            logger.warning("%s: %s", self.run, text)
            if has_ui():
                resource = {"prefect.resource.id": f"{RESOURCE}.{self.run}", "prefect.resource.name": self.run}
                emit_event(EVENT, resource=resource, payload={"kind": kind, "text": text})
