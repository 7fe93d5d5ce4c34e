"""A run that watches itself: its trip-wires (`watch:` in a profile).

    step     1   2   3   4   5   6        kl_above: {limit: .2, steps: 2, action: rewind}, margin: 1
    KL      .0  .0  .1  .1  .3  .4
                     ╰─ fork ─╯  ╰─ trips: beyond the limit in 2 steps, 4 was the last within it, 1 more is 3

What trips is read from commits alone, so a run that was killed after one does what it would have done. A run that is
rewound ends; the fork is named after it, which is how a resume finds it and goes on there. Not covered: dead processes
(their heartbeats end, and they are marked as crashed); graders and engines that fail (they end the run).
"""

import json
import logging
from dataclasses import dataclass

from ares.config import WatchConfig
from ares.runs import Run, fork
from ares.store import Commit, name_of_rewind, run_store

logger = logging.getLogger(__name__)
METRICS = {
    "entropy_below": "entropy/mean", "mismatch_above": "mismatch/logprob_diff_mean",
    "kept_below": "filter/kept_share", "unscored_above": "reward/unscored", "kl_above": "critic/kl",
    "truncated_above": "response_length/clip_ratio",
}  # fmt: skip


@dataclass(frozen=True)
class Trip:
    """A wire that a step has tripped."""

    wire: str
    action: str
    why: str
    sound: int
    """The step that a rewind goes back to."""


def find_trips(watch: WatchConfig, commits: list[Commit]) -> list[Trip]:
    """What the last of these commits trips: wires whose limit was passed in exactly `steps` steps in a row until it.

    One more step beyond it trips nothing, so each excursion trips once.
    """
    trips = []
    for name, wire in watch.wires.items():
        values = [commit.metrics.get(METRICS[name]) for commit in reversed(commits)]
        sign = -1 if name.endswith("_below") else 1
        is_beyond = [value is not None and sign * (value - wire.limit) > 0 for value in values]
        if [*is_beyond, False].index(False) == wire.steps:
            last = commits[-1].step
            action = "pause" if wire.action == "rewind" and not watch.remedies else wire.action
            how_long = f" for {wire.steps} steps" if wire.steps > 1 else ""
            side = "below" if sign < 0 else "above"
            why = f"step {last}: {METRICS[name]} {values[0]:.3g} is {side} {wire.limit:g}{how_long}"
            trips.append(Trip(name, action, why, max(last - wire.steps - watch.margin, 0)))
    return trips


def watch(run: Run, is_over: bool = False) -> Trip | None:
    """Act on what the last commit trips. Returns a rewind; raises what the conductor pauses a run with.

    is_over: nothing is left to pause or to rewind, so every wire only warns.
    """
    last, longest = run.state.step, max((wire.steps for wire in run.config.watch.wires.values()), default=0) + 1
    began = 0 if run.fork is None else run.fork.version + 1
    own = [run.store.read_commit(step) for step in range(max(began, last + 1 - longest), last + 1)]
    trips = find_trips(run.config.watch, own)
    for trip in trips:
        if is_over or trip.action == "warn":
            run.conductor.warn(run.store.name, trip.wire, trip.why)
    acts = {trip.action: trip for trip in reversed(trips) if not is_over}
    if "rewind" in acts:
        return acts["rewind"]
    if "pause" not in acts:
        return None
    trip, name, pauses = acts["pause"], run.store.name, run.store.read_run().get("pauses", [])
    if not any(pause["step"] == last for pause in pauses):  # else it was resumed, by a person who has looked
        run.conductor.warn(name, trip.wire, trip.why)  # first: killed in between, it is told twice
        run.store.update_run(pauses=[*pauses, {"step": last, "why": trip.why}])
        run.conductor.pause(
            f"{name} is paused. {trip.why[0].upper()}{trip.why[1:]} (watch.{trip.wire}). Look at it with "
            f"`ares inspect {name} --step {last}`; `ares resume {name}` goes on"
        )
    return None


def rewind(run: Run, trip: Trip) -> str:
    """The name of the fork that a rewound run goes on as, made if it is not there. Raises ConfigError or StoreError."""
    name, runs = run.store.name, run.store.directory.parent
    changes, left = run.config.watch.overrides[0], run.config.watch.remedies[1:]
    at = max(trip.sound, run.fork.version if run.fork is not None else 0)
    target = name_of_rewind(name)
    made = run_store(target, runs).fork()
    logger.warning("%s: %s: back to step %d, and on as %s with %s", name, trip.why, at, target, ", ".join(changes))
    if made is None or not made.why or (made.run, made.at, made.commit) != (name, at, run.store.digest(made.version)):
        fork(name, at, None, [*changes, f"watch.remedies={json.dumps(left)}"], target, runs, trip.why)
    return target
